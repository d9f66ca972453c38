#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# reproduce.sh: builds the last commit again, in another directory, and compares the packages with
# those in target/package/out, bit by bit. Nothing is shared but the toolchain and the downloaded
# crates. ARCH=arm64 builds those for that architecture.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
root=$PWD
[[ -z $(git status --porcelain) ]] || { echo "reproduce: there are changes that are not committed" >&2; exit 1; }
: "${SOURCE_DATE_EPOCH:?seconds since 1970, as of the last commit}"

other=$(mktemp -d "${TMPDIR:-/var/tmp}/nvme-deep-again.XXXXXX")
trap 'rm -rf "$other"' EXIT
git archive HEAD | tar -C "$other" -x
mkdir -p "$other/target"
ln -s "$root/target/tools" "$other/target/tools"
(
    cd "$other"
    # what must not matter
    export TZ=Pacific/Auckland LC_ALL=C.UTF-8
    umask 077
    packaging/build.sh
    packaging/stage.sh
    packaging/pack.sh deb rpm archive
)
same=yes
# a .deb, an .rpm and an archive
(($(find "$other/target/package/out" -type f | wc -l) == 3)) || same=no
for again in "$other"/target/package/out/*; do
    package=$root/target/package/out/${again##*/}
    if cmp "$package" "$again"; then
        echo "reproduce: equal: $(sha256sum "$again" | cut -c 1-16)... ${again##*/}"
    else
        same=no
    fi
done
[[ $same == yes ]] || { echo "reproduce: the builds differ" >&2; exit 1; }
