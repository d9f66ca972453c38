#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# first-minutes.sh: the first minutes of a new user, in a guest with NVMe (check.sh boots it): in a new
# root of Debian 12 the package is installed, used and purged. /mnt has root.tar and the packages.
set -euo pipefail

# shellcheck source=packaging/state.sh
. "$(dirname "$0")/state.sh"
out=/mnt/out root=/tmp/root
mkdir "$out" "$root"
# large blocks: each read is a request to the host
tar -C "$root" -b 4096 -xf /mnt/root.tar

# inside COMMAND...: runs a command in the root
inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=xterm LC_ALL=C.UTF-8 "$@"
}

# packages that were unpacked elsewhere (debootstrap --foreign) are configured here
[[ ! -x $root/debootstrap/debootstrap ]] || inside /debootstrap/debootstrap --second-stage >"$out/debootstrap"
for dir in proc sys dev; do mount --rbind "/$dir" "$root/$dir"; done
cp /mnt/*.deb "$root/tmp"

# shows NAME TEXT: fails unless the output has the text
shows() {
    grep -qF -- "$2" "$out/$1" && return
    echo "$1 does not show '$2':"
    cat "$out/$1"
    return 1
}

inside dpkg -i /tmp/libelf1.deb >/dev/null
state "$root" >/tmp/before
inside dpkg -i /tmp/nvme-deep.deb >/dev/null
fio --name=load --filename=/dev/nvme0n1 --rw=randread --bs=4k --iodepth=4 --ioengine=libaio --direct=1 \
    --time_based --runtime=600 </dev/null >/dev/null 2>&1 &
load=$!
inside nvme-deep doctor >"$out/doctor" 2>&1
# timeout exits with 124 when it has ended top
inside script -qec 'stty rows 24 cols 80; timeout --foreground -s INT 8 nvme-deep top' /dev/null \
    >"$out/top" 2>&1 </dev/null || (($? == 124))
inside nvme-deep latency --stages --duration 5s >"$out/latency" 2>&1
inside nvme-deep trace --slow 1ms --duration 3s >"$out/trace" 2>&1
inside nvme-deep record -o /tmp/file.nvd --duration 3s >"$out/record" 2>&1
inside nvme-deep latency --stages --from /tmp/file.nvd >"$out/from" 2>&1
inside nvme-deep diagnose --duration 10s >"$out/diagnose" 2>&1
kill "$load"
shows doctor 'READY: all stages'
shows top 'IOPS'
shows latency 'accuracy  exact'
shows trace 'accuracy  exact'
shows from 'accuracy  exact'
# the other root has no man, and no network to get it
[[ ! -x $root/usr/bin/man ]] || { inside env MANWIDTH=80 man nvme-deep-latency >"$out/man" 2>&1 && shows man 'OPTIONS'; }
# an emulated machine on a busy host does lack CPU time; that may be the only cause
causes=$(sed -nE 's/^([a-z]+(-[a-z]+)*)  [^ ]+$/\1/p' "$out/diagnose")
[[ $causes == vcpu-stolen ]] || shows diagnose 'No cause found'
inside dpkg -P nvme-deep >/dev/null
state "$root" >/tmp/after
diff /tmp/before /tmp/after
# programs and links end with the process; nothing is pinned
[[ -z $(ls /sys/fs/bpf) ]]
awk '/^nvme_core /{ exit $3 > limit } BEGIN { limit = 1 }' /proc/modules
