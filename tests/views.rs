// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the views print of a recording, in terminals of 80 and 120 columns.

use std::process::Command;

use crate::binary::{BINARY, Ran};

/// The name of a snapshot and the command line, without the recording.
const VIEWS: [(&str, &str); 12] = [
    ("latency", "latency --stages=fine"),
    ("latency_hist", "latency --hist"),
    ("latency_detail", "latency -v --stages"),
    ("latency_json", "latency --json --stages"),
    ("stacks", "stacks"),
    ("stacks_full", "stacks --full"),
    ("stacks_json", "stacks --json -n 2"),
    ("stacks_folded", "stacks --folded --weight latency"),
    ("pattern", "pattern"),
    ("pattern_detail", "pattern -v"),
    ("trace", "trace --stages"),
    ("info", "info"),
];

#[test]
fn each_view_prints_what_it_did() {
    for (name, words) in VIEWS {
        let printed = |columns: usize| {
            let mut command = Command::new(BINARY);
            command.args(words.split(' ')).arg("tests/recordings/6.12.nvd");
            let ran = Ran::from(command.env("COLUMNS", columns.to_string()).env("TZ", "UTC"));
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
            ran.out
        };
        let [narrow, wide] = [80, 120].map(printed);
        insta::assert_snapshot!(format!("{name}_80"), narrow);
        if wide != narrow {
            insta::assert_snapshot!(format!("{name}_120"), wide);
        }
    }
}
