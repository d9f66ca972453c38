#!/usr/bin/env bash
# make.sh RELEASE|SUITE [ARCH]: makes RELEASE.c, which describes the types of the nvme modules, from the
# debug package of a Debian 5.10 kernel. That is the kernel RELEASE (5.10.0-32-amd64), or the one
# that linux-image-ARCH (amd64) of SUITE (bullseye, bullseye-security) depends on today. See README.md
# here.
#
# Downloads about 860 MB to $TMPDIR (/tmp), and deletes it. Like tests/vm/fetch.sh it does not touch
# the system's own apt state: it uses private lists, from the mirrors that this machine already
# uses.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The suites to search for a kernel that is given by its release.
suites=(bullseye bullseye-security)

# The structs and fields to describe; a `?` follows a field that some kernels lack.
want_core='nvme_request result genctr? retries flags status cmd ctrl
nvme_ctrl instance tagset admin_tagset admin_q device state subsys_entry
nvme_subsystem entry ctrls'
want_pci='nvme_queue sq_tail last_sq_tail qid q_depth sq_cmds sqes cqes cq_head cq_phase flags dbbuf_sq_ei
nvme_dev queues ctrl'

die() {
    echo "make: $*" >&2
    exit 1
}

# The address from which this machine gets the Debian packages of its own suite, or the security
# updates of that suite (`address -security`).
address() {
    local codename
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    # shellcheck disable=SC2016 # apt expands these
    apt-get indextargets -o APT::Get::IndexTargets::ReleaseInfo=false \
        --format '$(SITE) $(RELEASE) $(COMPONENT)' |
        awk -v c="$codename${1-}" '$2 == c && $3 == "main" { if (!n++) print $1 }'
}

retry() {
    local try
    for try in 1 2 3; do
        "$@" && return
        echo "make: try $try of 3 failed: ${*: -3}" >&2
        sleep "$try"
    done
    return 1
}

# Updates private apt lists of the given suites. Sets ${apt[@]} to the options that use them.
prepare_apt() {
    local suite kind site
    mkdir -p "$work"/{lists/partial,cache/archives/partial}
    for suite; do
        kind=
        [[ $suite != *-security ]] || kind=-security
        site=$(address $kind)
        if [[ -n $site ]]; then
            echo "deb [arch=$arch check-valid-until=no] $site $suite main"
        else
            echo "make: apt knows no mirror for $suite on this machine (apt-get indextargets)" >&2
        fi
    done >"$work/sources.list"
    [[ -s $work/sources.list ]] || die "nowhere to look"
    : >"$work/status"
    apt=(
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/status"
        -o Dir::Cache="$work/cache"
        -o "APT::Architecture=$arch" -o Acquire::Languages=none
        # apt's download user has no access to root's own directory
        -o APT::Sandbox::User=root
    )
    retry apt-get "${apt[@]}" update -qq
}

# about PACKAGE FIELD: prints nothing if there is no such package
about() {
    { apt-cache "${apt[@]}" show --no-all-versions "$1" 2>/dev/null || true; } | sed -n "s/^$2: //p"
}

# Extracts the nvme modules of package $1, and nothing else, to $work/$2.
unpack() {
    local package=$1 into=$work/$2
    echo "make: $package $(about "$package" Version), $(($(about "$package" Size) / 1000000)) MB"
    mkdir -p "$into" "$work/deb"
    (cd "$work/deb" && retry apt-get "${apt[@]}" download -qq "$package")
    dpkg-deb --fsys-tarfile "$work"/deb/*.deb |
        tar -x -C "$into" --wildcards '*/drivers/nvme/host/nvme*' ||
        die "no nvme modules in $package"
    rm -r "$work/deb"
}

# module DIRECTORY NAME: prints the path of a module
module() {
    local path
    path=$(find "$work/$1" -name "$2.ko" -path "*/$release/*")
    [[ -f $path ]] || die "no $2.ko in the $1 package of $release (a driver built in needs no file)"
    echo "$path"
}

build_id() {
    readelf -n "$1" 2>/dev/null | sed -nE 's/^ +Build ID: ([0-9a-f]+)$/\1/p'
}

