#!/usr/bin/env bash
# `latency --by cgroup` beside reads of ten thousand cgroups.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
null=$(disk nvme0)
echo none >"/sys/block/$null/queue/scheduler"
top=/sys/fs/cgroup
umount -R $top 2>/dev/null || true
mount -t cgroup2 -o favordynmods none $top 2>/dev/null || mount -t cgroup2 none $top
echo '+io' >$top/cgroup.subtree_control

begin many
mkdir $top/many
echo '+io' >$top/many/cgroup.subtree_control
tool all latency --json
tool cgroup latency --json --by cgroup
tool text latency --by cgroup --top 5
traced
python3 "$(dirname "$0")/by.py" many "/dev/$null" $top/many 10000 >"$case_dir/truth.json"
stop
