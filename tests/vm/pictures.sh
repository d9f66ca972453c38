#!/usr/bin/env bash
# Makes the pictures of docs/pictures from a run in a guest: a latency report, a flame graph, access patterns;
# and from a recording of the tests: a heat map, and the screen of `top`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=$root/target/release/nvme-deep

# shellcheck disable=SC1091
. "$here/demo-machine.sh"

cat >"$share/run.sh" <<RUN
set -e
. "$here/demo-load.sh"
start_load
"$binary" latency --stages --ctrl nvme1 --color always --duration 4s >/mnt/report 2>/dev/null
"$binary" stacks --weight latency -o /mnt/stacks.svg --duration 4s >/dev/null
"$binary" record -o /mnt/run.nvd --duration 8s 2>/dev/null
RUN
ONE_CPU=1 SMP=1 TIMEOUT=120 "$here/boot.sh" 6.12 "$share" "${controllers[@]}" >/dev/null
mkdir -p "$root/docs/pictures"
"$here/ansi-svg.py" '$ nvme-deep latency --stages --ctrl nvme1' <"$share/report" >"$root/docs/pictures/report.svg"
cp "$share/stacks.svg" "$root/docs/pictures/stacks.svg"
"$binary" pattern --from "$share/run.nvd" -o "$root/docs/pictures/pattern.svg" --force >/dev/null
# a run with something to see: writeback throttling
wbt=$root/tests/recordings/diagnose/wbt.nvd
"$binary" heatmap "$wbt" -o "$root/docs/pictures/heatmap.png" --force
# the last page
COLUMNS=120 LC_ALL=C.UTF-8 "$binary" top 200ms "$wbt" --color always 2>/dev/null |
    awk '/nvme-deep top/ { page = "" } { page = page $0 "\n" } END { printf "%s", page }' >"$share/top"
"$here/ansi-svg.py" '$ nvme-deep top wbt.nvd' <"$share/top" >"$root/docs/pictures/top.svg"
chmod 644 "$root"/docs/pictures/*
