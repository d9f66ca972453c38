// SPDX-License-Identifier: MIT OR Apache-2.0
//! `top` beside a load, judged by a terminal emulator.

use super::guest::Outcome;
use super::guest::Suite;
use super::screens::judge;
use super::screens::last_screen;

const TOP: Suite = Suite {
    script: "top",
    variant: "",
    smp: "2",
    controllers: &["nvme_null nvme0 1000000"],
    append: "",
    env: &[],
};

fn the_screen_works_and_is_given_back(outcome: &Outcome) {
    judge(&outcome.directory("screen"));
    let programs = outcome.text("screen", "programs");
    assert!(!programs.contains("setup_out"), "{programs}");
}

/// The caller of a slow command is not known on a live screen: the name is that of the submitter.
fn the_slowest_commands_have_submitters(outcome: &Outcome) {
    let text = last_screen(&outcome.directory("screen").join("submitters"), 50, 120);
    let (_, panel) = text.split_once("slowest recent commands").unwrap();
    let lines = panel
        .lines()
        .skip(2)
        .take_while(|line| line.contains("nvme0n1"));
    let lines: Vec<&str> = lines.collect();
    let named = lines
        .iter()
        .filter(|line| line.trim_end().ends_with(" fio"));
    assert!(!lines.is_empty() && named.count() == lines.len(), "{text}");
}

super::on_kernels! {
    only_in_test_all_top_on_6_12_arm64 "6.12-arm64" TOP the_screen_works_and_is_given_back
    only_in_test_all_top_on_5_10 "5.10" TOP the_screen_works_and_is_given_back
    the_screen_works_and_is_given_back_on_6_12 "6.12" TOP the_screen_works_and_is_given_back
    the_slowest_commands_have_submitters_on_6_12 "6.12" TOP the_slowest_commands_have_submitters
}
