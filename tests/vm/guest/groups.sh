#!/usr/bin/env bash
# `latency --by cgroup` where version 1 has the controller of block devices, and beside reads of ten thousand
# cgroups.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
null=$(disk nvme0)
echo none >"/sys/block/$null/queue/scheduler"
top=/sys/fs/cgroup
umount -R $top 2>/dev/null || true

begin hybrid
mkdir /tmp/blkio
mount -t cgroup -o blkio none /tmp/blkio
mount -t cgroup2 none $top
mkdir $top/db
tool cgroup latency --json --by cgroup
tool text latency --by container
traced
# shellcheck disable=SC2016 # the inner shell expands these
bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' $top/db dd if="/dev/$null" of=/dev/null bs=4k count=40 iflag=direct status=none
stop
umount $top /tmp/blkio

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
