// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's log of `-trace 'pci_nvme_*'`. A line is an event.

use std::collections::BTreeSet;

use super::lines::{Found, Line, QEMU, each, read};
use super::report::Report;
use crate::model::event::{Event, EventKind};
use crate::model::stage::StageSet;
use crate::model::target::{HostClock, TargetInfo, TargetKind};
use crate::target::qemu::{ENDS, Reader};
use crate::target::{Skip, value};
use anyhow::{Result, bail};

/// Reads a log, and passes on its events. A second call gives the same.
///
/// # Errors
/// If it is about several controllers.
pub fn import(log: &str, to: &mut dyn FnMut(&Event)) -> Result<Report> {
    let is_timed = log.lines().any(|line| match read(line) {
        Some(Found::Event(event)) => event.name.starts_with(QEMU) && event.resolution_ns > 0,
        _ => false,
    });
    let (clock, resolution_ns) =
        if is_timed { (HostClock::Realtime, 1000) } else { (HostClock::Order, 0) };
    let mut reader = Reader::new(true);
    reader.has_ends = log.contains(ENDS);
    let (mut seen, mut second) = (BTreeSet::new(), None);
    let mut pass_on = |events: &mut Vec<Event>| {
        for mut event in events.drain(..) {
            if !is_timed {
                without_times(&mut event);
            }
            to(&event);
        }
    };
    let skipped = each(log, |number, found| {
        let Found::Event(Line { at_ns, resolution_ns, name, text, .. }) = found else {
            return Ok(());
        };
        if !name.starts_with(QEMU) {
            return Err(Skip::Unknown);
        }
        if is_timed && resolution_ns == 0 {
            return Err(Skip::Lacks("an event without a time"));
        }
        let ns = if is_timed { at_ns } else { number };
        let read = reader.event(ns, name, &|key| value(text, key));
        if read == Err(Skip::Second) {
            second = second.or(Some(number));
        }
        read?;
        seen.insert(name);
        pass_on(&mut reader.commands.events);
        Ok(())
    });
    if let Some(number) = second {
        bail!(
            "line {number} is about a second controller, and the lines of a log do not name their \
             controller: log one controller only, or use `host trace --pid`"
        );
    }
    let mut commands = reader.commands;
    commands.finish();
    pass_on(&mut commands.events);
    let (kind, by) = (TargetKind::Qemu, "log".into());
    Ok(Report {
        resolution_ns,
        lacks: lacks(&seen, is_timed),
        span: commands.span,
        stage_set: StageSet::Host,
        target: Some(TargetInfo { kind, by, clock, resolution_ns, ..TargetInfo::default() }),
        ..Report::new("QEMU's log", "command", commands.ledger, skipped)
    })
}

/// The number of a line is the time of an event, but not of a point: no stage has a length.
fn without_times(event: &mut Event) {
    match &mut event.what {
        EventKind::Command(_, _, outcome) => (outcome.latency_ns, outcome.timeline) = (None, None),
        EventKind::Unfinished { age_ns, .. } => *age_ns = 0,
        _ => {}
    }
}

/// What a log may lack, and the events that give it.
const NEEDED: [(&str, &[&str]); 5] = [
    ("starts of commands, with their opcodes", &["pci_nvme_io_cmd", "pci_nvme_admin_cmd"]),
    ("ends of commands", &[ENDS]),
    ("blocks", &["pci_nvme_read", "pci_nvme_write"]),
    ("answers of the storage", &["pci_nvme_rw_cb", "pci_nvme_rw_complete_cb"]),
    ("interrupts", &["pci_nvme_irq_msix"]),
];

