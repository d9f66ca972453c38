#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# stage.sh: makes what the packages contain beside the binaries of build.sh, in target/package:
#
#   man/ completions/     by `nvme-deep dist`
#   nvme-deep*.service    the units of contrib/ with the path of the package
#   NOTICES               licence texts of the crates and of what they contain
#   NOTICES.rust.html.gz  notices of the Rust standard library
#   NOTICES.static        licence texts of the C libraries in the static binary
#   licences/ doc/        the licences of nvme-deep, its documentation
#   BUILDINFO             compilers and libraries of this build
#   changelog             in Debian's format
#
# SOURCE_DATE_EPOCH is the date of all of it. ARCH=arm64: of a build for that architecture, on another. Then
# man pages and completions stay those of the last build for this machine's own.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
[[ -n ${TRIPLE:-} ]] || exec "$here/cross.sh" "${ARCH:-$(dpkg --print-architecture)}" "$here/stage.sh" "$@"
out=target/package
arch=${ARCH:-$(dpkg --print-architecture)}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
# shellcheck source=packaging/maintainer
. packaging/maintainer
export LC_ALL=C TZ=UTC
: "${SOURCE_DATE_EPOCH:?seconds since 1970, as of the last commit}"
umask 022

if [[ $arch == "$(dpkg --print-architecture)" ]]; then
    rm -rf "$out"/{man,completions}
    "$out/nvme-deep" dist "$out"
    gzip -n9 "$out"/man/*.1
elif [[ ! -d $out/man ]]; then
    echo "stage: build and stage for this machine first: its program writes the man pages" >&2
    exit 1
fi
for unit in nvme-deep nvme-deep-recorder; do
    sed 's,/usr/local/bin/,/usr/bin/,' contrib/$unit.service >"$out/$unit.service"
done

# version_of PACKAGE: the version of an installed Debian package
version_of() {
    # shellcheck disable=SC2016 # dpkg-query expands this
    dpkg-query -W -f '${source:Package} ${source:Version}' "$1"
}
libgcc=libgcc-$(basename "$(dirname "$("$CC_FOR" -print-libgcc-file-name)")")-dev
[[ $CC_FOR == cc ]] || libgcc+=-$arch-cross
libraries=("libelf-dev:$arch" "zlib1g-dev:$arch" "libc6-dev:$arch" "$libgcc")
{
    "${RUSTC:-rustc}" -V
    "${CLANG:-clang}" --version | head -n 1
    "$CC_FOR" --version | head -n 1
    echo "elfutils (libelf): $(version_of "${libraries[0]}")"
    echo "zlib: $(version_of "${libraries[1]}")"
    echo "glibc: $(version_of "${libraries[2]}")"
    echo "libgcc: $(version_of "${libraries[3]}")"
} >"$out/BUILDINFO"

rm -rf "$out/licences"
install -D -m 644 -t "$out/licences" LICENSE-* bpf/LICENSE.*
rm -rf "$out/doc"
install -D -m 644 -t "$out/doc" ./*.md
install -D -m 644 -t "$out/doc/docs" docs/*.md
install -D -m 644 -t "$out/doc/docs/reference" docs/reference/*.md
install -D -m 644 -t "$out/doc/docs/pictures" docs/pictures/*
install -D -m 644 -t "$out/doc/contrib" contrib/*.json contrib/*.y*ml
python3 -B packaging/notices.py "$TRIPLE" "$out/NOTICES"
of_rust=$("${RUSTC:-rustc}" --print sysroot)/share/doc/rust/COPYRIGHT-library.html
# Debian's Rust has the texts elsewhere
[[ -f $of_rust ]] || of_rust=/usr/share/doc/libstd-rust-web-dev/copyright
gzip -n9 <"$of_rust" >"$out/NOTICES.rust.html.gz"
rule=$(printf '=%.0s' {1..80})
{
    cat packaging/static.txt
    for package in "${libraries[@]}"; do
        printf '\n%s\n%s: %s\n%s\n\n' "$rule" "${package%:*}" "$(version_of "$package")" "$rule"
        cat "/usr/share/doc/${package%:*}/copyright"
    done
    for licence in LGPL-3 LGPL-2.1 GPL-3 GPL-2; do
        printf '\n%s\n%s\n%s\n\n' "$rule" "$licence" "$rule"
        cat "/usr/share/common-licenses/$licence"
    done
} >"$out/NOTICES.static"

cat >"$out/changelog" <<END
nvme-deep ($version-1) unstable; urgency=medium

  * Package of version $version. CHANGELOG.md lists what is new.

 -- $maintainer  $(date -Rd "@$SOURCE_DATE_EPOCH")
END
# the times of these files become times in the .rpm
find "$out"/{man,completions,licences,doc} "$out"/[A-Zc]* "$out"/nvme-deep* -type f \
    -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
