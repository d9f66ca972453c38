#!/usr/bin/env bash
# Fabrics controllers are created, reset and removed while the tool runs: over TCP, and over loop
# if the kernel has it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target.sh"
serve 1 tcp
transports=(tcp)
! serve 2 loop || transports+=(loop)

for transport in "${transports[@]}"; do
    begin "$transport"
    tool total latency --json
    tool trace trace --stages=none --json
    traced
    connect "$transport" --nr-io-queues=2
    dd if="/dev/$remote" of=/dev/null bs=4k count=20 iflag=direct 2>/dev/null
    echo 1 >/sys/class/nvme/nvme2/reset_controller
    until_live
    dd if="/dev/$remote" of=/dev/null bs=4k count=20 iflag=direct 2>/dev/null
    nvme disconnect --nqn=lab
    sleep 0.5
    stop
done