fn lacks(seen: &BTreeSet<&str>, is_timed: bool) -> Vec<String> {
    let zero = "fields other than the blocks, and the namespaces of admin commands: shown as zero";
    let timed = (!is_timed).then_some("times, so no latency: start QEMU with -msg timestamp=on");
    let missing = NEEDED.iter().filter(|(_, names)| !names.iter().any(|name| seen.contains(name)));
    let missing =
        missing.map(|(what, names)| format!("{what}: {} would give them", names.join(" and ")));
    [zero].into_iter().chain(timed).map(str::to_owned).chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::point::Point;

    const HEAD: &str = "7@10.000001:pci_nvme_io_cmd cid 5 nsid 0x1 sqid 2 opc 0x2 opname 'R'\n";

    fn read_all(log: &str) -> (Vec<Event>, Report) {
        let mut events = Vec::new();
        let report = import(log, &mut |event| events.push(*event)).unwrap();
        (events, report)
    }

    fn lines(more: &str) -> String {
        format!("{HEAD}{more}")
    }

    #[test]
    fn an_answer_that_fits_two_commands_is_left_out() {
        let log = lines(
            "7@10.000002:pci_nvme_io_cmd cid 5 nsid 0x1 sqid 3 opc 0x2 opname 'R'\n\
             7@10.000003:pci_nvme_rw_cb cid 5 blk ''\n\
             7@10.000004:pci_nvme_enqueue_req_completion cid 5 cqid 3 dw0 0x0 dw1 0x0 status 0x0\n",
        );
        let read = read_all(&log);
        let mut done = read.0.iter().filter(|event| event.what.is_finished());
        let EventKind::Command(id, _, outcome) = done.next().unwrap().what else {
            panic!("{:?}", read.0);
        };
        assert_eq!(id.qid, 3);
        assert_eq!(outcome.timeline.unwrap().at(Point::Cqe), None);
        let ledger = &read.1.ledger;
        assert_eq!((ledger.matched, ledger.in_flight, read.1.skipped.other), (1, 1, 1));
    }

    #[test]
    fn an_end_fits_the_queues_of_its_completion_queue() {
        let io = |sqid| format!("7@10.000001:pci_nvme_io_cmd cid 5 nsid 0x1 sqid {sqid} opc 0x2\n");
        let created = |sqid| format!("7@10.000001:pci_nvme_create_sq sqid={sqid}, cqid=9\n");
        let end = "7@10.000002:pci_nvme_enqueue_req_completion cid 5 cqid 9 status 0x0\n";
        let read = |log: String| {
            let read = read_all(&log);
            let done = read.0.iter().filter(|event| event.what.is_finished());
            let done = done.filter_map(|event| Some(event.what.id()?.qid));
            (done.collect::<Vec<_>>(), read.1.ledger.orphan_completions)
        };
        let (second, third) = (created(2), created(3));
        assert_eq!(read(io(9) + &io(2) + end), (vec![9], 0));
        assert_eq!(read(second.clone() + &io(2) + &io(4) + end), (vec![2], 0));
        // two fit: 2 by its creation and 9 by its number, and then two by their creation
        assert_eq!(read(second.clone() + &io(9) + &io(2) + end), (vec![], 1));
        assert_eq!(read(second.clone() + &third + &io(2) + &io(3) + end), (vec![], 1));
        let deleted = "7@10.000001:pci_nvme_del_sq sqid=2\n";
        assert_eq!(read(second + &third + deleted + &io(2) + &io(3) + end), (vec![3], 0));
    }

    #[test]
    fn a_reset_ends_what_is_in_flight() {
        let log = lines("7@10.000002:pci_nvme_mmio_cfg wrote MMIO, config controller config=0x0\n");
        let ledger = read_all(&lines(&log[HEAD.len()..])).1.ledger;
        assert_eq!((ledger.matched, ledger.overwritten), (0, 1));
    }

    #[test]
    fn without_ends_an_id_may_come_again() {
        let again = format!("{HEAD}{HEAD}");
        let (_, report) = read_all(&again);
        assert_eq!((report.ledger.overwritten, report.ledger.in_flight), (1, 1));
        assert!(report.lacks.iter().any(|lack| lack.contains(ENDS)), "{:?}", report.lacks);
    }
}
