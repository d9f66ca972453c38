// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores the results of methods.sh for the planner's tests and docs/dev/kernels.md (`make table`).

use std::collections::BTreeMap;
use std::{env, fs};

use nvme_deep::model::point::Point;
use nvme_deep::model::stage::StageSet;
use serde_json::{Value, json};

use super::guest::Outcome;
use super::json::ToolRun;
use super::methods::{doctor, got};

/// The result of an attach method: its stages, and how many commands it saw and matched.
fn result(outcome: &Outcome, method: &str) -> Value {
    if outcome.text(method, "fine.status").trim() != "0" {
        return json!({ "refused": true });
    }
    let run = ToolRun::read(outcome, method, "fine");
    let pattern = Point::ALL
        .into_iter()
        .filter(|p| got(&run).get(p.name()).is_some_and(|w| w != "-"))
        .filter_map(Point::pattern_bit)
        .fold(0, |pattern, bit| pattern | bit);
    let runs = StageSet::Fine.runs(pattern).into_iter();
    let ledger = &run.last["ledger"];
    json!({
        "stages": runs.map(|r| r.name()).collect::<Vec<_>>(),
        "seen": ledger["seen"],
        "matched": ledger["matched"],
        "misses_known": ledger["misses_known"],
    })
}

/// Writes the results of all methods to tests/kernels, if NVME_DEEP_BLESS is set (`make table`).
pub fn bless(outcome: &Outcome, kernel: &str) {
    if env::var_os("NVME_DEEP_BLESS").is_none() {
        return;
    }
    let methods = ["auto", "fentry", "rawtp", "kprobe", "tracepoint"];
    let found = json!({
        "facts": doctor(outcome)["facts"],
        "results": methods.map(|w| (w, result(outcome, w))).into_iter().collect::<BTreeMap<_, _>>(),
    });
    let path = format!("{}/tests/kernels/{kernel}.json", env!("CARGO_MANIFEST_DIR"));
    fs::write(path, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
}
