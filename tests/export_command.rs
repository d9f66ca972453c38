// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `export` command: its file, its errors, filters, several recordings. Neither root nor an
//! NVMe device is needed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::binary::{BINARY, Ran, objects, run};
use crate::files::names;

const FORMATS: [&str; 5] = ["perfetto", "csv", "ndjson", "hlog", "parquet"];
const ONE: &str = "tests/recordings/6.12.nvd";
const BOTH: &str = "tests/recordings/5.10.nvd tests/recordings/6.12.nvd";

fn export(files: &str, format: &str, out: &Path, words: &str) -> Ran {
    run(&format!("export {files} --format {format} -o {} {words}", out.display()))
}

/// Asserts that it ended with this code, and said this.
fn ended(ran: &Ran, code: i32, says: &str) {
    assert_eq!(ran.code, Some(code), "{}", ran.err);
    assert!(ran.err.contains(says), "`{says}` is not in: {}", ran.err);
}

fn csv(path: &Path) -> Vec<csv::StringRecord> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let rows = reader.records().map(Result::unwrap);
    rows.collect()
}

#[test]
fn what_cannot_be_exported_is_refused_before_a_file_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for (files, format, words, says) in [
        (BOTH, "perfetto", "", "take one recording"),
        (BOTH, "hlog", "", "take one recording"),
        (BOTH, "csv", "--interval 1s", "--interval is for"),
        (BOTH, "csv", "--cgroup /sys/fs/cgroup", "has no cgroups"),
        (BINARY, "csv", "", "not a recording"),
    ] {
        ended(&export(files, format, &out, words), 2, says);
        assert!(names(&dir).is_empty());
    }
    let nowhere = dir.path().join("no/where");
    ended(&export(BOTH, "csv", &nowhere, ""), 2, "can't be written");
    fs::copy(ONE, &out).unwrap();
    let before = fs::read(&out).unwrap();
    let own = out.display().to_string();
    ended(&export(&own, "csv", &out, "--force"), 2, "is a recording");
    assert_eq!(fs::read(&out).unwrap(), before);
}

#[test]
fn a_truncated_recording_is_exported_up_to_there() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(ONE).unwrap();
    let cut = dir.path().join("cut");
    fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    let cut = cut.display();
    for format in FORMATS {
        let out = dir.path().join(format);
        ended(&export(&cut.to_string(), format, &out, ""), 1, "truncated");
        assert!(out.exists(), "{format}");
    }
    let rows = csv(&dir.path().join("csv")).len();
    assert!((1..=12).contains(&rows), "{rows}");
    let out = dir.path().join("several");
    let exported = export(&format!("{cut} {ONE}"), "csv", &out, "");
    ended(&exported, 1, "truncated");
    let says = "; 1 of 2 recordings are exact, 1 damaged or without an end\n";
    ended(&exported, 1, says);
    assert_eq!(csv(&out).len(), rows + 12);
}

#[test]
fn filters_select_the_commands_that_trace_shows() {
    let dir = tempfile::tempdir().unwrap();
    for words in ["--opcode write", "--errors", "--slow 500us", "--no-io", "--process dd --lba 8"] {
        let lines = objects(&format!("trace --json --from {ONE} {words}"));
        let commands = lines.iter().filter(|line| line["type"] == "command");
        let shown: Vec<String> = commands.map(|line| line["time_ns"].to_string()).collect();
        assert!((1..12).contains(&shown.len()), "{words}: {}", shown.len());
        let out = dir.path().join("out");
        let output = export(ONE, "csv", &out, &format!("--force {words}"));
        ended(&output, 0, &format!("the filters leave {} commands out", 12 - shown.len()));
        let times: Vec<String> = csv(&out).iter().map(|row| row[3].into()).collect();
        assert_eq!(times, shown, "{words}");
    }
}

#[test]
fn several_recordings_follow_each_other_under_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    ended(&export(BOTH, "csv", &out, ""), 0, "24 commands");
    let rows = csv(&out);
    let of: Vec<&str> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!((of[0], of[12], of.len()), ("5.10.nvd", "6.12.nvd", 24));
}

#[test]
fn redacted_exports_have_no_names() {
    let dir = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let out = dir.path().join(format);
        ended(&export(ONE, format, &out, "--redact"), 0, "12 commands");
    }
    for row in csv(&dir.path().join("csv")) {
        let names = [0, 1, 27].map(|n| row[n].to_owned());
        assert_eq!(names, ["1", "", ""]);
    }
    let lines = fs::read_to_string(dir.path().join("ndjson")).unwrap();
    let run: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(run["redacted"], true);
    assert!(run["host"].is_null() && run["boot_id"].is_null());
    let trace = fs::read(dir.path().join("perfetto")).unwrap();
    for name in [&b"guest"[..], b"kworker", b"6.12.nvd"] {
        for text in [lines.as_bytes(), &trace] {
            assert!(!text.windows(name.len()).any(|w| w == name));
        }
    }
}
