#!/usr/bin/env bash
# Every command is counted: submission methods and schedulers, four jobs at a time, on a device without
# latency (where the interrupt races with everything). Three tools run at a time, one per stage set.
# methods.sh has single jobs.
. "$(dirname "$0")/lib.sh"
dev=$(disk nvme0)
queue=/sys/block/$dev/queue
echo 2 >"$queue/nomerges" # otherwise two adjacent requests may become one command

three_tools() {
    tool total latency --json --ctrl nvme0 --no-admin
    tool basic latency --stages --json --commands --hist --ctrl nvme0 --no-admin
    tool fine latency --stages=fine --json --commands --hist --ctrl nvme0 --no-admin
    traced
}

for scheduler in none mq-deadline; do
    echo "$scheduler" >"$queue/scheduler"
    begin "mixed-$scheduler"
    three_tools
    stat_of before "$dev"
    for engine in aio1 aio16 uring16 psync; do
        batch=(--iodepth=32 --iodepth_batch_submit=16 --iodepth_batch_complete_min=1
            --iodepth_batch_complete_max=16)
        case $engine in
            aio1) how=(--ioengine=libaio --iodepth=1) ;;
            aio16) how=(--ioengine=libaio "${batch[@]}") ;;
            uring16) how=(--ioengine=io_uring "${batch[@]}") ;;
            psync) how=(--ioengine=psync) ;;
        esac
        load "$engine" --filename="/dev/$dev" --rw=randrw --bs=4k --numjobs=4 --number_ios=250 --size=1g \
            --fsync=40 "${how[@]}"
    done
    stat_of after "$dev"
    stop
done

echo none >"$queue/scheduler"
begin trim
three_tools
stat_of before "$dev"
load trim --filename="/dev/$dev" --rw=randtrim --bs=64k --number_ios=100 --size=1g \
    --ioengine=psync
stat_of after "$dev"
stop

begin zeroes
three_tools
stat_of before "$dev"
for ((i = 0; i < 25; i++)); do blkdiscard -z -o $((i * 65536)) -l 4096 "/dev/$dev"; done
stat_of after "$dev"
stop

begin passthrough
tool total latency --json
tool basic latency --stages --json --commands --hist
tool fine latency --stages=fine --json --commands --hist
traced
for ((i = 0; i < 5; i++)); do
    nvme read "/dev/$dev" -s "$i" -c 0 -z 512 -d /dev/null
    nvme get-log /dev/nvme0 --log-id=2 --log-len=512 -b >/dev/null
done
stop
