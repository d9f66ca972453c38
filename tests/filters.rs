// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters of recordings that select nothing, and other words of the command line that were not
//! understood. Neither root nor an NVMe device is needed.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::binary::{BINARY, Ran, run};

const RECORDING: &str = "tests/recordings/6.12.nvd";

/// Command lines that read a recording, without it.
const READERS: [&str; 9] = [
    "latency --from",
    "latency 100ms --json --from",
    "trace --from",
    "trace --json --from",
    "stacks --from",
    "top --from",
    "diagnose --from",
    "pattern --from",
    "export --format csv -o -",
];

#[test]
fn a_controller_or_namespace_that_the_recording_lacks_is_no_device() {
    for words in READERS {
        for (filter, lacking) in [
            ("--ctrl nvme9", "controller nvme9"),
            ("--ctrl nvme0,nvme9", "controller nvme9"),
            ("--nsid 9", "namespace with id 9"),
            ("--disk nvme9n1", "disk nvme9n1"),
        ] {
            let there = "nvme0, nvme0n1 (id 1), nvme1, nvme1n1 (id 1)";
            let says = format!("6.12.nvd has no {lacking}: it has {there}");
            run(&format!("{words} {RECORDING} {filter}")).refuses(6, &says);
        }
    }
    let heatmap = format!("heatmap -o - --from {RECORDING}");
    run(&format!("{heatmap} --ctrl nvme9")).refuses(6, "has no controller nvme9");
    run(&format!("{heatmap} --nsid 9")).refuses(6, "has no namespace with id 9");
    let diff = format!("diff {RECORDING} {RECORDING} --ctrl nvme9");
    run(&diff).refuses(6, "has no controller nvme9");
    let both = format!("latency --from tests/recordings/5.10.nvd {RECORDING} --ctrl nvme9");
    run(&both).refuses(6, "5.10.nvd has no controller nvme9");
}

#[test]
fn other_filters_that_select_nothing_are_named_with_the_number_of_commands() {
    for (filter, text) in [
        ("--opcode flush", "--opcode io:flush"),
        ("--pid 4000000", "--process 4000000"),
        ("--process nothing,4000000", "--process 4000000,nothing"),
        ("--qid 77", "--qid 77"),
        ("--lba 99999999", "--lba 99999999-99999999"),
    ] {
        for words in READERS {
            let ran = run(&format!("{words} {RECORDING} {filter}"));
            let says = format!("6.12.nvd: 0 of 12 commands match {text}\n");
            assert_eq!(ran.code, Some(0), "{}: {}", ran.words, ran.err);
            assert_eq!(ran.err.matches(&says).count(), 1, "{}: {}", ran.words, ran.err);
        }
    }
    let ran = run(&format!("trace --slow 5s --from {RECORDING}"));
    assert!(ran.err.contains("0 of 12 commands match --slow 5s"), "{}", ran.err);
    let ran = run(&format!("trace --disk nvme1n1 --slow 5s --from {RECORDING}"));
    assert!(ran.err.contains("match --disk nvme1n1 --slow 5s"), "{}", ran.err);
    let ran = run(&format!("latency --opcode read --from {RECORDING}"));
    assert!(!ran.err.contains("match"), "{}", ran.err);
    // the ledger is about all commands, and says so
    for (words, says) in [
        ("latency --qid 77", "no finished command to show\naccuracy  exact: 0 of 12 commands"),
        ("latency --disk nvme1n1", "accuracy  exact: 6 of 12 commands"),
        ("pattern --disk nvme1n1", "accuracy  exact: 6 of 12 commands"),
        ("trace --disk nvme1n1 -v", "accuracy  exact: 6 of 12 commands"),
    ] {
        let ran = run(&format!("{words} --from {RECORDING}"));
        let text = ran.out + &ran.err;
        assert!(text.contains(says), "{words}: {text}");
    }
}

#[test]
fn a_comma_in_the_name_of_a_file_is_no_separator() {
    let dir = TempDir::new().unwrap();
    let [a, b] = ["a,1.nvd", "b.nvd"].map(|name| {
        let path = dir.path().join(name);
        fs::copy("tests/host/nvmet-guest.nvd", &path).unwrap();
        path
    });
    let diff = |sides: [String; 2]| Ran::from(Command::new(BINARY).arg("diff").args(sides));
    let [a, b] = [a, b].map(|path| path.display().to_string());
    let ran = diff([a.clone(), b.clone()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = diff([format!("{a},{b}"), format!("{b},{a}")]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    diff([format!("{a},{a}"), b.clone()]).refuses(2, "is given twice");
    diff([format!("{b},missing"), b]).refuses(2, "missing can't be read");
}
