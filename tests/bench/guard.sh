#!/usr/bin/env bash
# guard.sh [--record]: counts the cost of the main modes on 6.12, and fails if it is more than 5 %
# above recorded.json, or above its limit there. With --record, writes recorded.json. Takes about a minute.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export ONLY='^latency( --stages)?$|^trace --stages$|^top$|^record$' LOADS=batched NAME=guard PEERS=no
log=$root/target/guard.log
"$here/bench.sh" 6.12 >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
}
python3 "$here/guard.py" "$root/target/bench/guard.json" "$here/recorded.json" "$@"
