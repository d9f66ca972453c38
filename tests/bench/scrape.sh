#!/usr/bin/env bash
# scrape.sh [KERNEL]: counts the instructions of reading the maps, in user space and in the kernel, on
# a machine with 3 million tags: a scrape of `serve`, a tick of `top` and of `inflight --age`.
# `make bench SCRAPE=1` runs it. The table goes to stdout; the counts stay in target/bench/scrape-*.
#
# Environment: BINARIES (target/release/nvme-deep): binaries to measure in one guest.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
kernel=${1:-6.12}
built=$root/target/bench/built
share=$root/target/bench/scrape-$kernel
controllers=24
rm -rf "$share"
mkdir -p "$built" "$share"
flags=(-O2 -Wall -Wextra -Wno-unused-parameter)
gcc "${flags[@]}" -fPIC -fvisibility=hidden -shared "$here/plugin.c" -o "$built/plugin.so"
for program in scrape start; do
    gcc "${flags[@]}" -static "$here/$program.c" -o "$built/$program"
done
"$here/../vm/fetch.sh" "$kernel"
# shellcheck disable=SC1091
. "$here/../vm/nvme-args.sh"
mapfile -t nvme < <(
    for ((i = 0; i < controllers; i++)); do
        nvme_null "nvme$i" 0 max_ioqpairs=128 msix_qsize=129
    done
)
names=()
for binary in ${BINARIES:-$root/target/release/nvme-deep}; do
    names+=("${#names[@]}-${binary##*/}")
    cp "$binary" "$share/${names[-1]}"
done
{
    printf 'export'
    printf ' %q' "BUILT=$built" "BINARIES=${names[*]}" "WANTED=$controllers"
    printf '\nexec /bin/bash %q\n' "$here/scrape-guest.sh"
} >"$share/run.sh"
# The driver creates a queue, and one for polling, for each possible CPU; two CPUs online are enough.
SMP=64 MEM=6G APPEND='maxcpus=2 nvme.poll_queues=64 nvme.io_queue_depth=1024' \
    ACCEL=tcg,thread=single TIMEOUT=${TIMEOUT:-1200} BOOT_LIMIT=600 "$here/../vm/boot.sh" \
    "$kernel" "$share" "${nvme[@]}" -plugin "$built/plugin.so,out=$share/counts"
python3 -B "$here/scrape.py" "$share"
