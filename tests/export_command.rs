// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `export` command: its file, its errors, filters, several recordings. Neither root nor an
//! NVMe device is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const FORMATS: [&str; 5] = ["perfetto", "csv", "ndjson", "hlog", "parquet"];

fn recording(kernel: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join(format!("recordings/{kernel}.nvd"))
}

fn tool() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvme-deep"));
    command.arg("export");
    command
}

fn export(files: &[PathBuf], format: &str, out: &Path, words: &str) -> Output {
    let mut command = tool();
    command.args(files).args(["--format", format, "-o"]).arg(out);
    command.args(words.split_whitespace()).output().unwrap()
}

/// Asserts that it ended with this code, and a last line on stderr that contains `says`.
fn ended(output: &Output, code: i32, says: &str) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{err}");
    assert!(err.contains(says), "`{says}` is not in: {err}");
    assert!(!err.contains("panicked"), "{err}");
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn csv(path: &Path) -> Vec<csv::StringRecord> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let rows = reader.records().map(Result::unwrap);
    rows.collect()
}

#[test]
fn stdout_gets_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let out = dir.path().join(format);
        ended(&export(&[recording("6.12")], format, &out, ""), 0, "");
        let output = export(&[recording("6.12")], format, Path::new("-"), "");
        ended(&output, 0, "stdout: 12 commands");
        assert_eq!(output.stdout, fs::read(&out).unwrap(), "{format}");
    }
}

#[test]
fn what_cannot_be_exported_is_refused_before_a_file_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let both = [recording("5.10"), recording("6.12")];
    let foreign = [PathBuf::from(env!("CARGO_BIN_EXE_nvme-deep"))];
    let missing = [dir.path().join("missing")];
    for (files, format, words, says) in [
        (&both[..], "perfetto", "", "take one recording"),
        (&both, "hlog", "", "take one recording"),
        (&both, "csv", "--interval 1s", "--interval is for"),
        (&both, "csv", "--cgroup /sys/fs/cgroup", "has no cgroups"),
        (&foreign, "csv", "", "not a recording"),
        (&missing, "csv", "", "can't be read"),
    ] {
        ended(&export(files, format, &out, words), 2, says);
        assert!(names(&dir).is_empty());
    }
    let nowhere = dir.path().join("no/where");
    ended(&export(&both, "csv", &nowhere, ""), 2, "can't be written");
    fs::copy(&both[0], &out).unwrap();
    let before = fs::read(&out).unwrap();
    ended(&export(std::slice::from_ref(&out), "csv", &out, "--force"), 2, "is a recording");
    assert_eq!(fs::read(&out).unwrap(), before);
}

#[test]
fn a_truncated_recording_is_exported_up_to_there() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(recording("6.12")).unwrap();
    let cut = dir.path().join("cut");
    fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    for format in FORMATS {
        let out = dir.path().join(format);
        ended(&export(std::slice::from_ref(&cut), format, &out, ""), 1, "truncated");
        assert!(out.exists(), "{format}");
    }
    let rows = csv(&dir.path().join("csv")).len();
    assert!((1..=12).contains(&rows), "{rows}");
    let several = [cut, recording("6.12")];
    let out = dir.path().join("several");
    let exported = export(&several, "csv", &out, "");
    ended(&exported, 1, "truncated");
    let says = "; 1 of 2 recordings are exact, 1 damaged or without an end\n";
    ended(&exported, 1, says);
    assert_eq!(csv(&out).len(), rows + 12);
}

#[test]
fn filters_select_the_commands_that_trace_shows() {
    let dir = tempfile::tempdir().unwrap();
    for words in ["--opcode write", "--errors", "--slow 500us", "--no-io", "--process dd --lba 8"] {
        let trace = Command::new(env!("CARGO_BIN_EXE_nvme-deep"))
            .args(["trace", "--json", "--from"])
            .arg(recording("6.12"))
            .args(words.split_whitespace())
            .output()
            .unwrap();
        let lines = String::from_utf8(trace.stdout).unwrap();
        let lines = lines.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        let shown: Vec<String> =
            lines.filter(|l| l["type"] == "command").map(|l| l["time_ns"].to_string()).collect();
        assert!((1..12).contains(&shown.len()), "{words}: {}", shown.len());
        let out = dir.path().join("out");
        let output = export(&[recording("6.12")], "csv", &out, &format!("--force {words}"));
        ended(&output, 0, &format!("the filters leave {} commands out", 12 - shown.len()));
        let times: Vec<String> = csv(&out).iter().map(|row| row[3].into()).collect();
        assert_eq!(times, shown, "{words}");
    }
}

#[test]
fn several_recordings_follow_each_other_under_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let both = [recording("5.10"), recording("6.12")];
    ended(&export(&both, "csv", &out, ""), 0, "24 commands");
    let rows = csv(&out);
    let of: Vec<&str> = rows.iter().map(|row| &row[0]).collect();
    assert_eq!((of[0], of[12], of.len()), ("5.10.nvd", "6.12.nvd", 24));
}

#[test]
fn redacted_exports_have_no_names() {
    let dir = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let out = dir.path().join(format);
        ended(&export(&[recording("6.12")], format, &out, "--redact"), 0, "12 commands");
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

#[test]
fn a_disk_is_chosen_by_the_name_that_the_recording_has() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.csv");
    let exported = export(&[recording("6.12")], "csv", &out, "--disk /dev/nvme1n1");
    ended(&exported, 0, "6 commands");
    assert!(csv(&out).iter().all(|row| &row[7] == "nvme1n1"));
    let missing = export(&[recording("6.12")], "csv", &out, "--force --disk nvme5n1");
    ended(&missing, 6, "6.12.nvd has no disk nvme5n1: it has nvme0n1, nvme1n1");
}
