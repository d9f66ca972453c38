#!/usr/bin/env bash
# One boot for an arm64 kernel: methods.sh, then traces, stacks, recordings and the commands in flight.
# nvme0 answers at once, nvme1 after 5 ms, nvme2 after 26 s, except for the partition table.
bash "$(dirname "$0")/methods.sh" || exit
rm /tmp/never
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/record.sh"
dev=$(disk nvme0)
echo 2 >"/sys/block/$dev/queue/nomerges"

# Two ways to submit; as many commands complete on another CPU as the interrupts decide.
paths() {
    load aio --filename="/dev/$dev" --bs=4k --size=16m --number_ios=200 --iodepth=8 --rw=randread --ioengine=libaio \
        --numjobs=2
    load pread --filename="/dev/$dev" --bs=4k --size=16m --number_ios=50 --rw=randrw --ioengine=psync
}

begin trace
tool trace trace --events --stages=none --json --kstack --sq --ctrl nvme0 --no-admin
tool pair trace --json --stages=fine --ctrl nvme0 --no-admin
tool stacks stacks --json --ctrl nvme0 --no-admin
tool record record -o "$case_dir/file.nvd" --stages=fine --ctrl nvme0 --no-admin
traced
recording
stat_of before "$dev"
paths
stat_of after "$dev"
recorded
stop
refused from "$NVME_DEEP" trace --from "$case_dir/file.nvd" --json
refused from-text "$NVME_DEEP" latency --from "$case_dir/file.nvd" --stages=fine

begin held
dd if="/dev/$(disk nvme2)" of=/dev/null bs=4k count=1 skip=100 iflag=direct status=none &
for ((i = 0; i < 600; i++)); do
    [[ $(<"/sys/block/$(disk nvme2)/inflight") =~ ^\ *1\ +0$ ]] && break
    sleep 0.05
done
refused held "$NVME_DEEP" inflight --json
refused text "$NVME_DEEP" inflight
wait

# tests/recordings has these files of 6.12.
begin golden
tool trace trace --json --stages=fine --kstack --tee "$case_dir/file.nvd" --ctrl nvme0 --no-admin
traced
load pread --filename="/dev/$dev" --bs=4k --size=16m --number_ios=10 --rw=randrw --ioengine=psync
load aio --filename="/dev/$dev" --bs=16k --size=16m --number_ios=6 --iodepth=6 --iodepth_batch_submit=6 --rw=randread \
    --ioengine=libaio
stop
