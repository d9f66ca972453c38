#!/usr/bin/env bash
# Access patterns that fio makes: `pattern` beside the load, and on a trace with two events per command
# and a recording with one of the same load. biopattern runs beside it if it is installed. Then heat
# maps of a load.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
dev=$(disk nvme0)
echo 2 >"/sys/block/$dev/queue/nomerges" # otherwise two adjacent requests may become one command
mkdir /tmp/rec
only=(--ctrl nvme0 --no-admin)

# case_of NAME FIO-OPTION...: runs a load with all tools, and reads what they recorded
case_of() {
    local name=$1 bio=''
    shift
    begin "$name"
    tool live pattern --json "${only[@]}"
    tool tee trace --events --stages=none --json "${only[@]}" --tee "/tmp/rec/$name.tee"
    tool record record -o "/tmp/rec/$name.rec" --stages none "${only[@]}"
    traced
    if command -v biopattern >/dev/null; then
        biopattern -d "$dev" 100 1 >"$case_dir/biopattern" 2>&1 &
        bio=$!
        sleep 2
    fi
    load "$name" --filename="/dev/$dev" --ioengine=libaio "$@"
    if [[ $bio ]]; then
        kill -INT "$bio" || true
        wait "$bio" || true
    fi
    stop
    rm "$case_dir/tee.out"
    refused tee-pattern "$NVME_DEEP" pattern --json --from "/tmp/rec/$name.tee"
    refused tee-trace "$NVME_DEEP" trace --events --json --from "/tmp/rec/$name.tee"
    refused record-pattern "$NVME_DEEP" pattern --json --from "/tmp/rec/$name.rec"
    refused record-trace "$NVME_DEEP" trace --json --events --from "/tmp/rec/$name.rec"
    refused text "$NVME_DEEP" pattern --from "/tmp/rec/$name.rec" -o "$case_dir/pattern.svg"
}

case_of sequential --rw=read --bs=8k --number_ios=2000 --size=512m --iodepth=8
case_of random --rw=randread --bs=4k --number_ios=2000 --size=1g --iodepth=8
case_of percent --rw=randread --percentage_random=30 --bs=4k --number_ios=2000 --size=1g --iodepth=4
case_of readwrite --rw=rw --rwmixread=70 --bs=4k --number_ios=2000 --size=512m --iodepth=4
case_of streams --rw=write --bs=16k --numjobs=8 --offset_increment=64m --size=64m --number_ios=250 \
    --iodepth=4
case_of zipf --rw=randread --random_distribution=zipf:1.2 --bs=4k --number_ios=2000 --size=256m \
    --iodepth=8
# 6.1 sends a batch in reverse
case_of batches --rw=read --bs=4k --number_ios=2000 --size=512m --ioengine=io_uring --iodepth=16 \
    --iodepth_batch_submit=16 --iodepth_batch_complete_min=16
case_of unaligned --rw=randwrite --bs=3k --blockalign=512 --number_ios=500 --size=256m --iodepth=1

begin heatmap
for y in latency lba size inflight; do
    tool "$y" heatmap --y "$y" -o "$case_dir/$y.svg" "${only[@]}"
done
tool device heatmap --stage device -o "$case_dir/device.png" "${only[@]}"
traced
load heatmap --filename="/dev/$dev" --ioengine=libaio --rw=randread --bssplit=4k/50:64k/50 --iodepth=6 \
    --size=1g --number_ios=1500
stop
