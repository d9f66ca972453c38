#!/usr/bin/env bash
# Who caused commands: submitters behind an I/O scheduler and device mappers, and cgroups of writeback and of a
# loop device, live and recorded.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
while read -r module; do insmod "/tmp/mods/$module" 2>/dev/null || true; done </tmp/mods/all
modprobe mq-deadline 2>/dev/null || true
file=$(disk nvme0)
null=$(disk nvme1)
echo 2 >"/sys/block/$null/queue/nomerges" # otherwise two adjacent requests may become one command
top=/sys/fs/cgroup
umount -R $top 2>/dev/null || true
mount -t cgroup2 -o favordynmods none $top 2>/dev/null || mount -t cgroup2 none $top
echo '+memory +io' >$top/cgroup.subtree_control
mkdir $top/db $top/backup

# within CGROUP COMMAND...: runs a command in a cgroup
within() {
    # shellcheck disable=SC2016 # the inner shell expands these
    bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$@"
}

begin scheduler
echo mq-deadline >"/sys/block/$null/queue/scheduler"
# few tags: a process dispatches requests of others
echo 8 >"/sys/block/$null/queue/nr_requests"
# a limit: kernel threads dispatch what waits for it
echo "$(<"/sys/block/$null/dev") riops=60" >$top/backup/io.max
cat "/sys/block/$null/queue/scheduler" >"$case_dir/scheduler"
tool all latency --json --no-admin --ctrl nvme1
tool callers latency --json --no-admin --by process --attach rawtp --ctrl nvme1
tool processes latency --json --no-admin --by process --ctrl nvme1
tool parts latency --json --no-admin --by comm,cgroup --stages --ctrl nvme1
tool chosen latency --json --no-admin --cgroup $top/db --ctrl nvme1
tool named latency --json --no-admin --process renamed --ctrl nvme1
tool file record --no-admin --ctrl nvme1 -o "/tmp/file.nvd"
traced
within $top/db fio --output-format=json --output="$case_dir/jobs.fio" --filename="/dev/$null" --direct=1 \
    --ioengine=libaio --bs=4k --iodepth=16 --norandommap=1 \
    --name=a --rw=randread --number_ios=300 \
    --name=b --rw=randread --number_ios=500 \
    --name=c --rw=randwrite --number_ios=700 </dev/null &
fio_pid=$!
within $top/backup python3 "$(dirname "$0")/who.py" "/dev/$null" 150
wait $fio_pid
stop
from() {
    local name=$1
    shift
    refused "$name" "$NVME_DEEP" "$@"
}
nvd=/tmp/file.nvd
from recorded latency --json --by process --from "$nvd"
from recorded_cgroup latency --json --by cgroup --from "$nvd"
from recorded_chosen latency --json --cgroup $top/db --from "$nvd"
from recorded_trace trace --json --from "$nvd" --process renamed
from text trace --long --from "$nvd" --process renamed
from csv export "$nvd" --format csv -o /tmp/file.csv
cp /tmp/file.csv "$case_dir"

begin mapped
echo none >"/sys/block/$null/queue/scheduler"
echo "$(<"/sys/block/$null/dev") riops=max" >$top/backup/io.max
# map NAME TABLE: the device is /dev/mapper/NAME
map() {
    DM_DISABLE_UDEV=1 dmsetup create "$1" --table "0 65536 $2"
    DM_DISABLE_UDEV=1 dmsetup mknodes "$1"
}
# dm-crypt between two linear maps, as of LVM. Its kernel threads submit what they have encrypted.
map below "linear /dev/$null 0"
map crypt "crypt aes-xts-plain64 $(printf '%064d' 7) 0 /dev/mapper/below 0"
map above "linear /dev/mapper/crypt 0"
tool all latency --json --no-admin --ctrl nvme1
tool callers latency --json --no-admin --by process --attach rawtp --ctrl nvme1
tool processes latency --json --no-admin --by process,cgroup --ctrl nvme1
tool lines trace --stages=none --json --submitters --no-admin --ctrl nvme1 --process renamed
tool pattern pattern --json --submitters --no-admin --ctrl nvme1
tool file record --no-admin --ctrl nvme1 -o "/tmp/mapped.nvd"
traced
within $top/db fio --output-format=json --output="$case_dir/jobs.fio" --filename=/dev/mapper/above --direct=1 \
    --ioengine=libaio --bs=4k --iodepth=4 --norandommap=1 \
    --name=a --rw=randread --number_ios=210 \
    --name=b --rw=randwrite --number_ios=240 \
    --name=c --rw=randrw --number_ios=330 </dev/null
within $top/backup python3 "$(dirname "$0")/who.py" /dev/mapper/above 90
stop
from pattern_recorded pattern --json --submitters --from /tmp/mapped.nvd
from pattern_text pattern --submitters --from /tmp/mapped.nvd
for name in above crypt below; do DM_DISABLE_UDEV=1 dmsetup remove "$name"; done

begin loop
loop=$(losetup --find --show --direct-io=on "/dev/$null")
tool groups latency --json --no-admin --by process,cgroup --ctrl nvme1
traced
within $top/db dd if="$loop" of=/dev/null bs=4k count=70 iflag=direct status=none
within $top/backup dd if="$loop" of=/dev/null bs=4k count=30 iflag=direct status=none
stop
losetup -d "$loop"

begin writeback
rm /tmp/file.nvd
mkfs.ext4 -q -O ^has_journal "/dev/$file"
mkdir -p /tmp/data
mount -o noinit_itable "/dev/$file" /tmp/data
sync
settled
tool live latency --json --no-admin --by cgroup,opcode --ctrl nvme0
tool file record --no-admin --ctrl nvme0 -o "/tmp/file.nvd"
tool hidden record --redact --no-admin --ctrl nvme0 -o "/tmp/hidden.nvd"
tool lines trace --stages=none --json --submitters --no-admin --ctrl nvme0
traced
# a limit: kernel threads submit what was written, and others pass it on when it has waited
echo "$(<"/sys/block/$file/dev") wbps=8388608" >$top/db/io.max
within $top/db dd if=/dev/zero of=/tmp/data/inside bs=64k count=64 status=none
within $top/backup dd if=/dev/zero of=/tmp/data/other bs=64k count=16 status=none
sync
# of this disk: the other one was used before
for name in db backup; do grep "^$(<"/sys/block/$file/dev") " "$top/$name/io.stat" >"$case_dir/$name.io"; done
stop
nvd=/tmp/file.nvd
from recorded latency --json --by cgroup,opcode --from "$nvd"
from recorded_all latency --json --from "$nvd"
from container latency --json --cgroup /db --from "$nvd"
from redacted latency --json --by cgroup,opcode --from "/tmp/hidden.nvd"
from refused latency --json --cgroup $top/db --from "/tmp/hidden.nvd"
cp /tmp/hidden.nvd "$case_dir/"
from hidden_lines trace --json --from "/tmp/hidden.nvd"
umount /tmp/data
