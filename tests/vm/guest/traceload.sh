#!/usr/bin/env bash
# No event is lost silently: many commands, a ring that is large enough, a ring that is too small, a
# reader that is slow or stops, a disk that is full. The kernel's counts are the reference.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
# Results go to memory first: the host's files are slower than the load.
out=/tmp/out
trap 'cp -r /tmp/out /mnt/out; dmesg >/mnt/dmesg' EXIT
dev=$(disk nvme0)
echo none >"/sys/block/$dev/queue/scheduler"
echo 2 >"/sys/block/$dev/queue/nomerges"
settled

# many NAME COMMANDS: four jobs, with 32 commands in flight each, in batches of 16
many() {
    load "$1" --filename="/dev/$dev" --rw=randrw --bs=4k --size=1g --ioengine=libaio --iodepth=32 \
        --iodepth_batch_submit=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16 \
        --numjobs=4 --number_ios=$(($2 / 4))
}

begin full
count_events
tool json trace --events --stages=none --json --ctrl nvme0
traced
stat_of before "$dev"
many load 8000
stat_of after "$dev"
events_counted
stop
begin full-text
count_events
tool text trace --time mono --events --stages=none --ctrl nvme0 --no-admin
tool pairs trace --json --stages=fine --ctrl nvme0 --no-admin
traced
many load 4000
events_counted
stop

begin stopped
count_events
tool json trace --events --stages=none --json --buffer 64K --ctrl nvme0 --sq
traced
kill -STOP "$tool_pid"
many load 4000
events_counted
kill -CONT "$tool_pid"
stop
begin stopped-pairs
count_events
tool json trace --stages=none --json --buffer 64K --ctrl nvme0
traced
kill -STOP "$tool_pid"
many load 2000
events_counted
kill -CONT "$tool_pid"
stop

# A reader that sleeps: the pipe fills, then the ring.
begin sleeping
count_events
mkfifo /tmp/pipe
{ sleep 12; cat; } </tmp/pipe >"$case_dir/json.out" &
reader=$!
"$NVME_DEEP" trace --events --stages=none --json --buffer 64K --ctrl nvme0 >/tmp/pipe 2>"$case_dir/json.err" &
tools=("$!:json")
traced
many load 4000
events_counted
stop
wait "$reader"

mkdir /tmp/small
mount -t tmpfs -o size=1m small /tmp/small
for form in text json; do
    begin "disk-$form"
    words=(trace --ctrl nvme0)
    if [[ $form == text ]]; then words+=(--long); else words+=(--json); fi
    count_events
    "$NVME_DEEP" "${words[@]}" >"/tmp/small/$form" 2>"$case_dir/$form.err" &
    tools=("$!:$form")
    traced
    many load 6000
    sleep 1
    events_counted
    stop
    cp "/tmp/small/$form" "$case_dir/$form.out"
    rm "/tmp/small/$form"
done
