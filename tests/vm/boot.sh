#!/usr/bin/env bash
# boot.sh NAME SHARE [QEMU-ARGUMENT...]: boots kernel NAME (made by fetch.sh) and runs
# SHARE/run.sh in it as root. The guest mounts the host's file tree read-only, and SHARE
# writable as /mnt; /tmp/mods holds the modules that are not loaded yet. boot.sh prints the
# output of the script. The caller passes the NVMe controllers: see nvme-args.sh.
#
# SHARE/cpu has the CPU seconds that the guest took.
#
# Environment:
#   SMP (2)            number of CPUs
#   MEM (2G)           memory
#   APPEND             kernel arguments
#   ALIVE              if set, the script renews SHARE/alive every five seconds, and the guest is
#                      killed if it has not done so for 90 s: QEMU 7.2 may run into a stale
#                      breakpoint while the kernel patches code. 6.1 seems to take it for one that was
#                      just removed (kprobe_int3_handler), and tries again without end; later
#                      kernels die of "int3".
#   TIMEOUT (300)      seconds for the whole run
#   BOOT_LIMIT (180)   seconds of these until the script begins
#   CONSOLE (SHARE/console.log)  log of the whole console
#   ACCEL (tcg,thread=multi)     QEMU accelerator
#   STORAGE_NS         provides a block node "served", for the drive= of a controller, that
#                      completes each request after this number of nanoseconds. QEMU's own
#                      main loop sleeps in whole milliseconds; the node is a separate process
#                      with a thread that does not. The node does not read as zeroes: the
#                      server would answer such reads without a request to the storage.
#   SERVED             names of exports of storage.py (hold, late, soon, discard): provides a block
#                      node "served-NAME" for each, on storage with that fault. What follows a
#                      dot makes another connection to the same export.
#   BUSY               runs this number of processes that compute beside the guest, on its host
#                      CPU; with ONE_CPU.
#   ONE_CPU            if set, keeps all of QEMU on one host CPU, for guests under a load that
#                      does not end. QEMU 7.2 has races between its threads: its NVMe
#                      controller may miss a shadow doorbell, and the commands in flight wait
#                      for the driver's timeout (seen after 55000 commands without tracing,
#                      earlier with tracing). If code is patched under load (attaching
#                      fentry), a CPU may run into a stale breakpoint, and the guest dies of
#                      "int3". Also give such a guest one CPU (SMP=1).
#   RAM_FILE           if set, the guest's memory is also the file SHARE/ram, and SHARE/qemu.log
#                      has the addresses of the doorbell buffers of the controllers.
#   DOORBELLS          if set, SHARE/qemu.log has each write to a doorbell of a submission queue.
#
# Exit status: the status of the script; 123 if it shows no sign of life (ALIVE); 124 if the time
# is over; 125 if the guest ends without a status (a panic, a reset, no boot) or boot.sh cannot
# start it.
#
# A kernel of arm64 gets a root of its own (arm64-root.sh), in which the project has the path that it
# has here.
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
rm -f "$share/status" "$share/alive"

lab=${kernel%/*}
arch=amd64
[[ ! -f $kernel/arch ]] || read -r arch <"$kernel/arch"

console_device=ttyS0
[[ $arch == amd64 ]] || console_device=ttyAMA0
# norandmaps: TCG translates code anew at each other address; a process takes a third of the time to start
append="console=$console_device panic=-1 loglevel=4 mitigations=off norandmaps"
case $root/ in
    # The guest's private /tmp and /run hide the project; init binds it again.
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
    # timeout forwards the signal to QEMU.
    [[ -z $guest ]] || kill "$guest" 2>/dev/null || true
    stop_servers
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# await SOCKET: waits until a server listens on SOCKET; on failure, prints SOCKET.log
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

if [[ -n ${SERVED:-} ]]; then
    setpriv --pdeathsig TERM python3 -B "$here/storage.py" "$work/storage" 2>"$work/storage.log" &
    servers+=($!)
    await "$work/storage"
    for name in $SERVED; do
        set -- -blockdev \
            "driver=nbd,node-name=served-$name,discard=unmap,server.type=unix,server.path=$work/storage,export=${name%%.*}" \
            "$@"
    done
fi

# serve TAG DIRECTORY CACHE MODE: starts a virtiofsd for DIRECTORY. virtiofsd has no read-only
# option, so it gets a view of DIRECTORY in its own mount namespace, where MODE can be ro. Its
# lock files go to a private /run that ends with it.
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

# The file trees of the guest: tag, directory here.
trees=("hostroot /")
# QEMU's cmpxchg16b leaves stray flags behind that an interrupt saves, and the return to these flags is
# a double fault. Therefore the CPU does not offer the instruction (-cx16). With erms, copies are emulated
# byte by byte; that and the instructions of AVX cost a guest some 7 % of its CPU time.
emulator=(qemu-system-x86_64 -cpu "max,-cx16,-erms,-avx,-avx2")
machine=q35
if [[ $arch == arm64 ]]; then
    # the architecture's algorithm for signed pointers is slow to emulate
    emulator=(qemu-system-aarch64 -cpu "max,pauth-impdef=on")
    machine=virt,gic-version=3
    trees=("hostroot $lab/root-arm64" "project $root")
    append+=" lab.project=$root"
    # where it is mounted
    mkdir -p "$lab/root-arm64$root"
fi

# The guest mounts the host's files by 9p, which QEMU serves itself, or by virtiofs if the
# kernel has no 9p. virtiofs shares the guest's memory with its servers.
if grep -q '^CONFIG_NET_9P_VIRTIO=[ym]' "$kernel/config"; then
    files=(
        -fsdev "local,id=share,path=$share,security_model=none,multidevs=remap"
        -device "virtio-9p-pci,fsdev=share,mount_tag=share"
    )
    for tree in "${trees[@]}"; do
        files+=(
            -fsdev "local,id=${tree%% *},path=${tree#* },security_model=none,readonly=on,multidevs=remap"
            -device "virtio-9p-pci,fsdev=${tree%% *},mount_tag=${tree%% *}"
        )
    done
else
    virtiofsd=/usr/lib/qemu/virtiofsd
    [[ -x $virtiofsd ]] || die "kernel ${kernel##*/} has no 9p, and there is no $virtiofsd"
    user=()
    ((EUID == 0)) || user=(--map-root-user)
    machine+=,memory-backend=memory
    files=(-object "memory-backend-memfd,id=memory,size=${MEM:-2G},share=on")
    for tree in "${trees[@]}"; do serve "${tree%% *}" "${tree#* }" always ro; done
    serve share "$share" auto rw
    append+=" lab.fs=virtiofs"
