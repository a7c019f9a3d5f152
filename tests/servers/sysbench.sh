#!/bin/sh
# Makes sure that sysbench, which `make bench` compares with, is on this machine: installs Debian's package
# where that is allowed, and otherwise says what to do.
set -eu
command -v sysbench >/dev/null 2>&1 && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "sysbench is not on this machine, and there is no apt-get to install it." >&2
    echo "hint: install sysbench 1.0.20 by your system's package manager, then try again." >&2
    exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo="sudo -n"
    else
        echo "sysbench is not on this machine, and installing it needs root." >&2
        echo "hint: run   sudo apt-get install -y sysbench   then try again." >&2
        exit 1
    fi
fi
echo "installing sysbench" >&2
$sudo apt-get update -q >&2
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends sysbench >&2
