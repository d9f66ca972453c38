#!/usr/bin/env bash
# The driver, the device or the tool disappears during a run; a controller is reset. nvme0 answers
# at once, nvme1 after 20 ms.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"

attached >"$out.before"
settled

# There is no driver to trace at first, and later there is.
begin no-driver
drop_driver
refused latency "$NVME_DEEP" latency
refused doctor "$NVME_DEEP" doctor --json
bring_driver
measured auto --stages=fine

# Programs on trampolines hold the driver. kprobes do not, and are removed with the driver.
begin pinned
tool auto latency --json --stages=fine --ctrl nvme0 --no-admin
traced
release_all
refused rmmod rmmod nvme
bind_all
small 8
stop INT
release_all
refused rmmod-after rmmod nvme
bring_driver

begin unpinned
tool stages latency --json --stages --attach kprobe --ctrl nvme0 --no-admin
traced
drop_driver
finished
bring_driver
begin unpinned-core
tool total latency --json --attach kprobe --ctrl nvme0 --no-admin
traced
drop_driver
rmmod nvme_core
finished
insmod /tmp/mods/nvme-core.ko
bring_driver

three_cuts() {
    tool total latency --json "$@"
    tool basic latency --stages --json --commands --hist "$@"
    tool fine latency --stages=fine --json --commands --hist "$@"
    traced
}

# back: waits until nvme0 is there and the tools have noticed it, runs more commands, ends the case
back() {
    settled
    sleep 1.5 # the tool notices it within a second
    load after --filename="/dev/$(disk nvme0)" --rw=randread --bs=4k --size=512m --ioengine=libaio \
        --iodepth=8 --number_ios=100
    events_counted
    stop INT
}

begin unbound
count_events
three_cuts
endless "$(disk nvme0)"
busy "$(disk nvme0)" 200
echo "${pci[0]}" >/sys/bus/pci/drivers/nvme/unbind
no_load
echo "${pci[0]}" >/sys/bus/pci/drivers/nvme/bind
back

begin removed
count_events
three_cuts
endless "$(disk nvme0)"
busy "$(disk nvme0)" 200
echo 1 >"/sys/bus/pci/devices/${pci[0]}/remove"
no_load
echo 1 >/sys/bus/pci/rescan
back

# writes CTRL COUNT: the only writes to the controller
writes() {
    load "$1-$2" --filename="/dev/$(disk "$1")" --rw=randwrite --bs=4k --size=512m --ioengine=libaio \
        --iodepth=4 --number_ios="$2"
}

# Both controllers disappear and come back, each with the number of the other. The kernel may give
# freed memory to the next controller, so that addresses recorded earlier belong to other objects.
begin swapped
tool total latency --json
tool basic latency --stages --json --commands --hist
tool fine latency --stages=fine --json --commands --hist
traced
for _ in 1 2; do
    writes nvme0 150
    writes nvme1 40
    release_all
    bind_in_order 1 0
    sleep 1.5 # the tool notices it within a second
    writes nvme0 30
    writes nvme1 170
    release_all
    bind_all
    sleep 1.5
done
stop INT

# deaf PCI-ADDRESS: disables the device's access to the bus. The device cannot report completions
# and enters its failed state. A reset gives it access to the bus again.
deaf() {
    local config=/sys/bus/pci/devices/$1/config command
    command=$(od -An -tu1 -j4 -N1 "$config")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %02x $((command & ~4)))" | dd of="$config" bs=1 seek=4 conv=notrunc status=none
}

# The first reset waits for the commands at the device. Two more find the device dead and cancel
# the commands; the short admin_timeout makes the driver give up its first requests to it soon.
echo 3 >/sys/module/nvme_core/parameters/admin_timeout
for scheduler in none mq-deadline; do
    slow=$(disk nvme1)
    echo "$scheduler" >"/sys/block/$slow/queue/scheduler"
    echo 2 >"/sys/block/$slow/queue/nomerges"
    begin "reset-$scheduler"
    count_events
    tool raw latency --stages=fine --json --commands --hist --attach rawtp --ctrl nvme1 --no-admin
    three_cuts --ctrl nvme1 --no-admin
    stat_of before "$slow"
    load reads --filename="/dev/$slow" --rw=randread --bs=4k --size=512m --ioengine=libaio \
        --iodepth=16 --time_based --runtime=60 &
    load_pid=$!
    for kind in alive dead dead; do
        busy "$slow" 50
        [[ $kind == alive ]] || deaf "${pci[1]}"
        echo 1 >/sys/class/nvme/nvme1/reset_controller
    done
    busy "$slow" 50
    pkill -INT -P "$load_pid" -x fio
    wait "$load_pid" || true # fio fails if a signal ends it
    stat_of after "$slow"
    events_counted
    stop INT
done

# The tool receives SIGTERM while it attaches.
begin killed
for delay in 0 0.1 0.3 0.6 1; do
    tool "after-$delay" latency --stages=fine --json
    # bash with a trap may lose a signal that its child receives between fork and exec
    while [[ $(<"/proc/$tool_pid/comm") == bash ]]; do :; done
    sleep "$delay"
    stop TERM
done

begin end
cp "$out.before" "$case_dir/attached.before"
attached >"$case_dir/attached.after"
