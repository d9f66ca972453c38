#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# release.sh: makes in target/package/out what the page of a release needs, for amd64 and arm64: .deb, .rpm, an archive
# with the static binary, a bill of materials (CycloneDX), the notes of the release (from CHANGELOG.md), and
# SHA-256 sums of all. ARCHES chooses the architectures; this machine's own comes first.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
out=target/package/out
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
: "${SOURCE_DATE_EPOCH:?seconds since 1970, as of the last commit}"
export LC_ALL=C
own=$(dpkg --print-architecture)
read -ra arches <<<"${ARCHES:-amd64 arm64}"

# the section of this version, without its title
notes=$(awk -v title="## $version" '/^## / { on = $0 == title; next } on' CHANGELOG.md)
[[ -n $notes ]] || { echo "release: CHANGELOG.md has no section '## $version'" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out"
for arch in "$own" "${arches[@]}"; do
    # man pages come from the program that runs here, so its build is always made
    [[ $arch == "$own" && -e $out/.own ]] && continue
    [[ $arch != "$own" ]] || touch "$out/.own"
    export ARCH=$arch
    packaging/build.sh
    packaging/stage.sh
    [[ " ${arches[*]} " == *" $arch "* ]] || continue
    packaging/pack.sh deb rpm archive
    # shellcheck disable=SC2016 # the inner shell expands it
    triple=$(packaging/cross.sh "$arch" sh -c 'echo "$TRIPLE"')
    python3 -B packaging/sbom.py "$triple" "$version" target/package/BUILDINFO \
        >"$out/nvme-deep-$version-${triple%%-*}.cdx.json"
done
rm "$out/.own"
printf '%s\n' "$notes" | sed '/./,$!d' >"$out/NOTES.md"
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
