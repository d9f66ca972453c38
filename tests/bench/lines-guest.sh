#!/usr/bin/env bash
# lines-guest.sh: the part of lines.sh that runs in the guest. It starts, loads and stops each tool,
# and first runs the load without any. /mnt/log has a line for each run that the plugin counts: the
# commands of the load, and the tool (`-`: none). /mnt/symbols.N has the symbols of the Nth,
# /mnt/maps.N the memory of the BPF maps.
set -euo pipefail

: "${BUILT:?}" "${CPUS:?}" "${COUNT:?}" "${ONLY=}"
disk=$(echo /dev/nvme0n1)
mkdir /tmp/lines
cd /tmp/lines
mkfifo answers
cp /mnt/nvme-deep nvme-deep
sysctl -q net.core.bpf_jit_kallsyms=1
echo 2 >"/sys/block/${disk##*/}/queue/nomerges"
echo none >"/sys/block/${disk##*/}/queue/scheduler"
runs=0
mount -t bpf bpf /sys/fs/bpf
bpftool iter pin "$BUILT/maps.bpf.o" /sys/fs/bpf/maps

run_load() {
    "$BUILT/everywhere" "$CPUS" "$BUILT/load" 16 4 50 "$COUNT" 1 "$disk" >/dev/null
    echo "$((CPUS * (COUNT + 50)))	$1" >>/mnt/log
    cat /sys/fs/bpf/maps >"/mnt/maps.$runs"
    cp /proc/kallsyms "/mnt/symbols.$((runs++))"
}

measure() {
    local name=$1 word pid from starter i
    shift
    [[ $name =~ $ONLY ]] || return 0
    "$BUILT/start" out err 100 "$@" >answers &
    starter=$!
    exec {from}<answers
    read -r word pid _ <&"$from" || true
    if [[ $word == attached ]]; then
        run_load warm
        run_load "$name"
        kill -INT "$pid"
        for ((i = 0; i < 600; i++)); do
            kill -0 "$starter" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
        echo "$name: $(grep -m 1 accuracy out || true)"
    else
        echo "$name: not attached: $(tail -n 1 err)"
    fi
    exec {from}<&-
}

run_load warm
run_load -
run_load -
for mode in latency 'latency --stages' 'latency --stages=fine' top 'trace --stages' 'record -o recording --force'; do
    # shellcheck disable=SC2086 # words
    measure "$mode" /tmp/lines/nvme-deep $mode
done
! command -v biolatency >/dev/null || measure biolatency biolatency
! command -v bpftrace >/dev/null || measure bpftrace bpftrace "${BASH_SOURCE[0]%/*}/peers/latency.bt"
