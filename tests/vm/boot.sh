#!/usr/bin/env bash
# boot.sh NAME SHARE [QEMU-ARGUMENT...]: boots kernel NAME (made by fetch.sh) and
# runs SHARE/run.sh in it, as root, on the host's file tree (read-only; SHARE is
# /mnt there, writable; /tmp/mods holds modules not loaded yet). Prints what the
# script prints. NVMe controllers are the caller's to give: see nvme-args.sh.
#
# Environment: SMP (2) cpus, MEM (2G), APPEND kernel arguments, TIMEOUT (300) seconds
# and of these BOOT_LIMIT (180) until the script begins, CONSOLE (SHARE/console.log)
# the log of the whole console, ACCEL (tcg,thread=multi) what executes the guest,
# STORAGE_NS: with it a block node "served" is there, for a controller's drive=, that
# answers after so many nanoseconds. QEMU's own main loop sleeps in whole milliseconds;
# this node is a process of its own, whose thread does not. (It does not read as
# zeroes: the server would answer that without asking the storage.)
#
# ONE_CPU=1 keeps all of QEMU on one of our processors, for guests under a load that
# does not end. QEMU 7.2 has races between its threads: its NVMe controller may miss
# a shadow doorbell, and the commands in flight wait for the driver's timeout (seen
# after 55000 commands without any tracing, with it sooner); and where code is patched
# under load (attaching fentry), a CPU may run into a stale breakpoint and the guest
# dies of "int3". Give such a guest one CPU, too.
#
# Exit status: the script's own; 124 when time ran out; 125 when the guest ended
# without telling a status (a panic, a reset, no boot at all).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

die() {
    echo "boot: $*" >&2
    exit 125
}

