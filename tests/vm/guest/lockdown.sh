#!/usr/bin/env bash
# A locked-down kernel, if the kernel's command line sets a lockdown level.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"

attached >"$out.before"
settled
begin lockdown
cat /sys/kernel/security/lockdown >"$case_dir/level"
dmesg -c >"$case_dir/dmesg"
refused doctor "$NVME_DEEP" doctor --json
refused doctor-text "$NVME_DEEP" doctor
for family in rawtp kprobe tracepoint; do
    refused "$family" "$NVME_DEEP" latency --attach "$family" --duration 0.5s
done
refused fentry "$NVME_DEEP" latency --attach fentry --duration 0.5s
begin auto
if [[ $(uname -r) == 6.1.* && $(<"$out/lockdown/level") == *\[confidentiality\] ]]; then
    refused auto "$NVME_DEEP" latency
else
    measured auto --stages=fine
fi

begin end
cp "$out.before" "$case_dir/attached.before"
attached >"$case_dir/attached.after"
