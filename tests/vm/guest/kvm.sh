#!/usr/bin/env bash
# A guest in the guest, by KVM on the emulated SVM: its firmware reads from an NVMe controller, and
# QEMU writes each doorbell to its log.
. "$(dirname "$0")/lib.sh"
begin kvm
for module in irqbypass ccp kvm kvm-amd; do
    [[ ! -e /tmp/mods/$module.ko ]] || insmod "/tmp/mods/$module.ko"
done
[[ -e /dev/kvm ]]

# machine: starts a machine that waits for `cont`
machine() {
    qemu-system-x86_64 -accel kvm -cpu host -m 64 -nodefaults -display none -no-reboot -S \
        -monitor "unix:/tmp/monitor,server=on,wait=off" -trace "pci_nvme_mmio_doorbell_*" -D "$case_dir/$1.log" \
        -blockdev driver=null-co,read-zeroes=on,size=67108864,node-name=disk \
        -device nvme,serial=inner,drive=disk,bootindex=0 </dev/null >"$case_dir/$1.out" 2>&1 &
    qemu=$!
    local i
    for ((i = 0; i < 300; i++)); do [[ ! -S /tmp/monitor ]] || return 0; sleep 0.1; done
    cat "$case_dir/$1.out"
    return 1
}

# monitor COMMAND: prints QEMU's answer
monitor() {
    python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect("/tmp/monitor")
s.sendall(sys.argv[1].encode() + b"\n")
time.sleep(1)
print(s.recv(1 << 16).decode())' "$1"
}

# doorbells LOG: waits until the firmware writes no more doorbells
doorbells() {
    local i before=-1 now=0
    for ((i = 0; i < 60; i++)); do
        sleep 1
        now=$(grep -c doorbell "$1" || true)
        ((now == 0 || now != before)) || return 0
        before=$now
    done
    echo "no doorbell in $1"
    return 1
}

# the firmware of a first run shows where the BAR is
machine first
monitor cont >/dev/null
doorbells "$case_dir/first.log"
bar=$(monitor "info pci" | grep -A 12 -i 'Class 0264\|NVM\|1b36:0010' | sed -nE 's/.*BAR0: 64 bit memory at (0x[0-9a-f]+) \[(0x[0-9a-f]+)\].*/\1-\2/p' | head -n 1)
echo "$bar" >"$case_dir/bar"
[[ -n $bar ]]
kill "$qemu"
wait "$qemu" || true
rm -f /tmp/monitor

machine second
tracing=/sys/kernel/tracing
echo 16384 >"$tracing/buffer_size_kb"
for event in exit mmio userspace_exit entry; do echo 1 >"$tracing/events/kvm/kvm_$event/enable"; done
monitor cont >/dev/null
doorbells "$case_dir/second.log"
echo 0 >"$tracing/tracing_on"
cat "$tracing/trace" >"$case_dir/kvm.txt"
refused kvm "$NVME_DEEP" import "$case_dir/kvm.txt" --bar "$bar" --json
kill "$qemu"
finished
