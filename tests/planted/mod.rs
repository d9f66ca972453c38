// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of planted causes, and what `diagnose` says of them: for tests/plants.rs and the guest
//! tests.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What this program says of a recording.
pub fn diagnosis(program: &Path, recording: &Path, options: &[&str]) -> Value {
    let out = Command::new(program)
        .args(["diagnose", "--json", "--from"])
        .arg(recording)
        .args(options)
        .output()
        .unwrap();
    let object = serde_json::from_slice(&out.stdout);
    object.unwrap_or_else(|e| panic!("{}: {e}: {out:?}", recording.display()))
}

/// The rules that name a cause.
pub fn causes(diagnosis: &Value) -> Vec<&str> {
    let causes = diagnosis["causes"].as_array().unwrap().iter();
    causes.map(|c| c["rule"].as_str().unwrap()).collect()
}

/// The cause in the name of a recording; `None`: a control, or a clean run.
pub fn planted(name: &str) -> Option<&str> {
    let control = name.ends_with("-control") || name.starts_with("clean");
    (!control).then_some(name)
}
