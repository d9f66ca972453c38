#!/usr/bin/env bash
# The driver, the device or the tool goes away in the middle; a controller is reset. nvme0 answers
# at once, nvme1 after 20 ms.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"

attached >"$out.before"
settled

# Nothing to trace, and then something.
begin no-driver
drop_driver
refused latency "$NVME_DEEP" latency
refused doctor "$NVME_DEEP" doctor --json
bring_driver
measured auto --stages=fine

# Programs on trampolines hold the driver; kprobes don't, and it takes them along.
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
    tool cheap latency --stages --json --commands --hist "$@"
    tool fine latency --stages=fine --json --commands --hist "$@"
    traced
}

# back: nvme0 is there again and has been noticed; some commands more
back() {
    settled
    sleep 1.5 # it is noticed within a second
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

# writes CTRL COUNT: nobody but us writes
writes() {
    load "$1-$2" --filename="/dev/$(disk "$1")" --rw=randwrite --bs=4k --size=512m --ioengine=libaio \
        --iodepth=4 --number_ios="$2"
}

# Both controllers go and come back under each other's number; what the kernel has freed it may give to the
# next, so that addresses that we know are now of others.
begin swapped
tool total latency --json
tool cheap latency --stages --json --commands --hist
tool fine latency --stages=fine --json --commands --hist
traced
for _ in 1 2; do
    writes nvme0 150
    writes nvme1 40
    release_all
    bind_in_order 1 0
    sleep 1.5 # it is noticed within a second
    writes nvme0 30
    writes nvme1 170
    release_all
    bind_all
    sleep 1.5
done
stop INT

# deaf PCI-ADDRESS: the device may not use the bus any more: what it finishes it can't tell, and it
# falls into its failed state. A reset gives the bus back.
deaf() {
    local config=/sys/bus/pci/devices/$1/config command
    command=$(od -An -tu1 -j4 -N1 "$config")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %02x $((command & ~4)))" | dd of="$config" bs=1 seek=4 conv=notrunc status=none
}

# A reset that waits for the commands at the device, and two that find it dead and cancel them; what
# the driver asks the dead device for first, it gives up soon.
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
    wait "$load_pid" || true # an end by signal is no good end to fio
    stat_of after "$slow"
    events_counted
    stop INT
done

# Told to stop while it attaches.
begin killed
for delay in 0 0.1 0.3 0.6 1; do
    tool "after-$delay" latency --stages=fine --json
    sleep "$delay"
    stop TERM
done

begin end
cp "$out.before" "$case_dir/attached.before"
attached >"$case_dir/attached.after"
