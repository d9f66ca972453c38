#!/usr/bin/env bash
# The host side. nvmet serves nvme1, which answers after 4 ms, over TCP in the same guest; nvme2 is the
# connection to it. Both sides are recorded and joined. Then a QEMU in the guest, without a running
# CPU, is traced by uprobes.
. "$(dirname "$0")/lib.sh"
tests=$(cd "$(dirname "$0")/../.." && pwd)

begin none
refused trace "$NVME_DEEP" host trace --nvmet --duration 1s
refused nothing "$NVME_DEEP" host latency
refused nobody setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
    "$NVME_DEEP" host trace --pid 1

. "$(dirname "$0")/target.sh"
serve 1 tcp

# join_all: joins the recordings of a case in all ways
join_all() {
    local clock
    for clock in same pairs; do
        refused "$clock" "$NVME_DEEP" join --clock "$clock" --json --slowest 5000 \
            "$case_dir/guest.nvd" "$case_dir/host.nvd"
    done
    refused text "$NVME_DEEP" join "$case_dir/guest.nvd" "$case_dir/host.nvd"
    refused from "$NVME_DEEP" host trace --from "$case_dir/host.nvd" --json
    refused from-latency "$NVME_DEEP" host latency --from "$case_dir/host.nvd" --json
}

# Both sides from before the connection on: Connect, Identify, I/O.
begin join
tool host host trace --nvmet -v -o "$case_dir/host.nvd"
tool print host trace --nvmet --json
tool latency host latency --nvmet --json
tool guest record --stages basic -o "$case_dir/guest.nvd"
traced
connect tcp --keep-alive-tmo=600
sleep 1 # the kernel reads the partition table
load mixed --filename="/dev/$remote" --rw=randrw --bs=4k --size=512m --ioengine=libaio \
    --iodepth=8 --number_ios=400
sleep 0.5
stop
join_all

# A command that is rejected before it is executed: an opcode that does not exist.
begin rejected
tool host host trace --nvmet -o "$case_dir/host.nvd"
tool guest record --ctrl nvme2 --no-admin --stages basic -o "$case_dir/guest.nvd"
traced
nvme io-passthru "/dev/$remote" --opcode=0x99 --namespace-id=1 >"$case_dir/passthru" 2>&1 &&
    { echo "the command was not rejected"; exit 1; }
dd if="/dev/$remote" of=/dev/null bs=4k count=20 iflag=direct status=none
sleep 0.5
stop
join_all
refused list "$NVME_DEEP" host list
refused list-json "$NVME_DEEP" host list --json
nvme disconnect --nqn=lab

# qemu NAME: starts a QEMU without a running CPU, whose disk answers after 1 ms
qemu() {
    qemu-system-x86_64 -M q35 -S -accel tcg -m 64 -display none -monitor none -serial none -nic none \
        -qtest-log /dev/null -qtest "unix:/tmp/$1,server=on,wait=off" \
        -blockdev driver=null-co,node-name=n,size=1073741824,read-zeroes=on,latency-ns=1000000 \
        -device "nvme,id=nvme0,serial=$1" -device nvme-ns,bus=nvme0,drive=n,nsid=1 \
        -trace 'pci_nvme_*' -msg timestamp=on -D "/tmp/$1.log" 2>/dev/null &
    qemu=$!
    for ((i = 0; i < 600; i++)); do
        [[ ! -S /tmp/$1 ]] || return 0
        sleep 0.1
    done
    return 1
}

begin qemu
qemu SER0
tool trace host trace --json --pid "$qemu"
traced
python3 -B "$tests/host/qtest.py" /tmp/SER0 60 >"$case_dir/truth"
sleep 0.5
stop
kill "$qemu"
wait "$qemu" || true
mv /tmp/SER0.log "$case_dir/qemu.log"
refused imported "$NVME_DEEP" import "$case_dir/qemu.log" -o "$case_dir/qemu.nvd"
refused import "$NVME_DEEP" host trace --json --from "$case_dir/qemu.nvd"
