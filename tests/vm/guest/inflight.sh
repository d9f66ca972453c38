#!/usr/bin/env bash
# Commands that are stuck, each for another reason. nvme0 answers at once, nvme1 after 26 s, except
# for the partition table. The driver's timeout is 60 s.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
plant() { python3 -B "$here/plant.py" "$@"; }
fast=/dev/$(disk nvme0)
slow=/dev/$(disk nvme1)

# one_read CPU DISK BLOCK: a read of 4 KiB on a CPU, in the background
one_read() {
    taskset -c "$1" dd if="$2" of=/dev/null bs=4k count=1 skip="$3" iflag=direct status=none &
}

# look NAME OPTION...: what is in flight, as JSON and as text
look() {
    local name=$1
    shift
    refused "$name" "$NVME_DEEP" inflight --json "$@"
    refused "$name-text" "$NVME_DEEP" inflight "$@"
}

# diagnosis: what is stuck, by `diagnose`, of a run that sees no command end
diagnosis() { refused diagnosis "$NVME_DEEP" diagnose --duration 1s --check --json "$@"; }

# in_flight CTRL N: waits until the kernel has N reads in flight
in_flight() {
    local i
    for ((i = 0; i < 1800; i++)); do
        [[ $(<"/sys/block/$(disk "$1")/inflight") =~ ^\ *$2\ +0$ ]] && return
        sleep 0.05
    done
    echo "$1 does not have $2 reads in flight"
    return 1
}

# twice_more FILE TEXT: waits until the file has two more lines with the text
twice_more() {
    local i before
    before=$(grep -c "$2" "$1" || true)
    for ((i = 0; i < 1800; i++)); do
        (($(grep -c "$2" "$1" || true) < before + 2)) || return 0
        sleep 0.05
    done
    echo "$1 does not grow"
    return 1
}

# quiet CTRL: waits until the kernel has read the partition table, which takes several commands.
# 5.10 adds the queue only then.
quiet() {
    local i=0 disk
    disk=/sys/block/$(disk "$1")
    while ((i < 25)); do
        [[ -e $disk/queue/nomerges && $(<"$disk/inflight") =~ ^\ *0\ +0$ ]] && ((++i)) || i=0
        ((SECONDS < 300)) || { echo "$1 is not quiet"; return 1; }
        sleep 0.1
    done
    echo 2 >"$disk/queue/nomerges"
}
quiet nvme0
quiet nvme1

begin idle
look idle

# A healthy load: commands in flight, and none is old.
begin load
fio --name=load --filename="$fast" --rw=randread --bs=4k --size=512m --ioengine=libaio --iodepth=16 \
    --direct=1 --time_based=1 --runtime=600 --thread=1 --output=/dev/null </dev/null &
load=$!
sleep 1
for n in 1 2 3 4 5; do look load-$n; done
refused interval "$NVME_DEEP" inflight --json 300ms 5
kill "$load"
wait "$load" || true
# nvme0 reports that it is too hot. Programs are not attached beside the load: see boot.sh (int3).
tool hot diagnose --log --duration 5s --json --ctrl nvme0
traced
load reads --filename="$fast" --rw=randread --bs=4k --size=512m --ioengine=libaio --iodepth=4 \
    --number_ios=400
finished

# The device holds two reads on nvme1.
begin held
one_read 0 "$slow" 100
one_read 1 "$slow" 200
in_flight nvme1 2
sleep 2
look held
refused held-twice "$NVME_DEEP" inflight --json 200ms 2
diagnosis
refused held-ctrl "$NVME_DEEP" inflight --json --ctrl nvme0
refused held-old "$NVME_DEEP" inflight --json --age 1h --old
wait

# The interrupt of a queue is masked. CPU and queue have different numbers on some kernels.
begin masked
vector=1
cpu=$(cut -d , -f 1 "/sys/block/$(disk nvme0)/mq/0/cpu_list")
plant mask nvme0 $vector
one_read "$cpu" "$fast" 300
in_flight nvme0 1
sleep 1
look masked
diagnosis
plant unmask nvme0 $vector
wait
look after

# A run observes what is set up during it: 400 reads, one that is held, and one whose interrupt is
# masked. A later run has observed none.
begin observed
tool observed inflight --json 1s --age 10x --kstack
tool text inflight 1s --age 10x --kstack
traced
load reads --filename="$fast" --rw=randread --bs=4k --size=512m --ioengine=libaio --iodepth=4 \
    --number_ios=400 --cpus_allowed=0
plant mask nvme0 $vector
one_read "$cpu" "$fast" 700
one_read 1 "$slow" 800
in_flight nvme0 1
in_flight nvme1 1
sleep 1
twice_more "$case_dir/observed.out" inflight
twice_more "$case_dir/text.out" 'AGE  DISK'
stop
refused later "$NVME_DEEP" inflight 500ms 1 --age 10x --kstack
plant unmask nvme0 $vector
wait

# The controller does not see the doorbell of a queue.
begin unseen
plant deafen nvme0 1 >"$case_dir/deafen"
one_read "$cpu" "$fast" 400
in_flight nvme0 1
sleep 1
look unseen
diagnosis
plant cure nvme0 1 >"$case_dir/cure"
one_read "$cpu" "$fast" 500
wait
look after

# Removal while it reads.
begin removed
pids=()
: >"$case_dir/during.out"
(while [[ -e /sys/class/nvme/nvme1 ]]; do "$NVME_DEEP" inflight --json >>"$case_dir/during.out" 2>>"$case_dir/during.err" || exit $?; done) &
pids+=($!)
one_read 0 "$slow" 600
in_flight nvme1 1
twice_more "$case_dir/during.out" inflight
# The removal stops both CPUs until the read (26 s) has ended. Less than 14 s of it are left: after 20 s the
# kernel reports a soft lockup.
sleep 12
echo 1 >/sys/class/nvme/nvme1/reset_controller &
echo 1 >"/sys/class/nvme/nvme1/device/remove" || true
status=0
wait "${pids[0]}" || status=$?
echo "$status" >"$case_dir/during.status"
wait || true
look after
begin words
refused no-ctrl "$NVME_DEEP" inflight --ctrl nvme7
refused age "$NVME_DEEP" inflight --age soon
refused times "$NVME_DEEP" inflight --age 10x
refused kstack "$NVME_DEEP" inflight --kstack
refused nobody setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$NVME_DEEP" inflight
refused hidden sh -c 'echo 2 >/proc/sys/kernel/kptr_restrict; exec "$0" inflight' "$NVME_DEEP"
