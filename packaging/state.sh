# shellcheck shell=bash
# SPDX-License-Identifier: MIT OR Apache-2.0

# state ROOT: names, modes and owners of all files of a root, and the contents of /etc, without what
# apt and dpkg write about themselves
state() {
    (
        cd "$1"
        find . \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/cache \
            -o -path ./var/log -o -path ./var/lib/apt -o -path ./var/lib/dpkg \) -prune -o \
            -printf '%p %m %U:%G %l\n' | sort
        find etc -type f ! -name ld.so.cache -exec sha256sum {} + | sort -k 2
        sed -n 's/^Package: //p' var/lib/dpkg/status | sort
        ls var/lib/dpkg/info
    )
}
