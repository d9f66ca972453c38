// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of planted causes, and what `diagnose` says of them: for tests/plants.rs and the guest
//! tests.
#![allow(dead_code, reason = "each program uses a part")]

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

/// The rules whose verdicts have a status.
pub fn with_status<'d>(diagnosis: &'d Value, status: &str) -> Vec<&'d str> {
    let all = diagnosis["verdicts"].as_array().unwrap().iter();
    all.filter(|v| v["status"] == status).map(|v| v["rule"].as_str().unwrap()).collect()
}

/// The rules that name a cause.
pub fn causes(diagnosis: &Value) -> Vec<&str> {
    with_status(diagnosis, "found")
}

/// The rules that name a cause, or have something to note.
pub fn findings(diagnosis: &Value) -> Vec<&str> {
    let mut all = causes(diagnosis);
    all.extend(with_status(diagnosis, "noted"));
    all
}

/// The causes in the name of a recording, before an `@` and what distinguishes it from others of the same causes; none:
/// a control, or a clean run.
pub fn planted(name: &str) -> Vec<&str> {
    let control = name.ends_with("-control") || name.starts_with("clean");
    if control {
        return Vec::new();
    }
    name.split('@').take(1).flat_map(|causes| causes.split('+')).collect()
}

/// Whether the first line names the limit that requests wait for, if it is another one than nr_requests.
pub fn says_which_limit(name: &str, diagnosis: &Value) -> bool {
    let limit = match name {
        "tag-wait@async" => "async_depth=1 of mq-deadline is too small",
        "tag-wait@shared" => "its share of the 7 tags of a queue is 4, next to nvme0n2",
        _ => return true,
    };
    diagnosis["headline"].as_str().unwrap().contains(limit)
}

/// Whether a rate limit was left open. At a constant depth it cannot be ruled out.
pub fn leaves_a_limit_open(diagnosis: &Value) -> bool {
    with_status(diagnosis, "inconclusive").contains(&"rate-cap")
}
