#!/usr/bin/env bash
# Orders of events that occur in practice: completion by softirq and on another CPU (nvme0 has one
# queue), a retry (nvme1 fails one read), retries that end in an error (nvme2 fails all reads of a
# sector), polled completion (nvme3), a controller that disappears and comes back.
. "$(dirname "$0")/lib.sh"

two_cuts() {
    tool basic latency --stages --json --commands --hist "$@"
    tool fine latency --stages=fine --json --commands --hist "$@"
    traced
}

block_softirqs() {
    awk '/BLOCK:/ { for (i = 2; i <= NF; i++) sum += $i; print sum }' /proc/softirqs
}

for scheduler in none mq-deadline; do
    dev=$(disk nvme0)
    echo "$scheduler" >"/sys/block/$dev/queue/scheduler"
    begin "remote-$scheduler"
    two_cuts --ctrl nvme0 --no-admin
    block_softirqs >"$case_dir/softirqs.before"
    load reads --filename="/dev/$dev" --rw=randread --bs=4k --size=1g --ioengine=libaio \
        --iodepth=8 --numjobs=2 --cpus_allowed=0,1 --cpus_allowed_policy=split --number_ios=400
    block_softirqs >"$case_dir/softirqs.after"
    stop
done

begin retry
two_cuts --ctrl nvme1 --opcode read
dd if="/dev/$(disk nvme1)" of=/dev/null bs=4k skip=256 count=1 iflag=direct 2>"$case_dir/dd"
stop

for scheduler in none mq-deadline; do
    dev=$(disk nvme2)
    echo "$scheduler" >"/sys/block/$dev/queue/scheduler"
    begin "failing-$scheduler"
    two_cuts --ctrl nvme2 --opcode read
    # dd must fail here
    dd if="/dev/$dev" of=/dev/null bs=4k skip=256 count=1 iflag=direct 2>"$case_dir/dd" &&
        { echo "the read did not fail"; exit 1; }
    stop
done

begin poll
two_cuts --ctrl nvme3 --no-admin
load reads --filename="/dev/$(disk nvme3)" --rw=randread --bs=4k --size=1g --ioengine=io_uring \
    --hipri=1 --iodepth=4 --number_ios=400
stop

# bind PCI-ADDRESS CTRL: binds a controller to the driver and waits for its disk
bind() {
    echo "$1" >/sys/bus/pci/drivers/nvme/bind
    for ((i = 0; i < 300; i++)); do
        back=$(disk "$2") && [[ -b /dev/$back ]] && return
        sleep 0.1
    done
    return 1
}

begin hotplug
two_cuts --no-admin
pci=$(basename "$(readlink -f /sys/class/nvme/nvme3/device)")
load before --filename="/dev/$(disk nvme3)" --rw=randread --bs=4k --size=1g --ioengine=psync \
    --number_ios=100
echo "$pci" >/sys/bus/pci/drivers/nvme/unbind
sleep 2
bind "$pci" nvme3
load after --filename="/dev/$back" --rw=randread --bs=4k --size=1g --ioengine=psync \
    --number_ios=150
stop

# A controller that is absent at the start.
begin newcomer
echo "$pci" >/sys/bus/pci/drivers/nvme/unbind
sleep 1
two_cuts --no-admin
bind "$pci" nvme3
sleep 3 # the tool notices it within a second
load reads --filename="/dev/$back" --rw=randread --bs=4k --size=1g --ioengine=psync \
    --number_ios=120
stop
