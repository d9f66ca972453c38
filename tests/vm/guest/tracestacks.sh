#!/usr/bin/env bash
# Stacks of known paths, by every attach method: io_submit, io_uring_enter, pread, writeback. nvme0
# answers at once.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
. "$(dirname "$0")/record.sh"
dev=$(disk nvme0)
echo none >"/sys/block/$dev/queue/scheduler"
echo 2 >"/sys/block/$dev/queue/nomerges"
settled

# by NAME FIO-OPTION...: 20 commands, one at a time
by() {
    load "$1" --filename="/dev/$dev" --bs=4k --size=16m --number_ios=20 --iodepth=1 "${@:2}"
}

paths() {
    by aio --rw=randread --ioengine=libaio
    by uring --rw=randread --ioengine=io_uring
    by pread --rw=randread --ioengine=psync
    # Writeback: the flusher writes old pages of the page cache in one request. Synchronous writes
    # (sync, the last close of the disk) and many requests at once may go through blk-mq's worker.
    local before now i
    read -r _ _ _ _ _ _ before _ <"/sys/block/$dev/stat"
    echo 0 >"/sys/block/$dev/queue/nomerges"
    exec 9<"/dev/$dev"
    dd if=/dev/zero of="/dev/$dev" bs=64k count=4 seek=512 status=none
    for ((i = 0; i < 600; i++)); do
        read -r _ _ _ _ _ _ now _ <"/sys/block/$dev/stat"
        ((now < before + 512)) || break
        sleep 0.05
    done
    exec 9<&-
    echo 2 >"/sys/block/$dev/queue/nomerges"
    ((i < 600))
}
sysctl -q vm.dirty_writeback_centisecs=20 vm.dirty_expire_centisecs=20

for method in auto fentry rawtp kprobe tracepoint; do
    begin "method-$method"
    "$NVME_DEEP" doctor --json --attach "$method" >"$case_dir/doctor" || true
    tool trace trace --events --stages=none --json --kstack --sq --attach "$method" --ctrl nvme0 --no-admin
    if ! traced >/dev/null; then
        finished
        continue
    fi
    tool stacks stacks --json --attach "$method" --ctrl nvme0 --no-admin
    traced
    count_events
    recording
    paths
    recorded
    events_counted
    stop
done

begin complete
tool trace trace --events --stages=none --json --kstack=complete --ctrl nvme0 --no-admin
tool text trace --long --time mono --stages=none --kstack --ctrl nvme0 --no-admin
tool stacks stacks --json --at complete --ctrl nvme0 --no-admin
traced
paths
stop

begin many
tool json stacks --json --ctrl nvme0 --no-admin
tool text stacks --weight latency --ctrl nvme0 --no-admin -o "$case_dir/flame.svg"
tool folded stacks --folded --ctrl nvme0 --no-admin
tool by-latency stacks --folded --weight latency --ctrl nvme0 --no-admin
tool sample stacks --json --sample 1/8 --ctrl nvme0 --no-admin
tool top stacks --json -n 1 --ctrl nvme0 --no-admin
tool slow stacks --json --slow 10s --ctrl nvme0 --no-admin
tool shares trace --events --stages=none --json --kstack --sample 1/8 --ctrl nvme0 --no-admin
traced
load aio --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=libaio --iodepth=16 \
    --number_ios=3000
load uring --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=io_uring --iodepth=16 \
    --number_ios=1000
stop
