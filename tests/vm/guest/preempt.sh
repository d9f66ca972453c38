#!/usr/bin/env bash
# Preemption: other tasks, which submit and complete commands on the same CPU, interrupt a task
# inside the tool's programs. Each command must still be counted once. nvme0 is polled; nvme1 is
# not.
#
# ALONE, TOGETHER: the number of reads for each tool alone (0: none runs alone), and for all tools
# together. The preemption modes share this number.
#
# HIDDEN: the mode is full, and debugfs cannot show it: it is not mounted, or the kernel is locked
# down. HIDDEN is the number of reads of each case.
#
# SCHEDULED: nothing but this many runs with a scheduler, each with missed completions.
. "$(dirname "$0")/lib.sh"
# Results go to memory first: the host's files are slower than the load.
out=/tmp/out
trap 'cp -r /tmp/out /mnt/out; dmesg >/mnt/dmesg' EXIT
: "${ALONE:=3600}" "${TOGETHER:=18000}"
polled=$(disk nvme0)
other=$(disk nvme1)
for dev in /sys/block/nvme*n*; do
    echo none >"$dev/queue/scheduler"
    echo 2 >"$dev/queue/nomerges" # otherwise two adjacent requests may become one command
done

# all_stats WHEN: keeps the kernel's counts of each disk, by controller and namespace
all_stats() {
    local ctrl nsid
    for ctrl in nvme0 nvme1; do
        for nsid in 1 2 3; do
            dev=$(disk "$ctrl" "$nsid") || continue
            echo "$ctrl $nsid $(<"/sys/block/$dev/stat")"
        done
    done >"$case_dir/stats.$1"
}

# start TOOL...: starts the tools and waits until they trace
start() {
    local name
    for name; do
        case $name in
            total) tool total latency --json ;;
            basic) tool basic latency --stages --json ;;
            fine) tool fine latency --stages=fine --json ;;
            trace) tool trace trace --events --stages --json ;;
            stacks) tool stacks stacks --json ;;
            # programs that ignore every 97th of their events: a build for tests has the options
            unrecovered) NVME_DEEP=$NVME_DEEP_FAULTY tool unrecovered latency --json --test-no-recovery --test-ignore complete_btf ;;
            ignore-*) NVME_DEEP=$NVME_DEEP_FAULTY tool "$name" latency --stages=fine --json --test-ignore "${name#ignore-}" ;;
            total-ignore-*) NVME_DEEP=$NVME_DEEP_FAULTY tool "$name" latency --json --test-ignore "${name#total-ignore-}" ;;
        esac
    done
    traced
}

# Six jobs, three on each of two CPUs: one polls, two are interrupted.
load_b() {
    local each=$(($1 / 6)) cpu n jobs=()
    for cpu in 0 1; do
        jobs+=(--name="poll$cpu" --filename="/dev/$polled" --ioengine=io_uring --hipri
            --cpus_allowed="$cpu")
        for n in a b; do
            jobs+=(--name="aio$cpu$n" --filename="/dev/$other" --ioengine=libaio --cpus_allowed="$cpu")
        done
    done
    fio --output-format=json --output="$case_dir/b.fio" --direct=1 --norandommap=1 --randrepeat=0 \
        --thread=1 --rw=randread --bs=4k --size=1g --iodepth=8 --number_ios="$each" \
        "${jobs[@]}" </dev/null
}

# Many submission methods at once.
load_a() {
    local pids=() pid
    local batch=(--iodepth=32 --iodepth_batch_submit=16 --iodepth_batch_complete_min=1
        --iodepth_batch_complete_max=16)
    load aio --filename="/dev/$other" --rw=randrw --bs=4k --size=1g --ioengine=libaio \
        --number_ios=600 "${batch[@]}" & pids+=($!)
    load uring --filename="/dev/$(disk nvme0 2)" --rw=randread --bs=4k --size=1g \
        --ioengine=io_uring --iodepth=16 --number_ios=600 & pids+=($!)
    load sqpoll --filename="/dev/$(disk nvme0 3)" --rw=randread --bs=4k --size=1g \
        --ioengine=io_uring --sqthread_poll=1 --iodepth=8 --number_ios=600 & pids+=($!)
    load hipri --filename="/dev/$polled" --rw=randread --bs=4k --size=1g --ioengine=io_uring \
        --hipri=1 --iodepth=8 --number_ios=600 & pids+=($!)
    load psync --filename="/dev/$other" --rw=randwrite --bs=4k --size=1g --ioengine=psync \
        --numjobs=2 --fsync=1 --number_ios=150 & pids+=($!)
    # One command each: the controller accepts at least 128 KiB per command.
    load large --filename="/dev/$(disk nvme0 2)" --rw=randread --bs=128k --size=1g \
        --ioengine=libaio --iodepth=2 --number_ios=100 & pids+=($!)
    for ((i = 0; i < 20; i++)); do
        nvme read "/dev/$other" -s "$i" -c 0 -z 512 -d /dev/null
        nvme id-ctrl /dev/nvme1 >/dev/null
    done >/dev/null 2>&1
    for pid in "${pids[@]}"; do wait "$pid"; done
}

