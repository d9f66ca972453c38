#!/usr/bin/env bash
# Causes of latency, planted one after the other, and recorded for `diagnose`. lab.plants= on the
# kernel command line selects a part: those of one machine. Each recording is
# /mnt/out/plants/NAME.nvd; that of its control, without the cause, has "-control" in its name.
# With lab.short there are no controls, and one clean run: a closed loop at a constant depth, without a
# limit. With lab.runs=N all of it runs N times; the further recordings are in plants-2, plants-3, ...
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
plant() { python3 -B "$here/plant.py" "$@"; }

# left_out NAME: whether this run is left out
left_out() { [[ $(</proc/cmdline) == *lab.short* && $1 == *-@(control|depth1|mixed|open|capped) ]]; }

# run NAME CTRL FIO-OPTION...: records a load of some seconds
run() {
    local name=$1 ctrl=$2
    shift 2
    ! left_out "$name" || return 0
    record "$name" "$ctrl"
    on "$name" "$ctrl" "${seconds:-6}" "$@"
    stop
}

# record NAME [CTRL]: starts a recording, of all controllers without CTRL
record() {
    tool "$1" record -o "$case_dir/$1.nvd" --no-admin ${2:+--ctrl "$2"}
    traced
}

# on NAME CTRL SECONDS FIO-OPTION...: runs a load
on() {
    local name=$1 ctrl=$2 runtime=$3
    shift 3
    load "$name" --eta=never --filename="/dev/$(disk "$ctrl")" --size=512m --ioengine=libaio --time_based \
        --runtime="$runtime" "$@"
}

# reads 4 KiB at random, 4 at a time
reads=(--rw=randread --bs=4k --iodepth=4)

# varied NAME CTRL: records a load whose number of commands in flight varies
varied() {
    local n
    ! left_out "$1" || return 0
    record "$1" "$2"
    on "$1" "$2" 10 "${reads[@]}" &
    for n in 1 2 3; do
        on "$1-$n" "$2" 1500ms --rw=randread --bs=4k --iodepth=24
        sleep 1
    done
    wait $!
    stop
}

healthy() {
    run clean nvme0 "${reads[@]}"
    run clean-depth1 nvme0 --rw=randread --bs=4k --iodepth=1
    run clean-mixed nvme0 --rw=randrw --bs=16k --iodepth=8
}

# open: commands that wait for no other, at random times
open() {
    run clean-open nvme0 --rw=randread --bs=4k --iodepth=64 --rate_iops=400 --rate_process=poisson
}

# capped: a limit, at a constant depth. It does not show, and is not ruled out
capped() {
    run clean-capped nvme1 --rw=randread --bs=4k --iodepth=8
}

# both: two causes on two controllers at a time
both() {
    local n loads=()
    record flush-cost+rate-cap
    on both-flush nvme0 10 --rw=randwrite --bs=4k --iodepth=1 --fsync=1 & loads+=($!)
    on both nvme1 10 "${reads[@]}" & loads+=($!)
    for n in 1 2 3; do
        on "both-$n" nvme1 1500ms --rw=randread --bs=4k --iodepth=24
        sleep 1
    done
    wait "${loads[@]}"
    stop
}

# trims: large deallocations beside reads
trims() {
    record clean-trims nvme0
    load trims --eta=never --filename="/dev/$(disk nvme0)" --size=1g --ioengine=libaio --time_based --runtime=6 \
        --rw=trim --bs=128m --iodepth=1 --rate_iops=1 &
    on clean-trims nvme0 6 "${reads[@]}"
    wait $!
    stop
}

tags() {
    # few tags: requests wait for one
    local queue
    queue=/sys/block/$(disk nvme0)/queue
    local tags
    tags=$(<"$queue/nr_requests")
    echo 4 >"$queue/nr_requests"
    run tag-wait nvme0 --rw=randread --bs=4k --iodepth=1 --numjobs=16
    echo "$tags" >"$queue/nr_requests"
    run tag-wait-control nvme0 --rw=randread --bs=4k --iodepth=1 --numjobs=16
}

