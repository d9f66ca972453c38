# shellcheck shell=bash
# For the scripts that run inside a guest: start the tool, load the device, keep the output of both.
# Every case leaves its files in /mnt/out/CASE; tests/vm.rs reads and checks them. A case that
# cannot be set up ends the script, and the status of the script reports the failure.
set -euo pipefail

: "${NVME_DEEP:?the binary under test}"
out=/mnt/out
tools=()
# command prefix that runs the tools: setpriv, unshare, ...
as=()
# keeps the kernel's log for the analysis of a failed test
trap 'dmesg >/mnt/dmesg' EXIT

# A process costs an emulated CPU some 0.03 s: loops that wait use only what is built into bash.
mkfifo /tmp/never
exec {never}<>/tmp/never
# sleep SECONDS
sleep() {
    read -r -t "$1" -u "$never" || true
}

# has FILE TEXT: whether the file has the text
has() {
    local all=''
    IFS= read -r -d '' all <"$1" || true
    [[ $all == *"$2"* ]]
}

# begin CASE: creates the directory of a case
begin() {
    case_dir=$out/$1
    mkdir -p "$case_dir"
    tools=()
    read -r now _ </proc/uptime
    echo "case $1 at $now s"
}

# tool NAME ARGUMENT...: starts the tool in the background; see traced
tool() {
    local name=$1
    shift
    echo "$*" >"$case_dir/$name.args"
    # of an earlier tool of this name; a signal may come before the background process opens them
    : >"$case_dir/$name.out"
    : >"$case_dir/$name.err"
    "${as[@]}" "$NVME_DEEP" "$@" >"$case_dir/$name.out" 2>"$case_dir/$name.err" &
    tools+=("$!:$name")
    tool_pid=$!
}

# traced: waits until all started tools report that they trace
traced() {
    local entry name i
    for entry in "${tools[@]}"; do
        name=${entry#*:}
        for ((i = 0; i < 1800; i++)); do
            has "$case_dir/$name.err" ': tracing ' && break
            kill -0 "${entry%%:*}" 2>/dev/null || { cat "$case_dir/$name.err"; return 1; }
            sleep 0.05
        done
        ((i < 1800)) || { echo "$name does not begin to trace"; return 1; }
    done
}

# stop [SIGNAL]: ends all tools and keeps their exit codes
stop() {
    local entry
    for entry in "${tools[@]}"; do kill -"${1:-INT}" "${entry%%:*}" 2>/dev/null || true; done
    finished
}

# finished: waits for tools that end by themselves. A tool that hangs is killed, and its status
# shows this.
finished() {
    local entry status limit=$((SECONDS + 40))
    for entry in "${tools[@]}"; do
        status=0
        while ((SECONDS < limit)) && kill -0 "${entry%%:*}" 2>/dev/null; do sleep 0.05; done
        ((SECONDS < limit)) || kill -KILL "${entry%%:*}" 2>/dev/null || true
        wait "${entry%%:*}" || status=$?
        echo "$status" >"$case_dir/${entry#*:}.status"
    done
    tools=()
}

# refused NAME COMMAND...: keeps the output and the exit code of a command that ends by itself
refused() {
    local name=$1 status=0
    shift
    timeout -k 1 60 "$@" >"$case_dir/$name.out" 2>"$case_dir/$name.err" </dev/null || status=$?
    echo "$status" >"$case_dir/$name.status"
}

# module_users: prints the number of users of the driver
module_users() {
    awk '/^nvme_core /{ print $3 }' /proc/modules
}

# disk CTRL [NSID]: prints the block device of a namespace, regardless of its kernel number. That of a
# path (nvme2c2n1) is the one of its subsystem (nvme2n1).
disk() {
    local ns id
    for ns in /sys/class/nvme/"$1"/"$1"*n*; do
        [[ -e $ns/nsid ]] && read -r id <"$ns/nsid" && [[ $id == "${2:-1}" ]] || continue
        ns=${ns##*/}
        [[ ! $ns =~ ^(.*)c[0-9]+(n[0-9]+)$ ]] || ns=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
        echo "$ns"
        return
    done
    return 1
}

# io_cgroups: mounts cgroups of version 2 at $top, with their io controller, and makes one, `limited`
io_cgroups() {
    top=/sys/fs/cgroup
    umount -R $top 2>/dev/null || true
    mount -t cgroup2 none $top
    echo +io >$top/cgroup.subtree_control
    mkdir $top/limited
}

# all_cpus: starts the CPUs that maxcpus=1 has left. The kernel patches its code while it boots, and QEMU 7.2 ends
# guests in which other CPUs run that code.
all_cpus() {
    local cpu
    for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
        echo 1 >"$cpu"
    done
}

# stat_of WHEN DISK: keeps the kernel's own I/O counts of the disk
stat_of() {
    local counts
    read -r counts <"/sys/block/$2/stat"
    echo "$counts" >"$case_dir/stat.$1"
}

# load NAME FIO-OPTION...: runs fio with fixed options and keeps its JSON with the tool's output
load() {
    local name=$1
    shift
    fio --name="$name" --output-format=json --output="$case_dir/$name.fio" --direct=1 --norandommap=1 \
        --randrepeat=0 --group_reporting=1 --thread=1 --exitall_on_error=1 "$@" </dev/null
}
