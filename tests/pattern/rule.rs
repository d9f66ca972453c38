// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of tests/pattern/rule.py, and their comparison with a report.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

/// The rows of a trace.
pub fn of_trace(trace: &str) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pattern/rule.py");
    let mut child = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let trace = trace.to_owned();
    let writer = thread::spawn(move || stdin.write_all(trace.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asserts that the report has these rows, and no others. Returns how many.
pub fn same_rows(report: &Value, rows: &[Value]) -> usize {
    let reported = report["rows"].as_array().unwrap();
    let keys = ["ctrl", "nsid", "queue", "opcode", "pid"];
    for row in rows {
        let same = |r: &&Value| keys.iter().all(|key| r[key] == row[key]);
        let mut found = reported.iter().filter(same);
        let (Some(found), None) = (found.next(), found.next()) else {
            panic!("not once in the report: {row}\n{report}");
        };
        for (key, value) in row.as_object().unwrap() {
            let mut shown = found[key].clone();
            if let Some(object) = shown.as_object_mut() {
                object.remove("mean");
            }
            assert_eq!(&shown, value, "{key} of {row}");
        }
    }
    assert_eq!(reported.len(), rows.len(), "{report}");
    rows.len()
}