devices() {
    healthy

    # flushes, with a volatile write cache
    run flush-cost nvme0 --rw=randwrite --bs=4k --iodepth=1 --fsync=1
    run flush-cost-control nvme0 --rw=randwrite --bs=4k --iodepth=1

    tags

    # a limit, with a number of commands in flight that varies
    varied rate-cap nvme1
    varied rate-cap-control nvme0

    open
    capped
    both
    [[ $(</proc/cmdline) == *lab.short* ]] || trims

    # for `make test`; the other waits have a machine of their own
    [[ $(</proc/cmdline) != *lab.short* ]] || limited

    # requests above the device's limit (MDTS: 8 KiB)
    run split nvme2 --rw=randread --bs=64k --iodepth=2
    run split-control nvme0 --rw=randread --bs=64k --iodepth=2

    # failures of a sector: retried, then failed
    run errors-timeout nvme3 --rw=randread --bs=4k --iodepth=2 --size=64k --ignore_error=EIO,EIO --continue_on_error=read || true
    run errors-timeout-control nvme0 --rw=randread --bs=4k --iodepth=2 --size=64k
}

# strays: single commands that wait, beside a load
strays() {
    echo 3000 >"/sys/block/$(disk nvme0)/queue/io_timeout"
    # the interrupt of queue 1 is masked: the driver's poll finds the CQEs after the timeout
    plant mask nvme0 1
    run lost-interrupt nvme0 --rw=randread --bs=4k --iodepth=1 --cpus_allowed=0
    plant unmask nvme0 1
    echo 30000 >"/sys/block/$(disk nvme0)/queue/io_timeout"
    run lost-interrupt-control nvme0 --rw=randread --bs=4k --iodepth=1 --cpus_allowed=0

    # the controller does not see a doorbell of queue 1 until the next one
    local n
    record doorbell-unseen nvme0
    on doorbell-unseen nvme0 3 "${reads[@]}" --cpus_allowed=0
    for n in 1 2 3; do
        plant deafen nvme0 1 >>"$case_dir/deafen"
        taskset -c 0 dd if="/dev/$(disk nvme0)" of=/dev/null bs=4k count=1 skip=$((n * 100)) iflag=direct status=none &
        sleep 1
        plant cure nvme0 1 >>"$case_dir/deafen"
        taskset -c 0 dd if="/dev/$(disk nvme0)" of=/dev/null bs=4k count=1 skip=$((n * 200)) iflag=direct status=none
        wait $!
    done
    stop
}

# served: storage with faults
served() {
    # single reads are held for 700 ms
    seconds=10 run held-by-device nvme0 "${reads[@]}"
    # reads beside discards take three times as long
    record discard-storm nvme1
    # the NBD client of QEMU 7.2 may block reads beside a trim: the trims have their own connection
    load discard-storm-trim --eta=never --filename="/dev/$(disk nvme1 2)" --size=512m --ioengine=libaio \
        --time_based --runtime=8 --rw=randtrim --bs=1m --iodepth=1 --rate_iops=5 &
    on discard-storm nvme1 8 "${reads[@]}"
    wait $!
    stop
    run discard-storm-control nvme1 "${reads[@]}"
}

# tcp: a target without a fault
tcp() {
    if ((number == 1)); then
        . "$here/target.sh"
        serve 1 tcp
    fi
    connect tcp
    run clean-tcp nvme2 "${reads[@]}"
    run clean-tcp-open nvme2 --rw=randread --bs=4k --iodepth=64 --rate_iops=400 --rate_process=poisson
    nvme disconnect --nqn=lab
}

# within NAME: records 4 reads at a time of the cgroup `limited`
within() {
    ! left_out "$1" || return 0
    record "$1" nvme0
    (
        echo "$BASHPID" >"$top/limited/cgroup.procs"
        on "$1" nvme0 6 "${reads[@]}"
    )
    stop
}

# limited: a cgroup may read 60 times a second
limited() {
    local number
    number=$(<"/sys/block/$(disk nvme0)/dev")
    io_cgroups
    echo "$number riops=60" >$top/limited/io.max
    within cgroup-throttle
    echo "$number riops=max" >$top/limited/io.max
    within cgroup-throttle-control
}

# costly: io.cost believes that the device can do 50 reads a second
costly() {
    local number
    number=$(<"/sys/block/$(disk nvme0)/dev")
    echo "$number enable=1 ctrl=user rpct=0 wpct=0 min=100 max=100" >$top/io.cost.qos
    echo "$number ctrl=user model=linear rbps=200000 rseqiops=50 rrandiops=50 wbps=200000 wseqiops=50 wrandiops=50" \
        >$top/io.cost.model
    within io-cost
    echo "$number enable=0" >$top/io.cost.qos
    within io-cost-control
}

