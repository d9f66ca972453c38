#!/usr/bin/env bash
# rings.sh: what it costs that two CPUs write to the same ring of events. Runs on this machine's
# kernel, as root; the times are those of this machine.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
built=$(mktemp -d)
trap 'rm -r "$built"' EXIT
clang -g -O2 -target bpf -idirafter "/usr/include/$(uname -m)-linux-gnu" -c "$here/rings.bpf.c" \
    -o "$built/rings.bpf.o"
gcc -O2 -Wall -Werror "$here/rings.c" -o "$built/rings" -lbpf -lpthread
# In real time, so that both CPUs write at the same time even if the machine has other work.
chrt -f 50 "$built/rings" "$built/rings.bpf.o"
