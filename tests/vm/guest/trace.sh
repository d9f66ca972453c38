#!/usr/bin/env bash
# A fixed list of commands (commands.py) under several tracers side by side, and the kernel's own
# record of it. nvme0 has two namespaces, nvme1 has zones of 1 MiB, nvme2 has blocks that fail,
# nvme3 has protection information.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
. "$(dirname "$0")/record.sh"
here=$(dirname "$0")
export PATH=/usr/bin:/usr/sbin:/bin:/sbin PYTHONDONTWRITEBYTECODE=1

# The results must not depend on the I/O scheduler.
for queue in /sys/block/nvme*/queue; do
    echo none >"$queue/scheduler"
    echo 2 >"$queue/nomerges"
done
settled

begin known
disks=("$(disk nvme0)" "$(disk nvme0 2)" "$(disk nvme1)" "$(disk nvme2)" "$(disk nvme3)")
grep . /sys/block/nvme*/mq/*/cpu_list >"$case_dir/queues"
tool events trace --events --stages=none --json --sq --aen
tool text trace --time mono --events --stages=none --sq --aen
tool pair trace --json --stages=fine
tool pairtext trace --long --time mono --stages
traced
recording
mark begin
python3 "$here/commands.py" "$case_dir/steps" "${disks[@]}"
mark end
sleep 1
settled # the kernel reads the formatted namespace
recorded
stop
