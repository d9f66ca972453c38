#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# build.sh [--no-parquet]: builds the binaries of the packages, stripped, in target/package:
#
#   nvme-deep          linked dynamically with libc, libelf and zlib, for the .deb
#   nvme-deep-static   needs no library of the system it runs on, for the .rpm and the archive
#
# ARCH=arm64 builds for that architecture (cross.sh). PROFILE is that of cargo, dist; dev takes a quarter of
# the time, for tests of the packaging.
#
# With --no-parquet it builds only nvme-deep-static-small: without `export --format parquet`, and
# optimized for size (the profile `small`).
#
# The same sources, compilers and libraries make the same bytes, in any directory and at any time:
# the options below leave out the paths of this machine.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
cd "$root"
[[ -n ${TRIPLE:-} ]] || exec "$here/cross.sh" "${ARCH:-$(dpkg --print-architecture)}" "$here/build.sh" "$@"
out=target/package
mkdir -p "$out"

export LC_ALL=C TZ=UTC
cargo_home=${CARGO_HOME:-$HOME/.cargo}
target=$TRIPLE
profile=${PROFILE:-dist}
CFLAGS="-g0 -O2 -ffile-prefix-map=$root=/nvme-deep -ffile-prefix-map=$cargo_home=/cargo"
RUSTFLAGS="--remap-path-prefix=$root=/nvme-deep --remap-path-prefix=$cargo_home=/cargo"
# libelf and libz: rustc does not search the linker's own directories. They get a directory of their own: that of
# the system may have another libbpf.a (libbpf-dev), which would be linked instead of the crate's. The linker takes
# the .so there for the dynamic binary. As an option of rustc it applies to the target only: the build script links this
# machine's libraries.
libraries=$root/$out/libraries-$TRIPLE
mkdir -p "$libraries"
for library in {libelf,libz}.{a,so}; do
    ln -sf "$(readlink -f "$("$CC_FOR" -print-file-name="$library")")" "$libraries/$library"
done
RUSTFLAGS+=" -L native=$libraries"
export CFLAGS RUSTFLAGS

# With --target, the options do not reach build scripts and procedural macros, which must not be
# static.
options=(--locked --target "$target" --bin nvme-deep)
built=target/$target/${profile/#dev/debug}/nvme-deep

static() {
    # crt-static is an option of the last step only, so both binaries share all that is compiled
    # before it.
    cargo rustc "${options[@]}" "$@" -- -C target-feature=+crt-static
}

case ${1:-} in
    --no-parquet)
        built=target/$target/small/nvme-deep
        static --profile small --no-default-features --features static
        install -m 755 "$built" "$out/nvme-deep-static-small"
        if (($(stat -c %s "$built") > 8000000)); then
            echo "build: the binary is larger than 8 MB" >&2
            exit 1
        fi
        ;;
    '')
        cargo build --profile "$profile" "${options[@]}"
        install -m 755 "$built" "$out/nvme-deep"
        static --profile "$profile" --features static
        install -m 755 "$built" "$out/nvme-deep-static"
        ;;
    *)
        echo "usage: build.sh [--no-parquet]" >&2
        exit 2
        ;;
esac
if [[ -z ${1:-} && $(readelf -d "$out/nvme-deep") != *libelf.so.1* ]]; then
    echo "build: nvme-deep has libelf in itself" >&2
    exit 1
fi
if for binary in "$out"/nvme-deep-static*; do readelf -d "$binary"; done | grep NEEDED; then
    echo "build: nvme-deep-static needs a library" >&2
    exit 1
fi
ls -l "$out" | awk '/nvme-deep(-static.*)?$/ { printf "%.1f MB  %s\n", $5 / 1e6, $9 }'
