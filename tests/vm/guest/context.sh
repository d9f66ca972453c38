#!/usr/bin/env bash
# What is observed with conditions. nvme0 answers at once, nvme1 after 400 ms, nvme2 takes 8 KiB in a
# command. boot.sh writes each doorbell that QEMU sees to /mnt/qemu.log; the trace does not name the
# controller, so each case loads only one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
settled

# rung WHEN: counts the writes to doorbells of submission queues so far
rung() {
    grep -c 'doorbell_sq sqid 0,\? ' /mnt/qemu.log >"$case_dir/admin.$1" || true
    grep -c 'doorbell_sq sqid [1-9]' /mnt/qemu.log >"$case_dir/io.$1" || true
}

# observe CTRL: starts to record, without filters but the controller
observe() {
    tool record trace --context --stages=fine --tee "$case_dir/file" --ctrl "$1"
    traced
    rung before
}

# also_full CTRL: the same with the waits before the request, whose table has the waits for tags
also_full() {
    tool full record -o "$case_dir/full" --ctrl "$1"
    traced
}

# Commands one at a time, from a CPU with its own queue.
begin doorbells
observe nvme0
taskset -c 0 dd if="/dev/$(disk nvme0)" of=/dev/null bs=4k count=300 iflag=direct status=none
python3 "$here/context.py" identify nvme0 20
rung after
stop

# Batches: one doorbell for several commands.
begin batches
echo 2 >"/sys/block/$(disk nvme0)/queue/nomerges" # otherwise two adjacent requests may become one command
observe nvme0
load batches --filename="/dev/$(disk nvme0)" --rw=randread --bs=4k --number_ios=800 --size=64m \
    --ioengine=libaio --iodepth=16 --iodepth_batch_submit=8 --iodepth_batch_complete_min=8
rung after
stop

# Eight threads on one queue with four tags, and with enough.
for tags in 4 64; do
    begin "tags-$tags"
    echo "$tags" >"/sys/block/$(disk nvme1)/queue/nr_requests"
    observe nvme1
    also_full nvme1
    python3 "$here/context.py" threads "$(disk nvme1)" 8
    stop
done

# The CPU of the interrupt computes. Then it does not.
for what in busy idle; do
    begin "$what"
    observe nvme1
    hog=''
    if [[ $what == busy ]]; then
        taskset -c 0 bash -c 'while :; do :; done' &
        hog=$!
    fi
    taskset -c 0 dd if="/dev/$(disk nvme1)" of=/dev/null bs=4k count=5 iflag=direct status=none
    [[ -z $hog ]] || kill "$hog"
    stop
done

# 20 requests of 64 KiB, each in eight commands.
begin splits
observe nvme2
also_full nvme2
dd if="/dev/$(disk nvme2)" of=/dev/null bs=64k count=20 iflag=direct status=none
stop

# Reads and writes of one page each: with swiotlb=force each has a bounce buffer.
begin bounces
observe nvme0
dd if="/dev/$(disk nvme0)" of=/dev/null bs=4k count=100 iflag=direct status=none
dd if=/dev/zero of="/dev/$(disk nvme0)" bs=4k count=50 oflag=direct status=none
stop

# Not asked for: not loaded.
begin without
tool record record --stages fine -o "$case_dir/file"
traced
bpftool prog show >"$case_dir/programs"
bpftool map show >"$case_dir/maps"
dd if="/dev/$(disk nvme0)" of=/dev/null bs=4k count=10 iflag=direct status=none
stop
