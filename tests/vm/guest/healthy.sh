#!/usr/bin/env bash
# Healthy loads on a device of 4 ms, each diagnosed for some seconds. lab.seed= on the kernel
# command line selects them.
. "$(dirname "$0")/lib.sh"
seed=$(sed -n 's/.*lab\.seed=\([0-9]*\).*/\1/p' /proc/cmdline)
RANDOM=$seed
device=/dev/$(disk nvme0)
begin healthy

# one WORD...: one of these words, at random
one() {
    local words=("$@")
    echo "${words[RANDOM % ${#words[@]}]}"
}

for n in 1 2 3 4 5; do
    options=(
        "--rw=$(one randread randread randwrite randrw read write)"
        "$(one --bs=4k --bs=4k --bs=8k --bs=16k --bs=64k --bssplit=4k/70:16k/20:64k/10)"
        "--iodepth=$(one 1 2 4 8)"
        "--numjobs=$(one 1 1 2)"
        "$(one --thinktime=0 --thinktime=0 --thinktime=2ms --rate_iops=150)"
        "$(one --rwmixread=70 --rwmixread=50)"
        "--randseed=$((seed * 10 + n))"
    )
    echo "${options[*]}" >"$case_dir/$n.load"
    # attached before the load and detached after it: see boot.sh (int3)
    tool "$n" diagnose --duration 12s --check --json --ctrl nvme0
    traced
    load "$n" --eta=never --filename="$device" --size=512m --ioengine=libaio --time_based --runtime=6 \
        "${options[@]}"
    finished
done
