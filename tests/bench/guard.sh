#!/usr/bin/env bash
# guard.sh [--record]: counts the cost of the main modes on 6.12, and fails if it is more than 5 %
# above recorded.json, or above its limit there. With --record, writes recorded.json. Takes about a minute.
#
# QEMU's null device answers by the real clock. On a busy machine more commands complete before their
# doorbell's program has run, which costs more. So the disk is slower than in bench.sh, and if a guest is
# above a limit, one or two more are measured, and the median counts.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export ONLY='^latency( --stages)?$|^trace --stages$|^top$|^record$' LOADS=batched PEERS=no LATENCY_NS=1000000
results=()
for n in 1 2 3; do
    log=$root/target/guard-$n.log
    NAME=guard-$n "$here/bench.sh" 6.12 >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
    results+=("$root/target/bench/guard-$n.json")
    status=0
    python3 "$here/guard.py" "$here/recorded.json" "${results[@]}" "$@" || status=$?
    ((status == 3)) || exit "$status"
done
exit 1
