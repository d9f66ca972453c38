#!/usr/bin/env bash
# bench.sh [KERNEL]: counts the instructions that our modes and other tools cost on a kernel of
# tests/vm/kernels (6.12), side by side in one guest. Unlike times, instruction counts stay valid on
# a busy machine. The tables go to stdout, and with all other counts as JSON to
# target/bench/NAME.json. Their input stays in target/bench/NAME.
#
# Environment: ROUNDS (1) starts of each tool, REPEATS (3) loads per start, COUNT (10000) commands
# per load, LOADS (batched unbatched), ONLY: a regular expression for the names of tools (as in
# tools.sh), NAME (KERNEL), NVME_DEEP_BIN: another binary to measure. LINES=1: runs lines.sh instead.
# The machine: CONTROLLERS (1), NAMESPACES (1) of
# each, LATENCY_NS (300000) of their disks, DEPTH: instead of the load's own, and all variables of boot.sh. PEERS=no: leaves out other tools
# and the baseline, which need additional packages.
#
# If the disk has no latency (0), most commands complete before the function that rings the doorbell
# returns. No real disk is that fast.
#
# KERNEL may be one of arm64. Of the other tools, biolatency and the baseline run there.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
kernel=${1:-6.12}
[[ -z ${LINES:-} ]] || exec "$here/lines.sh" "$kernel"
name=${NAME:-$kernel}
latency=${LATENCY_NS:-300000}
out=$root/target/bench
share=$out/$name
# what runs in the guest is for its processor
cc=gcc arch=x86 libraries=$(gcc -print-multiarch) target=target built=$out/built
if [[ $kernel == *arm64* ]]; then
    cc=aarch64-linux-gnu-gcc arch=arm64 libraries=aarch64-linux-gnu target=target/aarch64-unknown-linux-gnu
    built=$out/built-arm64
fi
binary=${NVME_DEEP_BIN:-$root/$target/release/nvme-deep}

[[ -x $binary ]] || {
    echo "bench: no $binary here: 'make bench' builds it" >&2
    exit 1
}
peers=${PEERS:-yes}
for tool in bpftrace biolatency perf blktrace; do
    [[ $peers == yes && $arch == x86 ]] || break
    command -v "$tool" >/dev/null || echo "bench: no $tool here: 'make bench' installs it" >&2
done

mkdir -p "$built"
flags=(-O2 -Wall -Wextra -Wno-unused-parameter)
gcc "${flags[@]}" -fPIC -fvisibility=hidden -shared "$here/plugin.c" -o "$built/plugin.so"
"$cc" "${flags[@]}" -static "$here/load.c" -o "$built/load"
"$cc" "${flags[@]}" -static "$here/start.c" -o "$built/start"
if [[ $peers == yes ]]; then
    # the root of arm64 guests has no libbpf
    "$cc" "${flags[@]}" "$here/least/least.c" -l:libbpf.a -lelf -lz -o "$built/least"
    clang -O2 -g -Wall -mcpu=v3 -target bpf "-D__TARGET_ARCH_$arch" -idirafter "/usr/include/$libraries" \
        -c "$here/least/least.bpf.c" -o "$built/least.bpf.o"
fi
if [[ $peers == yes && $arch == arm64 ]]; then
    rm -rf "$built/peers"
    mkdir "$built/peers"
    (cd "$built/peers" && apt-get -qq -o APT::Sandbox::User=root download libbpf-tools:arm64)
    dpkg-deb -x "$built"/peers/*.deb "$built/peers"
fi

"$here/../vm/fetch.sh" "$kernel"
# shellcheck disable=SC1091
. "$here/../vm/nvme-args.sh"
mapfile -t controllers < <(
    for ((i = 0; i < ${CONTROLLERS:-1}; i++)); do
        nvme_null "nvme$i" "$latency" "namespaces=${NAMESPACES:-1}"
    done
)

# With a clock that counts instructions, neither the guest's time nor its losses depend on the load
# of this machine. Some kernels do not boot that way: 6.1 waits for its timers to agree.
clock=(-icount shift=0)
case $kernel in
    5.10* | 6.1 | 6.1-*) clock=() ;;
esac

rm -rf "$share"
mkdir -p "$share"
cp "$binary" "$share/nvme-deep"
settings=(
    "ROUNDS=${ROUNDS:-1}" "REPEATS=${REPEATS:-3}" "COUNT=${COUNT:-10000}"
    "LOADS=${LOADS:-batched unbatched}" "DEPTH=${DEPTH:-}" "ONLY=${ONLY:-}" "LATENCY_NS=$latency"
)
{
    printf 'export'
    printf ' %q' "BUILT=$built" NVME_DEEP=/mnt/nvme-deep "${settings[@]}"
    # shellcheck disable=SC2016 # the guest expands it
    printf '\nexport PATH=$PATH:%q\nexec /bin/bash %q\n' "$built/peers/usr/sbin" "$here/guest.sh"
} >"$share/run.sh"

status=0
ACCEL=tcg,thread=single TIMEOUT=${TIMEOUT:-7200} "$here/../vm/boot.sh" "$kernel" "$share" \
    "${controllers[@]}" "${clock[@]}" -plugin "$built/plugin.so,out=$share/counts" || status=$?
((status == 0)) || echo "bench: the guest ended early; what it had measured until then:"
python3 "$here/report.py" "$share" "$out/$name.json" \
    "kernel=$(<"${NVME_DEEP_LAB:-$root/target/lab}/$kernel/release")" \
    "version=nvme-deep $(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)" "clock=${clock[*]:-none}" "${settings[@]}"
exit "$status"
