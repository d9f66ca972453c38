// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cause concerns the kinds of commands that it makes longer, and no others.

use nvme_deep::diagnose::{Diagnosis, Expectation, Status, diagnose};
use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::model::ids::NamespaceId;
use nvme_deep::model::ledger::Accuracy;
use nvme_deep::model::machine::MachineDisk;
use nvme_deep::model::report::device_name::DeviceName;

use super::causes::Cause;
use super::draft::{COMPLETE, DEVICE, DISCARD, FLUSH, QUEUE, WRITE};
use super::lengthen::lengthen;
use super::load::{Load, Run};
use super::plants::named;

/// Namespace and opcode of a command.
fn kind(event: &Event) -> (u32, u8) {
    event.what.id().map_or((0, 0), |id| (id.nsid, id.opcode.code))
}

/// Moves the commands for which this holds to a second disk of the controller.
fn move_to_second(run: &mut Run, mut holds: impl FnMut(&Event) -> bool) {
    for event in &mut run.events {
        let moves = holds(event);
        if let EventKind::Command(id, ..) = &mut event.what
            && moves
        {
            id.nsid = 2;
        }
    }
    let disks = &mut run.machine.controllers[0].disks;
    let second = MachineDisk {
        name: "nvme0n2".into(),
        nsid: 2,
        scheduler: Some("none".into()),
        ..disks[0].clone()
    };
    disks.push(second);
    // requests are counted by disk
    let first = run.events.iter().filter(|e| kind(e).0 == 1).count();
    for waits in run.activity.waits.iter_mut().flatten() {
        waits.requests = first as u64;
    }
}

fn of(run: Run) -> Diagnosis {
    let mut facts = run.facts(Accuracy::Exact);
    let name = DeviceName::of(&"nvme0n2".into());
    facts.disks.insert(NamespaceId::new(0, 2), name);
    diagnose(&facts)
}

/// Reads and writes: another CPU completes half of them, or all; writes take longer to complete.
fn remote_writes(writes: f64) -> Diagnosis {
    let load = Load { writes, remote: 0.5, ..Load::default() };
    let mut run = load.run(&[]);
    lengthen(&mut run, COMPLETE, |e| if kind(e).1 == WRITE { 60_000 } else { 0 });
    for event in &mut run.events {
        let is_write = kind(event).1 == WRITE;
        if let EventKind::Command(_, submission, end) = &mut event.what
            && is_write
        {
            end.cpu = (submission.cpu + 1) % 4;
        }
    }
    of(run)
}

/// There is no write that its own CPU completes: nothing shows what a remote completion costs a write.
#[test]
fn a_kind_without_a_control_is_not_ruled_out() {
    let open = |diagnosis: &Diagnosis| {
        let mut all = diagnosis.of(Status::Inconclusive);
        let found = all.find(|v| v.rule == "remote-completion");
        found.map(|v| v.text.clone())
    };
    let why = open(&remote_writes(0.5)).unwrap();
    assert!(why.contains("of other classes, remote completions have"), "{why}");
    // even if they took no time, they would explain less than a tenth
    let few = remote_writes(0.05);
    assert_eq!(open(&few), None);
    let mut out = few.of(Status::RuledOut);
    assert!(out.any(|v| v.rule == "remote-completion"));
}

/// One disk has a scheduler that takes the time; the other one is slow.
#[test]
fn what_slows_one_disk_does_not_explain_the_other() {
    let load = Load { expectation: Expectation::Median(300_000), ..Load::default() };
    let mut run = load.run(&[Cause::SetScheduler]);
    let mut number = 0;
    move_to_second(&mut run, |_| {
        number += 1;
        number % 2 == 0
    });
    lengthen(&mut run, QUEUE, |e| if kind(e).0 == 1 { 800_000 } else { 0 });
    lengthen(&mut run, DEVICE, |e| if kind(e).0 == 2 { 2_000_000 } else { 0 });
    let found = of(run);
    let mut names = named(&found);
    names.sort_unstable();
    assert_eq!(names, ["device", "scheduler"]);
    let device = found.causes().find(|c| c.rule == "device");
    let mut evidence = device.unwrap().evidence.iter();
    let is_second = |name: &str| name.starts_with("median of") && name.ends_with("nvme0n2");
    assert!(evidence.any(|e| is_second(&e.name)), "{device:?}");
}

/// Flushes take most of the time. That does not make a read slow.
#[test]
fn the_time_of_flushes_does_not_explain_slow_reads() {
    let load = Load { flushes: 0.05, ..Load::default() };
    let mut facts = load.run(&[Cause::FlushCost]).facts(Accuracy::Exact);
    let kinds = facts.classes.all.iter().map(|c| c.class);
    let kinds = kinds.filter(|kind| kind.opcode.code != FLUSH);
    let medians = kinds.map(|kind| (kind, (None, 65_000))).collect();
    facts.expectation = Expectation::Baseline(medians);
    let mut names = named(&diagnose(&facts));
    names.sort_unstable();
    assert_eq!(names, ["device", "flush-cost"]);
}

#[test]
fn the_advice_on_discards_names_the_disk_that_discards() {
    let load = Load { discards: 0.02, ..Load::default() };
    let mut load = load;
    load.stages[DEVICE] = 1e6;
    let mut run = load.run(&[Cause::DiscardStorm]);
    move_to_second(&mut run, |e| kind(e).1 == DISCARD);
    let found = of(run);
    assert_eq!(named(&found), ["discard-storm"]);
    let cause = found.causes().next().unwrap();
    assert!(cause.text.contains("nvme0n1"), "{}", cause.text);
    let advice = &cause.advice;
    assert!(advice.contains("/sys/block/nvme0n2/queue/discard_max_bytes"), "{advice}");
}
