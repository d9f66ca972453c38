#!/usr/bin/env bash
# Every attach method on the same loads: the tool's own choice with all four stage sets side by
# side, then each attach method that can be forced. The forced methods run alone: kprobes and
# classic tracepoints share a guard per CPU, so that one tool would make another tool miss more.
. "$(dirname "$0")/lib.sh"
dev=$(disk nvme0)
slow=$(disk nvme1)
queue=/sys/block/$dev/queue
echo 2 >"$queue/nomerges" # otherwise two adjacent requests may become one command

# all paths of submission and completion that this kernel has
loads() {
    local engine how
    echo none >"$queue/scheduler"
    stat_of before "$dev"
    for engine in batch psync sched; do
        how=(--ioengine=libaio --iodepth=32 --iodepth_batch_submit=16
            --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16)
        case $engine in
            psync) how=(--ioengine=psync) ;;
            # with a scheduler, commands wait, complete one by one, and go out through queue_rq
            sched) echo mq-deadline >"$queue/scheduler" ;;
        esac
        load "$engine" --filename="/dev/$dev" --rw=randrw --bs=4k --number_ios=600 --size=1g \
            --fsync=50 "${how[@]}"
    done
    stat_of after "$dev"
    echo none >"$queue/scheduler"
    # nvme1 answers after 5 ms
    fio --name=slow --filename="/dev/$slow" --rw=randread --bs=4k --number_ios=40 --size=1g --direct=1 \
        --norandommap=1 --ioengine=psync --thread=1 --output=/dev/null
}

begin doctor
"$NVME_DEEP" doctor -v --identify >"$case_dir/text"
"$NVME_DEEP" doctor --json >"$case_dir/json"

begin auto
tool total latency --json --no-admin
tool basic latency --stages --json --commands --hist --no-admin
tool fine latency --stages=fine --json --commands --hist --no-admin
tool full latency --stages=full --json --commands --hist --no-admin
traced
loads
stop

for method in fentry rawtp kprobe tracepoint; do
    begin "$method"
    tool fine latency --stages=fine --attach "$method" --json --commands --hist --no-admin
    if traced >/dev/null; then
        loads
        stop
    else
        finished
    fi
done

# the text output, with the attach method that loses most
begin words
tool tracepoint latency --stages --attach tracepoint --ctrl nvme0
traced
load words --filename="/dev/$dev" --rw=randread --bs=4k --number_ios=50 --size=1g --ioengine=psync
stop

# A kernel without any BTF, described by a file: a copy of this kernel's own BTF, which is then
# hidden. The copy describes the driver only if the driver is built in.
[[ ! -e /sys/module/nvme/initstate ]] || exit 0
begin described
cp /sys/kernel/btf/vmlinux /tmp/whole.btf
# shellcheck disable=SC2016 # for the inner shell
as=(unshare -m bash -c 'mount --bind /dev/null /sys/kernel/btf/vmlinux && exec "$0" "$@"')
tool fine latency --stages=fine --json --commands --hist --ctrl nvme0 --no-admin --btf /tmp/whole.btf
traced
stat_of before "$dev"
load described --filename="/dev/$dev" --rw=randread --bs=4k --number_ios=300 --size=1g \
    --ioengine=libaio --iodepth=16
stat_of after "$dev"
stop
as=()
