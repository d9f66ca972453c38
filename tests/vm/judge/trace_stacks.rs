// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks of known paths have their functions in order, with the driver's hooked function on top,
//! with every attach method. The counts of stacks add up to the commands issued.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{fio_counts, list, number, text};
use super::ledger::events;
use super::trace_kernel::{assert_as_the_kernel, assert_kinds_as_the_kernel};
use super::trace_read::{TraceRun, function, functions, lines, opcode};

const STACKS: Suite = Suite::of("tracestacks", &["nvme_null nvme0 0"]);

const METHODS: [&str; 5] = ["auto", "fentry", "rawtp", "kprobe", "tracepoint"];
/// These miss a completion if it interrupts another program of their kind.
const LOSSY: [&str; 2] = ["kprobe", "tracepoint"];

/// The functions of each path, innermost first: parts of names, and their alternatives.
const AIO: &str = "nvme_setup_cmd nvme_queue_rq submit_bio|blk_flush_plug|blk_finish_plug \
    io_submit_one|sys_io_submit do_syscall_64 entry_SYSCALL_64_after_hwframe";
const URING: &str = "nvme_setup_cmd nvme_queue_rq submit_bio|blk_flush_plug|blk_finish_plug \
    io_submit_sqe|sys_io_uring_enter do_syscall_64 entry_SYSCALL_64_after_hwframe";
const PREAD: &str = "nvme_setup_cmd nvme_queue_rq submit_bio|blk_flush_plug|blk_finish_plug \
    blkdev_direct_IO|blkdev_read_iter sys_pread64 do_syscall_64 entry_SYSCALL_64_after_hwframe";
/// The function that fills the plug flushes it, or blk_finish_plug() does so later.
const WRITEBACK: &str = "nvme_setup_cmd nvme_queue_rq wb_writeback wb_workfn process_one_work \
    worker_thread kthread ret_from_fork";

fn goes_through(frames: &[&str], path: &str) -> bool {
    let mut frames = frames.iter();
    path.split(' ').all(|step| frames.any(|f| step.split('|').any(|name| f.contains(name))))
}

/// The driver's function in which the stack was taken comes first, and only once. No frame belongs
/// to the tool's own programs.
fn assert_top(frames: &[&str], tops: &[&str], what: &str) {
    let top = frames.first().unwrap_or_else(|| panic!("{what}: no stack"));
    assert!(tops.contains(top), "{what}: {frames:?}");
    assert!(!frames[1..].contains(top), "{what}: twice: {frames:?}");
    for frame in frames {
        let ours = frame.contains("bpf_") || frame.contains("trampoline");
        assert!(!ours, "{what}: our own: {frames:?}");
    }
}

/// The attach methods that this kernel has; the tool rejected the others.
fn methods(outcome: &Outcome) -> Vec<&'static str> {
    let has = |method: &&str| {
        let output = outcome.path(&format!("method-{method}"), "stacks.out");
        output.exists()
    };
    let methods: Vec<_> = METHODS.into_iter().filter(has).collect();
    let want: &[&str] = match outcome.kernel() {
        "5.10" => &["auto", "rawtp", "kprobe", "tracepoint"],
        _ => &METHODS,
    };
    for method in want {
        assert!(
            methods.contains(method),
            "no {method}: {}",
            outcome.text(&format!("method-{method}"), "trace.err")
        );
    }
    methods
}

fn each_method_shows_the_known_paths(outcome: &Outcome) {
    for method in methods(outcome) {
        let case = format!("method-{method}");
        let run = TraceRun::read(outcome, &case, "trace");
        let [setups, _] = events(outcome, &case, "nvme_setup_cmd");
        assert_eq!(run.count("submit"), setups, "{method}: no method misses a submission");
        if LOSSY.contains(&method) {
            assert_kinds_as_the_kernel(outcome, &case, &run, &["submit"]);
            assert_completions_are_in_the_ledger(outcome, &case, &run);
        } else {
            assert_as_the_kernel(outcome, &case, &run);
            run.assert_nothing_lost();
        }
        let of_fio: Vec<&Value> = run.of("submit").filter(|e| text(e, "comm") == "fio").collect();
        assert_eq!(of_fio.len(), 60, "{method}");
        for (n, path) in [AIO, URING, PREAD].into_iter().enumerate() {
            for submit in &of_fio[20 * n..20 * (n + 1)] {
                let frames = functions(submit, "kstack");
                assert_top(&frames, &["nvme_setup_cmd"], method);
                assert!(goes_through(&frames, path), "{method}: {path:?} {frames:?}");
            }
        }
        let written: Vec<&Value> = run.of("submit").filter(|e| opcode(e) == "io:0x01").collect();
        let bytes: u64 = written.iter().map(|e| 512 * number(&e["fields"], "nlb")).sum();
        assert_eq!(bytes, 4 << 16, "{method}");
        for submit in written {
            assert!(text(submit, "comm").starts_with("kworker/"), "{method}: {submit}");
            let frames = functions(submit, "kstack");
            assert_top(&frames, &["nvme_setup_cmd"], method);
            assert!(goes_through(&frames, WRITEBACK), "{method}: {frames:?}");
        }
    }
}

