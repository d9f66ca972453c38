# shellcheck shell=bash
# For the scripts that run inside a guest: start the tool, load the device, keep what both say.
# Every case leaves its files in /mnt/out/CASE; tests/vm.rs reads them and judges. A case that can't
# be set up ends the script: the verdict is then the script's status.
set -euo pipefail

: "${NVME_DEEP:?the binary under test}"
out=/mnt/out
tools=()
# what tools are run by: setpriv, unshare, ...
as=()
# what the kernel had to say, for when a test fails
trap 'dmesg >/mnt/dmesg' EXIT

# begin CASE: a directory for what follows
begin() {
    case_dir=$out/$1
    mkdir -p "$case_dir"
    tools=()
    echo "case $1"
}

# tool NAME ARGUMENT...: starts the tool and waits until it traces
tool() {
    local name=$1
    shift
    echo "$*" >"$case_dir/$name.args"
    "${as[@]}" "$NVME_DEEP" "$@" >"$case_dir/$name.out" 2>"$case_dir/$name.err" &
    tools+=("$!:$name")
    tool_pid=$!
}

# traced: waits until all tools that were started say that they trace
traced() {
    local entry name i
    for entry in "${tools[@]}"; do
        name=${entry#*:}
        for ((i = 0; i < 600; i++)); do
            grep -q ': tracing ' "$case_dir/$name.err" && break
            kill -0 "${entry%%:*}" 2>/dev/null || { cat "$case_dir/$name.err"; return 1; }
            sleep 0.05
        done
        ((i < 600)) || { echo "$name does not begin to trace"; return 1; }
    done
}

# stop [SIGNAL]: ends all tools and keeps their exit codes
stop() {
    local entry
    for entry in "${tools[@]}"; do kill -"${1:-INT}" "${entry%%:*}" 2>/dev/null || true; done
    finished
}

# finished: waits for tools that end by themselves. One that hangs is killed, and its status tells.
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

# refused NAME COMMAND...: keeps what a command that ends by itself says, and its exit code
refused() {
    local name=$1 status=0
    shift
    timeout -k 1 60 "$@" >"$case_dir/$name.out" 2>"$case_dir/$name.err" </dev/null || status=$?
    echo "$status" >"$case_dir/$name.status"
}

# module_users: by how many the driver is held
module_users() {
    awk '/^nvme_core /{ print $3 }' /proc/modules
}

# disk CTRL [NSID]: the block device of a namespace, whatever number the kernel gave it
disk() {
    local ns
    for ns in /sys/class/nvme/"$1"/"$1"*n*; do
        [[ -e $ns/nsid && $(<"$ns/nsid") == "${2:-1}" ]] && { basename "$ns"; return; }
    done
    return 1
}

# stat_of WHEN DISK: the kernel's own count of what the disk did
stat_of() {
    cat /sys/block/"$2"/stat >"$case_dir/stat.$1"
}

# load NAME FIO-OPTION...: fio by the book, its JSON beside the tool's
load() {
    local name=$1
    shift
    fio --name="$name" --output-format=json --output="$case_dir/$name.fio" --direct=1 --norandommap=1 \
        --randrepeat=0 --group_reporting=1 --thread=1 --exitall_on_error=1 "$@" </dev/null
}
