#!/usr/bin/env bash
# Fabrics controllers that come, are reset and go while the tool looks on: over loop (where the kernel has
# it) and over TCP. The target serves nvme1.
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
mkdir ports/1 ports/2
echo ipv4 >ports/1/addr_adrfam
echo tcp >ports/1/addr_trtype
echo 127.0.0.1 >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
echo loop >ports/2/addr_trtype
ln -s /sys/kernel/config/nvmet/subsystems/lab ports/1/subsystems/lab
transports=(tcp)
ln -s /sys/kernel/config/nvmet/subsystems/lab ports/2/subsystems/lab 2>/dev/null && transports+=(loop)
cd /

# until_live: the controller is there, and its disk
until_live() {
    for ((i = 0; i < 200; i++)); do
        [[ $(cat /sys/class/nvme/nvme2/state 2>/dev/null) == live ]] &&
            remote=$(disk nvme2) && [[ -b /dev/$remote ]] && return
        sleep 0.1
    done
    return 1
}

for transport in "${transports[@]}"; do
    begin "$transport"
    tool total latency --json
    tool trace trace --pair --json
    traced
    where=()
    [[ $transport != tcp ]] || where=(--traddr=127.0.0.1 --trsvcid=4420)
    nvme connect --transport="$transport" "${where[@]}" --nqn=lab --nr-io-queues=2 \
        --hostnqn=nqn.2014-08.org.nvmexpress:uuid:6f8c3c1e-0000-4000-8000-000000000001
    until_live
    dd if="/dev/$remote" of=/dev/null bs=4k count=20 iflag=direct 2>/dev/null
    echo 1 >/sys/class/nvme/nvme2/reset_controller
    until_live
    dd if="/dev/$remote" of=/dev/null bs=4k count=20 iflag=direct 2>/dev/null
    nvme disconnect --nqn=lab
    sleep 0.5
    stop
done
