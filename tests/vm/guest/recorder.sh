#!/usr/bin/env bash
# contrib/nvme-deep-recorder.service as systemd runs it, with two files and a second after a trigger: a timeout, a
# reset, a full directory, and another reset. systemd is the first process of a PID namespace.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
root=$(realpath "$here/../../..")
units=/run/systemd/system
begin recorder

# what systemd expects, and a boot has
mountpoint -q /sys/fs/cgroup && umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmp /var/tmp
# the files of the service
mount -t tmpfs -o size=4m none /var/lib
mkdir -p "$units/nvme-deep-recorder.service.d"
cp "$root/contrib/nvme-deep-recorder.service" "$units/"
# a private /tmp and /home may hide the binary of the project
cp "$NVME_DEEP" /run/nvme-deep
words=$(sed -n 's,^ExecStart=[^ ]*/nvme-deep ,,p' "$root/contrib/nvme-deep-recorder.service")
echo "$words" >"$case_dir/words"

cat >"$units/nvme-deep-recorder.service.d/lab.conf" <<U
[Unit]
# no other unit of the host
DefaultDependencies=no
[Service]
ExecStart=
ExecStart=/run/nvme-deep ${words/--keep 20/--keep 2} --after 1s
Restart=no
StandardError=file:$case_dir/recorder.err
StandardOutput=file:$case_dir/recorder.out
U
cat >"$units/lab.service" <<U
[Unit]
DefaultDependencies=no
Wants=nvme-deep-recorder.service
[Service]
Type=oneshot
Environment=case_dir=$case_dir NVME_DEEP=$NVME_DEEP fast=/dev/$(disk nvme0) late=$(disk nvme2) PYTHONDONTWRITEBYTECODE=1
ExecStart=/bin/bash $here/recorder-load.sh
StandardError=file:$case_dir/load.err
StandardOutput=file:$case_dir/load.out
U
unshare --pid --fork --mount --mount-proc --kill-child env -i container=lab PATH="$PATH" \
    /lib/systemd/systemd --unit=lab.service --log-target=console --show-status=false \
    >"$case_dir/systemd.log" 2>&1 &
systemd=$!
for ((i = 0; i < 6000; i++)); do
    [[ ! -e $case_dir/done ]] || break
    kill -0 $systemd || break
    sleep 0.1
done
kill -KILL $systemd || true
wait || true
[[ -e $case_dir/done ]]
