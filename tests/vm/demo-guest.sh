#!/usr/bin/env bash
# demo-guest.sh NVME-DEEP: the part of demo.sh that runs in the guest
set -euo pipefail
binary=$1
# shellcheck disable=SC1091
. "$(dirname "${BASH_SOURCE[0]}")/demo-load.sh"

cat <<'TEXT'

Injected device latency, for every command that reaches the storage:
    nvme0   4000 us   load: reads, writes and fsync, 8 at a time
    nvme1   1000 us   load: 4 KiB random reads, 1 at a time
What the report shows above these is the emulated controller's and the kernel's
own share, which is large here because the guest's processors are emulated.

TEXT

start_load
status=0
echo "\$ nvme-deep trace --kstack -n 2"
"$binary" trace --kstack -n 2 || status=$?
echo
echo "\$ nvme-deep latency --stages 3 2"
"$binary" latency --stages 3 2 || status=$?
exit "$status"
