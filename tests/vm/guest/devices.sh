# shellcheck shell=bash
# For guest scripts: drivers and devices that come and go, and the kernel's own count of commands.

pci=()
for ctrl in /sys/class/nvme/nvme*; do pci+=("$(basename "$(readlink -f "$ctrl/device")")"); done

# attached: prints the users of the driver, the kprobes and the BPF programs
attached() {
    echo "users $(module_users)"
    [[ ! -e /sys/kernel/debug/kprobes/list ]] || cat /sys/kernel/debug/kprobes/list
    bpftool prog show
}

# settled: waits until every controller has its disk and the disks are idle (the kernel reads
# partition tables first)
settled() {
    local n i found look seen=''
    for n in "${!pci[@]}"; do
        for ((i = 0; i < 600; i++)); do
            found=$(disk "nvme$n") && [[ -b /dev/$found ]] && break
            sleep 0.05
        done
        ((i < 600)) || { echo "nvme$n does not come back"; return 1; }
    done
    for ((i = 0; i < 300; i++)); do
        look=$(cat /sys/block/nvme*/stat)
        [[ $look != "$seen" ]] || return 0
        seen=$look
        sleep 0.2
    done
    return 1
}

release_all() {
    local at
    for at in "${pci[@]}"; do echo "$at" >/sys/bus/pci/drivers/nvme/unbind; done
}

# bind_in_order DEVICE...: binds the controllers (indexes of pci) one by one, so that they are
# numbered in this order. Bound at once, they are numbered by order of arrival.
bind_in_order() {
    local device number=0 i
    for device; do
        echo "${pci[device]}" >/sys/bus/pci/drivers/nvme/bind
        for ((i = 0; i < 600; i++)); do
            disk "nvme$number" >/dev/null && break
            sleep 0.05
        done
        ((++number))
    done
    settled
}

bind_all() {
    bind_in_order "${!pci[@]}"
}

drop_driver() {
    release_all
    rmmod nvme
}

bring_driver() {
    echo 0 >/sys/bus/pci/drivers_autoprobe
    insmod /tmp/mods/nvme.ko
    bind_all
    echo 1 >/sys/bus/pci/drivers_autoprobe
}

# The kernel's own ledger, by its event histograms: commands set up, CQEs, and completions, by
# controller and queue.
events=/sys/kernel/tracing/events/nvme
by=hist:keys=ctrl_id,qid
# 5.10 has no histograms: the events themselves are recorded and counted at the end.
kept=/sys/kernel/tracing/instances/counts
names=/sys/kernel/tracing/options/record-cmd
count_events() {
    local event
    # for the names of tasks ftrace patches a tracepoint of the scheduler, and QEMU 7.2 may run the
    # breakpoint after the kernel has removed it (see died_of_qemu() of judge/guest.rs)
    echo 0 >"$names"
    if [[ ! -e $events/nvme_sq/hist ]]; then
        mkdir "$kept"
        echo 32768 >"$kept/buffer_size_kb"
        echo 1 >"$kept/events/nvme/enable"
        return
    fi
    for event in nvme_setup_cmd nvme_sq nvme_complete_rq; do echo "$by" >"$events/$event/trigger"; done
}
events_counted() {
    local event
    if [[ ! -e $events/nvme_sq/hist ]]; then
        echo 0 >"$kept/events/nvme/enable"
        for event in nvme_setup_cmd nvme_sq nvme_complete_rq; do
            {
                # example: ...: nvme_sq: nvme0: disk=nvme0n1, qid=1, head=3, tail=3
                sed -nE "s/.* $event: nvme([0-9]+): (disk=[^,]*, )?qid=([0-9]+),.*/\\1, qid: \\3/p" \
                    "$kept/trace" | sort | uniq -c |
                    sed -E 's/ *([0-9]+) (.*)/{ ctrl_id: \2 } hitcount: \1/'
                awk '/^overrun:|^dropped events:/ { n += $NF } END { print "Dropped: " n + 0 }' \
                    "$kept"/per_cpu/cpu*/stats
            } >"$case_dir/$event.hist"
        done
        rmdir "$kept"
        echo 1 >"$names"
        return
    fi
    for event in nvme_setup_cmd nvme_sq nvme_complete_rq; do
        cat "$events/$event/hist" >"$case_dir/$event.hist"
        echo "!$by" >"$events/$event/trigger"
    done
    echo 1 >"$names"
}

# endless DISK: a load in the background that does not end when the disk disappears
endless() {
    fio --name=endless --output="$case_dir/endless" --direct=1 --filename="/dev/$1" --rw=randread \
        --norandommap=1 --bs=4k --size=512m --ioengine=libaio --iodepth=8 --thread=1 \
        --time_based --runtime=60 </dev/null >/dev/null 2>&1 &
    load_pid=$!
}

no_load() {
    # fio may have ended by itself, because all its reads failed
    kill "$load_pid" 2>/dev/null || true
    wait "$load_pid" || true
}

# busy DISK [COMMANDS]: waits until this number of further reads (50) is done
busy() {
    local before now i
    read -r before _ <"/sys/block/$1/stat"
    for ((i = 0; i < 1800; i++)); do
        read -r now _ <"/sys/block/$1/stat"
        ((now < before + ${2:-50})) || return 0
        sleep 0.02
    done
    echo "$1 is not busy"
    return 1
}

# small DEPTH: a load of some hundred commands, and the kernel's count of it
small() {
    dev=$(disk nvme0)
    echo 2 >"/sys/block/$dev/queue/nomerges" # otherwise two adjacent requests may merge
    stat_of before "$dev"
    load mixed --filename="/dev/$dev" --rw=randrw --bs=4k --size=1g --ioengine=libaio \
        --iodepth="$1" --number_ios=300
    stat_of after "$dev"
}

# measured NAME WORD...: runs one tool with a small load
measured() {
    local name=$1
    shift
    tool "$name" latency --json --ctrl nvme0 --no-admin "$@"
    traced
    small 8
    stop INT
}
