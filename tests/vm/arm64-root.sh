#!/usr/bin/env bash
# arm64-root.sh LAB: makes LAB/root-arm64, the root of arm64 guests: Debian 12's packages for arm64,
# unpacked. Nothing of it is run here, so no emulation is needed; what the packages' scripts would
# have made, and the guests use, is made below.
set -euo pipefail

root=$1/root-arm64
include=(
    base-files base-passwd bash bpftool coreutils diffutils findutils grep hostname libc-bin mawk mount sed tar util-linux
    busybox-static fio kmod libpython3-stdlib nvme-cli procps prometheus python3-minimal
    libelf1 zlib1g
)
[[ ! -f $root/wanted || $(<"$root/wanted") != "${include[*]}" ]] || exit 0

mkdir -p "$1"
exec 9>"$1/.lock-root-arm64"
flock 9
[[ ! -f $root/wanted || $(<"$root/wanted") != "${include[*]}" ]] || exit 0

# The address from which this machine gets Debian's packages.
mirror() {
    # shellcheck disable=SC2016 # apt expands these
    apt-get indextargets -o APT::Get::IndexTargets::ReleaseInfo=false \
        --format '$(SITE) $(COMPONENT)' | awk '$2 == "main" { print $1; exit }'
}

rm -rf "$1"/.root-arm64.*
work=$(mktemp -d "$1/.root-arm64.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
packages=${include[*]}
# apt's download user has no access to root's directory
mmdebstrap --quiet --mode=root --architectures=arm64 --variant=extract --aptopt='APT::Sandbox::User "root"' \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include="${packages// /,}" \
    bookworm "$work/root" "deb $(mirror) bookworm main"
cp "$work/root/usr/share/base-passwd/passwd.master" "$work/root/etc/passwd"
cp "$work/root/usr/share/base-passwd/group.master" "$work/root/etc/group"
ln -sf mawk "$work/root/usr/bin/awk"
rm -rf "$work/root"/{dev,var/cache/apt,var/lib/apt}
mkdir -p "$work/root"/{dev,host,mnt,proc,run,sys,tmp}
chmod 755 "$work/root"
echo "${include[*]}" >"$work/root/wanted"
rm -rf "$root"
mv "$work/root" "$root"