generate() {
    cat <<END
/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The types of the modules nvme_core and nvme, as far as nvme-deep reads them, of a kernel without
 * module BTF. Made by btf/make.sh from the debug package; not to be edited.
 *
 * release $release
 * package $package $version
 * build-id nvme_core $core_id
 * build-id nvme $pci_id
 */
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT32_TYPE__ s32;

#define AT(tag, field, offset, size)                                                               \\
	_Static_assert(__builtin_offsetof(struct tag, field) == (offset) &&                        \\
			       sizeof(((struct tag *)0)->field) == (size),                         \\
		       #tag "." #field)
#define SIZE(tag, size) _Static_assert(sizeof(struct tag) == (size), #tag)

END
    WANT=$want_core "$gdb" -nx -batch -x "$here/describe.py" "$core"
    echo
    WANT=$want_pci "$gdb" -nx -batch -x "$here/describe.py" "$pci"
    cat <<'END'

/* A type that nothing uses has no BTF. */
void nvme_deep_types(struct nvme_request *request, struct nvme_ctrl *ctrl,
		     struct nvme_subsystem *subsystem, struct nvme_queue *queue,
		     struct nvme_dev *dev)
{
	(void)request;
	(void)ctrl;
	(void)subsystem;
	(void)queue;
	(void)dev;
}
END
}

# The fields of struct $1 as pahole reads them (`name offset size`, one per line), and the size of
# the struct. Further arguments are for pahole.
layout() {
    local tag=$1
    shift
    pahole -C "$tag" "$@" 2>/dev/null | sed -nE '
        s/ __attribute__\(\(.*\)\);/;/
        s,^\t[^/].*[ *]([A-Za-z0-9_]+)(\[[0-9]+\])*; +/\* +([0-9]+) +([0-9]+) \*/$,\1 \3 \4,p
        s,^\t/\* size: ([0-9]+)\, .*,size \1,p'
}

# Compares the BTF that clang makes of the file with the DWARF of the modules, which pahole reads
# instead of gdb. All that the file states of a struct must be in the DWARF, without a difference.
check() {
    local file=$1 tag ours
    clang -Wall -Wextra -Werror -g -O2 -target bpf -c "$file" -o "$work/check.o"
    while read -r tag debug; do
        ours=$(layout "$tag" -F btf "$work/check.o" | grep -v '^_pad')
        [[ $ours == *"size "* ]] || die "the BTF of $file has no $tag"
        layout "$tag" -F dwarf "$debug" >"$work/theirs"
        while read -r line; do
            grep -qxF "$line" "$work/theirs" ||
                die "$file says of $tag: $line; pahole does not, of ${debug##*/}"
        done <<<"$ours"
        echo "make: $tag agrees with ${debug##*/}: $(grep -vc '^size ' <<<"$ours") fields," \
            "$(grep '^size ' <<<"$ours")"
    done <<END
nvme_request $core
nvme_ctrl $core
nvme_subsystem $core
nvme_request $pci
nvme_ctrl $pci
nvme_queue $pci
nvme_dev $pci
END
}

(($# == 1 || $# == 2)) || die "usage: make.sh RELEASE|SUITE [ARCH] (5.10.0-32-amd64, bullseye, bullseye-security arm64)"
arch=${2:-amd64}
[[ $1 != [0-9]* ]] || arch=${1##*-}
gdb=gdb
[[ $arch == amd64 ]] || gdb=gdb-multiarch
for tool in $gdb pahole readelf clang; do
    command -v $tool >/dev/null || die "no $tool here (Debian: $gdb dwarves binutils clang)"
done
work=$(mktemp -d "${TMPDIR:-/tmp}/nvme-deep-btf.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

if [[ $1 == [0-9]* ]]; then
    release=$1
    prepare_apt "${suites[@]}"
else
    prepare_apt "$1"
    release=$(about "linux-image-$arch" Depends | sed -nE 's/^linux-image-([0-9][^ ,]*).*/\1/p')
    [[ -n $release ]] || die "$1 has no linux-image-$arch"
    suites=("$1")
fi
package=linux-image-$release-dbg
version=$(about "$package" Version)
[[ -n $version ]] || die "no $package in ${suites[*]}"

# The debug file must be of the same build as the module that the kernel loads.
unpack "linux-image-$release" image
core=$(module image nvme-core)
pci=$(module image nvme)
core_id=$(build_id "$core")
pci_id=$(build_id "$pci")
[[ -n $core_id && -n $pci_id ]] || die "the modules of $release have no build-id"
unpack "$package" debug
core=$(module debug nvme-core)
pci=$(module debug nvme)
[[ $(build_id "$core") == "$core_id" && $(build_id "$pci") == "$pci_id" ]] ||
    die "$package is of another build than the modules in linux-image-$release"

generate >"$work/$release.c"
check "$work/$release.c"
mv "$work/$release.c" "$here/"
echo "make: $here/$release.c"
