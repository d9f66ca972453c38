#!/usr/bin/env bash
# A kernel without BTF for its modules: types from a file, passed or shipped, right or wrong.
. "$(dirname "$0")/lib.sh"
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$(dirname "$0")/devices.sh"

compiled() {
    clang -g -O2 -target bpf -c "$root/btf/$1.c" -o "/tmp/$1.btf"
}
release=$(uname -r)
[[ -f $root/btf/$release.c ]] || { echo "no btf/$release.c for this kernel: btf/make.sh makes it"; exit 1; }
compiled "$release"
other=5.10.0-32-amd64
[[ $other != "$release" ]]
compiled "$other"

attached >"$out.before"
settled

begin given
measured auto --stages=fine --btf "/tmp/$release.btf"
begin shipped
refused doctor "$NVME_DEEP" doctor --json
measured auto --stages=fine

# The offsets belong to another kernel, which the first command shows.
begin other
tool total latency --json --btf "/tmp/$other.btf"
tool fine latency --stages=fine --json --btf "/tmp/$other.btf" 0.5
traced
small 8
finished

# shellcheck disable=SC2016 # for the inner shell
as=(unshare -m bash -c 'mount --bind /dev/null /sys/module/nvme_core/notes/.note.gnu.build-id &&
    exec "$0" "$@"')
begin unknown
refused doctor "${as[@]}" "$NVME_DEEP" doctor --json
measured auto --stages
as=()

begin unpinned
tool auto latency --json --stages --ctrl nvme0 --no-admin
traced
drop_driver
finished
bring_driver

begin end
cp "$out.before" "$case_dir/attached.before"
attached >"$case_dir/attached.after"
