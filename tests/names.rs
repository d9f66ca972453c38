// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of namespaces and commands: one for each in all views.
#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod binary;

use std::process::Command;

use serde_json::Value;

use self::binary::{BINARY, Ran, run};

const RECORDING: &str = "tests/recordings/6.12.nvd";
const GUEST: &str = "tests/host/nvmet-guest.nvd";
const HOST: &str = "tests/host/nvmet-host.nvd";
const ALL: u64 = 0xffff_ffff;

fn shown(words: &str) -> String {
    let ran = run(words);
    assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
    ran.out
}

fn objects(words: &str) -> Vec<Value> {
    let out = shown(words);
    let lines = out.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_id_of_all_namespaces_is_all_in_text_and_a_number_in_json() {
    for words in ["latency", "latency --stages", "trace --pair"] {
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
fn filters_take_ids_in_hexadecimal_and_all() {
    let want = shown(&format!("trace --pair --from {RECORDING} --nsid 4294967295"));
    assert_eq!(want.lines().count(), 1, "{want}");
    for nsid in ["0xffffffff", "all", "0xFFFFFFFF"] {
        let words = format!("trace --pair --from {RECORDING} --nsid {nsid}");
        assert_eq!(shown(&words), want, "{nsid}");
    }
    let several = shown(&format!("latency --from {RECORDING} --nsid 0x1,all"));
    assert!(several.contains("nvme0n1 read") && several.contains("ns all"), "{several}");
    for wrong in ["every", "0x", "-1", "0x100000000", ""] {
        let words = ["latency", "--from", RECORDING, "--nsid"];
        let mut command = Command::new(BINARY);
        let ran = Ran::from(command.args(words).arg(wrong));
        assert_eq!(ran.code, Some(2), "{wrong}: {}", ran.err);
        let says = ran.err.contains("a namespace id is a number");
        assert!(says || wrong == "-1", "{wrong}: {}", ran.err);
    }
}

#[test]
fn a_fabrics_command_has_its_type_and_no_namespace() {
    let latency = shown(&format!("latency --from {GUEST}"));
    let host = shown(&format!("host latency --from {HOST}"));
    let join = shown(&format!("join {GUEST} {HOST}"));
    for (text, ctrl) in [(latency, "nvme2"), (host, "nvmet:1"), (join, "nvme2")] {
        for name in ["admin fabrics-connect", "fabrics-connect", "admin fabrics-property-get"] {
            let line = format!("{ctrl} {name}  ");
            assert!(text.contains(&line), "no `{line}`: {text}");
        }
        let heads: Vec<&str> = text.lines().filter(|l| l.starts_with(ctrl)).collect();
        let mut once = heads.clone();
        once.sort_unstable();
        once.dedup_by_key(|line| line.split("  ").next().unwrap_or_default());
        assert_eq!(once.len(), heads.len(), "a heading occurs twice: {heads:?}");
    }
    let trace = shown(&format!("trace --pair --from {GUEST}"));
    let fabrics: Vec<&str> = trace.lines().filter(|l| l.contains("(fabrics-")).collect();
    assert_eq!(fabrics.len(), 9, "{trace}");
    assert!(fabrics.iter().all(|l| !l.contains("nsid=")), "{fabrics:?}");
    let trace = shown(&format!("host trace --from {HOST}"));
    assert!(trace.contains("opcode=127 (fabrics-property-get)"), "{trace}");
    assert!(!trace.contains("(fabrics)"), "{trace}");
}

#[test]
fn json_adds_the_type_of_fabrics_commands() {
    let report = objects(&format!("latency --json --from {GUEST}")).remove(0);
    let rows = report["rows"].as_array().unwrap();
    let host = objects(&format!("host latency --json --from {HOST}"));
    let join = objects(&format!("join --json {GUEST} {HOST}"));
    for rows in [rows, &host, &join] {
        let of = |row: &&Value| row["opcode"] == "fabrics";
        let fabrics: Vec<&Value> = rows.iter().filter(of).collect();
        let types: Vec<&str> = fabrics.iter().map(|r| r["fctype"].as_str().unwrap()).collect();
        assert!(types.contains(&"connect") && types.contains(&"property-set"), "{types:?}");
        let others = rows.iter().filter(|row| row["opcode"] != "fabrics");
        assert!(others.clone().all(|row| row["fctype"].is_null()));
    }
}
