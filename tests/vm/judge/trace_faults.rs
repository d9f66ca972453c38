// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that time out, are cancelled or rejected: a trace shows each from submission to end,
//! and the states of its controller.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{fio_counts, kernel_counts, number, text};
use super::ledger::events;
use super::trace_kernel::assert_as_the_kernel;
use super::trace_known::assert_stages;
use super::trace_read::{TraceRun, at, key, lines, opcode, status};

const SECOND: u64 = 1_000_000_000;

const FAULTS: Suite = Suite {
    append: "nvme_core.io_timeout=1 swiotlb=1024,force",
    ..Suite::of(
        "tracefaults",
        &[
            "nvme_null nvme0 7000000000 ns:ms=8 ns:mset=1",
            "nvme_null nvme1 20000000",
            "nvme_null nvme2 4000000",
        ],
    )
};

/// The states of a controller in order, without repetitions.
fn states(run: &TraceRun) -> Vec<&str> {
    let mut states: Vec<&str> = run.of("state").map(|e| text(e, "state")).collect();
    states.dedup();
    states
}

fn assert_in_this_order(states: &[&str], want: &[&str]) {
    let mut left = states.iter();
    let all = want.iter().all(|w| left.any(|s| s == w));
    assert!(all, "{want:?}: {states:?}");
}

/// Checks a command of the list that was answered too late or cancelled: its timeouts and its end.
fn assert_late(run: &TraceRun, pairs: &[(&Value, &Value)], want: &Value) {
    let is_it = |e: &Value| text(e, "queue") == "io" && e["fields"]["slba"] == want["cdw"][0];
    let mine: Vec<_> = pairs.iter().filter(|p| is_it(p.0)).collect();
    assert_eq!(mine.len(), 1, "no retry of what a program asked for: {mine:?}");
    let (submit, complete) = mine[0];
    assert_eq!(want["opcode"], submit["opcode_value"], "{submit}");
    // if the driver has cancelled the command, its ioctl is interrupted and returns no status, even
    // if the controller answers later
    let given_up = number(complete, "request_flags") & 1 == 1;
    assert_eq!(want["status"].is_null(), given_up, "{want} {complete}");
    assert!(given_up || want["status"] == complete["status"]["value"], "{complete}");
    let timeouts = run.of("timeout").filter(|e| key(e) == key(submit));
    let mut told = 0;
    for timeout in timeouts {
        let age = number(timeout, "age_ns");
        assert!(age >= SECOND, "{timeout}");
        assert!(age.abs_diff(at(timeout) - at(submit)) < SECOND / 10, "{timeout} {submit}");
        told += 1;
    }
    assert!(told > 0, "no timeout of {submit}");
    assert!(number(complete, "driver_ns") > 2 * SECOND, "{complete}");
}

/// The trace shows submit, timeout, abort or reset, and the end of each command.
fn a_timeout_is_reported_to_its_end(outcome: &Outcome) {
    let run = TraceRun::whole(outcome, "timeout", "events");
    run.assert_in_order();
    let pairs = run.pairs();
    for step in outcome.text("timeout", "steps").lines() {
        let step: Value = serde_json::from_str(step).unwrap();
        assert_late(&run, &pairs, &step["commands"][0]);
    }
    let first = run.of("timeout").next().map(at).unwrap();
    let aborts: Vec<_> = pairs.iter().filter(|p| opcode(p.0) == "admin:0x08").collect();
    let reset = run.of("state").find(|e| text(e, "state") == "resetting").map(at);
    assert!(!aborts.is_empty() || reset.is_some());
    for (abort, _) in aborts {
        assert!(at(abort) >= first, "{abort}");
        // an abort names its command by queue and id
        let fields = &abort["fields"];
        let named = pairs.iter().filter(|p| {
            p.0["qid"] == fields["sqid"] && p.0["cid"] == fields["cid"] && at(p.0) < at(abort)
        });
        assert!(named.count() > 0, "abort of what? {abort}");
    }
    assert!(reset.is_some_and(|at| at > first), "the second timeout resets it");
    assert_in_this_order(&states(&run), &["resetting", "live"]);
    assert_as_the_kernel(outcome, "timeout", &run);
    let text_lines = lines(outcome, "timeout", "text");
    for name in ["Timeout", "State"] {
        assert!(text_lines.iter().any(|l| l.event == name), "{name}");
    }
    let said = outcome.text("timeout", "pairs.err");
    assert_eq!(outcome.code("timeout", "pairs"), 0, "{said}");
}

