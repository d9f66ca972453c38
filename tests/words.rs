// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of reports: names of namespaces and commands, plurals, and the characters of the locale.

use std::process::Command;

use serde_json::Value;

use crate::binary::{BINARY, Ran, objects, run, shown};

const RECORDING: &str = "tests/recordings/6.12.nvd";
const GUEST: &str = "tests/host/nvmet-guest.nvd";
const HOST: &str = "tests/host/nvmet-host.nvd";
/// The namespace id that means all namespaces.
const ALL: u64 = 0xffff_ffff;

#[test]
fn one_command_is_not_several() {
    let pattern = run(&format!("pattern --from {RECORDING}"));
    let says = "in no row: 1 command without logical blocks\n";
    assert!(pattern.out.contains(says), "{}", pattern.out);
    for words in ["latency", "stacks", "pattern", "trace", "diagnose"] {
        let ran = run(&format!("{words} --from {RECORDING}"));
        assert_eq!(ran.code, Some(0), "{}: {}", ran.words, ran.err);
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
        format!("trace --stages --from {RECORDING}"),
        format!("pattern -v --from {RECORDING}"),
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
            // doctor ends as the commands that trace would here
            let is_doctor = words.starts_with("doctor") && matches!(ran.code, Some(4..=6));
            assert!(ran.code == Some(0) || is_doctor, "{words}: {}", ran.err);
            format!("{}{}", ran.out, ran.err)
        };
        let text = in_locale("C");
        let other = text.chars().find(|c| !c.is_ascii());
        assert_eq!(other, None, "{words}: {text}");
        others += usize::from(!in_locale("C.UTF-8").is_ascii());
    }
    assert!(others >= 2, "{others}");
}

#[test]
fn the_id_of_all_namespaces_is_all_in_text_and_a_number_in_json() {
    for words in ["latency", "latency --stages", "trace --long"] {
        let text = shown(&format!("{words} --from {RECORDING}"));
        assert!(text.contains("ns all get-features") || text.contains("nsid=all"), "{text}");
        for number in ["8388607", "4294967295"] {
            assert!(!text.contains(number), "{words}: {text}");
        }
    }
    let report = objects(&format!("latency --json --from {RECORDING}")).remove(0);
    let rows = report["rows"].as_array().unwrap().iter();
    let nsids: Vec<u64> = rows.map(|row| row["nsid"].as_u64().unwrap()).collect();
    assert!(nsids.contains(&ALL), "{nsids:?}");
}

#[test]
fn a_fabrics_command_has_its_type_and_no_namespace() {
    // the titles of the stages
    let titles = |words: String| shown(&words).split_once("\nSTAGE").unwrap().1.to_owned();
    let latency = titles(format!("latency --from {GUEST}"));
    let host = titles(format!("host latency --from {HOST}"));
    let join = titles(format!("join {GUEST} {HOST}"));
    for (text, ctrl) in [(latency, "nvme2"), (host, "nvmet:1"), (join, "nvme2")] {
        for name in ["admin fabrics-connect", "fabrics-connect", "admin fabrics-property-get"] {
            let name = format!("{ctrl} {name}");
            let is_it = |line: &str| line.split("  ").next() == Some(&name);
            assert!(text.lines().any(is_it), "no `{name}`: {text}");
        }
        let heads: Vec<&str> = text.lines().filter(|l| l.starts_with(ctrl)).collect();
        let mut once = heads.clone();
        once.sort_unstable();
        once.dedup_by_key(|line| line.split("  ").next().unwrap_or_default());
        assert_eq!(once.len(), heads.len(), "a heading occurs twice: {heads:?}");
    }
    let trace = shown(&format!("trace --long --from {GUEST}"));
    let fabrics: Vec<&str> = trace.lines().filter(|l| l.contains("(fabrics-")).collect();
    assert_eq!(fabrics.len(), 9, "{trace}");
    assert!(fabrics.iter().all(|l| !l.contains("nsid=")), "{fabrics:?}");
    let trace = shown(&format!("host trace --from {HOST}"));
    assert!(trace.contains("opcode=127 (fabrics-property-get)"), "{trace}");
    assert!(!trace.contains("(fabrics)"), "{trace}");
}

#[test]
fn json_adds_the_type_of_fabrics_commands() {
    for words in [
        format!("latency --json --from {GUEST}"),
        format!("host latency --json --from {HOST}"),
        format!("join --json {GUEST} {HOST}"),
    ] {
        let all = objects(&words);
        let rows = all.iter().find_map(|object| object["rows"].as_array()).unwrap_or(&all);
        let of = |row: &&Value| row["opcode"] == "fabrics";
        let fabrics: Vec<&Value> = rows.iter().filter(of).collect();
        let types: Vec<&str> = fabrics.iter().map(|r| r["fctype"].as_str().unwrap()).collect();
        assert!(types.contains(&"connect") && types.contains(&"property-set"), "{types:?}");
        let others = rows.iter().filter(|row| row["opcode"] != "fabrics");
        assert!(others.clone().all(|row| row["fctype"].is_null()));
    }
}