fi

if [[ -n ${RAM_FILE:-} ]]; then
    [[ $machine != *memory-backend* ]] || die "RAM_FILE needs a kernel with 9p"
    machine+=,memory-backend=memory
    files+=(
        -object "memory-backend-file,id=memory,size=${MEM:-2G},mem-path=$share/ram,share=on"
        -trace "enable=pci_nvme_dbbuf_config" -D "$share/qemu.log"
    )
fi

if [[ -n ${DOORBELLS:-} ]]; then
    files+=(-trace "enable=pci_nvme_mmio_doorbell_sq" -D "$share/qemu.log")
fi

place=()
if [[ -n ${ONE_CPU:-} ]]; then
    first=$(taskset -cp $$)
    first=${first##*: }
    place=(taskset -c "${first%%[-,]*}")
fi

for ((i = 0; i < ${BUSY:-0}; i++)); do
    setpriv --pdeathsig TERM "${place[@]}" bash -c 'while :; do :; done' &
    servers+=($!)
done

# The console passes through three steps: sed removes the carriage returns, tee writes all
# lines to the log, and the lines between the marks (or up to a crash) go to stdout.
mkfifo "$work/console"
sed -u 's/\r$//' <"$work/console" | tee "$console" |
    sed -u -n '/@@ guest begins @@$/,/^@@ guest ends @@$/ { /@@ guest \(begins\|ends\) @@$/! p }' &
filter=$!

# QEMU must not outlive this script, even if the script is killed by SIGKILL.
setpriv --pdeathsig TERM timeout -k 5 "$limit" "${place[@]}" "${emulator[@]}" \
    -accel "${ACCEL:-tcg,thread=multi}" -M "$machine" -smp "${SMP:-2}" -m "${MEM:-2G}" \
    -display none -monitor none -serial stdio -no-reboot -nic none \
    -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd.img" -append "$append ${APPEND:-}" \
    "${files[@]}" "$@" </dev/null >"$work/console" 2>&1 &
guest=$!

# Occasionally a guest does not boot: QEMU computes, and the console stays silent.
{
    for ((i = 0; i < ${BOOT_LIMIT:-180}; i++)); do
        sleep 1
        ! grep -q '@@ guest begins @@' "$console" || break
    done
    if grep -q '@@ guest begins @@' "$console"; then
        [[ -n ${ALIVE:-} ]] || exit 0
        touch "$share/alive"
        while (($(date +%s) - $(stat -c %Y "$share/alive") < 90)); do sleep 5; done
        touch "$work/dead"
    fi
    kill "$guest"
} >/dev/null 2>&1 &
servers+=($!)

ended=0
wait "$guest" || ended=$?
guest=''
stop_servers
wait "$filter" "${servers[@]}" || true
# user and system time of QEMU and of the servers
times >"$work/times"
sed '1d; s/m/ /g; s/s//g' "$work/times" | awk '{ print 60 * ($1 + $3) + $2 + $4 }' >"$share/cpu"
[[ -z ${RAM_FILE:-} ]] || rm -f "$share/ram"

# The guest writes the status of its script to the share; QEMU's exit code does not contain it.
status=''
[[ ! -f $share/status ]] || read -r status <"$share/status" || true
if [[ $status =~ ^[0-9]+$ ]]; then
    exit "$status"
elif [[ -e $work/dead ]]; then
    echo "boot: the guest stopped: its script showed no sign of life for 90 s; its console: $console" >&2
    exit 123
elif ((ended == 124 || ended == 137)); then
    echo "boot: the guest did not end within $limit s; its console: $console" >&2
    exit 124
fi
echo "boot: the guest ended without a status; the end of its console, $console:" >&2
tail -n 5 "$console" >&2
exit 125
