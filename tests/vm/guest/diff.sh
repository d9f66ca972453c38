#!/usr/bin/env bash
# Comparisons of recordings. nvme0 and nvme1 answer after 20 ms, nvme2 after 26 ms. All three have the
# same load at the same time, so a busy host slows all of them alike.
. "$(dirname "$0")/lib.sh"

mkdir /tmp/rec
# recording NAME OPTION...: records the load
recording() {
    local name=$1 n jobs=()
    shift
    tool "$name" record -o "/tmp/rec/$name" --no-admin "$@"
    traced
    for n in 0 1 2; do
        load "$name-nvme$n" --filename="/dev/$(disk nvme$n)" --rw=randread --bs=4k --size=512m \
            --ioengine=libaio --iodepth=8 --time_based --runtime="$seconds" &
        jobs+=($!)
    done
    for n in "${jobs[@]}"; do wait "$n"; done
    stop
}

begin diff
seconds=20
recording fine --stages=fine
seconds=3
recording totals --stages=none
cd /tmp/rec
size=$(stat -c %s fine)
head -c $((size * 9 / 10)) fine >cut
refused equal "$NVME_DEEP" diff fine fine --map nvme0=nvme1 --check
refused equal-json "$NVME_DEEP" diff fine fine --map nvme0=nvme1 --json
refused slower "$NVME_DEEP" diff fine fine --map nvme0=nvme2
refused slower-json "$NVME_DEEP" diff fine fine --map nvme0=nvme2 --json
refused faster "$NVME_DEEP" diff fine fine --map nvme2=nvme1
refused check "$NVME_DEEP" diff fine fine --map nvme0=nvme2 --check
refused stages "$NVME_DEEP" diff fine totals
refused cut "$NVME_DEEP" diff fine cut
refused none "$NVME_DEEP" diff fine fine --map nvme0=nvme9
