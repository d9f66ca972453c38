// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ages and limits of commands that a run has observed.

use super::*;
use crate::model::snapshot::Cell;
use crate::testing::{EventBuilder, READ};

/// 4 KiB reads of nvme0.
const ROW: RowKey = RowKey { ctrl: 0, nsid: 1, opcode: READ, class: 1 };

/// A read with tag 5 on queue 1.
fn open(setup_ns: u64) -> OpenCommand {
    let made = EventBuilder::read().cid(0x7005).submitter(9, 9, b"fio").cpus(1, 1).stack(77);
    OpenCommand {
        request: Some(0x500),
        id: made.id,
        row: ROW,
        setup_ns,
        submission: made.submission(),
    }
}

/// The same command as memory has it, started at jiffy 900 of 1000.
fn read() -> CommandReading {
    let sqe = Some(open(0).submission.sqe);
    CommandReading { request: 0x500, tag: 5, deadline: 930, timeout: 30, completed: false, sqe }
}

/// A run that has completed this many reads of 1 ms.
fn run(open: &[OpenCommand], reads: u64, at_ns: u64) -> Observed {
    let mut now = Snapshot::default();
    let mut cell = Cell::empty(StageSet::Total);
    (0..reads).for_each(|_| cell.hists[0].record(1_000_000));
    now.cells.insert((ROW, 0), cell);
    Observed::new(open.to_vec(), &now, at_ns)
}

fn aged(run: Option<&Observed>, limit: &str, command: &CommandReading) -> Aged {
    let ages = Ages {
        ticks: Some(Ticks { now: 1000, hz: 100 }),
        at_ns: 20_000_000,
        limit: AgeLimit::parse(limit).unwrap(),
        run,
    };
    ages.of(QueueId::new(0, 1), command)
}

#[test]
fn an_observed_command_is_as_old_as_its_set_up_and_is_compared_with_its_kind() {
    let run = run(&[open(9_000_000)], 100, 21_000_000);
    let found = aged(Some(&run), "10x", &read());
    assert_eq!(found.age, Some(Duration::from_millis(11)));
    let usual = found.seen.unwrap().usual;
    assert_eq!(usual.commands, 100);
    assert!(usual.p99_ns.abs_diff(1_000_000) <= 62_500, "{usual:?}");
    assert!(found.is_old, "11 ms are more than ten times 1 ms");
    assert!(!aged(Some(&run), "12x", &read()).is_old);
    assert!(!aged(Some(&run), "100ms", &read()).is_old);
    assert_eq!(run.stacks().collect::<Vec<_>>(), [StackId(77)]);
}

#[test]
fn too_few_commands_have_no_p99() {
    let run = run(&[open(9_000_000)], 99, 21_000_000);
    let found = aged(Some(&run), "10x", &read());
    assert_eq!(found.seen.unwrap().usual.p99(), None);
    assert!(!found.is_old, "the limit is 100 ms");
}

#[test]
fn what_the_run_did_not_observe_has_the_age_of_its_deadline() {
    let second = Some(Duration::from_secs(1));
    let other = CommandReading { request: 0x600, ..read() };
    let mut later = open(22_000_000);
    let runs = [
        (None, read()),
        (Some(run(&[], 100, 21_000_000)), read()),
        // another request, one set up after the reading, one whose setup was skipped
        (Some(run(&[open(9_000_000)], 100, 21_000_000)), other),
        (Some(run(&[later], 100, 21_000_000)), read()),
        (Some(run(&[open(0)], 100, 21_000_000)), read()),
    ];
    for (run, command) in &runs {
        let found = aged(run.as_ref(), "10x", command);
        assert_eq!((found.age, found.seen, found.is_old), (second, None, true));
    }
    // classic tracepoints have no request
    later.request = None;
    later.setup_ns = 19_000_000;
    let run = run(&[later], 100, 21_000_000);
    let found = aged(Some(&run), "10x", &other);
    assert_eq!(found.age, Some(Duration::from_millis(1)));
}
