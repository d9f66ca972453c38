# shellcheck shell=bash
# For guest scripts: the kernel's own record of the events nvme/*, in a separate buffer, with the
# clock that the programs use.

trace_dir=/sys/kernel/tracing/instances/nvme

# recording: starts the record
recording() {
    [[ -d $trace_dir ]] || mkdir "$trace_dir"
    echo mono >"$trace_dir/trace_clock"
    echo 16384 >"$trace_dir/buffer_size_kb"
    echo >"$trace_dir/trace"
    echo 1 >"$trace_dir/events/nvme/enable"
}

# recorded: stops the record and keeps it. The statistics count the events that did not fit.
recorded() {
    echo 0 >"$trace_dir/events/nvme/enable"
    # shellcheck disable=SC2154 # case_dir is of lib.sh
    cat "$trace_dir/trace" >"$case_dir/kernel"
    cat "$trace_dir"/per_cpu/cpu*/stats >"$case_dir/kernel.stats"
    echo >"$trace_dir/trace"
}

# mark WORD: keeps the current time of the programs' clock, and the wall-clock time
mark() {
    python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns())' \
        >"$case_dir/mark.$1"
}
