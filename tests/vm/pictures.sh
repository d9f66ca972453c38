#!/usr/bin/env bash
# Makes the pictures of docs/pictures from recordings of the tests.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=$root/target/release/nvme-deep
pictures=$root/docs/pictures

cd "$root/tests/exports"
"$binary" stacks mixed.nvd --weight latency --no-admin -o "$pictures/stacks.svg" --force >/dev/null
"$binary" pattern mixed.nvd --process fio,dd --ctrl nvme0,nvme1,nvme2 -o "$pictures/pattern.svg" --force >/dev/null
# a run with something to see: writeback throttling
cd "$root/tests/recordings/diagnose"
"$binary" heatmap wbt.nvd -o "$pictures/heatmap.png" --force
# the last page
COLUMNS=120 LC_ALL=C.UTF-8 "$binary" top 200ms wbt.nvd --color always 2>/dev/null |
    awk '/nvme-deep top/ { page = "" } { page = page $0 "\n" } END { printf "%s", page }' |
    "$here/ansi-svg.py" '$ nvme-deep top wbt.nvd' >"$pictures/top.svg"
chmod 644 "$pictures"/*
