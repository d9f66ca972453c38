#!/usr/bin/env bash
# A controller over TCP next to controllers over PCI: the target serves nvme1, and one task reads
# from the remote disk and from nvme0.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target.sh"
serve 1 tcp
connect tcp
sleep 1 # the kernel reads the partition table

begin both
tool basic latency --stages --json --commands --hist --no-admin
tool fine latency --stages=fine --json --commands --hist --no-admin
traced
load reads --filename="/dev/$remote:/dev/$(disk nvme0)" --rw=randread --bs=4k --size=512m \
    --ioengine=libaio --iodepth=8 --number_ios=400
stop
nvme disconnect --nqn=lab