(($# >= 2)) || die "usage: boot.sh NAME SHARE [QEMU-ARGUMENT...]"
kernel=${NVME_DEEP_LAB:-$root/target/lab}/$1
[[ -f $kernel/initrd.img ]] || die "no kernel '$1' in ${kernel%/*}: tests/vm/fetch.sh $1"
share=$(cd "$2" && pwd) || die "no directory $2"
shift 2
[[ -f $share/run.sh ]] || die "nothing to run: no $share/run.sh"
console=${CONSOLE:-$share/console.log}
limit=${TIMEOUT:-300}
rm -f "$share/status"

append="console=ttyS0 panic=-1 loglevel=4 mitigations=off"
case $root/ in
    # Hidden by the guest's private directories: have it shown again.
    /tmp/* | /run/*) append+=" lab.keep=$root" ;;
esac

work=$(mktemp -d)
guest=''
servers=()
stop_servers() {
    ((!${#servers[@]})) || kill "${servers[@]}" 2>/dev/null || true
}
# shellcheck disable=SC2317 # called by the trap
finish() {
    # timeout hands the signal on to QEMU
    [[ -z $guest ]] || kill "$guest" 2>/dev/null || true
    stop_servers
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# await SOCKET: until a server listens there; SOCKET.log may say why it does not
await() {
    local i
    for ((i = 0; i < 100; i++)); do
        [[ ! -S $1 ]] || return 0
        sleep 0.05
    done
    cat "$1.log" >&2 2>/dev/null || true
    die "the server of $1 does not start"
}

if [[ -n ${STORAGE_NS:-} ]]; then
    setpriv --pdeathsig TERM qemu-storage-daemon --object iothread,id=io \
        --blockdev "driver=null-co,node-name=null,size=1073741824,latency-ns=$STORAGE_NS" \
        --nbd-server "addr.type=unix,addr.path=$work/nbd" \
        --export type=nbd,id=export,node-name=null,name=null,iothread=io,writable=on &
    servers+=($!)
    await "$work/nbd"
    set -- -blockdev \
        "driver=nbd,node-name=served,server.type=unix,server.path=$work/nbd,export=null" "$@"
fi

# serve TAG DIRECTORY CACHE MODE: a virtiofsd for DIRECTORY. It can't be told to only
# read: it gets a view in a mount namespace of its own, where MODE can be ro. Its lock
# files go to a /run that ends with it.
serve() {
    local view=$work/$1.view
    mkdir "$view"
    # shellcheck disable=SC2016 # the inner shell expands these
    setpriv --pdeathsig TERM unshare "${user[@]}" --mount --propagation private bash -ec '
        view=$1 mode=$3
        mount --rbind "$2" "$view"
        if [[ $mode == ro ]]; then
            findmnt -R -n -r -o TARGET "$view" | while read -r point; do
                mount -o remount,bind,ro "$(printf %b "$point")" || [[ $point != "$view" ]]
            done
        fi
        mount -t tmpfs run /var/run
        shift 3
        exec "$@"' serve "$view" "$2" "$4" \
        "$virtiofsd" --socket-path="$work/$1" -o "source=$view,cache=$3,sandbox=chroot,log_level=err" \
        2>"$work/$1.log" &
    servers+=($!)
    await "$work/$1"
    files+=(-chardev "socket,id=$1,path=$work/$1" -device "vhost-user-fs-pci,chardev=$1,tag=$1")
}

# The host's files by 9p, which QEMU serves itself; by virtiofs where the kernel has
# no 9p. That shares the guest's memory with its servers.
machine=q35
if grep -q '^CONFIG_NET_9P_VIRTIO=[ym]' "$kernel/config"; then
    files=(
        -fsdev "local,id=hostroot,path=/,security_model=none,readonly=on,multidevs=remap"
        -device "virtio-9p-pci,fsdev=hostroot,mount_tag=hostroot"
        -fsdev "local,id=share,path=$share,security_model=none,multidevs=remap"
        -device "virtio-9p-pci,fsdev=share,mount_tag=share"
    )
else
    virtiofsd=/usr/lib/qemu/virtiofsd
    [[ -x $virtiofsd ]] || die "kernel ${kernel##*/} has no 9p, and there is no $virtiofsd"
    user=()
    ((EUID == 0)) || user=(--map-root-user)
    machine+=,memory-backend=memory
    files=(-object "memory-backend-memfd,id=memory,size=${MEM:-2G},share=on")
    serve hostroot / always ro
    serve share "$share" auto rw
    append+=" lab.fs=virtiofs"
fi

place=()
if [[ -n ${ONE_CPU:-} ]]; then
    first=$(taskset -cp $$)
    first=${first##*: }
    place=(taskset -c "${first%%[-,]*}")
fi

# The console in three steps: lines end like lines, all go to the log, and only
# those between the marks (or up to a crash) to our stdout.
mkfifo "$work/console"
sed -u 's/\r$//' <"$work/console" | tee "$console" |
    sed -u -n '/@@ guest begins @@$/,/^@@ guest ends @@$/ { /@@ guest \(begins\|ends\) @@$/! p }' &
filter=$!

# QEMU must not outlive this script, even when that is killed outright. Its cmpxchg16b
# leaves stray flags behind for an interrupt to save, and returning to those is a
# double fault: the guest is not to know the instruction.
setpriv --pdeathsig TERM timeout -k 5 "$limit" "${place[@]}" qemu-system-x86_64 \
    -accel "${ACCEL:-tcg,thread=multi}" -cpu max,-cx16 -M "$machine" -smp "${SMP:-2}" -m "${MEM:-2G}" \
    -display none -monitor none -serial stdio -no-reboot -nic none \
    -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd.img" -append "$append ${APPEND:-}" \
    "${files[@]}" "$@" </dev/null >"$work/console" 2>&1 &
guest=$!

# Now and then a guest does not come up at all (QEMU computes, the console stays silent).
{
    for ((i = 0; i < ${BOOT_LIMIT:-180}; i++)); do
        sleep 1
        ! grep -q '@@ guest begins @@' "$console" || exit 0
    done
    kill "$guest"
} >/dev/null 2>&1 &
servers+=($!)

ended=0
wait "$guest" || ended=$?
guest=''
stop_servers
wait "$filter" || true

# Only the guest knows how its script did; QEMU's exit code says nothing of it.
status=''
[[ ! -f $share/status ]] || read -r status <"$share/status" || true
if [[ $status =~ ^[0-9]+$ ]]; then
    exit "$status"
elif ((ended == 124 || ended == 137)); then
    echo "boot: the guest did not end within $limit s; its console: $console" >&2
    exit 124
fi
echo "boot: the guest ended without a status; the end of its console, $console:" >&2
tail -n 5 "$console" >&2
exit 125
