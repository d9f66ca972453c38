#!/usr/bin/env bash
# Prints QEMU arguments for NVMe controllers with a defined latency and defined faults, one
# argument per line. Source it for the functions, or run it: nvme-args.sh FUNCTION
# ARGUMENT... Read the result with: mapfile -t args < <(nvme_null nvme0 1000000)
#
#   nvme_null ID LATENCY_NS [OPTION...]
#       Controller ID (also its serial) on storage that reads as zeroes, discards
#       writes and completes each request after LATENCY_NS. QEMU's main loop sleeps
#       in whole milliseconds, rounded up: 200000 mostly results in about 1.1 ms, and
#       so does 1000000. Use multiples of 1000000.
#   nvme_blkdebug ID LATENCY_NS FAULT... [OPTION...]
#       The same, but some requests fail. FAULT is read, write, flush or discard,
#       followed by any of ,sector=N (only requests that include this 512-byte sector),
#       ,once=on (only the first request; repeat the FAULT to fail more), ,errno=N (5).
#
#   nvme_file ID BYTES
#       Controller ID on a new file of this size, ID.img in the directory SHARE of the environment. It
#       keeps what is written.
#   nvme_on ID NODE[+NODE...] [key=value...]
#       Controller ID on existing block nodes, such as "served" of boot.sh: one of each namespace.
#
#   nvme_iommu
#       An IOMMU (intel-iommu) for all controllers. Give it before them.
#
#   OPTION: throttle=IOPS limits the requests of a second. size=BYTES (1 GiB) of each namespace, namespaces=N (1),
#   lba=BYTES (512) of a logical block, serial=S. ns:key=value is passed to each namespace
#   unchanged: ns:zoned=on, ns:ms=8, ... Any other key=value is passed to the controller:
#   max_ioqpairs=2, mdts=5, ...
#
# The position on the command line determines the number of a controller in the guest:
# the first is nvme0. A read fault without a sector also fails the partition scan.

_nvme_blkdebug_rule() {
    local request=${1%%,*} word errno=5 once=false sector=''
    case $request in
        read | write | flush | discard) ;;
        *)
            echo "nvme-args: '$request' cannot be made to fail" >&2
            return 1
            ;;
    esac
    local IFS=,
    for word in ${1#"$request"}; do
        case $word in
            '') ;;
            errno=*) errno=${word#*=} ;;
            once=on) once=true ;;
            once=off) once=false ;;
            sector=*) sector=",\"sector\":${word#*=}" ;;
            *)
                echo "nvme-args: no '$word' in a fault" >&2
                return 1
                ;;
        esac
    done
    # "none" is the event that occurs when the node opens, so the rule applies from the start.
    # Events such as read_aio come from format drivers. This node has no format driver, and such an
    # event would renew a rule that applies once.
    printf '{"event":"none","iotype":"%s","errno":%s,"once":%s%s}' "$request" "$errno" "$once" "$sector"
}

_nvme_controller() {
    local id=$1 latency=$2 word size=1073741824 namespaces=1 lba='' serial=$1 rules='' rule device='' namespace='' throttle=''
    shift 2
    for word; do
        case $word in
            size=*) size=${word#*=} ;;
            namespaces=*) namespaces=${word#*=} ;;
            lba=*) lba=",logical_block_size=${word#*=},physical_block_size=${word#*=}" ;;
            serial=*) serial=${word#*=} ;;
            throttle=*) throttle=${word#*=} ;;
            ns:*=*) namespace+=",${word#ns:}" ;;
            read* | write* | flush* | discard*)
                rule=$(_nvme_blkdebug_rule "$word") || return
                rules+="${rules:+,}$rule"
                ;;
            *=*) device+=",$word" ;;
            *)
                echo "nvme-args: what is '$word'?" >&2
                return 1
                ;;
        esac
    done
    [[ -z $throttle ]] || printf '%s\n' -object "throttle-group,id=$id-limit,x-iops-total=$throttle"
    printf '%s\n' -device "nvme,id=$id,serial=$serial$device"
    local n node
    for ((n = 1; n <= namespaces; n++)); do
        node=$id-$n
        local null="{\"driver\":\"null-co\",\"node-name\":\"$node-null\",\"size\":$size,\"read-zeroes\":true,\"latency-ns\":$latency}"
        if [[ -n $rules ]]; then
            printf '%s\n' -blockdev "{\"driver\":\"blkdebug\",\"node-name\":\"$node\",\"image\":$null,\"inject-error\":[$rules]}"
        elif [[ -n $throttle ]]; then
            printf '%s\n' -blockdev "{\"driver\":\"throttle\",\"node-name\":\"$node\",\"throttle-group\":\"$id-limit\",\"file\":$null}"
        else
            printf '%s\n' -blockdev "${null/-null\"/\"}"
        fi
        printf '%s\n' -device "nvme-ns,bus=$id,drive=$node,nsid=$n$lba$namespace"
    done
}

nvme_null() {
    _nvme_controller "$@"
}

nvme_blkdebug() {
    _nvme_controller "$@"
}

nvme_iommu() {
    printf '%s\n' -device intel-iommu
}

nvme_file() {
    local file=${SHARE:?}/$1.img
    rm -f "$file"
    truncate -s "$2" "$file"
    printf '%s\n' -blockdev "{\"driver\":\"file\",\"node-name\":\"$1-file\",\"filename\":\"$file\"}"
    nvme_on "$1" "$1-file"
}

nvme_on() {
    local id=$1 nodes node nsid=0 device='' word
    IFS=+ read -ra nodes <<<"$2"
    shift 2
    for word; do device+=",$word"; done
    printf '%s\n' -device "nvme,id=$id,serial=$id$device"
    for node in "${nodes[@]}"; do
        printf '%s\n' -device "nvme-ns,bus=$id,drive=$node,nsid=$((++nsid))"
    done
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -euo pipefail
    case ${1:-} in
        nvme_null | nvme_blkdebug | nvme_file | nvme_iommu | nvme_on) "$@" ;;
        *)
            sed -n '2,/^$/ s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
    esac
fi
