// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the views print of a recording, in terminals of 80 and 120 columns.

use std::process::Command;

use crate::binary::{BINARY, Ran};

const REAL: &str = "tests/recordings/6.12.nvd";
/// Some of its commands have no set-up, no completion, or no stages.
const MIXED: &str = "tests/exports/mixed.nvd";
/// Thousands of commands, with waits before the request.
const WBT: &str = "tests/recordings/diagnose/wbt.nvd";

/// The name of a snapshot, the command line, and its recording.
const VIEWS: [(&str, &str, &str); 17] = [
    ("latency", "latency --stages=fine", REAL),
    ("latency_detail", "latency -v --stages", REAL),
    ("latency_json", "latency --json --stages", REAL),
    ("latency_hist", "latency --hist", WBT),
    ("latency_full", "latency --stages=full", WBT),
    ("latency_mixed", "latency -v --stages", MIXED),
    ("stacks", "stacks", REAL),
    ("stacks_full", "stacks --full", REAL),
    ("stacks_first", "stacks --weight latency -n 1", REAL),
    ("stacks_json", "stacks --json -n 2", REAL),
    ("stacks_folded", "stacks --folded --weight latency", REAL),
    ("pattern", "pattern", MIXED),
    ("pattern_detail", "pattern -v", MIXED),
    ("trace", "trace --stages", REAL),
    ("trace_slowest", "trace --slowest 5 --kstack", REAL),
    ("top", "top 2s", WBT),
    ("info", "info", REAL),
];

#[test]
fn each_view_prints_what_it_did() {
    for (name, words, recording) in VIEWS {
        let printed = |columns: usize| {
            let mut command = Command::new(BINARY);
            command.args(words.split(' ')).arg(recording);
            let ran = Ran::from(command.env("COLUMNS", columns.to_string()).env("TZ", "UTC"));
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
            ran.out
        };
        let [narrow, wide] = [80, 120].map(printed);
        for (text, columns) in [(&narrow, 80), (&wide, 120)] {
            let fits = |line: &str| line.chars().count() <= columns || line.starts_with('{');
            assert!(name == "stacks_folded" || text.lines().all(fits), "{words}: {text}");
        }
        insta::assert_snapshot!(format!("{name}_80"), narrow);
        if wide != narrow {
            insta::assert_snapshot!(format!("{name}_120"), wide);
        }
    }
}
