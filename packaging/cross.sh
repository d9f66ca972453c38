#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# cross.sh ARCH COMMAND...: runs a command, which builds with cargo, for another architecture than this
# machine's: arm64. On a machine of that architecture it only runs the command. The command gets:
#
#   TRIPLE   Rust's name of the target, for `--target`
#   CC_FOR   the C compiler of the target
#
# The standard library for the target is the toolchain's (rustup target add), or Debian's with Debian's
# compiler (rustc-web, libstd-rust-web-dev:arm64).
set -euo pipefail

(($# >= 2)) || { echo "usage: cross.sh ARCH COMMAND..." >&2; exit 2; }
arch=$1
shift
case $arch in
    arm64) machine=aarch64 ;;
    amd64) machine=x86_64 ;;
    *) echo "cross: ARCH is amd64 or arm64, not '$arch'" >&2; exit 2 ;;
esac
export TRIPLE=$machine-unknown-linux-gnu CC_FOR=cc
[[ $(uname -m) != "$machine" ]] || exec "$@"

CC_FOR=$machine-linux-gnu-gcc
command -v "$CC_FOR" >/dev/null || { echo "cross: no $CC_FOR here: tests/vm/deps.sh --$arch installs it" >&2; exit 1; }
name=${TRIPLE//-/_}
export "CARGO_TARGET_${name^^}_LINKER=$CC_FOR" "CC_$name=$CC_FOR"
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_LIBDIR=/usr/lib/$machine-linux-gnu/pkgconfig
if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$TRIPLE ]]; then
    debians=/usr/bin/rustc
    [[ -d $("$debians" --print sysroot 2>/dev/null)/lib/rustlib/$TRIPLE ]] || {
        echo "cross: no standard library for $TRIPLE: rustup target add $TRIPLE, or tests/vm/deps.sh --$arch" >&2
        exit 1
    }
    export RUSTC=$debians
fi
exec "$@"