/// The kernel's count of misses (where it counts them) is the number of completions that these
/// methods did not see. Such a command has a Missed line, or no end if the driver's types are not
/// known.
fn assert_completions_are_in_the_ledger(outcome: &Outcome, case: &str, run: &TraceRun) {
    let [setups, _] = events(outcome, case, "nvme_setup_cmd");
    let [ends, _] = events(outcome, case, "nvme_complete_rq");
    assert_eq!(setups, ends, "{case}: all has ended");
    let entries = &run.ledger;
    assert_eq!(entries["balance"]["balanced"], true, "{case}: {entries}");
    let seen = run.count("complete");
    let without = run.entry("in_flight") + run.entry("overwritten");
    let found = run.count("missed");
    assert_eq!(seen + found + without, setups, "{case}: {entries}");
    if entries["recovers"] == true {
        assert_eq!(without, 0, "{case}: {entries}");
    }
    if entries["misses_known"] == true {
        let hooks = list(entries, "hooks").iter().filter(|h| h["point"] == "complete");
        let missed: u64 = hooks.map(|h| number(h, "recursion_misses")).sum();
        assert_eq!(seen + missed, ends, "{case}: {entries}");
    }
    assert!(run.talk.contains("miss"), "{case}: {}", run.talk);
}

/// The output of `stacks` with --json.
struct StackRun {
    rows: Vec<Value>,
    ledger: Value,
}

impl StackRun {
    fn read(outcome: &Outcome, case: &str, name: &str) -> Self {
        let mut rows = outcome.objects(case, name);
        let end = rows.pop().unwrap();
        assert_eq!(text(&end, "type"), "end", "{case} {name}");
        assert!(rows.iter().all(|row| text(row, "type") == "stack"), "{case} {name}: {rows:?}");
        for row in &rows {
            let dist = &row["latency"];
            assert_eq!(row["count"], dist["count"], "{row}");
            let mean = number(dist, "sum_ns") as f64 / number(dist, "count") as f64;
            let said = dist["mean_ns"].as_f64().unwrap();
            assert!((said - mean).abs() <= 1.0, "{row}");
        }
        Self { rows, ledger: end["ledger"].clone() }
    }

    fn count(&self) -> u64 {
        self.rows.iter().map(|r| number(r, "count")).sum()
    }

    fn through(&self, path: &str) -> u64 {
        let mine = self.rows.iter().filter(|r| goes_through(&functions(r, "kstack"), path));
        mine.map(|r| number(r, "count")).sum()
    }
}

fn commands_by_stack_are_those_issued(outcome: &Outcome) {
    for method in methods(outcome) {
        let run = StackRun::read(outcome, &format!("method-{method}"), "stacks");
        for row in &run.rows {
            assert_top(&functions(row, "kstack"), &["nvme_setup_cmd"], method);
        }
        let seen = [AIO, URING, PREAD].map(|path| run.through(path));
        if LOSSY.contains(&method) {
            // a command without an end has no latency, and is not in the list
            assert!(seen.iter().all(|n| (1..=20).contains(n)), "{method}: {seen:?}");
        } else {
            assert_eq!(seen, [20; 3], "{method}");
            let written = run.through(WRITEBACK);
            assert!(written > 0, "{method}");
            let issued = number(&run.ledger, "seen");
            assert_eq!(run.count(), issued, "{method}: {}", run.ledger);
        }
    }
    let run = StackRun::read(outcome, "many", "json");
    assert_eq!(fio_counts(outcome, "many")[0], 4000);
    assert_eq!([run.count(), run.through(AIO), run.through(URING)], [4000, 3000, 1000]);
    let sum = |field: &str| -> f64 { run.rows.iter().map(|r| r[field].as_f64().unwrap()).sum() };
    assert!((sum("share") - 1.0).abs() < 1e-6 && (sum("latency_share") - 1.0).abs() < 1e-6);
    let counts: Vec<u64> = run.rows.iter().map(|r| number(r, "count")).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    let top = StackRun::read(outcome, "many", "top");
    assert_eq!(top.rows.len(), 1);
    assert_eq!(top.rows[0]["kstack"], run.rows[0]["kstack"]);
    let slow = StackRun::read(outcome, "many", "slow");
    assert!(slow.rows.is_empty(), "none took 10 s");
    let quiet = &slow.ledger["trace"]["not_shown"];
    assert_eq!(quiet.as_u64().or(slow.ledger["not_shown"].as_u64()), Some(4000));
}

