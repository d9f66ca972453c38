#!/usr/bin/env bash
# The image of contrib/Containerfile, built by podman from the archive of `make archive`, and run as docs/install.md
# says: `latency` and `serve` while fio reads.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
root=$(realpath "$here/../../..")
export PYTHONDONTWRITEBYTECODE=1
disk=/dev/$(disk nvme0)
for dir in /var/lib /var/tmp /var/cache /run; do mount -t tmpfs none "$dir"; done
mkdir /var/lib/containers
mount -t tracefs none /sys/kernel/tracing 2>/dev/null || true
mountpoint -q /sys/fs/cgroup && umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
podman() {
    command podman --storage-driver=vfs --cgroup-manager=cgroupfs --runtime=crun --events-backend=file "$@"
}
# inside SUBCOMMAND...: as in docs/install.md; the guest has no network
inside() {
    podman run --rm --privileged --pid=host --network=host --name "$1" \
        -v /sys/kernel/tracing:/sys/kernel/tracing nvme-deep:test "$@"
}
reads() {
    load "$1" --filename="$disk" --rw=randread --bs=4k --size=64m --number_ios=500 --ioengine=psync
}

begin image
mkdir /tmp/archive
tar -C /tmp/archive --strip-components=1 -xzf "$root"/target/package/out/nvme-deep-*-x86_64-linux.tar.gz
podman build --isolation=chroot -t nvme-deep:test \
    -f /tmp/archive/share/doc/nvme-deep/contrib/Containerfile /tmp/archive >"$case_dir/build" 2>&1
podman image inspect --format '{{.Size}}' nvme-deep:test >"$case_dir/size"

inside latency --json --no-admin >"$case_dir/latency.out" 2>"$case_dir/latency.err" &
container=$!
for ((i = 0; i < 600; i++)); do
    has "$case_dir/latency.err" ': tracing ' && break
    sleep 0.1
done
reads latency
podman kill --signal INT latency >/dev/null
wait $container || echo $? >"$case_dir/latency.code"

inside serve --stages >"$case_dir/serve.out" 2>"$case_dir/serve.err" &
container=$!
for ((i = 0; i < 600; i++)); do
    has "$case_dir/serve.err" ': serving ' && break
    sleep 0.1
done
reads serve
sleep 1.1
python3 "$here/scrape.py" metrics "$case_dir/text"
podman kill --signal INT serve >/dev/null
wait $container || echo $? >"$case_dir/serve.code"
