#!/usr/bin/env bash
# Waits before the request, each with a cause that is known: a limit of a cgroup, a queue with four
# tags, a queue that is frozen for a change of its scheduler, writeback throttling, io.cost. Also bios
# that are split and merged, and commands that have none.
. "$(dirname "$0")/lib.sh"

io_cgroups

dev=$(disk nvme0)
slow=$(disk nvme1)
queue=/sys/block/$dev/queue
number=$(<"/sys/block/$dev/dev")

# full CTRL: histograms by the programs for these alone, which have no filter, and those of single commands
full() {
    tool histograms latency --stages=full --json -v
    tool commands latency --stages=full --json --commands --hist --no-admin --ctrl "$1"
    traced
}

# within CGROUP COMMAND...: runs a command in a cgroup
within() {
    # shellcheck disable=SC2016 # the inner shell expands these
    bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$@"
}

begin plain
tool file record --stages=full --no-admin --ctrl nvme0 -o "$case_dir/file.ndr"
full nvme0
stat_of before "$dev"
load reads --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=psync --number_ios=300
load batches --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=libaio --iodepth=16 \
    --iodepth_batch=16 --iodepth_batch_complete_min=16 --number_ios=320
load split --filename="/dev/$dev" --rw=read --bs=4m --size=64m --ioengine=psync
load merged --filename="/dev/$dev" --rw=write --bs=4k --size=4m --ioengine=psync --direct=0 --end_fsync=1
stat_of after "$dev"
stop
"$NVME_DEEP" latency --from "$case_dir/file.ndr" --stages=full --json >"$case_dir/recorded.out" 2>"$case_dir/recorded.err"
echo 0 >"$case_dir/recorded.status"

begin throttle
echo "$number riops=60" >$top/limited/io.max
full nvme0
export -f load
export case_dir
within $top/limited bash -c "load reads --filename=/dev/$dev --rw=randread --bs=4k --size=1g \
    --ioengine=psync --number_ios=180"
stop
cat $top/limited/io.stat >"$case_dir/io.stat"
echo "$number riops=max" >$top/limited/io.max

begin tag
tags=$(<"$queue/nr_requests")
echo 4 >"$queue/nr_requests"
full nvme0
load reads --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=psync --numjobs=16 \
    --number_ios=30
stop
echo "$tags" >"$queue/nr_requests"

# The change waits until the first read, of 300 ms, is done, and the second read waits for the change.
begin freeze
full nvme1
python3 "$(dirname "$0")/frozen.py" "$slow" >"$case_dir/took"
stop
echo none >"/sys/block/$slow/queue/scheduler"

begin wbt
echo 1 >"$queue/wbt_lat_usec"
full nvme0
load writes --filename="/dev/$dev" --rw=randwrite --bs=4k --size=16m --ioengine=psync --direct=0 \
    --end_fsync=1
stop

begin iocost
if echo "$number enable=1 ctrl=user rpct=0 wpct=0 min=100 max=100" >$top/io.cost.qos &&
    echo "$number ctrl=user model=linear rbps=200000 rseqiops=50 rrandiops=50 wbps=200000 wseqiops=50 wrandiops=50" \
        >$top/io.cost.model; then
    full nvme0
    within $top/limited bash -c "load reads --filename=/dev/$dev --rw=randread --bs=4k --size=1g \
        --ioengine=psync --number_ios=100"
    stop
    echo "$number enable=0" >$top/io.cost.qos
fi
