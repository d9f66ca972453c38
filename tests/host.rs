// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports of the host side, compared with what was done. tests/host/qemu.log is a log of QEMU 7.2,
//! of the commands in tests/host/qemu.truth, which tests/host/qtest.py issued.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Ran, objects, run};
use crate::live::{assert_issued, lines, of};

const LOG: &str = include_str!("host/qemu.log");
const TRUTH: &str = include_str!("host/qemu.truth");

/// Imports a log.
fn import(dir: &TempDir, log: &str) -> Ran {
    let [text, file] = ["log", "nvd"].map(|name| dir.path().join(name));
    fs::write(&text, log).unwrap();
    run(&format!("import {} -o {} --force", text.display(), file.display()))
}

/// The lines of `host trace`.
fn imported(log: &str) -> Vec<Value> {
    let dir = TempDir::new().unwrap();
    let ran = import(&dir, log);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    objects(&format!("host trace --json --from {}", dir.path().join("nvd").display()))
}

#[test]
fn every_command_of_the_log_is_the_one_that_was_issued() {
    let read = imported(LOG);
    let end = read.last().unwrap();
    assert_eq!((&end["ledger"]["imported"], &end["exact"]), (&true.into(), &false.into()), "{end}");
    assert_eq!(of(&read, "host_target")[0]["target"]["clock"], "realtime");
    let found = of(&read, "command");
    let truth = lines(TRUTH);
    assert_eq!(found.len(), truth.len());
    for (command, truth) in found.iter().zip(&truth) {
        assert_issued(command, truth);
        assert_eq!(command["status"]["value"], truth["status"], "{truth}");
        let points = &command["points_ns"];
        let is_read_or_write = truth["slba"].is_u64() && truth["status"] == 0;
        assert_eq!(points["backend_done"].is_u64(), is_read_or_write, "{truth}");
        // the disk was made with latency-ns=1000000
        let done = points["backend_done"].as_u64();
        let since = done.map(|done| done - points["fetch"].as_u64().unwrap());
        assert!(since.is_none_or(|ns| ns >= 1_000_000), "{command}");
    }
    // the admin commands share one; each I/O command has its own
    assert_eq!(of(&read, "interrupt").len(), 1 + 7);
}

/// The log, and a second controller's lines between its lines.
#[test]
fn a_log_of_two_controllers_is_refused() {
    let twice: String = LOG.lines().flat_map(|line| [line, "\n", line, "\n"]).collect();
    import(&TempDir::new().unwrap(), &twice).refuses(2, "is about a second controller");
}

#[test]
fn a_log_that_begins_late_or_ends_early_says_so() {
    let log: Vec<&str> = LOG.lines().collect();
    let cut = |log: &[&str]| imported(&log.join("\n")).pop().unwrap()["ledger"].clone();
    let fetch = log.iter().position(|l| l.contains("io_cmd cid 1 ")).unwrap();
    let late = cut(&log[fetch + 1..]);
    assert_eq!((&late["orphan_completions"], &late["matched"]), (&1.into(), &6.into()));
    let early = cut(&log[..=fetch]);
    assert_eq!((&early["in_flight"], &early["matched"]), (&1.into(), &3.into()));
}
