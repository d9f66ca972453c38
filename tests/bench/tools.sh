# shellcheck shell=bash
# shellcheck disable=SC2154 # here and disks are set by guest.sh
# The tools to compare. guest.sh sources this file, and defines ours and peer:
#
#   ours ARGUMENT...              a mode of nvme-deep; left out if the binary does not have it
#   peer NAME KIND COMMAND...     another tool; KIND is a function count_KIND below
#
# count_KIND OUT ERR: prints how many commands a tool saw and how many events it lost, by its own
# report. A dash means that it does not report the number.

tools() {
    ours latency
    ours latency --stages
    ours latency --stages=fine
    ours latency --stages=full
    ours latency --by process
    ours top
    ours top --stages=fine
    ours serve
    ours serve --stages
    ours latency --attach kprobe
    ours latency --attach tracepoint
    ours trace --events --stages=none
    ours trace --stages=none
    ours trace --stages
    ours trace --stages=fine
    ours trace --stages=fine --context
    ours trace --stages=full --context
    ours trace --stages --json
    ours trace --stages --submitters
    ours record
    ours record --stages=basic
    ours stacks
    ours stacks --sample 1/64
    peer 'baseline, one latency' seen "$BUILT/least" "$BUILT/least.bpf.o" one
    peer 'baseline with rows, one latency' seen "$BUILT/least" "$BUILT/least.bpf.o" row_one
    peer 'baseline, four stages' seen "$BUILT/least" "$BUILT/least.bpf.o" all
    peer 'baseline with rows, four stages' seen "$BUILT/least" "$BUILT/least.bpf.o" row_all all_queue
    peer 'baseline, eight stages' seen "$BUILT/least" "$BUILT/least.bpf.o" all_start all_queue fine
    peer 'baseline, a trace' seen "$BUILT/least" "$BUILT/least.bpf.o" all_start all_queue all_cqe pair
    peer 'baseline with rows, a trace' seen "$BUILT/least" "$BUILT/least.bpf.o" \
        row_all_start all_queue row_all_cqe row_pair
    peer 'bpftrace, one latency' histogram bpftrace "$here/peers/latency.bt"
    peer 'bpftrace, five stages' histogram bpftrace "$here/peers/stages.bt"
    peer 'bpftrace, a line each' lines bpftrace "$here/peers/print.bt"
    peer 'bpftrace, kstack' stacks bpftrace "$here/peers/stacks.bt"
    peer 'biolatency' buckets biolatency
    peer 'perf record' perf_data perf record -q -a -e 'nvme:*' -o perf.data
    peer 'perf trace' perf_trace perf trace --no-syscalls -a -e 'nvme:*'
    peer 'blktrace' blktrace blktrace -d "${disks[0]}" -o blktrace
}

# Every report, text or JSON, ends with the ledger. Commands that were matched, but found no room in
# the ring, do not count as seen.
count_ours() {
    awk '
        function after(key) {
            if (!match($0, key "[0-9]+")) return 0
            return substr($0, RSTART + length(key), RLENGTH - length(key)) + 0
        }
        /"ledger":/ {
            matched = after("\"matched\":")
            ring = after("\"ring_drops\":")
            others = after("\"unrecovered\":") + after("\"no_row\":") + after("\"untracked\":")
        }
        /^accuracy +exact: / { matched = after("exact: ") }
        /^ *commands +seen / { matched = after("= matched ") }
        /^ *lost +[a-z ]+ [0-9]/ {
            ring = after("ring ")
            others = after("no row ") + after("untracked ")
        }
        /NOT KNOWN/ { unknown = 1 }
        END {
            if (matched == "") print "- -"
            else print matched - ring, (unknown ? "-" : ring + others)
        }' "$1" "$2"
}

# Only the histogram @total counts; a script may have others.
count_histogram() {
    awk '/^@/ { mine = /^@total:/ }
        mine && /\|/ { sub(/\|.*/, ""); seen += $NF }
        END { print seen + 0, "-" }' "$1"
}

count_seen() {
    awk '$1 == "seen" { print $2, "-" }' "$1"
}

count_stacks() {
    awk '/^\]: [0-9]+$/ { seen += $2 } END { print seen + 0, "-" }' "$1"
}

count_lines() {
    awk '/ us$/ { seen++ } /^Lost [0-9]+ events/ { lost += $2 } END { print seen + 0, lost + 0 }' "$1" "$2"
}

count_buckets() {
    awk '$2 == "->" { seen += $5 } END { print seen + 0, "-" }' "$1"
}

count_perf_data() {
    perf report -i perf.data --stats 2>/dev/null | awk '
        / stats:$/ { mine = /nvme_complete_rq/ }
        mine && /SAMPLE events:/ && !/LOST/ { seen = $3 }
        mine && /LOST_SAMPLES events:/ { lost += $3 }
        END { print seen + 0, lost + 0 }'
    rm -f perf.data
}

count_perf_trace() {
    awk '/nvme:nvme_complete_rq/ { seen++ }
        /LOST [0-9]+ events/ { sub(/.*LOST /, ""); lost += $1 }
        END { print seen + 0, lost + 0 }' "$1" "$2"
}

count_blktrace() {
    local seen
    seen=$(blkparse -q -i blktrace -f '%a\n' | grep -c '^C$')
    awk -v seen="$seen" '/Total:/ { sub(/.*dropped /, ""); lost += $0 } END { print seen, lost + 0 }' "$1"
    rm -f blktrace.*
}
