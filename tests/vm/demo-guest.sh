#!/usr/bin/env bash
# The guest's part of demo.sh: demo-guest.sh NVME-DEEP
set -euo pipefail
binary=$1

cat <<'TEXT'

Injected device latency, for every command that reaches the storage:
    nvme0   4000 us   load: reads, writes and fsync, 8 at a time
    nvme1   1000 us   load: 4 KiB random reads, 1 at a time
What the report shows above these is the emulated controller's and the kernel's
own share, which is large here because the guest's processors are emulated.

TEXT

# Paced, so that the emulated processors are not what is waited for. The load runs
# for longer than the tool does and ends with the guest.
cat >/tmp/load.fio <<'JOBS'
[global]
ioengine=libaio
direct=1
time_based=1
runtime=60
bs=4k

[mixed]
filename=/dev/nvme0n1
rw=randrw
rwmixread=60
iodepth=8
fsync=32
rate_iops=300,200

[reads]
filename=/dev/nvme1n1
rw=randread
iodepth=1
rate_iops=400
JOBS
fio --output=/tmp/fio.out /tmp/load.fio >/dev/null 2>&1 &
load=$!
sleep 2
kill -0 "$load" 2>/dev/null || {
    echo "demo: the load did not start:"
    cat /tmp/fio.out
    exit 1
}

status=0
echo "\$ nvme-deep trace --pair --stages --kstack -n 2"
"$binary" trace --pair --stages --kstack -n 2 || status=$?
echo
echo "\$ nvme-deep latency --stages 3 2"
"$binary" latency --stages 3 2 || status=$?
exit "$status"
