#!/usr/bin/env bash
# Commands that are stuck, each for another reason. nvme0 answers at once, nvme1 after 20 s. The
# driver's timeout is 60 s.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
plant() { python3 -B "$here/plant.py" "$@"; }
fast=/dev/$(disk nvme0)
slow=/dev/$(disk nvme1)
for n in 0 1; do echo 2 >"/sys/block/$(disk nvme$n)/queue/nomerges"; done

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

# The device holds two reads on nvme1.
begin held
one_read 0 "$slow" 100
one_read 1 "$slow" 200
sleep 2
look held
look held-ctrl --ctrl nvme0
look held-old --age 1h --old
refused held-twice "$NVME_DEEP" inflight --json 200ms 2
wait

# The interrupt of a queue is masked.
begin masked
vector=1
plant mask nvme0 $vector
one_read 0 "$fast" 300
sleep 2
look masked
plant unmask nvme0 $vector
wait
look after

# The controller does not see the doorbell of a queue.
begin unseen
plant deafen nvme0 1 >"$case_dir/deafen"
one_read 0 "$fast" 400
sleep 2
look unseen
plant cure nvme0 1 >"$case_dir/cure"
one_read 0 "$fast" 500
wait
look after

# Removal while it reads.
begin removed
pids=()
(while [[ -e /sys/class/nvme/nvme1 ]]; do "$NVME_DEEP" inflight --json >>"$case_dir/during.out" 2>>"$case_dir/during.err" || exit $?; done) &
pids+=($!)
one_read 0 "$slow" 600
sleep 2
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
refused nobody setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$NVME_DEEP" inflight
refused hidden sh -c 'echo 2 >/proc/sys/kernel/kptr_restrict; exec "$0" inflight' "$NVME_DEEP"
