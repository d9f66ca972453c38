#!/usr/bin/env bash
# `latency --by container` beside containers of podman and docker, each with a daemon and files of its own.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
settled
disk=/dev/$(disk nvme0)
for dir in /var/lib /run /etc/docker; do mount -t tmpfs none "$dir"; done
mkdir /var/lib/containers /var/lib/docker
top=/sys/fs/cgroup
umount -R $top 2>/dev/null || true
mount -t cgroup2 none $top
echo '+cpu +io +memory +pids' >$top/cgroup.subtree_control

# an image without files: the containers have the programs of the guest
for root in /tmp/one /tmp/two; do
    mkdir -p "$root"/{usr,proc,sys,dev,etc,run,tmp}
    for link in bin lib lib64 sbin; do ln -s "usr/$link" "$root/$link"; done
done

# what both are given
options=(--network=none --device "$disk" --volume /usr:/usr:ro --security-opt seccomp=unconfined)
# the tool looks for new cgroups once a second
reads() {
    script="dd if=$disk of=/dev/null bs=4k iflag=direct status=none count=$1; sleep 3"
}

tools_by_container() {
    tool by latency --by container --json --no-admin
    tool text latency --by container --no-admin
    tool file record --no-admin -o "/tmp/$1.nvd"
    traced
}

again() {
    stop
    refused recorded "$NVME_DEEP" latency --by container --from "/tmp/$1.nvd"
}

begin podman
podman() {
    command podman --storage-driver=vfs --cgroup-manager=cgroupfs --runtime=crun --events-backend=file "$@"
}
tools_by_container podman
reads 900
podman run --name backup --ipc=host "${options[@]}" --rootfs /tmp/one sh -c "$script" &
one=$!
reads 1200
podman run --name web --rm --ipc=host "${options[@]}" --rootfs /tmp/two sh -c "$script"
wait $one
again podman

begin docker
/usr/sbin/dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs \
    --exec-opt native.cgroupdriver=cgroupfs >"$case_dir/dockerd.log" 2>&1 &
daemon=$!
for ((i = 0; i < 600; i++)); do
    /usr/bin/docker info >/dev/null 2>&1 && break
    sleep 0.1
done
((i < 600)) || { cat "$case_dir/dockerd.log"; exit 1; }
tar -C /tmp/one -c . | /usr/bin/docker import - base >/dev/null
tools_by_container docker
for job in front:700 batch:1100; do
    reads "${job#*:}"
    /usr/bin/docker run --detach --name "${job%:*}" "${options[@]}" base sh -c "$script" >/dev/null
done
/usr/bin/docker wait front batch >"$case_dir/codes"
again docker
kill $daemon
wait $daemon || true
