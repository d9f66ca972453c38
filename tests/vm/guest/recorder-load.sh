#!/usr/bin/env bash
# Runs within systemd, for recorder.sh: what makes the service write files.
here=$(dirname "$0")
dir=/var/lib/nvme-deep
systemctl() { command systemctl --no-pager "$@"; }
# says TEXT N: waits until the service has said it N times
says() {
    for ((i = 0; i < 400; i++)); do
        (($(grep -c -- "$1" "$case_dir/recorder.err") < $2)) || return 0
        sleep 0.1
    done
    echo "never said: $1"
}
files() { ls "$dir"; }
live() {
    for ((i = 0; i < 300; i++)); do
        [[ $(cat "/sys/class/nvme/$1/state") != live ]] || return 0
        sleep 0.1
    done
}
says ': tracing ' 1
pid=$(systemctl show -P MainPID nvme-deep-recorder)
cat "/proc/$pid/status" >"$case_dir/status"
fio --name=reads --filename="$fast" --rw=randread --bs=4k --size=64m --number_ios=500 \
    --norandommap=1 --ioengine=psync --direct=1 --thread=1 --output=/dev/null </dev/null

# the driver's timeout is one second, and nvme2 answers after seven: a read, later a write
python3 "$here/late.py" "$case_dir/late" "$late" nvme2 || true
says ' the last .* before: ' 2
files >"$case_dir/first"
first=$dir/$(head -n 1 "$case_dir/first")
live nvme2
for what in info trace; do "$NVME_DEEP" $what --json "$first" >"$case_dir/$what-first" 2>&1; done
"$NVME_DEEP" report "$first" -o "$case_dir/report.html" 2>"$case_dir/report.err"

# two more in a row
echo 1 >/sys/class/nvme/nvme1/reset_controller
says ' the last .* before: ' 3
echo 1 >/sys/class/nvme/nvme1/reset_controller
says ' the last .* before: ' 4
files >"$case_dir/third"
last=$dir/$(tail -n 1 "$case_dir/third")
for what in info trace; do "$NVME_DEEP" $what --json "$last" >"$case_dir/$what-third" 2>&1; done

# a full directory
dd if=/dev/zero of=/var/lib/filler bs=64k 2>/dev/null
echo 1 >/sys/class/nvme/nvme1/reset_controller
says 'the run goes on' 1
files >"$case_dir/full"
rm /var/lib/filler
echo 1 >/sys/class/nvme/nvme1/reset_controller
says ' the last .* before: ' 5
files >"$case_dir/fourth"
systemctl stop nvme-deep-recorder
systemctl show -P Result -P ExecMainStatus nvme-deep-recorder >"$case_dir/result"
files >"$case_dir/stopped"
touch "$case_dir/done"
