#!/usr/bin/env bash
# fetch.sh NAME: prepares kernel NAME of the table ./kernels for boot.sh:
#
#   $LAB/NAME/vmlinuz      the kernel image
#   $LAB/NAME/release      its `uname -r`
#   $LAB/NAME/arch         Debian's name of its architecture
#   $LAB/NAME/config       its configuration
#   $LAB/NAME/modules/     the modules that the guests use, unpacked, and their order
#   $LAB/NAME/wanted       the names of these modules
#   $LAB/NAME/initrd.img   busybox, these modules and ./init
#
# For a kernel of arm64 it also makes the root of its guests: see arm64-root.sh. A kernel whose package
# holds sources is compiled with the configuration shapes/base and shapes/NAME, in some 12 CPU minutes.
#
# LAB is target/lab, or NVME_DEEP_LAB of the environment. Existing files are kept, and then
# fetch.sh needs no network. It does not change the system's own apt state: the download uses
# private lists, from the mirror that this machine already uses.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
LAB=${NVME_DEEP_LAB:-$root/target/lab}

# The guest's init loads these in this order, with their dependencies.
boot_modules=(virtio_pci virtio_blk mq-deadline kyber-iosched bfq nvme_core nvme)
# The guest's access to the host's files: boot.sh uses 9p if the kernel has it.
share_modules_9p=(9pnet_virtio 9p)
share_modules_virtiofs=(virtiofs)
# The guest's script loads these from /tmp/mods. A kernel may lack some of them.
spare_modules=(null_blk nvmet nvme-loop nvme-tcp nvmet-tcp dm-mod ext4 kvm-amd ptp_kvm)
# A script that needs them loads these: block devices above others, and what dm-crypt encrypts with.
extra_modules=(dm-crypt xts ecb aes_generic loop)
# Compiled kernels have no RAID: no test of theirs needs it.
packaged_modules=(raid1)

wanted="${boot_modules[*]} ${share_modules_9p[*]} ${share_modules_virtiofs[*]} ${spare_modules[*]} ${extra_modules[*]}"

die() {
    echo "fetch: $*" >&2
    exit 1
}

(($# == 1)) || die "usage: fetch.sh NAME (a name of $here/kernels)"
name=$1
read -r suites package < <(awk -v n="$name" '$1 == n { print $2, $3 }' "$here/kernels") ||
    die "no kernel '$name' in $here/kernels"
case $package in
    *-arm64*) arch=arm64 busybox=$LAB/root-arm64/bin/busybox ;;
    *) arch=amd64 busybox=$(command -v busybox) ;;
esac

# A compiled kernel is kept until its configuration changes.
if [[ $package == linux-source* ]]; then
    wanted+=" $(cat "$here/shapes/base" "$here/shapes/$name" | sha256sum)"
else
    extra_modules+=("${packaged_modules[@]}")
    wanted+=" ${packaged_modules[*]}"
fi

# Prints the address from which this machine gets its own Debian packages, for a suite.
# Security updates are in a separate archive. ReleaseInfo=false makes this work even if apt's
# lists have been removed.
mirror() {
    local codename
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    [[ $1 != *-security ]] || codename+=-security
    # shellcheck disable=SC2016 # apt expands these
    apt-get indextargets -o APT::Get::IndexTargets::ReleaseInfo=false \
        --format '$(SITE) $(RELEASE) $(COMPONENT)' |
        awk -v c="$codename" '$2 == c && $3 == "main" { if (!n++) print $1 }'
}

retry() {
    local try
    for try in 1 2 3; do
        "$@" && return
        echo "fetch: try $try of 3 failed: ${*: -3}" >&2
        sleep "$try"
    done
    return 1
}

