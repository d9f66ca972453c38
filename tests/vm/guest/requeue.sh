#!/usr/bin/env bash
# The guest can map only some of the submitted requests (a small, forced swiotlb): the driver
# rejects commands after it has set them up, and blk-mq submits them again.
. "$(dirname "$0")/lib.sh"
dev=$(disk nvme0)
for scheduler in none mq-deadline; do
    echo "$scheduler" >"/sys/block/$dev/queue/scheduler"
    begin "requeue-$scheduler"
    tool total latency --json --ctrl nvme0 --no-admin
    tool basic latency --stages --json --commands --hist --ctrl nvme0 --no-admin
    tool fine latency --stages=fine --json --commands --hist --ctrl nvme0 --no-admin
    traced
    stat_of before "$dev"
    load reads --filename="/dev/$dev" --rw=randread --bs=128k --size=1g --ioengine=libaio \
        --iodepth=32 --number_ios=400 --numjobs=2
    stat_of after "$dev"
    stop
done
