// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of reports: numbers with their nouns, and characters of the locale.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod binary;

use std::process::Command;

use self::binary::{BINARY, Ran, run};

const RECORDING: &str = "tests/recordings/6.12.nvd";

#[test]
fn one_command_is_not_several() {
    let pattern = run(&format!("pattern --from {RECORDING}"));
    let says = "in no row: 1 command without logical blocks\n";
    assert!(pattern.out.contains(says), "{}", pattern.out);
    for words in ["latency", "stacks", "pattern", "trace --pair", "diagnose"] {
        let ran = run(&format!("{words} --from {RECORDING}"));
        for wrong in [" 1 commands", " 1 cmds", " 0 byte ", " 1 bytes"] {
            let text = format!("{}{}", ran.out, ran.err);
            assert!(!text.contains(wrong), "{words}: {text}");
        }
    }
}

#[test]
fn the_table_of_latencies_has_blanks_between_its_columns() {
    let ran = run(&format!("latency --lat-min-us 20 --from {RECORDING}"));
    let rows = ran.out.lines().filter(|line| line.contains("us - "));
    let mut n = 0;
    for row in rows {
        let (_, rest) = row.split_once("):").unwrap();
        assert!(rest.starts_with(' '), "{row}");
        n += 1;
    }
    assert!(n > 9, "{}", ran.out);
}

/// Every text in a locale without other characters. With UTF-8 some have others.
#[test]
fn without_utf_8_a_text_is_ascii() {
    let diagnosis = "tests/recordings/diagnose/flush-cost.nvd";
    let mut others = 0;
    for words in [
        format!("latency --stages --hist --from {RECORDING}"),
        format!("stacks --from {RECORDING}"),
        format!("trace --pair --stages --from {RECORDING}"),
        format!("pattern --hist --from {RECORDING}"),
        format!("diagnose -v --from {diagnosis}"),
        format!("diff {diagnosis} {diagnosis}"),
        format!("top --from {RECORDING}"),
        "host latency --from tests/host/nvmet-host.nvd".to_owned(),
        "join tests/host/nvmet-guest.nvd tests/host/nvmet-host.nvd".to_owned(),
        "doctor".to_owned(),
        "doctor -v".to_owned(),
        "--help".to_owned(),
    ] {
        let in_locale = |locale: &str| {
            let mut command = Command::new(BINARY);
            let command = command.args(words.split(' ')).env("LC_ALL", locale);
            let ran = Ran::from(command);
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
            format!("{}{}", ran.out, ran.err)
        };
        let text = in_locale("C");
        let other = text.chars().find(|c| !c.is_ascii());
        assert_eq!(other, None, "{words}: {text}");
        others += usize::from(!in_locale("C.UTF-8").is_ascii());
    }
    assert!(others >= 3, "{others}");
}
