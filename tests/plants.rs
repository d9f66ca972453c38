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

fn diagnosis(name: &str) -> Value {
    let path = root().join(format!("tests/recordings/diagnose/{name}.nvd"));
    let program = Path::new(env!("CARGO_BIN_EXE_nvme-deep"));
    planted::diagnosis(program, &path, &[])
}

#[test]
fn each_planted_cause_is_named_alone_and_controls_are_clean() {
    for name in recordings() {
        let found = diagnosis(&name);
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
        let control = format!("{}-control", rule.name);
        let of = |name: &str| {
            let found = names.contains(name).then(|| diagnosis(name));
            found.map_or_else(
                || "-".to_owned(),
                |d| d["verdict"].as_str().unwrap().to_owned(),
            )
        };
        let planted = if names.contains(rule.name) {
            "yes"
        } else {
            "no: made data only"
        };
        text += &format!(
            "| {} | {planted} | {} | {} |\n",
            rule.name,
            of(rule.name),
            of(&control)
        );
    }
    for name in names.iter().filter(|n| n.starts_with("clean")) {
        let found = diagnosis(name);
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
