#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# pack.sh deb|rpm|archive...: makes packages in target/package/out, from what build.sh and stage.sh
# made, for the architecture ARCH (this machine's). The definitions of the .deb and the .rpm are in Cargo.toml.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
out=target/package/out
arch=${ARCH:-$(dpkg --print-architecture)}
case $arch in
    amd64) machine=x86_64 ;;
    arm64) machine=aarch64 ;;
    *) echo "pack: ARCH is amd64 or arm64, not '$arch'" >&2; exit 2 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
# shellcheck source=packaging/maintainer
. packaging/maintainer
export LC_ALL=C TZ=UTC
: "${SOURCE_DATE_EPOCH:?seconds since 1970, as of the last commit}"
umask 022
mkdir -p "$out"

# tool NAME VERSION: installs a cargo subcommand in target/tools
tool() {
    [[ -x target/tools/bin/$1 && $("target/tools/bin/$1" --version) == *"$2"* ]] ||
        cargo install --quiet --locked --root target/tools --target-dir target/tools/build "$1@$2"
}

deb() {
    tool cargo-deb 3.8.0
    rm -f "$out"/*_"$arch".deb
    target/tools/bin/cargo-deb --target "$machine-unknown-linux-gnu" --no-build --no-strip --locked --maintainer "$maintainer" --output "$out"
}

rpm() {
    tool cargo-generate-rpm 0.21.1
    rm -f "$out"/*."$machine".rpm
    # the binary needs no library: nothing to find out
    target/tools/bin/cargo-generate-rpm --arch "$machine" --auto-req disabled --payload-compress gzip \
        --source-date "$SOURCE_DATE_EPOCH" --output "$out"
}

archive() {
    local name=nvme-deep-$version-$machine-linux tree=target/package/tree
    local share=$tree/$name/share
    rm -rf "$tree"
    install -D -m 755 target/package/nvme-deep-static "$tree/$name/bin/nvme-deep"
    install -D -m 644 -t "$share/man/man1" target/package/man/*.1.gz
    install -D -m 644 target/package/completions/nvme-deep.bash "$share/bash-completion/completions/nvme-deep"
    install -D -m 644 -t "$share/zsh/site-functions" target/package/completions/_nvme-deep
    install -D -m 644 -t "$share/fish/vendor_completions.d" target/package/completions/nvme-deep.fish
    install -D -m 644 -t "$share/doc/nvme-deep" ./*.md LICENSE-* bpf/LICENSE.* \
        target/package/NOTICES* target/package/BUILDINFO
    install -D -m 644 -t "$share/doc/nvme-deep/docs" docs/*.md
    install -D -m 644 -t "$share/doc/nvme-deep/docs/reference" docs/reference/*.md
    install -D -m 644 -t "$share/doc/nvme-deep/docs/pictures" docs/pictures/*
    install -D -m 644 -t "$share/doc/nvme-deep/contrib" contrib/*
    tar -C "$tree" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu \
        --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -n9 >"$out/$name.tar.gz"
}

(($#)) || { echo "usage: pack.sh deb|rpm|archive..." >&2; exit 2; }
for what; do "$what"; done
