// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports of the host side, compared with what was done. tests/host/qemu.log is a log of QEMU 7.2,
//! of the commands in tests/host/qemu.truth, which tests/host/qtest.py issued.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use nvme_deep::model::host::{HostCommand, HostEvent, HostPoint};
use nvme_deep::model::target::HostClock;
use nvme_deep::target::{ImportError, import_qemu_log};
use serde_json::Value;

const LOG: &str = include_str!("host/qemu.log");
const TRUTH: &str = include_str!("host/qemu.truth");

fn commands(events: &[HostEvent]) -> Vec<HostCommand> {
    let commands = events.iter().filter_map(|event| match event {
        HostEvent::Command(command) => Some(*command),
        _ => None,
    });
    commands.collect()
}

#[test]
fn every_command_of_the_log_is_the_one_that_was_issued() {
    let read = import_qemu_log(LOG).unwrap();
    assert!(read.ledger.is_exact(), "{:?}", read.ledger);
    assert_eq!(read.target.clock, HostClock::Realtime);
    let found = commands(&read.events);
    assert_eq!(found.len(), TRUTH.lines().count());
    for (command, truth) in found.iter().zip(TRUTH.lines()) {
        let truth: Value = serde_json::from_str(truth).unwrap();
        let id = command.id.unwrap();
        let number = |key: &str| truth[key].as_u64();
        assert_eq!(Some(id.qid.into()), number("qid"), "{truth}");
        assert_eq!(Some(id.cid.into()), number("cid"), "{truth}");
        assert_eq!(Some(id.opcode.into()), number("opcode"), "{truth}");
        assert_eq!(id.slba, number("slba"), "{truth}");
        assert_eq!(id.nlb.map(u64::from), number("nlb"), "{truth}");
        let status = command.status.unwrap();
        assert_eq!(Some(status.0.into()), number("status"), "{truth}");
        let has_backend = command.times.at(HostPoint::BackendDone).is_some();
        let is_read_or_write = truth["slba"].is_u64() && status.is_success();
        assert_eq!(has_backend, is_read_or_write, "{truth}");
    }
    // the admin commands share one; each I/O command has its own
    assert_eq!(read.ledger.interrupts, 1 + 7);
}

#[test]
fn the_backend_of_a_delayed_disk_takes_as_long_as_the_delay() {
    let read = import_qemu_log(LOG).unwrap();
    for command in commands(&read.events) {
        let times = command.times;
        if let Some(done) = times.at(HostPoint::BackendDone) {
            // the disk was made with latency-ns=1000000
            let since = done - times.at(HostPoint::Fetch).unwrap();
            assert!(since >= 1_000_000, "{command:?}");
        }
    }
}

/// The log, and a second controller's lines between its lines.
#[test]
fn a_log_of_two_controllers_is_refused() {
    let twice: String = LOG.lines().flat_map(|line| [line, "\n", line, "\n"]).collect();
    let refused = import_qemu_log(&twice).unwrap_err();
    assert!(matches!(refused, ImportError::SeveralControllers { .. }), "{refused}");
}

#[test]
fn a_log_that_begins_late_or_ends_early_says_so() {
    let lines: Vec<&str> = LOG.lines().collect();
    let cut = |lines: &[&str]| import_qemu_log(&lines.join("\n")).unwrap().ledger;
    let fetch = lines.iter().position(|l| l.contains("io_cmd cid 1 ")).unwrap();
    let late = cut(&lines[fetch + 1..]);
    assert_eq!((late.without_begin, late.commands), (1, 6));
    let early = cut(&lines[..=fetch]);
    assert_eq!((early.unfinished, early.commands), (1, 3));
}