# frozen: settings of the queue change all the time; each change freezes it
frozen() {
    local queue tags load
    queue=/sys/block/$(disk nvme0)/queue
    tags=$(<"$queue/nr_requests")
    record queue-freeze nvme0
    on queue-freeze nvme0 6 "${reads[@]}" &
    load=$!
    while kill -0 $load 2>/dev/null; do
        echo $((tags / 2)) >"$queue/nr_requests"
        sleep 0.02
        echo "$tags" >"$queue/nr_requests"
        sleep 0.02
    done
    wait $load
    stop
    run queue-freeze-control nvme0 "${reads[@]}"
}

# buffered NAME: records reads beside buffered writes
buffered() {
    ! left_out "$1" || return 0
    record "$1" nvme0
    load "$1-read" --eta=never --filename="/dev/$(disk nvme0)" --size=512m --ioengine=libaio --time_based \
        --runtime=8 --rw=randread --bs=4k --iodepth=2 &
    on "$1" nvme0 8 --rw=randwrite --bs=4k --ioengine=psync --direct=0 --numjobs=8 --fsync=64
    wait $!
    stop
}

# throttled: reads miss the target of writeback throttling: writes may have fewer and fewer in flight
throttled() {
    local target
    target=/sys/block/$(disk nvme0)/queue/wbt_lat_usec
    echo 2000 >"$target"
    buffered wbt
    echo 0 >"$target"
    buffered wbt-control
}

# mapped NAME TABLE FIO-OPTION...: records a load on a disk of device mapper
mapped() {
    local name=$1 table=$2
    shift 2
    ! left_out "$name" || return 0
    DM_DISABLE_UDEV=1 dmsetup create upper --table "0 1048576 $table"
    DM_DISABLE_UDEV=1 dmsetup mknodes upper
    record "$name"
    load "$name" --eta=never --filename=/dev/mapper/upper --size=512m --ioengine=libaio --time_based --runtime=6 "$@"
    stop
    DM_DISABLE_UDEV=1 dmsetup remove upper
}

# mirror LEG...: md9, a RAID 1 of these disks; without metadata, which disks that keep nothing cannot have
mirror() {
    local leg slot=0 array=/sys/block/md9/md
    echo md9 >/sys/module/md_mod/parameters/new_array
    echo none >$array/metadata_version
    echo raid1 >$array/level
    echo $# >$array/raid_disks
    for leg; do
        cat "/sys/block/$leg/dev" >$array/new_dev
        echo $((slot++)) >"$array/dev-$leg/slot"
    done
    echo 524288 >$array/component_size
    echo none >$array/resync_start
    echo active >$array/array_state
}

# above: dm-crypt works in work queues. Without these, the time above NVMe is small, as of a linear map, and of a
# RAID 1 that waits for its slow leg
above() {
    local disk crypt
    disk=$(disk nvme0)
    crypt="crypt aes-xts-plain64 $(printf '%064d' 7) 0 /dev/$disk 0"
    while read -r module; do insmod "/tmp/mods/$module" 2>/dev/null || true; done </tmp/mods/all
    mapped above-nvme "$crypt" --rw=randread --bs=64k --iodepth=8
    mapped above-nvme@inline-control "$crypt 2 no_read_workqueue no_write_workqueue" --rw=randread --bs=4k --iodepth=8
    mapped above-nvme-control "linear /dev/$disk 0" --rw=randread --bs=4k --iodepth=32
    left_out above-nvme@mirror-control && return
    mirror "$disk" "$(disk nvme1)"
    record above-nvme@mirror-control
    load mirror --eta=never --filename=/dev/md9 --size=512m --ioengine=libaio --time_based --runtime=6 \
        --rw=randrw --bs=4k --iodepth=8
    stop
    echo clear >/sys/block/md9/md/array_state
}

