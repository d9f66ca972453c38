#!/usr/bin/env bash
# More than one ring of events: 16 CPUs in two groups. All of them at work, only one of them, most of
# the load in one group, and a reader that stops.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
all_cpus
dev=$(disk nvme0)
echo none >"/sys/block/$dev/queue/scheduler"
echo 2 >"/sys/block/$dev/queue/nomerges"
settled

# on CPUS JOBS COMMANDS NAME: as many jobs, each on one CPU of the list, in turn
on() {
    load "$4" --filename="/dev/$dev" --rw=randrw --bs=4k --size=1g --ioengine=libaio --iodepth=8 \
        --cpus_allowed="$1" --cpus_allowed_policy=split --numjobs="$2" --number_ios=$(($3 / $2))
}

begin all
count_events
tool json trace --events --stages=none --json --ctrl nvme0
tool record record -o /tmp/all.nvd --ctrl nvme0
traced
bpftool map show >"$case_dir/maps"
on 0-15 16 8000 load
events_counted
stop
refused from "$NVME_DEEP" trace --json --from /tmp/all.nvd

begin one
tool json trace --events --stages=none --json --ctrl nvme0 --no-admin
traced
on 15 1 100 load
# all of it is shown although the other ring stays empty
for ((i = 0; i < 600; i++)); do
    (($(grep -c '"type":"complete"' "$case_dir/json.out") < 100)) || break
    sleep 0.05
done
grep -c '"type":"complete"' "$case_dir/json.out" >"$case_dir/shown"
stop

begin skew
count_events
tool json trace --json --stages=fine --ctrl nvme0 --no-admin
traced
on 12 1 400 light &
on 0-7 8 4000 load
wait $!
events_counted
stop

begin stopped
count_events
tool json trace --events --stages=none --json --buffer 128K --ctrl nvme0 --no-admin
traced
kill -STOP "$tool_pid"
on 0-15 16 16000 load
events_counted
kill -CONT "$tool_pid"
stop
