#!/usr/bin/env bash
# scale.sh [KERNEL]: shows whether a command costs the same, and memory stays bounded, on larger
# machines: one guest for each, our modes only. `make bench SCALE=1` runs it. The table goes to
# stdout, the counts to target/bench/KERNEL-MACHINE.json.
#
# Environment: MACHINES: a regular expression for the names of the machines to boot. For the others,
# the table has the counts of an earlier call. All else is as in bench.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
kernel=${1:-6.12}
modes='^latency( --stages(=fine)?)?$|^trace --pair --stages$'
results=()

# machine NAME SETTING...
machine() {
    local name=$1 result=$root/target/bench/$kernel-$1.json
    shift
    if [[ $name =~ ${MACHINES:-} ]]; then
        echo "bench: $name"
        env SCALE= NAME="$kernel-$name" LOADS=batched ONLY="${ONLY:-$modes}" "$@" \
            "$here/bench.sh" "$kernel"
    fi
    [[ ! -f $result ]] || results+=("$result")
}

machine small
machine 4-controllers CONTROLLERS=4
machine 8-namespaces NAMESPACES=8
# The driver creates a queue for each possible CPU, and tools keep data for each. Two CPUs online
# are enough.
machine 64-queues SMP=64 APPEND=maxcpus=2
machine 1023-deep DEPTH=1023 APPEND=nvme.io_queue_depth=1024
machine 10-times-longer COUNT=100000
machine all CONTROLLERS=4 NAMESPACES=8 SMP=64 DEPTH=1023 APPEND="maxcpus=2 nvme.io_queue_depth=1024"

# -B: no compiled files in the source tree
python3 -B "$here/scale.py" "${results[@]}"
