#!/usr/bin/env bash
# A large machine: many CPUs, controllers with 32 queues or more. Hundreds of commands are in flight, on
# one controller and on all of them, with and without a scheduler. Also lists the maps of each mode.
. "$(dirname "$0")/lib.sh"
# so many queues take a while
controllers=$(grep -lx 0x010802 /sys/bus/pci/devices/*/class | wc -l)
for ((i = 0; i < 600; i++)); do
    found=(/sys/class/nvme/nvme*)
    ((${#found[@]} < controllers)) || break
    sleep 0.1
done
. "$(dirname "$0")/devices.sh"
settled || settled || settled
disks=()
for n in "${!pci[@]}"; do
    disks+=("$(disk "nvme$n")")
    echo 2 >"/sys/block/${disks[n]}/queue/nomerges"
done

# on DISKS DEPTH: random reads and writes, on as many disks; of `each` commands by each of eight jobs
each=750
on() {
    local files
    files=$(printf ':/dev/%s' "${disks[@]:0:$1}")
    load "on-$1" --filename="${files#:}" --rw=randrw --bs=4k --size=32m --numjobs=8 --number_ios="$each" \
        --ioengine=libaio --iodepth="$2" --iodepth_batch_submit=32 --iodepth_batch_complete_min=1 \
        --iodepth_batch_complete_max=32
}

# all: on one disk, then on all of them
all() {
    on 1 128
    on 16 64
}

for scheduler in mq-deadline none; do
    begin "$scheduler"
    each=750
    [[ $scheduler == none ]] || each=250
    for name in "${disks[@]}"; do echo "$scheduler" >"/sys/block/$name/queue/scheduler"; done
    tool total latency --json --no-admin
    tool basic latency --stages --json --no-admin
    tool fine latency --stages=fine --json --no-admin
    traced
    all
    stop
done

begin modes
"$NVME_DEEP" doctor --json >"$case_dir/doctor"
# mode NAME ARGUMENT...: starts a mode alone, and keeps its maps
mode() {
    local name=$1
    shift
    tool "$name" "$@"
    traced
    bpftool -j map show >"$case_dir/$name.maps"
    stop
}
mode total latency
mode basic latency --stages
mode fine latency --stages=fine
mode full latency --stages=full
mode serve serve --listen 127.0.0.1:9999
mode pair trace --stages
mode stacks stacks
mode record record --force -o /tmp/large.nvd

begin trace
tool pair trace --json --stages --no-admin
traced
all
stop
