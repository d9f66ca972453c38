#!/usr/bin/env bash
# scrape-guest.sh: the part of scrape.sh that runs in the guest. /mnt/log has a line for each run that
# the plugin counts: the binary, the tool (`-`: none), and how often it read the maps.
set -euo pipefail

: "${BUILT:?}" "${BINARIES:?}" "${WANTED:?}"
times=5
mkdir /tmp/scrape
cd /tmp/scrape
mkfifo answers
ip link set lo up
# so many queues take a while
for ((i = 0; i < 3000; i++)); do
    found=(/sys/class/block/nvme*n1)
    ((${#found[@]} < WANTED)) || break
    sleep 0.1
done
tags=0
for queue in /sys/block/nvme*n1/mq/*; do tags=$((tags + $(<"$queue/nr_tags"))); done
echo "${#found[@]} controllers, $tags tags of I/O queues"

run() {
    "$BUILT/scrape" "$3" "$times" >bytes
    echo "$1	$2	$times" >>/mnt/log
}

# measure BINARY PORT ARGUMENT...
measure() {
    local binary=$1 port=$2 word pid starter from i
    shift 2
    "$BUILT/start" out err 100 "/mnt/$binary" "$@" >answers &
    starter=$!
    exec {from}<answers
    read -r word pid _ <&"$from" || true
    if [[ $word == attached ]]; then
        run "$binary" "$*" "$port"
        kill -INT "$pid"
        for ((i = 0; i < 600; i++)); do
            kill -0 "$starter" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
    else
        echo "$binary $*: not attached: $(tail -n 1 err)"
    fi
    exec {from}<&-
}

run - - 0
run - - 0
for binary in $BINARIES; do
    measure "$binary" 9100 serve --stages --listen 127.0.0.1:9100
    measure "$binary" 0 top 1
    measure "$binary" 0 inflight --age 10x 1
done
