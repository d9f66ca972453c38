#!/usr/bin/env bash
# Filters, alone and combined, on a small known load; clocks; the end of a trace. nvme0 answers at once and has two
# namespaces, nvme1 answers after 20 ms, nvme2 fails the reads of block 2048, nvme3 answers after five seconds.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
. "$(dirname "$0")/record.sh"
for queue in /sys/block/nvme*/queue; do
    echo none >"$queue/scheduler"
    echo 2 >"$queue/nomerges"
done
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/deep/inner /sys/fs/cgroup/empty
settled
one=/dev/$(disk nvme0 1)
two=/dev/$(disk nvme0 2)
slow=/dev/$(disk nvme1)
bad=/dev/$(disk nvme2)
slowest=/dev/$(disk nvme3)

# A dd with a known pid and comm, which waits for /tmp/go. A second dd, below, runs in a cgroup.
mkfifo /tmp/go
bash -c 'read -r _ </tmp/go; exec taskset -c 0 dd if="$0" of=/dev/null bs=4k count=15 skip=64 iflag=direct \
    status=none' "$one" &
chosen=$!

begin filters
echo "$chosen" >"$case_dir/pid"
grep . /sys/block/nvme0*/mq/*/cpu_list >"$case_dir/queues"
tool all trace --events --stages=none --json --submitters
tool ctrl trace --events --stages=none --json --ctrl nvme1
tool nsid trace --events --stages=none --json --nsid 2
tool qid trace --events --stages=none --json --qid 2 --ctrl 0
tool qid0 trace --events --stages=none --json --qid 0
tool opcode trace --events --stages=none --json --opcode write
tool opcodes trace --events --stages=none --json --opcode admin:get-log-page,io:0x01
tool no-admin trace --events --stages=none --json --no-admin --ctrl nvme0
tool no-io trace --events --stages=none --json --no-io
tool pid trace --events --stages=none --json --process "$chosen"
tool comm trace --events --stages=none --json --process dd
tool cgroup trace --events --stages=none --json --cgroup /sys/fs/cgroup/deep
tool no-one trace --events --stages=none --json --cgroup /sys/fs/cgroup/empty
tool lba trace --events --stages=none --json --lba 522-530 --ctrl nvme0 --nsid 1
tool slow trace --json --slow 3ms
tool errors trace --json --errors --stages
tool and trace --events --stages=none --json --ctrl nvme0 --nsid 1 --opcode read --process "$chosen" --lba 0-600
traced
fio=(fio --ioengine=psync --direct=1 --thread=1 --output=/dev/null --name)
"${fio[@]}" a --filename="$one" --rw=read --bs=4k --offset=256k --size=160k --cpus_allowed=0
"${fio[@]}" b --filename="$two" --rw=write --bs=8k --offset=1m --size=240k --cpus_allowed=1
"${fio[@]}" c --filename="$slow" --rw=read --bs=4k --size=80k --cpus_allowed=0
taskset -c 0 dd if="$bad" of=/dev/null bs=4k count=10 iflag=direct status=none
if dd if="$bad" of=/dev/null bs=4k count=1 skip=256 iflag=direct 2>/dev/null; then exit 1; fi
for ((i = 0; i < 5; i++)); do
    nvme get-log /dev/nvme0 --log-id=3 --log-len=512 -b >/dev/null
done
echo >/tmp/go
wait "$chosen"
# shellcheck disable=SC2016 # for the inner shell
bash -c 'echo $$ >/sys/fs/cgroup/deep/inner/cgroup.procs; exec taskset -c 0 dd if="$0" of=/dev/null bs=4k \
    count=7 iflag=direct status=none' "$one"
stop

begin clocks
mark begin
date +%s.%N >"$case_dir/date.begin"
tool rel trace --events --stages=none --time rel --ctrl nvme0
tool wall trace --events --stages=none --time wall --ctrl nvme0
tool mono trace --time mono --events --stages=none --ctrl nvme0
tool rel-json trace --events --stages=none --json --time rel --ctrl nvme0
tool wall-json trace --events --stages=none --json --time wall --ctrl nvme0
traced
date +%s.%N >"$case_dir/date.traced"
mark load
"${fio[@]}" a --filename="$one" --rw=read --bs=4k --size=40k
mark end
date +%s.%N >"$case_dir/date.end"
stop

begin ends
tool count trace --events --stages=none --json -n 5 --ctrl nvme0 --no-admin
tool duration trace --events --stages=none --json --duration 2s --ctrl nvme0
tool count-text trace --long --stages=none -n 3 --ctrl nvme0 --no-admin
traced
"${fio[@]}" a --filename="$one" --rw=read --bs=4k --size=40k
finished

# in flight at the end: eight reads that the device answers after five seconds
begin unfinished
tool events trace --events --stages=none --json --ctrl nvme1 --ctrl nvme3
tool pairs trace --stages=none --json --ctrl nvme1 --ctrl nvme3
tool text trace --time mono --events --stages=none --ctrl nvme1 --ctrl nvme3
traced
"${fio[@]}" a --filename="$slow" --rw=read --bs=4k --size=16k
mark asked
"${fio[@]}" b --filename="$slowest" --rw=read --bs=4k --size=32k --ioengine=libaio --iodepth=8 &
load_pid=$!
for ((i = 0; i < 1200; i++)); do
    read -r waiting _ <"/sys/block/${slowest#/dev/}/inflight"
    ((waiting < 8)) || break
    sleep 0.01
done
stop
mark end
wait "$load_pid"
