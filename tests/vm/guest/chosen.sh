#!/usr/bin/env bash
# Commands that are selected by disk, partition, mount point and cgroup; a program that runs while
# the tool traces. nvme0 keeps what is written, nvme1 answers at once.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
for queue in /sys/block/nvme*/queue; do echo none >"$queue/scheduler"; done
while read -r module; do insmod "/tmp/mods/$module" 2>/dev/null || true; done </tmp/mods/order
one=/dev/$(disk nvme0)
other=/dev/$(disk nvme1)
addpart "$one" 1 2048 65536
addpart "$one" 2 67584 131072
for ((i = 0; i < 300; i++)); do [[ ! -b ${one}p2 ]] || break; sleep 0.05; done
# nothing writes to it in the background
mkfs.ext4 -q -O ^has_journal "${one}p2"
mkdir /tmp/data
mount -o noatime "${one}p2" /tmp/data
dd if=/dev/zero of=/tmp/data/file bs=1M count=4 conv=fsync status=none
# the kernel initializes inode tables in the background
mount -o remount,noinit_itable /tmp/data
sync
settled

# stats WHEN: keeps the kernel's counts of each disk and partition
stats() {
    local name
    for name in "${one#/dev/}" "${one#/dev/}p1" "${one#/dev/}p2" "${other#/dev/}"; do
        cat "/sys/class/block/$name/stat" >"$case_dir/stat.$name.$1"
    done
    echo "${one#/dev/} ${other#/dev/}" >"$case_dir/disks"
}

begin disk
tool whole latency --json --disk "$one"
tool part latency --json --disk "${one#/dev/}p1"
tool mount latency --json --disk /tmp/data
tool file latency --json --disk /tmp/data/file
tool other latency --json --disk "${other#/dev/}"
traced
stats before
load part --filename="${one}p1" --rw=randrw --bs=4k --size=32m --ioengine=psync --number_ios=40
load file --filename=/tmp/data/file --rw=randread --bs=4k --size=4m --ioengine=psync --number_ios=60
load other --filename="$other" --rw=randread --bs=4k --size=64m --ioengine=psync --number_ios=50
stats after
stop

begin refused
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
# without udev
DM_DISABLE_UDEV=1 dmsetup create linear --table "0 2048 linear ${one}p1 0"
refused mapper "$NVME_DEEP" latency --disk /dev/dm-0
refused name "$NVME_DEEP" latency --disk dm-0
refused null "$NVME_DEEP" latency --disk nullb0
refused character "$NVME_DEEP" latency --disk /dev/nvme0
refused memory "$NVME_DEEP" latency --disk /tmp
refused missing "$NVME_DEEP" latency --disk nvme9n1
refused word "$NVME_DEEP" latency --cgroup web
refused container "$NVME_DEEP" latency --cgroup deadbeef
refused program "$NVME_DEEP" latency --exec -- /no/such/program
DM_DISABLE_UDEV=1 dmsetup remove linear

begin exec
refused code "$NVME_DEEP" latency --json --disk "$other" --exec -- \
    bash -c "dd if=$other of=/dev/null bs=4k count=9 iflag=direct status=none; exit 7"
# shellcheck disable=SC2016 # the inner shell expands it
refused killed "$NVME_DEEP" latency --json --exec -- bash -c 'kill -9 $$'
tool interrupted latency --json --disk "$other" --exec -- sleep 1000.5
traced
dd if="$other" of=/dev/null bs=4k count=5 iflag=direct status=none
pgrep -f 'sleep 1000.5' >"$case_dir/while"
stop INT
pgrep -f '^sleep 1000.5' >"$case_dir/after" || true

begin container
top=/sys/fs/cgroup
id=$(printf 'c0ffee00%056d' 0)
plain=$(printf 'abcdef01%056d' 0)
echo '+memory +io' >$top/cgroup.subtree_control
mkdir $top/system.slice $top/docker
echo '+memory +io' >$top/system.slice/cgroup.subtree_control
scope=$top/system.slice/docker-$id.scope
mkdir -p "$scope/inner" "$top/docker/$plain"
cat "$scope/cgroup.controllers" >"$case_dir/controllers"

# within CGROUP COMMAND...: runs a command in a cgroup
within() {
    # shellcheck disable=SC2016 # the inner shell expands these
    bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$@"
}
tool all latency --json --no-admin
tool submitter latency --json --no-admin --cgroup c0ffee00
tool caller latency --json --no-admin --attach rawtp --cgroup "$scope"
tool plain latency --json --cgroup "$plain"
tool trace trace --stages=none --json --cgroup "$id" --opcode read
traced
cat "$scope/io.stat" >"$case_dir/io.before" 2>/dev/null || true
within "$scope/inner" dd if=/dev/zero of=/tmp/data/inside bs=64k count=64 status=none
dd if=/dev/zero of=/tmp/data/outside bs=64k count=32 status=none
dd if=/dev/zero of="$other" bs=64k count=16 status=none
sync
within "$scope" dd if="$other" of=/dev/null bs=4k count=7 iflag=direct status=none
dd if="$other" of=/dev/null bs=4k count=11 iflag=direct status=none
within "$scope/inner" nvme read "$other" -s 0 -c 0 -z 512 -d /dev/null 2>/dev/null
within "$top/docker/$plain" dd if="$other" of=/dev/null bs=4k count=5 iflag=direct status=none
cat "$scope/io.stat" >"$case_dir/io.after"
stop
umount /tmp/data
