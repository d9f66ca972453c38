#!/usr/bin/env bash
# Runs the tool in a guest with two NVMe controllers of known, injected latency, so that the report
# can be checked by eye.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=${NVME_DEEP_BIN:-$root/target/debug/nvme-deep}
[[ -x $binary ]] || {
    echo "demo: no $binary here: 'make demo' builds it" >&2
    exit 1
}

# shellcheck disable=SC1091
. "$here/demo-machine.sh"

[[ -t 1 ]] || echo 'export NO_COLOR=1' >"$share/run.sh"
printf 'exec /bin/bash %q %q\n' "$here/demo-guest.sh" "$binary" >>"$share/run.sh"

if compgen -G '/sys/class/nvme/*' >/dev/null; then
    echo "This machine has NVMe controllers of its own; the demo puts no load on them and uses a"
    echo "guest. To look at yours: make build && sudo target/release/nvme-deep latency --stages"
    echo
fi
echo "Booting a guest with Linux $(<"${NVME_DEEP_LAB:-$root/target/lab}/6.12/release") and two NVMe controllers..."
# one CPU, because the tool attaches under load: see boot.sh
ONE_CPU=1 SMP=1 TIMEOUT=${TIMEOUT:-120} "$here/boot.sh" 6.12 "$share" "${controllers[@]}"
