#!/usr/bin/env bash
# Waits before the request, each with a cause that is known: a limit of a cgroup, a queue with four
# tags, a queue that is frozen for a change of its scheduler, writeback throttling, io.cost, zones. Also bios
# that are split and merged, commands that have none, bios that may not wait, and a retry.
. "$(dirname "$0")/lib.sh"

io_cgroups

dev=$(disk nvme0)
slow=$(disk nvme1)
zoned=$(disk nvme3)
faulty=$(disk nvme2)
queue=/sys/block/$dev/queue
number=$(<"/sys/block/$dev/dev")

# full CTRL: histograms by the programs for these alone, which have no filter, and those of single commands
full() {
    tool histograms latency --stages=full --json -v
    tool commands latency --stages=full --json --commands --hist --no-admin --ctrl "$1"
    traced
}

# alone CTRL: single commands, and their histograms
alone() {
    tool commands latency --stages=full --json --commands --hist -v --no-admin --ctrl "$1"
    traced
}

# watched VALUE: with 1 ftrace also notes waits for tags, and requests, if the kernel has the event
watched() {
    local events=/sys/kernel/tracing/events/block
    [[ -e $events/block_rq_tag_wait ]] || return 0
    echo "$1" >$events/block_rq_tag_wait/enable
    echo "$1" >$events/block_getrq/enable
}

# within CGROUP COMMAND...: runs a command in a cgroup
within() {
    # shellcheck disable=SC2016 # the inner shell expands these
    bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$@"
}

begin plain
tool file record --no-admin --ctrl nvme0 -o "$case_dir/file.ndr"
full nvme0
stat_of before "$dev"
load reads --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=psync --number_ios=300
load batches --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=libaio --iodepth=16 \
    --iodepth_batch=16 --iodepth_batch_complete_min=16 --number_ios=320
load split --filename="/dev/$dev" --rw=read --bs=4m --size=64m --ioengine=psync
load merged --filename="/dev/$dev" --rw=write --bs=4k --size=4m --ioengine=psync --direct=0 --end_fsync=1
stat_of after "$dev"
stop
refused recorded "$NVME_DEEP" latency --from "$case_dir/file.ndr" --stages=full --json

# 16 reads at a time, each behind the former one: blk-mq merges them
begin merges
tool file record --no-admin --ctrl nvme0 -o "$case_dir/file.ndr"
traced
load reads --filename="/dev/$dev" --rw=read --bs=4k --size=4m --ioengine=libaio --iodepth=16 --iodepth_batch=16 \
    --iodepth_batch_complete_min=16 --number_ios=320
stop
refused merged "$NVME_DEEP" trace --from "$case_dir/file.ndr" --json --stages=full

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

# 4 reads in a second: on a busy host fio takes 2.5 ms more than the tool sees
begin bytes
echo "$number rbps=524288" >$top/limited/io.max
alone nvme0
within $top/limited bash -c "load reads --filename=/dev/$dev --rw=randread --bs=128k --size=1g \
    --ioengine=psync --number_ios=24 --write_lat_log=$case_dir/each"
stop
cat $top/limited/io.stat >"$case_dir/io.stat"
echo "$number rbps=max" >$top/limited/io.max

begin tag
tags=$(<"$queue/nr_requests")
echo 4 >"$queue/nr_requests"
full nvme0
watched 1
load reads --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=psync --numjobs=16 \
    --number_ios=30
watched 0
stop
cat /sys/kernel/tracing/trace >"$case_dir/events"
echo "$tags" >"$queue/nr_requests"

# One read at a time, of 300 ms. fio notes how long it took from each submission to its end.
begin depth
alone nvme1
load reads --filename="/dev/$slow" --rw=randread --bs=4k --size=1g --ioengine=psync --number_ios=9 \
    --write_lat_log="$case_dir/each"
stop

# The change waits until the first read, of 300 ms, is done, and the second read waits for the change.
begin freeze
full nvme1
python3 "$(dirname "$0")/frozen.py" "$slow" mq-deadline >"$case_dir/took"
stop

# the same, from a scheduler to none
begin thaw
alone nvme1
python3 "$(dirname "$0")/frozen.py" "$slow" none >"$case_dir/took"
stop
cat "/sys/block/$slow/queue/scheduler" >"$case_dir/scheduler"

# With a scheduler, reads wait for a tag of the scheduler. Those that may not are submitted again.
begin nowait
echo mq-deadline >"$queue/scheduler"
echo 4 >"$queue/nr_requests"
alone nvme0
python3 "$(dirname "$0")/nowait.py" "$dev" 16 30 >"$case_dir/reads"
stop
echo none >"$queue/scheduler"
echo "$tags" >"$queue/nr_requests"

# The sixth read fails, and is tried again.
begin retry
echo "$(<"/sys/block/$faulty/dev") riops=10" >$top/limited/io.max
alone nvme2
within $top/limited dd "if=/dev/$faulty" of=/dev/null bs=4k skip=995 count=8 iflag=direct
stop

begin wbt
echo 1 >"$queue/wbt_lat_usec"
full nvme0
load writes --filename="/dev/$dev" --rw=randwrite --bs=4k --size=16m --ioengine=psync --direct=0 \
    --end_fsync=1
stop

# 8 writes at a time to one zone, which takes one at a time, of 20 ms
begin zone
echo 2 >"/sys/block/$zoned/queue/nomerges"
# before zone write plugging, a scheduler keeps the order; the kernel's default has none (seen on 6.1)
grep -q ' blk_zone_plug_bio$' /proc/kallsyms || echo mq-deadline >"/sys/block/$zoned/queue/scheduler"
alone nvme3
load writes --filename="/dev/$zoned" --rw=write --bs=4k --size=1g --ioengine=libaio --iodepth=8 \
    --zonemode=zbd --number_ios=60 --write_lat_log="$case_dir/each"
stop
cat "/sys/block/$zoned/queue/scheduler" >"$case_dir/scheduler"

# Two zones at a time, with a scheduler. Large writes are split, and small ones that wait are merged.
begin zones
echo 0 >"/sys/block/$zoned/queue/nomerges"
echo mq-deadline >"/sys/block/$zoned/queue/scheduler"
two=(--filename="/dev/$zoned" --rw=write --size=64m --ioengine=libaio --numjobs=2 --offset_increment=64m --zonemode=zbd)
alone nvme3
load large "${two[@]}" --offset=64m --bs=1m --iodepth=4 --number_ios=8
load small "${two[@]}" --offset=256m --bs=16k --iodepth=8 --number_ios=64
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