# shallow: mq-deadline lets writes have few of its tags
shallow() {
    local queue depth name
    queue=/sys/block/$(disk nvme0)/queue
    echo mq-deadline >"$queue/scheduler"
    depth=$queue/iosched/async_depth
    [[ -e $depth ]] || depth=$queue/async_depth
    for name in tag-wait@async-control tag-wait@async; do
        [[ $name == *-control ]] || echo 1 >"$depth"
        run "$name" nvme0 --rw=randwrite --bs=4k --iodepth=1 --numjobs=32
    done
    echo none >"$queue/scheduler"
}

# waits: what bios wait for before they have a request
waits() {
    limited
    costly
    frozen
    throttled
    shallow
}

# durable NAME [FIO-OPTION]: records writes to a file behind a target, half of them with this option
durable() {
    record "$1" nvme2
    on "$1-plain" nvme2 6 --rw=randwrite --bs=4k --iodepth=2 &
    on "$1" nvme2 6 --rw=randwrite --bs=4k --iodepth=2 --offset=256m "${@:2}"
    wait $!
    stop
}

# fua: QEMU ignores FUA. A target waits for the file system's journal instead
fua() {
    while read -r module; do insmod "/tmp/mods/$module" 2>/dev/null || true; done </tmp/mods/order
    mkfs.ext4 -q "/dev/$(disk nvme1)"
    mkdir /tmp/served
    mount "/dev/$(disk nvme1)" /tmp/served
    backing=/tmp/served/file
    fallocate -l 768m $backing
    . "$here/target.sh"
    serve 1 tcp
    connect tcp
    durable fua-cost --sync=dsync
    durable fua-cost-control
    nvme disconnect --nqn=lab
}

# failover: the target of a path says now and then that the path is not usable
failover() {
    local n ana
    . "$here/target.sh"
    serve 1 tcp
    ana=$target/ports/1/ana_groups/1/ana_state
    connect tcp
    record path-failover nvme2
    on path-failover nvme2 6 "${reads[@]}" &
    for n in 1 2 3; do
        sleep 1
        echo inaccessible >"$ana"
        sleep 0.3
        echo optimized >"$ana"
    done
    wait $!
    stop
    refused commands "$NVME_DEEP" trace --from "$case_dir/path-failover.nvd" --json --stages=full
    nvme disconnect --nqn=lab
}

# busy: the host's CPU has other work
busy() {
    run vcpu-stolen nvme0 "${reads[@]}"
}

# bounce: swiotlb=force
bounce() {
    run bounce nvme0 --rw=randread --bs=128k --iodepth=1
}

# iommu: an IOMMU with strict invalidation
iommu() {
    run iommu nvme0 --rw=randread --bs=128k --iodepth=1
}

# polled: polled queues that no command uses
polled() {
    # one thread per CPU of the polled queue
    run clean-polled nvme0 --rw=randread --bs=4k --ioengine=io_uring --hipri=1 --iodepth=4
    run not-polling nvme0 "${reads[@]}"
}

# small: eight entries in each queue
small() {
    echo mq-deadline >"/sys/block/$(disk nvme0)/queue/scheduler"
    echo 64 >"/sys/block/$(disk nvme0)/queue/nr_requests"
    run scheduler nvme0 --rw=randread --bs=4k --iodepth=48
    echo none >"/sys/block/$(disk nvme0)/queue/scheduler"

    # seven readers on each queue have its seven tags, and four of them if another namespace is in use
    local readers=(--rw=randread --bs=4k --iodepth=1 --numjobs=14 --cpus_allowed=0,1 --cpus_allowed_policy=split)
    run tag-wait@shared-control nvme0 "${readers[@]}"
    ! left_out tag-wait@shared || return 0
    record tag-wait@shared nvme0
    load neighbour --eta=never --filename="/dev/$(disk nvme0 2)" --size=512m --ioengine=libaio --time_based \
        --runtime=7 --rw=randread --bs=4k --iodepth=1 --numjobs=2 --cpus_allowed=0,1 --cpus_allowed_policy=split &
    on tag-wait@shared nvme0 6 "${readers[@]}"
    wait $!
    stop
}

# steady: loads without a cause
steady() {
    healthy
    open
    capped
}

part=$(grep -o 'lab\.plants=[a-z]*' /proc/cmdline)
runs=$(grep -o 'lab\.runs=[0-9]*' /proc/cmdline || echo =1)
for ((number = 1; number <= ${runs#*=}; number++)); do
    ((number == 1)) && begin plants || begin "plants-$number"
    "${part#*=}"
done
