# shellcheck shell=bash
# Sourced: a fabrics target that serves nvme1, or the file $backing, and the host's connection to it, nvme2.

# Load all remaining modules in order; ignore errors for modules that are loaded already.
while read -r module; do insmod "/tmp/mods/$module" 2>/dev/null || true; done </tmp/mods/order
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
target=/sys/kernel/config/nvmet
mkdir "$target/subsystems/lab"
echo 1 >"$target/subsystems/lab/attr_allow_any_host"
mkdir "$target/subsystems/lab/namespaces/1"
echo -n "${backing:-/dev/$(disk nvme1)}" >"$target/subsystems/lab/namespaces/1/device_path"
echo 1 >"$target/subsystems/lab/namespaces/1/enable"

# serve PORT TRANSPORT: fails if the kernel does not have the transport (tcp, loop)
serve() {
    local port=$target/ports/$1
    mkdir "$port"
    if [[ $2 == tcp ]]; then
        echo ipv4 >"$port/addr_adrfam"
        echo 127.0.0.1 >"$port/addr_traddr"
        echo 4420 >"$port/addr_trsvcid"
    fi
    echo "$2" >"$port/addr_trtype"
    ln -s "$target/subsystems/lab" "$port/subsystems/lab" 2>/dev/null
}

# until_live: waits for the controller and its disk, and sets $remote to the disk's name
until_live() {
    local i
    for ((i = 0; i < 600; i++)); do
        [[ $(cat /sys/class/nvme/nvme2/state 2>/dev/null) == live ]] &&
            remote=$(disk nvme2) && [[ -b /dev/$remote ]] && return
        sleep 0.1
    done
    return 1
}

# connect TRANSPORT [ARGUMENT...]: passes further arguments to nvme-connect
connect() {
    local where=()
    [[ $1 != tcp ]] || where=(--traddr=127.0.0.1 --trsvcid=4420)
    nvme connect --transport="$1" "${where[@]}" --nqn=lab "${@:2}" \
        --hostnqn=nqn.2014-08.org.nvmexpress:uuid:6f8c3c1e-0000-4000-8000-000000000001
    until_live
}
