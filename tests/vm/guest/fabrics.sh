#!/usr/bin/env bash
# A controller over TCP beside those over PCI: the target serves nvme1, and one task reads from it
# and from nvme0.
. "$(dirname "$0")/lib.sh"
# all modules that are left, in order; those that are loaded already don't mind
while read -r module; do insmod "/tmp/mods/$module" 2>/dev/null || true; done </tmp/mods/order
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/lab
echo 1 >subsystems/lab/attr_allow_any_host
mkdir subsystems/lab/namespaces/1
echo -n "/dev/$(disk nvme1)" >subsystems/lab/namespaces/1/device_path
echo 1 >subsystems/lab/namespaces/1/enable
mkdir ports/1
echo ipv4 >ports/1/addr_adrfam
echo tcp >ports/1/addr_trtype
echo 127.0.0.1 >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/lab ports/1/subsystems/lab
cd /
nvme connect --transport=tcp --traddr=127.0.0.1 --trsvcid=4420 --nqn=lab \
    --hostnqn=nqn.2014-08.org.nvmexpress:uuid:6f8c3c1e-0000-4000-8000-000000000001
for ((i = 0; i < 100; i++)); do
    remote=$(disk nvme2) && [[ -b /dev/$remote ]] && break
    sleep 0.1
done
sleep 1 # the kernel looks for partitions

begin both
tool cheap latency --stages --json --commands --hist --no-admin
tool fine latency --stages=fine --json --commands --hist --no-admin
traced
load reads --filename="/dev/$remote:/dev/$(disk nvme0)" --rw=randread --bs=4k --size=512m \
    --ioengine=libaio --iodepth=8 --number_ios=400
stop
nvme disconnect --nqn=lab
