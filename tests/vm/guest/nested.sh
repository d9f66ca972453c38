#!/usr/bin/env bash
# A guest in the guest, by KVM on the emulated SVM: its driver is recorded in it, its QEMU beside it.
. "$(dirname "$0")/lib.sh"
begin nested
for module in irqbypass ccp kvm kvm-amd; do
    [[ ! -e /tmp/mods/$module.ko ]] || insmod "/tmp/mods/$module.ko"
done
[[ -e /dev/kvm ]]
cat /sys/devices/system/clocksource/clocksource0/current_clocksource >"$case_dir/clocksource"

share=/tmp/inner
mkdir "$share"
cat >"$share/run.sh" <<END
set -e
trap 'dmesg >/mnt/dmesg' EXIT
for module in ptp pps_core ptp_kvm; do
    [[ ! -e /tmp/mods/\$module.ko ]] || insmod /tmp/mods/\$module.ko || true
done
cat /sys/devices/system/clocksource/clocksource0/current_clocksource /sys/class/ptp/*/clock_name >/mnt/clocks 2>&1 || true
touch /mnt/ready
while [[ ! -e /mnt/go ]]; do sleep 0.2; done
$NVME_DEEP record -o /mnt/guest.nvd --exec -- \
    dd if=/dev/nvme0n1 of=/dev/null bs=4k count=200 iflag=direct >/mnt/record.out 2>&1
touch /mnt/done
while [[ ! -e /mnt/end ]]; do sleep 0.2; done
END

# wait_for FILE: waits until the guest has made it
wait_for() {
    local i
    for ((i = 0; i < 1200; i++)); do
        [[ ! -e $share/$1 ]] || return 0
        kill -0 "$inner" 2>/dev/null || break
        sleep 0.2
    done
    echo "no $1"
    tail -n 20 "$share/console.log" || true
    return 1
}

begin_s=$SECONDS
lab=$(cd "$(dirname "$0")/.." && pwd)
kernel=$(grep -lx "$(uname -r)" "$lab"/../../target/lab/*/release | head -n 1)
kernel=$(basename "$(dirname "$kernel")")
SMP=1 MEM=512M ACCEL=kvm TIMEOUT=400 BOOT_LIMIT=300 "$lab/boot.sh" "$kernel" "$share" \
    -blockdev driver=null-co,read-zeroes=on,size=67108864,latency-ns=2000000,node-name=disk \
    -device nvme,serial=inner,drive=disk >"$case_dir/boot.out" 2>&1 &
inner=$!
wait_for ready
echo "ready after $((SECONDS - begin_s)) s" >"$case_dir/seconds"
qemu=$(pgrep -f 'serial=inner' | while read -r pid; do
    [[ $(<"/proc/$pid/comm") != qemu-system-x86 ]] || echo "$pid"
done)
grep . /sys/kernel/debug/kvm/*/vcpu0/tsc* >"$case_dir/tsc" 2>&1 || true
"$NVME_DEEP" host list >"$case_dir/list.out" 2>&1
tool host host trace --pid "$qemu" -o "$case_dir/host.nvd"
traced
touch "$share/go"
wait_for 'done'
stop
touch "$share/end"
wait "$inner"
cp "$share"/{guest.nvd,record.out,clocks,dmesg} "$case_dir"
echo "ended after $((SECONDS - begin_s)) s" >>"$case_dir/seconds"
for clock in pairs tsc ptp; do
    refused "$clock" "$NVME_DEEP" join --clock "$clock" --json "$case_dir/guest.nvd" "$case_dir/host.nvd"
    refused "$clock-text" "$NVME_DEEP" join --clock "$clock" "$case_dir/guest.nvd" "$case_dir/host.nvd"
done
