#!/usr/bin/env bash
# Processes by uprobes and USDT probes: stand-ins for SPDK's target and for a QEMU with USDT notes
# (tests/host), which print what they do. /mnt has their programs.
. "$(dirname "$0")/lib.sh"

# at other addresses each time, as on a real machine: boot.sh switches this off
echo 2 >/proc/sys/kernel/randomize_va_space

# stand_in NAME ARGUMENT...: starts one. It reads its lines from file descriptor 3.
stand_in() {
    local name=$1 i
    shift
    cp "/mnt/$name" /tmp
    mkfifo "/tmp/$name.in"
    "/tmp/$name" "$@" <"/tmp/$name.in" >"$case_dir/truth" &
    stand_in=$!
    exec 3>"/tmp/$name.in"
    for ((i = 0; i < 600; i++)); do
        ! grep -q ready "$case_dir/truth" || return 0
        sleep 0.1
    done
    return 1
}

# done_with COUNT: waits for this number of lines of the stand-in
done_with() {
    local i
    for ((i = 0; i < 600 && $(wc -l <"$case_dir/truth") < $1; i++)); do sleep 0.1; done
}

begin spdk
stand_in target 60
tool trace host trace --json -v --pid "$stand_in"
tool ends host latency --json --ends --pid "$stand_in"
tool states host spdk --json --pid "$stand_in"
tool messages host msgs --json --pid "$stand_in"
traced
echo >&3
done_with 61
sleep 0.5
stop
exec 3>&-
wait "$stand_in"

begin qemu
stand_in qemu-system-x86_64 -device nvme,serial=SER0
refused list "$NVME_DEEP" host list --json
tool trace host trace --json --usdt --pid "$stand_in"
traced
for ((i = 1; i <= 40; i++)); do
    printf 'io_cmd %d 1 2 2\nread %d 1 8 4096 %d\nrw_cb %d\n' "$i" "$i" $((i * 8)) "$i"
    printf 'enqueue_req_completion %d 2 0 0 0\nirq_msix 2\n' "$i"
done >&3
done_with 201
sleep 0.5
stop
exec 3>&-
wait "$stand_in"
