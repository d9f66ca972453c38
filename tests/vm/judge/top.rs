// SPDX-License-Identifier: MIT OR Apache-2.0
//! `top` beside a load, judged by a terminal emulator.

use super::guest::{Outcome, Suite};
use super::screens::{judge, last_screen};

const TOP: Suite = Suite::of("top", &["nvme_null nvme0 1000000"]);

fn the_screen_works_and_is_given_back(outcome: &Outcome) {
    judge(&outcome.directory("screen"));
    let programs = outcome.text("screen", "programs");
    assert!(!programs.contains("setup_out"), "{programs}");
}

/// The lines of the slowest commands on the last screen of the run with this option.
fn slowest(outcome: &Outcome, option: &str) -> Vec<String> {
    let file = outcome.directory("screen").join(format!("screen{option}"));
    let text = last_screen(&file, 50, 120);
    let (_, panel) = text.split_once("slowest recent commands").unwrap();
    let lines = panel.lines().skip(2);
    let lines = lines.take_while(|line| line.contains("nvme0n1"));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    assert!(!lines.is_empty(), "{text}");
    lines
}

/// The caller of a slow command is not known on a live screen: the name is the submitter's.
fn the_slowest_commands_have_submitters(outcome: &Outcome) {
    let lines = slowest(outcome, "--submitters");
    let is_named = |line: &String| line.trim_end().ends_with(" fio");
    assert!(lines.iter().all(is_named), "{lines:#?}");
}

/// The slowest commands are those that waited for the limit of their cgroup.
fn the_slowest_commands_have_waits(outcome: &Outcome) {
    let lines = slowest(outcome, "--stages=full");
    let has_waited = |line: &String| {
        let (_, place) = line.split_once(" throttle ").unwrap_or_default();
        let share = place.split('%').next().and_then(|share| share.parse::<u32>().ok());
        share.is_some_and(|share| share >= 80)
    };
    assert!(lines.iter().all(has_waited), "{lines:#?}");
}

super::on_kernels! {
    suite TOP [the_screen_works_and_is_given_back] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_12_arm64 "6.12-arm64"
    }
    panel TOP [the_slowest_commands_have_submitters the_slowest_commands_have_waits] {
        | only_in_test_all on_6_12 "6.12"
    }
}