# With a scheduler, a request gets another tag each time, and its slots wait for the next request
# with that tag.
load_sync() {
    local cpu jobs=()
    for cpu in 0 1; do
        jobs+=(--name="sync$cpu" --rw=randwrite --ioengine=psync --fsync=1 --numjobs=2
            --cpus_allowed="$cpu" --number_ios="$1")
    done
    jobs+=(--name=aio --rw=randread --ioengine=libaio --iodepth=32 --iodepth_batch_submit=16
        --number_ios="$1")
    fio --output-format=json --output="$case_dir/sync.fio" --filename="/dev/$other" --direct=1 \
        --norandommap=1 --randrepeat=0 --thread=1 --bs=4k --size=1g "${jobs[@]}" </dev/null
}

# run CASE LOAD COUNT TOOL...: runs one case
run() {
    local what=$1 load=$2 count=$3
    shift 3
    begin "$what"
    start "$@"
    all_stats before
    "$load" "$count"
    all_stats after
    sleep 0.3
    stop
}

switch=/sys/kernel/debug/sched/preempt

# hidden CASE TOOL...: one case, with what doctor says of the mode
hidden() {
    begin "$1"
    refused doctor "${as[@]}" "$NVME_DEEP" doctor --json
    run "$1" load_b "$HIDDEN" "${@:2}"
}

unmount_debugfs() {
    ! mountpoint -q /sys/kernel/debug/tracing || umount /sys/kernel/debug/tracing
    umount /sys/kernel/debug
}

if [[ -n ${HIDDEN:-} ]]; then
    if grep -q '\[integrity\]' /sys/kernel/security/lockdown; then
        ! grep -q full "$switch" # the kernel refuses it
        hidden locked basic fine trace
        exit
    fi
    echo full >"$switch"
    unmount_debugfs
    hidden unmounted basic fine trace
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups
        '--inh-caps=+bpf,+perfmon' '--ambient-caps=+bpf,+perfmon')
    hidden two-capabilities basic fine trace
    as=()
    mount -t debugfs debug /sys/kernel/debug
    echo voluntary >"$switch"
    unmount_debugfs
    begin voluntary
    refused doctor "$NVME_DEEP" doctor --json
    exit
fi

if [[ -n ${SCHEDULED:-} ]]; then
    grep -q lazy "$switch" && echo lazy >"$switch"
    echo mq-deadline >"/sys/block/$other/queue/scheduler"
    for ((n = 0; n < SCHEDULED; n++)); do
        run "scheduled$n" load_sync 2000 total-ignore-complete_btf
    done
    exit
fi

modes=(rt)
if [[ -e $switch ]]; then
    modes=(full)
    ! grep -q lazy "$switch" || modes+=(lazy)
fi
for mode in "${modes[@]}"; do
    [[ $mode == rt ]] || echo "$mode" >"$switch"
    share=$((TOGETHER / ${#modes[@]}))
    run "$mode-b" load_b "$share" total basic fine trace stacks
    each=$((ALONE / ${#modes[@]}))
    ((each > 0)) || continue
    for name in total basic fine trace stacks; do
        run "$mode-b-$name" load_b "$each" "$name"
    done
done
case ${modes[0]}-$(uname -r) in
    full-[7-9]*) run "$mode-faults" load_b 3000 ignore-setup_out_btf ignore-complete_btf \
        ignore-setup_out_btf,complete_btf ignore-cqe_btf,complete_btf \
        ignore-setup_out_btf,queue_rq_fexit ;;
esac
echo mq-deadline >"/sys/block/$other/queue/scheduler"
run "$mode-a" load_a 0 total basic fine trace
case ${modes[0]}-$(uname -r) in
    full-[7-9]*) run "$mode-sync" load_sync 2000 total-ignore-complete_btf ;;
esac
echo none >"/sys/block/$other/queue/scheduler"
# without recovery of commands, for comparison
case ${modes[0]}-$(uname -r) in
    full-[7-9]*) run "$mode-not" load_b 6000 unrecovered total ;;
esac
