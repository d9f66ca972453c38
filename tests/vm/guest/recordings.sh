#!/usr/bin/env bash
# Recordings: beside a trace and fio; read again in every view; printed again as they were shown; killed,
# without room. nvme0 answers at once, nvme1 fails the reads of block 2048, nvme2 answers
# after 7 s (the driver's timeout is one second) and has a namespace that the kernel does not read.
# With REST: stacks, triggers, and a recording of the tool's own commands, instead.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
for n in 0 1; do echo 2 >"/sys/block/$(disk nvme$n)/queue/nomerges"; done
fast=/dev/$(disk nvme0)
bad=/dev/$(disk nvme1)
mkdir /tmp/rec

# from NAME VIEW OPTION...: prints a recording, without root
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)
from() {
    local name=$1
    shift
    refused "$name" "${nobody[@]}" "$NVME_DEEP" "$@"
}

if [[ -n ${REST:-} ]]; then
    begin stacks
    tool record record -o /tmp/rec/stacks --kstack --ctrl nvme0 --no-admin
    tool stacks stacks --json --ctrl nvme0 --no-admin
    traced
    load reads --filename="$fast" --rw=randread --bs=4k --number_ios=500 --size=64m --ioengine=psync
    dd if=/dev/zero of="$fast" bs=64k count=20 oflag=direct status=none
    stop
    chmod a+r /tmp/rec/stacks
    from stacks-from stacks --json --from /tmp/rec/stacks
    from folded-from stacks --folded --from /tmp/rec/stacks

    # The ring holds ten seconds. nvme2 answers too late: the driver's timeout fires the trigger. The
    # first load is dropped by then.
    begin ring
    tool timeout record -o /tmp/rec/timeout --ring 10s --trigger slow=60s,timeout --after 1s
    tool slow record -o /tmp/rec/slow --ring 1m --trigger slow=20s,error --after 500ms --ctrl nvme1
    tool stopped record -o /tmp/rec/stopped --ring 1m --max-size 1M --trigger slow=60s --ctrl nvme0 --no-admin
    traced
    load old --filename="$fast" --rw=randread --bs=4k --number_ios=700 --size=64m --ioengine=psync
    sleep 13
    load new --filename="$fast" --rw=randread --bs=4k --number_ios=300 --size=64m --ioengine=psync
    dd if="$bad" of=/dev/null bs=512 count=16 skip=2040 iflag=direct status=none || true
    python3 "$here/late.py" "$case_dir/late" "$(disk nvme2)" nvme2 || true
    for ((i = 0; i < 300; i++)); do
        [[ $(</sys/class/nvme/nvme2/state) == live ]] && break
        sleep 0.1
    done
    sleep 1.5
    stop
    chmod a+r /tmp/rec/*
    for name in timeout slow stopped; do from "$name-from" trace --json --from "/tmp/rec/$name"; done
    from intervals latency --json 1s --from /tmp/rec/timeout

    # stdout is a block device on nvme0: the tool reads each block before it writes a part of it. -o refuses
    # such a device.
    begin own
    refused device "$NVME_DEEP" record -o "$fast" --force --duration 1s
    exec 9<"$fast"
    "$NVME_DEEP" trace --json --stages --tee /tmp/rec/own --ctrl nvme0 1<>"$fast" 2>"$case_dir/record.err" &
    tools+=("$!:record")
    tool_pid=$!
    echo "$tool_pid" >"$case_dir/pid"
    traced
    load reads --filename="$fast" --rw=randread --bs=4k --number_ios=3000 --offset=64m --size=64m \
        --ioengine=libaio --iodepth=8 --invalidate=0
    sleep 1.5
    stop
    exec 9<&-
    chmod a+r /tmp/rec/own
    from all trace --json --from /tmp/rec/own
    from latency latency --from /tmp/rec/own
    exit
fi

# `tee` has a recording without stages
begin load
file=/tmp/rec/fine
tool record record -o "$file" --stages=fine --ctrl nvme0 --no-admin
tool trace trace --json --stages=fine --ctrl nvme0 --no-admin
traced
stat_of before "$(disk nvme0)"
load mixed --filename="$fast" --rw=randrw --bssplit=4k/70:32k/20:128k/10 --number_ios=3000 \
    --size=512m --ioengine=libaio --iodepth=16
stat_of after "$(disk nvme0)"
stop
stat -c '%a %s' "$file" >"$case_dir/stat.file"
chmod a+r "$file"
from latency latency --json --hist --stages=fine --from "$file"
from sizes latency --json --by opcode,size=16K,64K --stages=fine --from "$file"
from all trace --json --stages=fine --from "$file"

# Two views, with errors, retries and a timeout: what --tee has recorded is printed again.
begin tee
tool json trace --json --stages=fine --kstack --sq --aen --tee /tmp/rec/json
tool text trace --events --stages --kstack=complete --time wall --tee /tmp/rec/text
tool rel trace --events --stages=none --time rel --tee /tmp/rec/rel
tool failed trace --json --errors --tee /tmp/rec/failed
traced
load mixed --filename="$fast" --rw=randrw --bs=4k --number_ios=1000 --size=64m --ioengine=libaio \
    --iodepth=4
dd if="$bad" of=/dev/null bs=512 count=16 skip=2040 iflag=direct status=none || true
python3 "$here/late.py" "$case_dir/steps" "$(disk nvme2)" nvme2 || true
for ((i = 0; i < 300; i++)); do
    [[ $(</sys/class/nvme/nvme2/state) == live ]] && break
    sleep 0.1
done
stop
chmod a+r /tmp/rec/*
from json-from trace --json --stages=fine --kstack --sq --aen --from /tmp/rec/json
from text-from trace --events --stages --kstack=complete --time wall --from /tmp/rec/text
from rel-from trace --events --time rel --from /tmp/rec/rel
from failed-from trace --json --errors --from /tmp/rec/failed
from failed-latency latency --json --from /tmp/rec/failed

begin killed
tool record record -o /tmp/rec/killed --ctrl nvme0 --no-admin
traced
load first --filename="$fast" --rw=randread --bs=4k --number_ios=2000 --size=64m --ioengine=libaio \
    --iodepth=8
sleep 2.5
load second --filename="$fast" --rw=randread --bs=4k --number_ios=300 --size=64m --ioengine=libaio \
    --iodepth=8
stop KILL
mv /tmp/rec/killed.partial /tmp/rec/killed
chmod a+r /tmp/rec/killed
from all trace --json --from /tmp/rec/killed
from latency latency --json --from /tmp/rec/killed

# tests/recording.rs has truncated and changed files
begin refused
{ printf '\x89nvmedp\n\x09\0\0\0'; head -c 4 /dev/zero; } >/tmp/rec/newer
python3 - <<'P'
import binascii, struct
head = open('/tmp/rec/newer', 'rb').read()[:12]
open('/tmp/rec/newer', 'wb').write(head + struct.pack('<I', binascii.crc32(head)))
P
chmod a+r /tmp/rec/newer
from newer trace --json --from /tmp/rec/newer
refused exists "$NVME_DEEP" record -o /tmp/rec/fine --duration 1s
from unprivileged record -o /tmp/rec/nobody

begin full
mkdir /tmp/small
mount -t tmpfs -o size=300k none /tmp/small
tool record record -o /tmp/small/file --ctrl nvme0 --no-admin
traced
load reads --filename="$fast" --rw=randread --bs=4k --number_ios=30000 --size=512m --ioengine=libaio \
    --iodepth=16 --iodepth_batch_submit=8 || true
finished
chmod a+r /tmp/small/file
from all trace --json --from /tmp/small/file
umount /tmp/small
