#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# check.sh [SUITE...|guest]: checks the packages of pack.sh, as root. The .deb: lintian; installed, used and
# purged in new roots of Debian (bookworm and trixie), in which it must leave nothing. The .rpm: by
# rpm, installed in an empty root and removed from it. The archive: unpacked. At the end, the first
# minutes of a new user in a guest that has NVMe, with Debian 12 and its kernel.
#
# ARCH=arm64, on another machine: the packages for that architecture. Nothing of them runs here. The guest is one of
# arm64, with Debian 13's kernel.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
# shellcheck source=packaging/state.sh
. "$here/state.sh"
out=target/package/out
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
own=$(dpkg --print-architecture)
arch=${ARCH:-$own}
case $arch in
    amd64) machine=x86_64 processor=X86-64 kernel=6.1 ;;
    arm64) machine=aarch64 processor=AArch64 kernel=6.12-arm64 ;;
    *) echo "check: ARCH is amd64 or arm64, not '$arch'" >&2; exit 2 ;;
esac
deb=$(echo "$out"/*_"$arch".deb)
rpm=$(echo "$out"/*."$machine".rpm)
archive=$out/nvme-deep-$version-$machine-linux.tar.gz
suites=("${@:-}")
[[ -n ${suites[*]} ]] || suites=(bookworm trixie guest)
[[ -n $* || $arch == "$own" ]] || suites=(guest)
ran=works
[[ $arch == "$own" ]] || ran='was not run here'

die() {
    echo "check: $*" >&2
    exit 1
}

((EUID == 0)) || die "run it as root: it makes roots of Debian"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# inside ROOT COMMAND...: runs a command in a root with /proc and /sys, which nobody else sees
inside() {
    mkdir -p "$1"/{proc,sys}
    # shellcheck disable=SC2016 # the inner shell expands these
    unshare --mount --propagation private sh -ec '
        mount --bind /proc "$1/proc"
        mount --bind -o ro /sys "$1/sys"
        exec chroot "$@"' inside "$@"
}

# works ROOT BINARY: the program is one of this architecture. If that is this machine's, it runs in a root.
works() {
    [[ $(readelf -h "$1$2") == *"Machine: "*"$processor"* ]] || die "$2 is for another processor"
    [[ $arch == "$own" ]] || return 0
    [[ $(inside "$1" "$2" --version) == "nvme-deep $version" ]] || die "$2 does not run in $1"
    # it ends as the commands that trace would
    { inside "$1" "$2" doctor --json || (($? >= 4)); } | grep -q '"schema_version"' || die "$2 doctor fails in $1"
}

# first_minutes ROOT: what a new user tries, on a machine without NVMe: one line says what is missing.
# Without /sys/class/nvme nothing can be traced; with it, the outcome depends on this machine.
first_minutes() {
    local command said status
    if compgen -G '/sys/class/nvme/*' >/dev/null; then
        echo "check: this machine has NVMe: the messages without it are not checked"
        return
    fi
    for command in top latency trace stacks diagnose pattern inflight; do
        status=0
        said=$(inside "$1" /usr/bin/nvme-deep "$command" 2>&1 </dev/null) || status=$?
        ((status == 6)) && [[ $said == 'nvme-deep: this machine has no NVMe controller'* ]] ||
            die "$command says, with status $status: $said"
        (($(wc -l <<<"$said") == 1)) || die "$command says more than one line: $said"
    done
    status=0
    inside "$1" /usr/bin/nvme-deep doctor >"$work/doctor" || status=$?
    ((status == 6)) || die "doctor ends with $status"
    grep -q '^NOT READY: this machine has no NVMe controller' "$work/doctor" || die "doctor does not say that there is no controller"
    echo "check: without NVMe, each command says so in one line"
}

# The address from which this machine gets Debian's packages.
mirror() {
    # shellcheck disable=SC2016 # apt expands these
    apt-get indextargets -o APT::Get::IndexTargets::ReleaseInfo=false \
        --format '$(SITE) $(COMPONENT)' | awk '$2 == "main" { print $1; exit }'
}

in_debian() {
    local suite=$1 root=$work/$1 tar=target/package/$1.tar
    # a root that was made before is used again
    [[ -s $tar ]] || mmdebstrap --quiet --variant=minbase --mode=root "$suite" "$tar" \
        "deb $(mirror) $suite main"
    mkdir "$root"
    tar -C "$root" -xf "$tar"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    cp "$deb" "$root/tmp/nvme-deep.deb"
    local apt=(chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
        apt-get -qq -y -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root)
    "${apt[@]}" update
    # what the package needs from elsewhere stays
    "${apt[@]}" install --no-install-recommends man-db bash-completion libelf1 >/dev/null 2>&1
    state "$root" >"$work/before"
    "${apt[@]}" install /tmp/nvme-deep.deb >/dev/null
    works "$root" /usr/bin/nvme-deep
    first_minutes "$root"
    chroot "$root" env MANWIDTH=80 man nvme-deep-latency 2>&1 | grep -q 'OPTIONS' ||
        die "no man page in $suite"
    [[ -s $root/usr/share/doc/nvme-deep/NOTICES ]] || die "no notices in $suite"
    for unit in nvme-deep nvme-deep-recorder; do
        [[ -s $root/usr/lib/systemd/system/$unit.service ]] || die "no $unit.service in $suite"
    done
    [[ -z $(find "$root/etc/systemd" -name 'nvme-deep*') ]] || die "the unit is enabled in $suite"
    "${apt[@]}" purge nvme-deep >/dev/null
    state "$root" >"$work/after"
    diff "$work/before" "$work/after" || die "these files of $suite differ after a purge"
    echo "check: the .deb works in $suite and leaves nothing"
}

# guest_root TAR: a root of Debian 12 for the guest. That of another architecture has packages that are unpacked
# only: the guest configures them.
guest_root() {
    local root=$work/foreign
    [[ ! -s $1 ]] || return 0
    [[ $arch != "$own" ]] || die "no $1: check bookworm first"
    debootstrap --foreign --arch="$arch" --variant=minbase --include=man-db bookworm "$root" "$(mirror)" >/dev/null
    tar -C "$root" -cf "$1.new" .
    mv "$1.new" "$1"
}

in_guest() {
    local share=$work/guest tar=target/package/bookworm.tar args
    [[ $arch == "$own" ]] || tar=target/package/bookworm-$arch.tar
    guest_root "$tar"
    mkdir "$share"
    cp "$tar" "$share/root.tar"
    cp "$deb" "$share/nvme-deep.deb"
    (cd "$share" && apt-get -qq -o APT::Sandbox::User=root download "libelf1:$arch" && mv libelf1_*.deb libelf1.deb)
    echo "exec bash $here/first-minutes.sh" >"$share/run.sh"
    tests/vm/fetch.sh "$kernel"
    mapfile -t args < <(SHARE=$share tests/vm/nvme-args.sh nvme_null nvme0 4000000)
    TIMEOUT=2400 MEM=3G tests/vm/boot.sh "$kernel" "$share" "${args[@]}" || die "the first minutes fail in a guest"
    rm -rf "target/package/first-minutes-$arch"
    mkdir -p "target/package/first-minutes-$arch"
    cp "$share"/out/* "target/package/first-minutes-$arch"
    echo "check: in a guest of $arch with NVMe the .deb is installed, works and leaves nothing"
}

rpm_itself() {
    local root=$work/rpm needs
    rpm -K --nosignature "$rpm" >/dev/null
    [[ $(rpm -qp --queryformat '%{ARCH}' "$rpm") == "$machine" ]] || die "$rpm is for another processor"
    needs=$(rpm -qp --requires "$rpm" | grep -v -e '^rpmlib(' -e '^/bin/sh$' || true)
    [[ -z $needs ]] || die "the .rpm needs $needs"
    mkdir -p "$root"
    rpm --root "$root" --initdb
    # there is no shell in this root for the scripts, which only call systemctl
    rpm --root "$root" --force-debian -i --ignorearch --nodeps --noscripts "$rpm"
    rpm --root "$root" -V --nodeps nvme-deep
    works "$root" /usr/bin/nvme-deep
    rpm --root "$root" -e --noscripts nvme-deep
    local left
    left=$(find "$root" -type f -o -type l | grep -v -e '/lib/rpm' -e '/\.rpmdb/' || true)
    [[ -z $left ]] || die "the .rpm leaves $left"
    # rpm2cpio of rpm 4.18 exits with 1 after all files: the header lacks a size that it compares
    mkdir "$work/cpio"
    rpm2cpio "$rpm" >"$work/payload" || true
    (cd "$work/cpio" && cpio -id --quiet <"$work/payload" && find . -type f) | sed 's/^.//' | sort >"$work/unpacked"
    diff <(rpm -qlp "$rpm" | sort) "$work/unpacked" || die "rpm2cpio unpacks other files"
    cmp "$work/cpio/usr/bin/nvme-deep" "$work/archive/bin/nvme-deep"
    echo "check: the .rpm of $arch needs no library, $ran, and leaves nothing"
}

archive_itself() {
    mkdir "$work/archive"
    tar -C "$work/archive" --strip-components=1 -xf "$archive"
    works "$work/archive" /bin/nvme-deep
    echo "check: the archive of $arch is whole, $ran"
}

lintian --allow-root --fail-on error "$deb"
archive_itself
rpm_itself
for suite in "${suites[@]}"; do
    if [[ $suite == guest ]]; then in_guest; else in_debian "$suite"; fi
done
