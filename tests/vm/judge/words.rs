// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: errors with one sentence and an exit code, signals, pipes.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, number};

/// One CPU, because the tool attaches under an endless load: see boot.sh.
const WORDS: Suite = Suite {
    smp: "1",
    env: &[("ONE_CPU", "1")],
    ..Suite::of("words", &["nvme_null nvme0 0", "nvme_null nvme1 0"])
};

fn refusals_are_one_sentence_with_a_remedy(outcome: &Outcome) {
    for (case, name, want, words) in [
        ("refused", "unprivileged", 4, &["CAP_BPF", "CAP_PERFMON", "sudo"][..]),
        ("refused", "no_controller", 6, &["nvme7", "nvme0, nvme0n1 (id 1), nvme1"]),
        ("refused", "no_namespace", 6, &["id 9", "nvme0n1 (id 1)"]),
        ("refused", "unknown_opcode", 2, &["raed", "`read`"]),
        ("refused", "no_cgroup", 2, &["/sys/fs/cgroup/missing"]),
        ("nothing", "no_nvme", 6, &["no NVMe controller", "load the nvme driver"]),
    ] {
        outcome.assert_refused(case, name, want, words);
    }
}

fn every_end_is_a_final_report_and_nothing_stays_attached(outcome: &Outcome) {
    for signal in ["TERM", "HUP"] {
        let run = ToolRun::exact(outcome, "signals", signal);
        assert!(run.reports.len() > 1, "{signal}: reports before the last one");
        assert!(run.rows().iter().any(|r| number(r, "count") > 0), "{signal}");
        assert!(run.talk.contains("Ctrl-C"), "{signal}: {}", run.talk);
    }
    ToolRun::exact(outcome, "signals", "twice");
    let run = ToolRun::exact(outcome, "signals", "duration");
    assert_eq!(run.reports.len(), 1);
    let users = |when: &str| outcome.text("signals", &format!("users.{when}"));
    assert_eq!(users("before"), users("after"), "programs hold nvme_core");
}

fn intervals_and_counts_are_kept(outcome: &Outcome) {
    assert_eq!(outcome.code("signals", "count"), 0);
    let text = outcome.text("signals", "count.out");
    assert_eq!(text.matches("accuracy  ").count(), 3, "{text}");
    let is_interval = |l: &&str| l.contains(" UTC  ") && l.ends_with(" s") && !l.contains("Linux");
    assert_eq!(text.lines().filter(is_interval).count(), 2, "{text}");
    assert_eq!(text.matches("  Linux ").count(), 2, "headers of the first and the last: {text}");
    assert!(!text.contains('\x1b'), "no colour but on a terminal");
    let run = ToolRun::read(outcome, "signals", "delta");
    assert_eq!(run.reports.len(), 4, "three intervals and the whole run");
    let commands = |report: &Value| -> u64 {
        report["rows"].as_array().unwrap().iter().map(|r| number(r, "count")).sum()
    };
    let (whole, parts) = run.reports.split_last().unwrap();
    let parts: Vec<u64> = parts.iter().map(commands).collect();
    assert!(parts.iter().all(|&n| n > 0), "{parts:?}");
    assert!(parts.iter().sum::<u64>() <= commands(whole), "{parts:?} {}", commands(whole));
    assert!(parts.iter().sum::<u64>() * 10 > commands(whole) * 7, "{parts:?} {}", commands(whole));
}

fn a_closed_pipe_is_no_error(outcome: &Outcome) {
    assert_eq!(outcome.code("signals", "pipe"), 0);
    let said = outcome.text("signals", "pipe.err");
    assert!(!said.contains("rror") && !said.contains("panicked"), "{said}");
    assert_eq!(outcome.text("signals", "pipe.out").lines().count(), 5);
}

super::on_kernels! {
    suite WORDS [
        refusals_are_one_sentence_with_a_remedy
        every_end_is_a_final_report_and_nothing_stays_attached intervals_and_counts_are_kept
        a_closed_pipe_is_no_error
    ] {
        on_6_12 "6.12"
    }
}
