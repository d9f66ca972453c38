// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports of the host side, compared with what was done. tests/host/qemu.log is a log of QEMU 7.2,
//! of the commands in tests/host/qemu.truth, which tests/host/qtest.py issued.

use std::fs;
use std::fs::File;

use nvme_deep::model::target::{HostClock, HostCommand, HostEvent, HostPoint};
use nvme_deep::recording::HostRecording;
use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Ran, run};

const LOG: &str = include_str!("host/qemu.log");
const TRUTH: &str = include_str!("host/qemu.truth");

/// Imports a log.
fn import(dir: &TempDir, log: &str) -> Ran {
    let [text, file] = ["log", "nvd"].map(|name| dir.path().join(name));
    fs::write(&text, log).unwrap();
    run(&format!("import {} -o {} --force", text.display(), file.display()))
}

fn imported(log: &str) -> HostRecording {
    let dir = TempDir::new().unwrap();
    let ran = import(&dir, log);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    HostRecording::read(File::open(dir.path().join("nvd")).unwrap()).unwrap()
}

fn commands(events: &[HostEvent]) -> Vec<HostCommand> {
    let commands = events.iter().filter_map(|event| match event {
        HostEvent::Command(command) => Some(*command),
        _ => None,
    });
    commands.collect()
}

#[test]
fn every_command_of_the_log_is_the_one_that_was_issued() {
    let read = imported(LOG);
    let ledger = read.ledger.clone().unwrap();
    assert!(ledger.imported && ledger.degraded().is_empty(), "{ledger:?}");
    assert_eq!(read.target.clock, HostClock::Realtime);
    let found = commands(&read.events);
    assert_eq!(found.len(), TRUTH.lines().count());
    for (command, truth) in found.iter().zip(TRUTH.lines()) {
        let truth: Value = serde_json::from_str(truth).unwrap();
        let id = command;
        let number = |key: &str| truth[key].as_u64();
        assert_eq!(id.qid.map(u64::from), number("qid"), "{truth}");
        assert_eq!(id.cid.map(u64::from), number("cid"), "{truth}");
        assert_eq!(id.code.map(u64::from), number("opcode"), "{truth}");
        assert_eq!(id.slba, number("slba"), "{truth}");
        assert_eq!(id.nlb.map(u64::from), number("nlb"), "{truth}");
        let status = command.status.unwrap();
        assert_eq!(Some(status.0.into()), number("status"), "{truth}");
        let has_backend = command.times.at(HostPoint::BackendDone).is_some();
        let is_read_or_write = truth["slba"].is_u64() && status.is_success();
        assert_eq!(has_backend, is_read_or_write, "{truth}");
        // the disk was made with latency-ns=1000000
        let done = command.times.at(HostPoint::BackendDone);
        let since = done.map(|done| done - command.times.at(HostPoint::Fetch).unwrap());
        assert!(since.is_none_or(|ns| ns >= 1_000_000), "{command:?}");
    }
    // the admin commands share one; each I/O command has its own
    assert_eq!(ledger.interrupts, 1 + 7);
}

/// The log, and a second controller's lines between its lines.
#[test]
fn a_log_of_two_controllers_is_refused() {
    let twice: String = LOG.lines().flat_map(|line| [line, "\n", line, "\n"]).collect();
    import(&TempDir::new().unwrap(), &twice).refuses(2, "is about a second controller");
}

#[test]
fn a_log_that_begins_late_or_ends_early_says_so() {
    let lines: Vec<&str> = LOG.lines().collect();
    let cut = |lines: &[&str]| imported(&lines.join("\n")).ledger.unwrap();
    let fetch = lines.iter().position(|l| l.contains("io_cmd cid 1 ")).unwrap();
    let late = cut(&lines[fetch + 1..]);
    // the end of that one is kept, without what it asked for
    assert_eq!((late.without_begin, late.commands), (1, 7));
    let early = cut(&lines[..=fetch]);
    assert_eq!((early.unfinished, early.commands), (1, 3));
}