/// Every command of the load has an end: the controller answered it, or the driver cancelled it.
fn a_reset_under_load_loses_no_command(outcome: &Outcome) {
    for kind in ["alive", "dead"] {
        let case = format!("reset-{kind}");
        let run = TraceRun::read(outcome, &case, "events");
        run.assert_in_order();
        run.assert_balanced();
        assert_eq!(run.lost(), 0, "{case}");
        let pairs = run.pairs();
        let [io, admin] = events(outcome, &case, "nvme_setup_cmd");
        assert_eq!(run.count("submit"), io + admin, "{case}");
        let good = pairs.iter().filter(|(s, c)| text(s, "queue") == "io" && status(c) == 0);
        assert_eq!(good.count() as u64, kernel_counts(outcome, &case)[0], "{case}");
        assert_in_this_order(&states(&run), &["resetting", "live"]);
        assert_as_the_kernel(outcome, &case, &run);
        let given_up: Vec<&Value> = run.of("cancel").collect();
        assert!(kind == "alive" || !given_up.is_empty(), "{case}: nothing was given up");
        for cancel in given_up {
            let end = run.of("complete").find(|e| key(e) == key(cancel) && at(e) >= at(cancel));
            let end = end.unwrap_or_else(|| panic!("{case}: no end: {cancel}"));
            assert_eq!(status(end) & 0x7ff, 0x371, "{case}: {cancel} {end}");
            assert_eq!(end["status"]["name"], "Command Aborted By Host", "{end}");
        }
        let retries = run.count("retry");
        let failed = pairs.iter().filter(|(s, c)| text(s, "queue") == "io" && status(c) != 0);
        assert_eq!(failed.count() as u64, retries, "{case}: each is tried again");
        let run = TraceRun::read(outcome, &case, "pairs");
        run.assert_balanced();
        assert_eq!(run.count("command"), pairs.len() as u64, "{case}");
    }
}

/// A command that the driver rejects has a Submit, and a Requeue for its end.
fn requeues_are_reported(outcome: &Outcome) {
    let case = "requeue";
    let reads = fio_counts(outcome, case)[0];
    assert_eq!(reads, kernel_counts(outcome, case)[0]);
    let run = TraceRun::whole(outcome, case, "events");
    run.assert_in_order();
    let turned = run.entry("requeued");
    assert!(turned > 0, "nothing was requeued");
    let (pairs, repeats) = run.pairs_and_repeats();
    assert_eq!(run.count("requeue") + repeats, turned);
    assert_eq!(run.count("submit"), reads + turned);
    assert_eq!(run.count("complete"), reads);
    assert_eq!(pairs.len() as u64, reads);
    let [io, _] = events(outcome, case, "nvme_setup_cmd");
    assert_eq!(run.count("submit"), io);
    assert_as_the_kernel(outcome, case, &run);
    let pairs = TraceRun::whole(outcome, case, "pairs");
    assert_eq!(pairs.count("command"), reads);
    pairs.of("command").for_each(assert_stages);
    let text_lines = lines(outcome, case, "text");
    let count = |name: &str| text_lines.iter().filter(|l| l.event == name).count() as u64;
    assert_eq!(count("Complete"), reads);
    assert_eq!(count("Submit"), reads + turned);
}

super::on_kernels! {
    faults FAULTS [
        a_timeout_is_reported_to_its_end a_reset_under_load_loses_no_command requeues_are_reported
    ] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
}
