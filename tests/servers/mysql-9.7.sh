#!/bin/sh
# Puts a real MySQL 9.7 server into DIR (default: target/servers/mysql-9.7 of this project)
# without installing anything on the system: Debian unstable's packages, unpacked, run through
# their own loader. Needs root and network access to a Debian mirror; takes about 30 seconds.
# Prints the path of the mysqld to use.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-$here/target/servers/mysql-9.7}
wrapper=$dir/mysqld
if [ -x "$wrapper" ] && "$wrapper" --version >/dev/null 2>&1; then
    echo "$wrapper"
    exit 0
fi
[ "$(id -u)" = 0 ] || { echo "mysql-9.7.sh: must run as root (debootstrap)" >&2; exit 1; }
command -v debootstrap >/dev/null 2>&1 || {
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y debootstrap; } >&2
}
rm -rf "$dir"
mkdir -p "$dir"
debootstrap --variant=minbase --include=mysql-server-core,mysql-client-core sid "$dir/root" >"$dir/debootstrap.log" 2>&1 || {
    tail -n 20 "$dir/debootstrap.log" >&2
    echo "mysql-9.7.sh: debootstrap failed, see above" >&2
    exit 1
}
r=$dir/root
cat >"$wrapper" <<EOF
#!/bin/sh
exec "$r/lib64/ld-linux-x86-64.so.2" --library-path "$r/usr/lib/x86_64-linux-gnu:$r/usr/lib/mysql/private" \\
    "$r/usr/sbin/mysqld" "\$@" --lc-messages-dir="$r/usr/share/mysql" \\
    --plugin-dir="$r/usr/lib/mysql/plugin" --character-sets-dir="$r/usr/share/mysql/charsets"
EOF
chmod +x "$wrapper"
"$wrapper" --version >&2
echo "$wrapper"
