#!/usr/bin/env bash
# deps.sh [--demo] [--arm64] [PACKAGE...]: installs the packages that the build and the tests need on a bare
# Debian 12 with Rust, gcc, make and python3, and the given packages. If all are installed, it
# only checks, which is fast.
#
#   --demo    leaves out what only the tests need
#   --arm64   adds what building for arm64, and its guests, need
set -euo pipefail

packages=(
    clang llvm libelf-dev zlib1g-dev pkg-config                 # build
    qemu-system-x86 busybox-static cpio kmod zstd xz-utils      # guests
    fio nvme-cli util-linux                                     # load
)
if [[ ${1:-} == --demo ]]; then
    shift
else
    packages+=(
        clang-format                        # format
        bpftool e2fsprogs dmsetup           # inspection, file systems, mappings
        python3-venv                        # readers of exports
        prometheus                          # reader of metrics
        mandoc                              # reader of man pages
    )
fi
if [[ ${1:-} == --arm64 ]]; then
    shift
    packages+=(
        gcc-aarch64-linux-gnu libc6-dev:arm64 libelf-dev:arm64 zlib1g-dev:arm64     # build
        qemu-system-arm mmdebstrap                                                  # guests
    )
    # The toolchain may have the standard library (rustup target add aarch64-unknown-linux-gnu). Else
    # cross.sh takes Debian's own Rust.
    [[ -d $(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu ]] ||
        packages+=(rustc-web libstd-rust-web-dev:arm64)
fi
if [[ ${1:-} == -* ]]; then
    echo "deps: unknown option '$1'; there are --demo and --arm64, in this order" >&2
    exit 2
fi
packages+=("$@")

missing=()
here=$(dpkg --print-architecture)
installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package}:${Architecture} ' "${packages[@]}" 2>/dev/null || true)"
for package in "${packages[@]}"; do
    [[ $installed == *" installed=$package "* || $installed == *" installed=$package:$here "* ||
        $installed == *" installed=$package:all "* ]] || missing+=("$package")
done

if ((${#missing[@]})); then
    as_root=(env)
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            echo "deps: not root and no sudo here; as root, install: ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "deps: installing ${missing[*]}"
    [[ ${missing[*]} != *:arm64* ]] || "${as_root[@]}" dpkg --add-architecture arm64
    "${as_root[@]}" apt-get update -qq
    # Tests start what they need: no package starts its daemon on this machine (policy-rc.d of invoke-rc.d).
    policy=/usr/sbin/policy-rc.d
    if [[ -e $policy ]]; then
        policy=
    else
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
    fi
    # Show the output of dpkg only if it fails.
    log=$(mktemp)
    trap 'rm -f "$log"; [[ -z $policy ]] || "${as_root[@]}" rm -f "$policy"' EXIT
    if ! "${as_root[@]}" DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
        cat "$log" >&2
        echo "deps: apt-get could not install: ${missing[*]}" >&2
        exit 1
    fi
fi

# These come with the Rust toolchain, not from apt. A build does not need them, so their
# absence is reported but is not an error here.
for tool in fmt clippy; do
    cargo "$tool" --version >/dev/null 2>&1 ||
        echo "deps: no 'cargo $tool' here: 'make test' needs it (rustup component add ${tool/fmt/rustfmt})" >&2
done
