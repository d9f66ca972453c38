#!/usr/bin/env bash
# guest.sh: the part of bench.sh that runs in the guest. It starts, loads and stops each tool ROUNDS
# times, in turn. Before each start, the same load runs without any tool. It writes lines to
# /mnt/log, in the order in which the plugin counts the runs:
#
#   machine DISKS QUEUES DEPTH CPUS   I/O queues of the first disk, tags of a queue, possible CPUs
#   run   LOAD TOOL ISSUED NS     a run of the load; TOOL is - for none
#   tool  LOAD TOOL START-MS PEAK-KB MAPS-KB SEEN LOST ISSUED SYMBOLS
#   gone  LOAD TOOL WHY           the tool could not be measured
#
# Fields are separated by tabs. The load goes to all NVMe disks. MAPS-KB is the kernel's memory for
# BPF maps. SYMBOLS names a file in /mnt with the kernel symbols that came with the tool;
# /mnt/symbols has the others. /mnt/said has the end of each tool's output.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${BUILT:?where bench.sh built load and start}" "${NVME_DEEP:?the binary to measure}"
: "${ROUNDS:?}" "${REPEATS:?}" "${COUNT:?}" "${LOADS:?}" "${DEPTH=}" "${ONLY=}"
warm=500
drain_ms=200
disks=(/dev/nvme*n*)

# shellcheck disable=SC1091
. "$here/tools.sh"

mkdir /tmp/bench
cd /tmp/bench
mkdir /mnt/said
mkfifo answers
cp "$NVME_DEEP" nvme-deep
sysctl -q net.core.bpf_jit_kallsyms=1 kernel.perf_event_paranoid=-1
# Merged requests would be one command.
for disk in "${disks[@]}"; do echo 2 >"/sys/block/${disk##*/}/queue/nomerges"; done
# The tools and this script run on CPU 1, the load on CPU 0.
taskset -cp 1 $$ >/dev/null

note() {
    local IFS=$'\t'
    echo "$*" >>/mnt/log
}

set_load() {
    local disk
    case $1 in
        batched) scheduler=none depth=32 batch=16 ;;
        unbatched) scheduler=mq-deadline depth=8 batch=1 ;;
        *) echo "bench: no load '$1'" >&2; return 1 ;;
    esac
    load=$1
    depth=${DEPTH:-$depth}
    for disk in "${disks[@]}"; do echo "$scheduler" >"/sys/block/${disk##*/}/queue/scheduler"; done
}

# run_load TOOL: runs the load, and adds its commands to $issued
run_load() {
    local answer
    answer=$(taskset -c 0 "$BUILT/load" "$depth" "$batch" "$warm" "$COUNT" "$drain_ms" "${disks[@]}")
    note run "$load" "$1" "${answer% *}" "${answer#* }"
    issued=$((issued + ${answer% *}))
}

# maps_kib PID: the memory of its BPF maps
maps_kib() {
    cat /proc/"$1"/fdinfo/* 2>/dev/null | awk '
        $1 == "map_type:" { map = 1 }
        $1 == "memlock:" { bytes = $2 }
        $1 == "map_id:" { if (map && !seen[$2]++) sum += bytes; map = 0 }
        END { printf "%d", sum / 1024 }'
}

# measure NAME KIND COMMAND...
measure() {
    local name=$1 kind=$2 answer word pid ms kb maps counts symbols issued=0 i from starter
    shift 2
    [[ $name =~ $ONLY ]] || return 0
    run_load -
    issued=0
    "$BUILT/start" out err 100 "$@" >answers &
    starter=$!
    exec {from}<answers
    read -r word pid ms <&"$from" || true
    if [[ $word == attached ]]; then
        for ((i = 0; i < REPEATS; i++)); do run_load "$name"; done
        maps=$(maps_kib "$pid")
        symbols=symbols.$((++tools_measured))
        grep -E '\[(bpf|__builtin__[a-z]+)\]$' /proc/kallsyms >/mnt/"$symbols" || true
        kill -INT "$pid"
        for ((i = 0; i < 600; i++)); do
            kill -0 "$starter" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
        read -r word _ kb <&"$from"
        counts=$("count_$kind" out err) || counts='- -'
        note tool "$load" "$name" "$ms" "$kb" "$maps" "${counts% *}" "${counts#* }" "$issued" "$symbols"
        echo "$load: $name: attached after $ms ms, saw ${counts% *} of $issued, lost ${counts#* }"
    else
        note gone "$load" "$name" "$(tail -n 1 err)"
        echo "$load: $name: not attached: $(tail -n 1 err)"
    fi
    exec {from}<&-
    for i in out err; do tail -c 4000 $i >"/mnt/said/$load ${name//\//_} $i"; done
    rm -f out err
}

ours() {
    if /tmp/bench/nvme-deep "$@" --help >/dev/null 2>&1; then
        measure "$*" ours /tmp/bench/nvme-deep "$@"
    elif ((round == 1)); then
        echo "$load: $*: not known to this nvme-deep"
    fi
}

peer() {
    measure "$@"
}

queues=(/sys/block/"${disks[0]##*/}"/mq/*)
possible=$(</sys/devices/system/cpu/possible)
note machine ${#disks[@]} ${#queues[@]} $(($(<"${queues[0]}/nr_tags"))) $((${possible#*-} + 1))
tools_measured=0
cp /proc/kallsyms /mnt/symbols
issued=0
for load in $LOADS; do
    set_load "$load"
    run_load warm
    for ((round = 1; round <= ROUNDS; round++)); do
        tools
    done
done
