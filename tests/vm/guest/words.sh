#!/usr/bin/env bash
# The command as its user meets it: without rights, with wrong words, stopped in the middle.
. "$(dirname "$0")/lib.sh"

# refused NAME COMMAND...: keeps what a command that should fail says, and its exit code
refused() {
    local name=$1 status=0
    shift
    "$@" >"$case_dir/$name.out" 2>"$case_dir/$name.err" </dev/null || status=$?
    echo "$status" >"$case_dir/$name.status"
}

module_users() {
    awk '/^nvme_core /{ print $3 }' /proc/modules
}

begin refused
refused unprivileged setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
    "$NVME_DEEP" latency
refused no_controller "$NVME_DEEP" latency --ctrl nvme7
refused no_namespace "$NVME_DEEP" latency --nsid 9
refused unknown_opcode "$NVME_DEEP" latency --opcode raed
# shellcheck disable=SC2016 # for the inner shell
refused no_btf unshare -m bash -c \
    'mount --bind /dev/null /sys/kernel/btf/vmlinux && exec "$0" latency' "$NVME_DEEP"

# The two capabilities without root: enough only where the driver is built in, because the kernel
# keeps the BTF of modules for CAP_SYS_ADMIN. It must say so.
begin capabilities
refused bpf_perfmon setpriv --reuid=65534 --regid=65534 --clear-groups \
    --inh-caps=+bpf,+perfmon --ambient-caps=+bpf,+perfmon "$NVME_DEEP" latency --duration 1s

begin signals
module_users >"$case_dir/users.before"
fio --name=load --filename="/dev/$(disk nvme0)" --rw=randrw --bs=4k --size=1g --direct=1 \
    --ioengine=libaio --iodepth=16 --time_based --runtime=120 --thread=1 >/dev/null 2>&1 &
load_pid=$!
for signal in INT TERM HUP; do
    tool "$signal" latency --stages=fine --json 0.3
    traced
    sleep 1
    stop "$signal"
done
tool duration latency --stages --json --duration 1s
finished
tool count latency --stages 0.4 3
finished
tool delta latency --stages --json --delta 0.4 3
finished
status=0
"$NVME_DEEP" latency --stages --json 0.2 2>"$case_dir/pipe.err" | head -n 1 >"$case_dir/pipe.out" ||
    status=$?
echo "$status" >"$case_dir/pipe.status"
kill "$load_pid"
wait "$load_pid" || true
module_users >"$case_dir/users.after"

begin nothing
for ctrl in /sys/class/nvme/nvme*; do
    basename "$(readlink -f "$ctrl/device")" >/sys/bus/pci/drivers/nvme/unbind
done
refused no_nvme "$NVME_DEEP" latency
