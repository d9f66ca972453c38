#!/usr/bin/env bash
# The load of the demo and of the pictures. Guest scripts source this file.
here=$(dirname "${BASH_SOURCE[0]}")

# start_load: starts the load; exits if the load does not run
start_load() {
    local load
    fio --output=/tmp/fio.out "$here/demo.fio" >/dev/null 2>&1 &
    load=$!
    sleep 2
    kill -0 "$load" 2>/dev/null || {
        echo "the load did not start:"
        cat /tmp/fio.out
        exit 1
    }
}
