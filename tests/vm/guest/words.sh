#!/usr/bin/env bash
# The command line as a user meets it: without privileges, with wrong arguments, stopped in a run.
. "$(dirname "$0")/lib.sh"

begin refused
refused unprivileged setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
    "$NVME_DEEP" latency
refused no_controller "$NVME_DEEP" latency --ctrl nvme7
refused no_namespace "$NVME_DEEP" latency --nsid 9
refused unknown_opcode "$NVME_DEEP" latency --opcode raed
refused no_cgroup "$NVME_DEEP" trace --cgroup /sys/fs/cgroup/missing

begin signals
module_users >"$case_dir/users.before"
fio --name=load --filename="/dev/$(disk nvme0)" --rw=randrw --bs=4k --size=1g --direct=1 \
    --ioengine=libaio --iodepth=16 --time_based --runtime=120 --thread=1 >/dev/null 2>&1 &
load_pid=$!
# `stop` sends INT in all other cases
for signal in TERM HUP; do
    tool "$signal" latency --stages=fine --json 0.3
    traced
    sleep 1
    stop "$signal"
done
# as `timeout` does, which signals the process and its group: two signals, and one request to stop
tool twice latency --json 0.3
traced
sleep 1
kill -INT "$tool_pid"
kill -TERM "$tool_pid"
finished
tool duration latency --stages --json --duration 1s
finished
tool count latency --stages 0.4 3
finished
tool delta latency --stages --json --delta 0.4 3
finished
# the reader goes after some lines
status=0
"$NVME_DEEP" trace --stages --json 2>"$case_dir/pipe.err" | head -n 5 >"$case_dir/pipe.out" || status=$?
echo "$status" >"$case_dir/pipe.status"
kill "$load_pid"
wait "$load_pid" || true
module_users >"$case_dir/users.after"

begin nothing
for ctrl in /sys/class/nvme/nvme*; do
    basename "$(readlink -f "$ctrl/device")" >/sys/bus/pci/drivers/nvme/unbind
done
refused no_nvme "$NVME_DEEP" latency
