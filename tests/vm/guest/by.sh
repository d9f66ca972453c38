#!/usr/bin/env bash
# `latency --by` beside loads whose processes and cgroups are known.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
for queue in /sys/block/nvme*/queue; do echo none >"$queue/scheduler"; done
while read -r module; do insmod "/tmp/mods/$module" 2>/dev/null || true; done </tmp/mods/order
file=$(disk nvme0)
null=$(disk nvme1)
top=/sys/fs/cgroup
umount -R $top 2>/dev/null || true

begin refused
refused hierarchy "$NVME_DEEP" latency --by cgroup --duration 1s
refused recorded "$NVME_DEEP" trace --cgroups --duration 1s
refused tracepoint "$NVME_DEEP" latency --by process --attach tracepoint --duration 1s

# moves of tasks between cgroups then need no grace period
mount -t cgroup2 -o favordynmods none $top 2>/dev/null || mount -t cgroup2 none $top

begin process
tool all latency --json --stages --ctrl nvme1
tool process latency --json --stages --by process --ctrl nvme1
tool parts latency --json --stages=fine --by process,cpu,opcode,size --ctrl nvme1
tool place latency --json --by queue,disk --ctrl nvme1
tool kprobe latency --json --by process --attach kprobe --ctrl nvme1
tool text latency --by comm,process --ctrl nvme1 --stages
tool top top 1s --by process,opcode --ctrl nvme1
traced
# one process per job
fio --output-format=json --output="$case_dir/jobs.fio" --filename="/dev/$null" --direct=1 --ioengine=libaio \
    --bs=4k --iodepth=4 --norandommap=1 \
    --name=a --rw=randread --number_ios=300 \
    --name=b --rw=randread --number_ios=500 \
    --name=c --rw=randrw --number_ios=900 \
    --name=d --rw=randwrite --bs=16k --number_ios=200 </dev/null
python3 "$(dirname "$0")/by.py" rename "/dev/$null" >"$case_dir/rename"
stop

begin cgroup
echo '+memory +io' >$top/cgroup.subtree_control
mkdir $top/system.slice
echo '+memory +io' >$top/system.slice/cgroup.subtree_control
id=$(printf 'c0ffee00%056d' 0)
unit=$top/system.slice/database.service
container=$top/system.slice/docker-$id.scope
mkdir "$unit" "$container"
mkfs.ext4 -q -O ^has_journal "/dev/$file"
mkdir -p /tmp/data
mount -o noinit_itable "/dev/$file" /tmp/data
sync
settled

# within CGROUP COMMAND...: runs a command in a cgroup
within() {
    # shellcheck disable=SC2016 # the inner shell expands these
    bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$@"
}
tool all latency --json --no-admin --ctrl nvme0
tool cgroup latency --json --no-admin --by cgroup,opcode --ctrl nvme0
tool container latency --json --no-admin --by container --ctrl nvme0
traced
within "$container" dd if=/dev/zero of=/tmp/data/inside bs=64k count=64 status=none
within "$unit" dd if="/dev/$file" of=/dev/null bs=4k count=70 iflag=direct status=none
within "$unit" dd if=/dev/zero of=/tmp/data/other bs=64k count=16 status=none
sync
within "$container" dd if="/dev/$file" of=/dev/null bs=4k count=9 iflag=direct status=none
cat "$unit/io.stat" >"$case_dir/unit.io"
cat "$container/io.stat" >"$case_dir/container.io"
stop
umount /tmp/data

begin many
mkdir $top/many
echo '+io' >$top/many/cgroup.subtree_control
tool all latency --json --ctrl nvme1
tool cgroup latency --json --by cgroup --ctrl nvme1
tool text latency --by cgroup --ctrl nvme1 --top 5
traced
python3 "$(dirname "$0")/by.py" many "/dev/$null" $top/many >"$case_dir/truth.json"
stop
