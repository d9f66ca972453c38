#!/usr/bin/env bash
# QEMU arguments for NVMe controllers with a known latency and known faults, one
# argument a line. Source it for the functions, or run it: nvme-args.sh FUNCTION
# ARGUMENT... Read the answer with: mapfile -t args < <(nvme_null nvme0 1000000)
#
#   nvme_null ID LATENCY_NS [OPTION...]
#       Controller ID (its serial, too) on storage that reads as zeroes, forgets
#       what is written and completes each request after LATENCY_NS. QEMU's main
#       loop sleeps in whole milliseconds, rounded up: 200000 mostly comes out as
#       some 1.1 ms, 1000000 does, too. Ask for multiples of 1000000.
#   nvme_blkdebug ID LATENCY_NS FAULT... [OPTION...]
#       The same, failing some requests. FAULT is read, write, flush or discard,
#       then any of ,sector=N (only requests touching that 512-byte sector),
#       ,once=on (only the first; repeat the FAULT to fail as many), ,errno=N (5).
#
#   nvme_on ID NODE [key=value...]
#       Controller ID on a block node that is there already: boot.sh's "served".
#
#   OPTION: size=BYTES (1 GiB) of each namespace, namespaces=N (1),
#   lba=BYTES (512) of a logical block, serial=S; ns:key=value goes to each namespace as
#   it is: ns:zoned=on, ns:ms=8, ...; any other key=value so to the controller:
#   max_ioqpairs=2, mdts=5, ...
#
# A controller gets its number in the guest by its place on the command line:
# the first is nvme0. A read fault without a sector also hits the partition scan.

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
    # "none" is the event of the node's opening: the rule then holds from the
    # start. Events like read_aio come from format drivers, of which there are none
    # here, and would renew a rule that is meant to strike once.
    printf '{"event":"none","iotype":"%s","errno":%s,"once":%s%s}' "$request" "$errno" "$once" "$sector"
}

_nvme_controller() {
    local id=$1 latency=$2 word size=1073741824 namespaces=1 lba='' serial=$1 rules='' rule device='' namespace=''
    shift 2
    for word; do
        case $word in
            size=*) size=${word#*=} ;;
            namespaces=*) namespaces=${word#*=} ;;
            lba=*) lba=",logical_block_size=${word#*=},physical_block_size=${word#*=}" ;;
            serial=*) serial=${word#*=} ;;
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
    printf '%s\n' -device "nvme,id=$id,serial=$serial$device"
    local n node
    for ((n = 1; n <= namespaces; n++)); do
        node=$id-$n
        local null="{\"driver\":\"null-co\",\"node-name\":\"$node-null\",\"size\":$size,\"read-zeroes\":true,\"latency-ns\":$latency}"
        if [[ -n $rules ]]; then
            printf '%s\n' -blockdev "{\"driver\":\"blkdebug\",\"node-name\":\"$node\",\"image\":$null,\"inject-error\":[$rules]}"
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

nvme_on() {
    local id=$1 node=$2 device='' word
    shift 2
    for word; do device+=",$word"; done
    printf '%s\n' -device "nvme,id=$id,serial=$id$device" -device "nvme-ns,bus=$id,drive=$node,nsid=1"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -euo pipefail
    case ${1:-} in
        nvme_null | nvme_blkdebug | nvme_on) "$@" ;;
        *)
            sed -n '2,/^$/ s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
    esac
fi
