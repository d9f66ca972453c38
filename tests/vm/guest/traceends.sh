#!/usr/bin/env bash
# How a trace ends under a load that does not end: the reader exits, a signal arrives, the number
# of commands is reached. On one CPU: see ONE_CPU in boot.sh on code that is patched under load.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/devices.sh"
dev=$(disk nvme0)
echo none >"/sys/block/$dev/queue/scheduler"
settled

begin head
for form in json text; do
    words=(trace --ctrl nvme0)
    if [[ $form == text ]]; then words+=(--long); else words+=(--json); fi
    {
        status=0
        "$NVME_DEEP" "${words[@]}" 2>"$case_dir/$form.err" || status=$?
        echo "$status" >"$case_dir/$form.status"
    } | head -n 5 >"$case_dir/$form.out" &
    pipe=$!
    tools=("$pipe:$form")
    traced
    endless "$dev"
    wait "$pipe"
    no_load
done

begin signals
module_users >"$case_dir/users.before"
for signal in INT TERM HUP; do
    tool "$signal" trace --events --json --kstack --stages --ctrl nvme0
    traced
    endless "$dev"
    busy "$dev" 200
    stop "$signal"
    no_load
done
tool count trace --events --stages=none --json -n 1000 --ctrl nvme0 --no-admin
tool pairs trace --long --stages=none -n 1000 --ctrl nvme0 --no-admin
traced
endless "$dev"
finished
no_load
module_users >"$case_dir/users.after"
