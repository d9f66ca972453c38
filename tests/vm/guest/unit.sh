#!/usr/bin/env bash
# contrib/nvme-deep.service as systemd runs it: all of its sandbox. systemd is the first process of a
# PID namespace. fio makes 500 reads of nvme0.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
root=$(realpath "$here/../../..")
units=/run/systemd/system
begin unit

# what systemd expects, and a boot has
mountpoint -q /sys/fs/cgroup && umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmp /var/tmp
mkdir -p "$units/nvme-deep.service.d"
cp "$root/contrib/nvme-deep.service" "$units/"
# a private /tmp and /home may hide the binary of the project
cp "$NVME_DEEP" /run/nvme-deep

cat >"$units/nvme-deep.service.d/lab.conf" <<U
[Unit]
# no other unit of the host
DefaultDependencies=no
[Service]
ExecStart=
ExecStart=/run/nvme-deep serve --stages
Restart=no
StandardError=file:$case_dir/serve.err
StandardOutput=file:$case_dir/serve.out
U
cat >"$units/lab.service" <<U
[Unit]
DefaultDependencies=no
Wants=nvme-deep.service
[Service]
Type=oneshot
Environment=case_dir=$case_dir disk=$(disk nvme0) PYTHONDONTWRITEBYTECODE=1
ExecStart=/bin/bash $here/unit-load.sh
StandardError=file:$case_dir/load.err
StandardOutput=file:$case_dir/load.out
U
unshare --pid --fork --mount --mount-proc --kill-child env -i container=lab PATH="$PATH" \
    /lib/systemd/systemd --unit=lab.service --log-target=console --show-status=false \
    >"$case_dir/systemd.log" 2>&1 &
systemd=$!
for ((i = 0; i < 1200; i++)); do
    [[ ! -e $case_dir/done ]] || break
    kill -0 $systemd || break
    sleep 0.1
done
kill -KILL $systemd || true
wait || true
[[ -e $case_dir/done ]]
