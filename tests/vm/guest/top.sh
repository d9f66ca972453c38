#!/usr/bin/env bash
# `top` in a pseudo-terminal beside a load: keys, sizes, suspended and resumed, every way to end.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
dev=$(disk nvme0)
export PYTHONDONTWRITEBYTECODE=1
begin screen
fio --name=load --filename="/dev/$dev" --rw=randrw --bs=4k --ioengine=libaio --iodepth=4 --direct=1 \
    --size=1g --time_based=1 --runtime=1200 --rate_iops=300,200 --output=/dev/null &
load=$!
sleep 2
python3 "$(dirname "$0")/../../top/drive.py" "$case_dir" "$NVME_DEEP" top 500ms --ctrl nvme0
# panels OPTION: all panels at once
panels() {
    TERM=xterm script -qec "stty rows 50 cols 120; exec $NVME_DEEP top 1s $1 --ctrl nvme0 --duration 4s" \
        "$case_dir/screen$1" </dev/null >/dev/null
}

panels --submitters
# from now on, four reads at a time wait for 60 per second
io_cgroups
echo "$(<"/sys/block/$dev/dev") riops=60" >$top/limited/io.max
for pid in "$load" $(pgrep -P "$load"); do
    echo "$pid" >$top/limited/cgroup.procs
done
panels --stages=full
kill "$load"
wait "$load" || true
bpftool prog show >"$case_dir/programs"
