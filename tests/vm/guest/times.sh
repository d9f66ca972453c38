#!/usr/bin/env bash
# Times are compared with injected latencies, and filters with fio's options. nvme0 answers after
# 1 ms, nvme1 after 5 ms, nvme2 after 0.2 ms; nvme3 has two namespaces of 4 KiB blocks.
. "$(dirname "$0")/lib.sh"

two_cuts() {
    tool basic latency --stages --json --commands --hist --ctrl "$1" --opcode read
    tool fine latency --stages=fine --json --commands --hist --ctrl "$1" --opcode read
    traced
}

for ctrl in nvme0 nvme1 nvme2; do
    begin "device-$ctrl"
    two_cuts "$ctrl"
    load reads --filename="/dev/$(disk "$ctrl")" --rw=randread --bs=4k --size=1g \
        --ioengine=psync --number_ios=200
    stop
done

# 32 reads at once and four tags at the device: the other reads wait in the scheduler. A scheduler
# keeps the existing number of driver tags, and has more tags of its own.
dev=$(disk nvme1)
queue=/sys/block/$dev/queue
deep=(--rw=randread --bs=4k --size=1g --ioengine=libaio --iodepth=32 --number_ios=320)
echo 2 >"$queue/nomerges" # otherwise adjacent requests become one command
begin queue-free
two_cuts nvme1
load reads --filename="/dev/$dev" "${deep[@]}"
stop

echo 4 >"$queue/nr_requests"
begin queue-tags
two_cuts nvme1
load reads --filename="/dev/$dev" "${deep[@]}"
stop

echo mq-deadline >"$queue/scheduler"
begin queue-scheduler
two_cuts nvme1
load reads --filename="/dev/$dev" "${deep[@]}"
stop

# tests/vm/judge/times.rs repeats these fio options.
begin filters
one=/dev/$(disk nvme3 1)
two=/dev/$(disk nvme3 2)
cat "/sys/block/$(disk nvme3 1)/mq/0/cpu_list" >"$case_dir/first_queue_cpus"
tool ns1 latency --json --nsid 1 --ctrl nvme3
tool ns2 latency --json --nsid 2 --ctrl 3
tool reads latency --json --opcode READ --ctrl nvme3
tool qid1 latency --json --qid 1 --ctrl nvme3
tool and latency --json --opcode read,write --nsid 1 --qid 2 --ctrl nvme3
tool other latency --json --ctrl nvme0 --no-admin
tool sizes latency --json --by disk,opcode,size=16K,64K --ctrl nvme3 --no-admin
tool lat-sizes latency --json --by disk,opcode,size=16K,64K --lat-shift 2 --ctrl nvme3 --no-admin
tool lat latency --json --commands --lat-min-us 100 --lat-shift 4 --ctrl nvme3
tool text latency --stages --hist --lat-shift 2 --ctrl nvme3 --no-admin --color always
traced
common=(--ioengine=psync --size=1g)
load ns1-4k --filename="$one" --rw=randread --bs=4k --number_ios=60 --cpus_allowed=0 "${common[@]}"
load ns1-32k --filename="$one" --rw=randread --bs=32k --number_ios=70 --cpus_allowed=1 "${common[@]}"
load ns1-128k --filename="$one" --rw=randwrite --bs=128k --number_ios=80 --cpus_allowed=0 "${common[@]}"
load ns2-16k --filename="$two" --rw=randread --bs=16k --number_ios=50 --cpus_allowed=1 "${common[@]}"
stop
