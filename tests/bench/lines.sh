#!/usr/bin/env bash
# lines.sh [KERNEL]: counts the stores to cache lines that another CPU wrote last, per command, which
# our modes and other tools add to those of the kernel. Each CPU has a queue of its own, and reads on
# it. `make bench LINES=1` runs it. The table goes to stdout; the counts stay in target/bench/lines-*.
#
# Environment: CPUS (2 8 16): a guest for each number; COUNT (500) commands of each CPU; ONLY: a regular
# expression for the names of tools; LIMIT: fails if the programs of a mode of ours have more such stores
# per command; CONTROLLERS (1); POSSIBLE: CPUs that may appear; NVME_DEEP_BIN: another binary to measure.
set -euo pipefail
: "${CONTROLLERS:=1}"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
kernel=${1:-6.12}
binary=${NVME_DEEP_BIN:-$root/target/release/nvme-deep}
built=$root/target/bench/built
mkdir -p "$built"
flags=(-O2 -Wall -Wextra -Wno-unused-parameter)
gcc "${flags[@]}" -fPIC -fvisibility=hidden -shared "$here/lines.c" -o "$built/lines.so"
for program in load start everywhere; do
    gcc "${flags[@]}" -static "$here/$program.c" -o "$built/$program"
done
clang -O2 -g -Wall -mcpu=v3 -target bpf -idirafter "/usr/include/$(gcc -print-multiarch)" \
    -c "$here/maps.bpf.c" -o "$built/maps.bpf.o"
"$here/../vm/fetch.sh" "$kernel"
# shellcheck disable=SC1091
. "$here/../vm/nvme-args.sh"

results=()
for cpus in ${CPUS:-2 8 16}; do
    share=$root/target/bench/lines-$kernel-$cpus
    rm -rf "$share"
    mkdir -p "$share"
    cp "$binary" "$share/nvme-deep"
    mapfile -t controllers < <(
        for ((i = 0; i < CONTROLLERS; i++)); do
            nvme_null "nvme$i" 300000 "max_ioqpairs=$((CONTROLLERS > 1 ? 64 : cpus))" msix_qsize=65
        done
    )
    {
        printf 'export'
        printf ' %q' "BUILT=$built" "CPUS=$cpus" "COUNT=${COUNT:-500}" "ONLY=${ONLY:-}"
        printf '\nexec /bin/bash %q\n' "$here/lines-guest.sh"
    } >"$share/run.sh"
    SMP=$cpus${POSSIBLE:+,maxcpus=$POSSIBLE} ACCEL=tcg,thread=single TIMEOUT=${TIMEOUT:-3600} BOOT_LIMIT=600 "$here/../vm/boot.sh" \
        "$kernel" "$share" "${controllers[@]}" -plugin "$built/lines.so,out=$share/counts"
    results+=("$share")
done
python3 -B "$here/lines.py" "${LIMIT:--}" "${results[@]}"