fn completions_have_stacks_of_their_own(outcome: &Outcome) {
    let tops = ["nvme_complete_rq", "nvme_complete_batch_req"];
    let run = TraceRun::whole(outcome, "complete", "trace");
    for complete in run.of("complete") {
        let frames = functions(complete, "kstack");
        assert_top(&frames, &tops, "complete");
        let known = "nvme_irq|blk_done_softirq|flush_smp_call_function|blk_complete_reqs";
        assert!(goes_through(&frames, known), "{frames:?}");
    }
    assert!(run.of("submit").all(|e| e["kstack"].is_null()), "not asked for");
    let run = StackRun::read(outcome, "complete", "stacks");
    for row in &run.rows {
        assert_top(&functions(row, "kstack"), &tops, "complete");
    }
    let text_lines = lines(outcome, "complete", "text");
    assert!(text_lines.len() > 60);
    for line in text_lines {
        let frames: Vec<&str> = line.stack.iter().map(|f| function(f)).collect();
        assert_top(&frames, &["nvme_setup_cmd"], "text");
        for frame in &line.stack {
            let (symbol, module) =
                frame.split_once(" [").map_or((frame.as_str(), None), |(s, m)| (s, Some(m)));
            let (_, offset) = symbol.rsplit_once("+0x").unwrap_or_else(|| panic!("{frame}"));
            assert!(u64::from_str_radix(offset, 16).is_ok(), "{frame}");
            assert!(module.is_none_or(|m| m.ends_with(']')), "{frame}");
        }
    }
}

fn a_share_of_the_commands_is_that_share(outcome: &Outcome) {
    // one in eight of 4000, plus or minus six standard deviations of the binomial distribution
    // (21 each)
    let about = 500 - 126..=500 + 126;
    let run = StackRun::read(outcome, "many", "sample");
    assert!(about.contains(&run.count()), "{}", run.count());
    let run = TraceRun::whole(outcome, "many", "shares");
    assert_eq!(run.count("submit"), 4000, "every command is shown");
    let with = run.of("submit").filter(|e| !functions(e, "kstack").is_empty());
    let with = with.count() as u64;
    assert!(about.contains(&with), "{with}");
}

fn folded(outcome: &Outcome, name: &str) -> Vec<(Vec<String>, u64)> {
    assert_eq!(outcome.code("many", name), 0);
    let file = outcome.text("many", &format!("{name}.out"));
    let parse = |line: &str| {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        let frames: Vec<String> = stack.split(';').map(Into::into).collect();
        assert!(frames.iter().all(|f| !f.is_empty()), "{line}");
        (frames, weight.parse().unwrap())
    };
    file.lines().map(parse).collect()
}

fn flame_graphs_have_all_of_it(outcome: &Outcome) {
    let stacks = folded(outcome, "folded");
    let sum: u64 = stacks.iter().map(|s| s.1).sum();
    assert_eq!(sum, 4000, "{stacks:?}");
    for (frames, _) in &stacks {
        assert_eq!(frames.last().unwrap(), "nvme_setup_cmd", "{frames:?}");
        assert!(frames[0].starts_with("entry_SYSCALL_64"), "{frames:?}");
    }
    let by_latency: u64 = folded(outcome, "by-latency").iter().map(|s| s.1).sum();
    let run = StackRun::read(outcome, "many", "json");
    let sums = run.rows.iter().map(|r| number(&r["latency"], "sum_ns") / 1000);
    let sums: u64 = sums.sum();
    // two tools trace the same commands: each also measures the programs of the other
    assert!(by_latency > sums / 4 && by_latency < sums * 4, "{by_latency} {sums}");
    let svg = outcome.text("many", "flame.svg");
    assert!(svg.starts_with("<?xml") || svg.starts_with("<svg"), "{svg:.60}");
    assert!(svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("sum of latency by kernel stack") && svg.contains("io_submit"));
}

super::on_kernels! {
    paths STACKS [each_method_shows_the_known_paths commands_by_stack_are_those_issued] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
    stacks STACKS [
        completions_have_stacks_of_their_own a_share_of_the_commands_is_that_share
        flame_graphs_have_all_of_it
    ] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
}
