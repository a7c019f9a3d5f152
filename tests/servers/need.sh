#!/bin/sh
# Makes sure that the server NAME (mariadb) can be started on this machine: looks for its program,
# installs Debian's package where that is allowed, and otherwise says what to do.
set -eu
name=${1:?usage: need.sh mariadb}

found() {
    for dir in $(echo "$PATH" | tr : ' ') /usr/sbin /usr/local/sbin /usr/libexec /usr/local/libexec /opt/mysql/bin; do
        for program in mariadbd mysqld; do
            [ -x "$dir/$program" ] && return 0
        done
    done
    return 1
}

found && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "$name: no mariadbd or mysqld on this machine, and no apt-get to install one." >&2
    echo "hint: install MariaDB or MySQL server by your system's package manager, then try again." >&2
    exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo="sudo -n"
    else
        echo "$name: no mariadbd or mysqld on this machine, and installing one needs root." >&2
        echo "hint: run   sudo apt-get install -y mariadb-server-core mariadb-client-core   then try again." >&2
        exit 1
    fi
fi
# The core packages hold the programs and start no service of their own.
echo "installing mariadb-server-core (the server's program; no service is started)" >&2
$sudo apt-get update -q >&2
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    mariadb-server-core mariadb-client-core >&2
found || { echo "$name: installed, but mariadbd is still not found" >&2; exit 1; }