# Downloads the kernel behind the metapackage and leaves its files in $1/tree.
download() {
    local work=$1 site suite found='' wanted seen=' '
    mkdir -p "$work"/{lists,cache/archives,deb,tree}/ "$work"/lists/partial "$work"/cache/archives/partial
    : >"$work/status"
    # Equal priorities select the newest version; by default, apt prefers any suite to backports.
    printf 'Package: *\nPin: release *\nPin-Priority: 500\n' >"$work/preferences"
    local apt=(
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences="$work/preferences" -o Dir::Etc::PreferencesParts=/dev/null
        -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/status"
        -o Dir::Cache="$work/cache"
        -o APT::Architecture="$arch" -o Acquire::Languages=none
        # apt's download user has no access to root's directory.
        -o APT::Sandbox::User=root
    )
    # Suites come and go: one of several may be missing.
    for suite in ${suites//,/ }; do
        site=$(mirror "$suite")
        [[ -n $site ]] || continue
        echo "deb [arch=$arch check-valid-until=no] $site $suite main" >"$work/sources.list"
        retry apt-get "${apt[@]}" -o APT::Get::List-Cleanup=false update -qq || continue
        cat "$work/sources.list" >>"$work/found.list"
        found=yes
    done
    [[ -n $found ]] || die "no $suites here: apt knows no mirror on this machine (apt-get indextargets), or that has it not"
    mv "$work/found.list" "$work/sources.list"

    # The metapackage names the image. An image may in turn be split into further packages named
    # after the same kernel.
    local pending=("$package") debs=()
    while ((${#pending[@]})); do
        wanted=${pending[0]}
        pending=("${pending[@]:1}")
        [[ $seen != *" $wanted "* ]] || continue
        seen+="$wanted "
        [[ $wanted == "$package" && $wanted != linux-source-* ]] || debs+=("$wanted")
        mapfile -t -O "${#pending[@]}" pending < <(
            apt-cache "${apt[@]}" depends --important "$wanted" |
                sed -nE 's/^ +\|?(Pre)?Depends: (linux-(image|modules|binary|base|source)-[0-9].*)/\2/p'
        )
    done
    ((${#debs[@]})) || die "$package of $suites does not depend on any linux-image"
    echo "fetch: $name is ${debs[*]}"
    (cd "$work/deb" && retry apt-get "${apt[@]}" download -qq "${debs[@]}")
    local deb
    for deb in "$work"/deb/*.deb; do
        dpkg-deb -x "$deb" "$work/tree"
    done
}

# Compiles the sources in $1/tree, and leaves in $1/tree what the packages of a kernel hold.
compile() {
    local work=$1 archive line release
    archive=$(find "$work/tree/usr/src" -name 'linux-source-*.tar.xz')
    [[ -n $archive ]] || die "the package of $name holds no sources"
    mkdir "$work/source"
    tar -C "$work/source" --strip-components=1 -xf "$archive"
    rm -rf "$work/tree"
    mkdir -p "$work/tree/boot"
    cat "$here/shapes/base" "$here/shapes/$name" >"$work/wishes"
    local make=(make -s -C "$work/source" -j "$(nproc)")
    logged() {
        "$@" >"$work/log" 2>&1 && return
        tail -n 20 "$work/log" >&2
        die "$name cannot be compiled: $*"
    }
    logged "${make[@]}" KCONFIG_ALLCONFIG="$work/wishes" allnoconfig
    # A wish whose dependencies are missing is dropped without a word.
    awk -F '[ =]' '/^CONFIG_/ { last[$1] = $0 } /^# CONFIG_/ { last[$2] = "" }
        END { for (name in last) if (last[name]) print last[name] }' "$work/wishes" >"$work/expected"
    while read -r line; do
        grep -qxF "$line" "$work/source/.config" || die "the configuration of $name cannot have $line"
    done <"$work/expected"
    logged "${make[@]}" bzImage modules
    logged "${make[@]}" INSTALL_MOD_PATH="$work/tree" INSTALL_MOD_STRIP=1 modules_install
    release=$("${make[@]}" kernelrelease)
    cp "$work/source/arch/x86/boot/bzImage" "$work/tree/boot/vmlinuz-$release"
    cp "$work/source/.config" "$work/tree/boot/config-$release"
    rm -rf "$work/source"
}

# Copies the files that the guests need from $1/tree to $1/out.
pick() {
    local work=$1 tree=$1/tree out=$1/out modules base release image
    modules=$(find "$tree" -maxdepth 4 -type d -path '*lib/modules/*' | head -n 1)
    [[ -n $modules ]] || die "the packages of $name hold no modules"
    release=${modules##*/}
    base=${modules%/lib/modules/*}
    # Packages of newer kernels have no /boot.
    mkdir -p "$tree/boot"
    image=$(find "$tree/boot" "$modules" -maxdepth 1 \( -name "vmlinuz-$release" -o -name vmlinuz \) | head -n 1)
    [[ -n $image ]] || die "the packages of $name hold no kernel image"

    mkdir -p "$out/modules"
    cp "$image" "$out/vmlinuz"
    cp "$tree/boot/config-$release" "$out/config" 2>/dev/null || cp "$modules/config" "$out/config"
    depmod -b "$base" "$release"
    local share_modules=("${share_modules_9p[@]}")
    grep -q '^CONFIG_NET_9P_VIRTIO=[ym]' "$out/config" || share_modules=("${share_modules_virtiofs[@]}")
    # Lists of the modules to load at boot, of those with the spare ones, and of all, in load order.
    # Modules that are built in or missing are in no list.
    local boot=("${share_modules[@]}" "${boot_modules[@]}")
    list_modules "$base" "$release" "${boot[@]}" >"$work/boot"
    list_modules "$base" "$release" "${boot[@]}" "${spare_modules[@]}" >"$work/order"
    list_modules "$base" "$release" "${boot[@]}" "${spare_modules[@]}" "${extra_modules[@]}" >"$work/all"
    local path file
    while read -r path; do
        file=${path##*/}
        case $file in
            *.xz) xz -dc "$path" >"$out/modules/${file%.xz}" ;;
            *.zst) zstd -dcq "$path" >"$out/modules/${file%.zst}" ;;
            *) cp "$path" "$out/modules/" ;;
        esac
    done <"$work/all"
    echo "$wanted" >"$out/wanted"
    names "$work/boot" >"$out/modules/boot"
    names "$work/order" >"$out/modules/order"
    names "$work/all" >"$out/modules/all"
    echo "$arch" >"$out/arch"
    echo "$release" >"$out/release"
}

# Prints the files of the given modules and of all their dependencies, each once.
list_modules() {
    local base=$1 release=$2 module
    shift 2
    for module; do
        modprobe -C /dev/null -d "$base" -S "$release" --show-depends "$module" 2>/dev/null || true
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

names() {
    sed -E 's,.*/,,; s,\.(xz|zst)$,,' "$1"
}

pack() {
    local kernel=$1 work=$2 image=$2/image
    mkdir -p "$image"/{bin,dev,host,proc,root,sys}
    cp "$busybox" "$image/bin/busybox"
    cp -r "$kernel/modules" "$image/mods"
    cp "$here/init" "$image/init"
    chmod 755 "$image/init"
    (cd "$image" && find . | cpio -o -H newc --quiet -R 0:0 | gzip -1) >"$work/initrd.img"
    mv "$work/initrd.img" "$kernel/initrd.img"
}

kernel=$LAB/$name
# The modules of a kernel that was fetched for a shorter list are not those that are wanted now.
complete() {
    [[ -f $kernel/release && -f $kernel/wanted && $(<"$kernel/wanted") == "$wanted" ]]
}
ready() {
    # The image is packed again if init is newer.
    complete && [[ -f $kernel/initrd.img && ! $here/init -nt $kernel/initrd.img ]]
}

[[ $arch == amd64 ]] || "$here/arm64-root.sh" "$LAB"

# All files are made in a temporary directory, which is moved into place when it is complete.
# An interrupted run leaves no directory that looks complete.
if ! ready; then
    mkdir -p "$LAB"
    exec 9>"$LAB/.lock-$name"
    flock 9
    if ! ready; then
        rm -rf "$LAB/.$name."* # left by a killed run
        work=$(mktemp -d "$LAB/.$name.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        trap 'exit 1' INT TERM HUP
        if ! complete; then
            download "$work"
            [[ $package != linux-source* ]] || compile "$work"
            pick "$work"
            rm -rf "$kernel"
            mv "$work/out" "$kernel"
        fi
        pack "$kernel" "$work"
    fi
fi
