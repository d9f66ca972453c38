#!/usr/bin/env bash
# Runs within systemd, for unit.sh: a load, and what the service serves.
here=$(dirname "$0")
systemctl() { command systemctl --no-pager "$@"; }
for ((i = 0; i < 300; i++)); do
    grep -q ': serving ' "$case_dir/serve.err" && break
    [[ $(systemctl is-active nvme-deep) != failed ]] || break
    sleep 0.2
done
pid=$(systemctl show -P MainPID nvme-deep)
cat "/proc/$pid/status" >"$case_dir/status"
cat "/proc/$pid/mountinfo" >"$case_dir/mountinfo"
fio --name=reads --filename="/dev/$disk" --rw=randread --bs=4k --size=64m --number_ios=500 \
    --norandommap=1 --ioengine=psync --direct=1 --thread=1 --output=/dev/null </dev/null
sleep 1.1
python3 "$here/scrape.py" metrics "$case_dir/text"
systemctl stop nvme-deep
systemctl show -P Result -P ExecMainStatus nvme-deep >"$case_dir/result"
touch "$case_dir/done"
