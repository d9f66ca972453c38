#!/usr/bin/env bash
# Environments that restrict a tracer: disabled switches, missing file systems, few privileges,
# no types or wrong types.
. "$(dirname "$0")/lib.sh"
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$(dirname "$0")/devices.sh"

someone=(setpriv --reuid=65534 --regid=65534 --clear-groups
    '--inh-caps=+bpf,+perfmon' '--ambient-caps=+bpf,+perfmon')

attached >"$out.before"
settled

kprobes=/sys/kernel/debug/kprobes/enabled
begin kprobes-off
echo 0 >$kprobes
measured auto --stages=fine
refused kprobe "$NVME_DEEP" latency --attach kprobe
echo 1 >$kprobes
begin kprobes-on
measured kprobe --stages --attach kprobe

begin ftrace-off
sysctl -q kernel.ftrace_enabled=0
measured auto --stages=fine
refused kprobe "$NVME_DEEP" latency --attach kprobe
sysctl -q kernel.ftrace_enabled=1

unmount() {
    local at
    for at in /sys/kernel/debug/tracing /sys/kernel/debug /sys/kernel/tracing; do
        ! mountpoint -q $at || umount $at
    done
}
unmount
begin tracefs-off
measured auto --stages=fine
refused tracepoint "$NVME_DEEP" latency --attach tracepoint
refused doctor "$NVME_DEEP" doctor --json
begin tracefs-off-kprobe
measured kprobe --attach kprobe
mount -t debugfs debug /sys/kernel/debug
# The switch is off and not visible; then it is turned off in the middle of a run.
begin kprobes-unseen
echo 0 >$kprobes
unmount
measured kprobe --attach kprobe
mount -t debugfs debug /sys/kernel/debug
echo 1 >$kprobes
begin kprobes-lost
tool kprobe latency --json --attach kprobe --ctrl nvme0 --no-admin
traced
small 8
echo 0 >$kprobes
finished
echo 1 >$kprobes

begin only-debugfs
measured tracepoint --attach tracepoint
unmount
mount -t tracefs trace /sys/kernel/tracing
begin only-tracefs
measured tracepoint --attach tracepoint
mount -t debugfs debug /sys/kernel/debug

begin sysctls
paranoid=$(sysctl -n kernel.perf_event_paranoid)
hidden=$(sysctl -n kernel.kptr_restrict)
sysctl -q kernel.kptr_restrict=2 kernel.perf_event_paranoid=4
measured auto --stages=fine
begin sysctls-kprobe
measured kprobe --attach kprobe
sysctl -q kernel.kptr_restrict="$hidden"

as=("${someone[@]}")
for level in 3 2; do
    sysctl -q kernel.perf_event_paranoid=$level
    begin "rights-$level"
    refused doctor "${as[@]}" "$NVME_DEEP" doctor --json
    measured auto --stages=fine
done
sysctl -q kernel.perf_event_paranoid="$paranoid"

# shellcheck disable=SC2016 # for the inner shell
as=(unshare -m bash -c 'mount --bind /dev/null /sys/kernel/btf/vmlinux && exec "$0" "$@"')
begin no-btf
refused doctor "${as[@]}" "$NVME_DEEP" doctor --json
tool auto latency --json --stages --ctrl nvme0 --no-admin
traced
small 32
stop INT
# shellcheck disable=SC2016 # for the inner shell
as=(unshare -m bash -c 'mount --bind /dev/null /sys/kernel/btf/vmlinux &&
    mount -t tmpfs none /sys/kernel/tracing && mount -t tmpfs none /sys/kernel/debug && exec "$0" "$@"')
begin no-btf-no-tracefs
refused latency "${as[@]}" "$NVME_DEEP" latency
refused doctor "${as[@]}" "$NVME_DEEP" doctor --json
as=()

begin files
clang -g -O2 -target bpf -c "$root/btf/5.10.0-32-amd64.c" -o /tmp/other.btf
echo "no types in here" >/tmp/text
: >/tmp/empty
for file in /tmp/text /tmp/empty /tmp /tmp/missing /tmp/other.btf /sys/kernel/btf/nvme; do
    refused "$(basename "$file")" "$NVME_DEEP" latency --btf "$file"
done
refused doctor "$NVME_DEEP" doctor --btf /tmp/other.btf

begin end
cp "$out.before" "$case_dir/attached.before"
attached >"$case_dir/attached.after"
