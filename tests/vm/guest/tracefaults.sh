#!/usr/bin/env bash
# Commands that time out, are cancelled or are rejected; a controller that is reset. The driver's
# timeout is one second, and a small, forced swiotlb limits the mappings. nvme0 answers after 7 s
# and has a namespace that the kernel itself does not read (blocks of 512 + 8 bytes), nvme1 answers
# after 20 ms, nvme2 after 4 ms: then more is in flight than the bounce buffers have room for.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
. "$(dirname "$0")/record.sh"
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
cat /sys/module/nvme_core/parameters/io_timeout
for n in 1 2; do echo 2 >"/sys/block/$(disk nvme$n)/queue/nomerges"; done
echo none >"/sys/block/$(disk nvme1)/queue/scheduler"

begin timeout
tool events trace --events --stages=none --json --aen --sq --ctrl nvme0
tool text trace --time mono --events --stages=none --ctrl nvme0
tool pairs trace --json --stages --ctrl nvme0
traced
recording
mark begin
python3 "$here/late.py" "$case_dir/steps" "$(disk nvme0)"
# The abort, and the commands that the reset sends to the controller, run asynchronously.
for ((i = 0; i < 300; i++)); do
    [[ $(</sys/class/nvme/nvme0/state) == live ]] && break
    sleep 0.1
done
sleep 2
mark end
recorded
stop

# deaf PCI-ADDRESS: disables the device's access to the bus (see gone.sh)
deaf() {
    local config=/sys/bus/pci/devices/$1/config command
    command=$(od -An -tu1 -j4 -N1 "$config")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %02x $((command & ~4)))" | dd of="$config" bs=1 seek=4 conv=notrunc status=none
}

echo 3 >/sys/module/nvme_core/parameters/admin_timeout
slow=$(disk nvme1)
for kind in alive dead; do
    begin "reset-$kind"
    count_events
    tool events trace --events --stages=none --json --ctrl nvme1
    tool pairs trace --json --stages=fine --ctrl nvme1
    traced
    recording
    stat_of before "$slow"
    load reads --filename="/dev/$slow" --rw=randread --bs=4k --size=512m --ioengine=libaio \
        --iodepth=16 --time_based --runtime=60 &
    load_pid=$!
    busy "$slow" 100
    [[ $kind == alive ]] || deaf "${pci[1]}"
    nvme reset /dev/nvme1
    busy "$slow" 100
    pkill -INT -P "$load_pid" -x fio
    wait "$load_pid" || true # fio fails if a signal ends it
    stat_of after "$slow"
    sleep 0.5
    events_counted
    recorded
    stop
done

begin requeue
count_events
tool events trace --events --stages=none --json --ctrl nvme2 --no-admin
tool pairs trace --json --stages=fine --ctrl nvme2 --no-admin
tool text trace --time mono --events --stages=none --ctrl nvme2 --no-admin
traced
recording
stat_of before "$(disk nvme2)"
load reads --filename="/dev/$(disk nvme2)" --rw=randread --bs=128k --size=1g --ioengine=libaio \
    --iodepth=32 --number_ios=200 --numjobs=2
stat_of after "$(disk nvme2)"
recorded
events_counted
stop
