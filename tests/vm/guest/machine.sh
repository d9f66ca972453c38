#!/usr/bin/env bash
# Every mode beside every other on the same load, on a machine or a kernel of another shape. Words of the kernel's
# command line add to it:
#
#   lab.affinity=N   sets rq_affinity of all disks
#   lab.hotplug      takes the last CPU offline and brings it back during the load
#   lab.clock        runs the tools in a time namespace, whose clock is a day ahead
#   lab.held=CTRL    a controller that holds reads for some seconds, for `inflight`
. "$(dirname "$0")/lib.sh"
asked=" $(</proc/cmdline) "
value() { [[ $asked =~ \ lab\.$1=([^ ]*)\  ]] && echo "${BASH_REMATCH[1]}"; }
held=$(value held || true)
cpus=$(nproc --all)
[[ $asked != *' lab.clock '* ]] ||
    as=(unshare --time --monotonic 86400 --boottime 86400)

disks=()
for ctrl in /sys/class/nvme/nvme*; do
    ctrl=${ctrl##*/}
    [[ $ctrl != "$held" ]] || continue
    dev=$(disk "$ctrl")
    disks+=("$dev")
    echo none >"/sys/block/$dev/queue/scheduler"
    echo 2 >"/sys/block/$dev/queue/nomerges" # otherwise two adjacent requests may become one command
    ! affinity=$(value affinity) || echo "$affinity" >"/sys/block/$dev/queue/rq_affinity"
done
files=$(printf ':/dev/%s' "${disks[@]}")
files=${files#:}

# loads NAME: each path of submission, on every CPU that is online, isolated ones too
loads() {
    local online
    online=$(</sys/devices/system/cpu/online)
    load "$1-batch" --filename="$files" --rw=randrw --bs=4k --size=1g --number_ios=400 --numjobs="$cpus" \
        --cpus_allowed="$online" --cpus_allowed_policy=split --ioengine=libaio --iodepth=32 \
        --iodepth_batch_submit=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=16
    load "$1-single" --filename="$files" --rw=randrw --bs=4k --size=1g --number_ios=100 --numjobs="$cpus" \
        --cpus_allowed="$online" --cpus_allowed_policy=split --ioengine=psync --fsync=25
}

begin modes
"$NVME_DEEP" doctor --json >"$case_dir/doctor"
"$NVME_DEEP" doctor >"$case_dir/doctor.text"
for dev in "${disks[@]}"; do echo "$dev $(<"/sys/block/$dev/stat")"; done >"$case_dir/stats.before"
tool total latency --json --no-admin
tool basic latency --stages --json --no-admin
tool fine latency --stages=fine --json --commands --hist --no-admin
tool full latency --stages=full --json --commands --hist --no-admin
tool trace trace --stages --json --no-admin
tool file record --force --no-admin -o "$case_dir/file.nvd"
tool diagnosis diagnose --json --duration 10m
traced
loads first
if [[ $asked == *' lab.hotplug '* ]]; then
    echo 0 >"/sys/devices/system/cpu/cpu$((cpus - 1))/online"
    loads offline
    echo 1 >"/sys/devices/system/cpu/cpu$((cpus - 1))/online"
    loads online
fi
stop
for dev in "${disks[@]}"; do echo "$dev $(<"/sys/block/$dev/stat")"; done >"$case_dir/stats.after"
refused recorded "$NVME_DEEP" latency --from "$case_dir/file.nvd" --stages=full --json

[[ -n $held ]] || exit 0
begin held
dev=/dev/$(disk "$held")
"${as[@]}" "$NVME_DEEP" inflight --json 500ms 12 --age 10x >"$case_dir/observed.out" 2>"$case_dir/observed.err" &
tool=$!
for ((i = 0; i < 1800; i++)); do
    ! has "$case_dir/observed.err" ': tracing ' && kill -0 "$tool" 2>/dev/null || break
    sleep 0.05
done
dd if="$dev" of=/dev/null bs=4k count=1 skip=100 iflag=direct status=none &
reader=$!
for ((i = 0; i < 600; i++)); do
    [[ ! $(<"/sys/block/${dev##*/}/inflight") =~ ^\ *1\ +0$ ]] || break
    sleep 0.05
done
refused look "${as[@]}" "$NVME_DEEP" inflight --json
status=0
wait "$tool" || status=$?
echo "$status" >"$case_dir/observed.status"
wait "$reader"
