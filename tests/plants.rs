// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the recordings of planted causes (`make matrix`): each cause is named, alone; its control and
//! the clean runs have none. docs/diagnose.md has the table of the results.
#![cfg(feature = "live")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod planted;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;

use nvme_deep::report::diagnosis::RULES;
use serde_json::Value;

use crate::planted::causes;
use crate::planted::planted;

const BEGIN: &str = "<!-- make matrix writes this table -->\n";
const END: &str = "<!-- end of the table -->\n";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The recordings, by name.
fn recordings() -> Vec<String> {
    let files = fs::read_dir(root().join("tests/recordings/diagnose")).unwrap();
    let names = files.map(|e| e.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|n| Some(n.strip_suffix(".nvd")?.to_owned()));
    let mut all: Vec<String> = names.collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

fn diagnosis(name: &str, options: &[&str]) -> Value {
    let path = root().join(format!("tests/recordings/diagnose/{name}.nvd"));
    let program = Path::new(env!("CARGO_BIN_EXE_nvme-deep"));
    planted::diagnosis(program, &path, options)
}

/// A clean run of a device of 4 ms, from which 1 ms is expected.
fn slow_device() -> Value {
    diagnosis("clean-6.12", &["--expect", "1ms"])
}

#[test]
fn a_device_slower_than_expected_is_named_alone() {
    let found = slow_device();
    assert_eq!(causes(&found), ["device"], "{found}");
    let found = diagnosis("clean-6.12", &["--expect", "8ms"]);
    assert!(causes(&found).is_empty(), "{found}");
}

#[test]
fn each_planted_cause_is_named_alone_and_controls_are_clean() {
    for name in recordings() {
        let found = diagnosis(&name, &[]);
        let expected: Vec<&str> = planted(&name).into_iter().collect();
        assert_eq!(causes(&found), expected, "{name}: {found}");
        let verdict = found["verdict"].as_str().unwrap();
        let clean = verdict.starts_with("nothing avoidable seen");
        assert_eq!(clean, expected.is_empty(), "{name}: {verdict}");
    }
}

/// A row per rule: planted in guests or only on made data, and what the verdict was.
fn table() -> String {
    let names: BTreeSet<String> = recordings().into_iter().collect();
    let mut text = "| rule | planted in a guest | verdict on the plant | on its control |\n|---|---|---|---|\n".to_owned();
    for rule in RULES {
        let verdict = |found: &Value| found["verdict"].as_str().unwrap().to_owned();
        let of = |name: &str| names.contains(name).then(|| verdict(&diagnosis(name, &[])));
        let (plant, control) = match rule.name {
            "device" => (Some(verdict(&slow_device())), of("clean-6.12")),
            name => (of(name), of(&format!("{name}-control"))),
        };
        let planted = match plant {
            Some(_) => "yes",
            None => "no: made data only",
        };
        let [plant, control] = [plant, control].map(|v| v.unwrap_or_else(|| "-".into()));
        text += &format!("| {} | {planted} | {plant} | {control} |\n", rule.name);
    }
    for name in names.iter().filter(|n| n.starts_with("clean")) {
        let found = diagnosis(name, &[]);
        let verdict = found["verdict"].as_str().unwrap();
        text += &format!("| none: {name} | | {verdict} | |\n");
    }
    text
}

#[test]
fn the_table_in_the_docs_is_that_of_the_recordings() {
    let path = root().join("docs/diagnose.md");
    let docs = fs::read_to_string(&path).unwrap();
    let (before, rest) = docs.split_once(BEGIN).expect("the table's begin");
    let (found, after) = rest.split_once(END).expect("the table's end");
    let table = table();
    if env::var_os("NVME_DEEP_BLESS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(found, table, "`make matrix` writes it");
    }
}
