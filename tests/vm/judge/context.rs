// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is observed with conditions: doorbells against QEMU's own trace, waits for tags against the
//! number of tags, splits against the size of a transfer, bounce buffers against the number of pages.

use std::collections::BTreeMap;

use nvme_deep::model::activity::Activity;
use nvme_deep::model::command_class::{Announcement, Conditions};
use nvme_deep::model::event::{CommandId, Event, EventKind, Outcome as CommandOutcome};
use nvme_deep::model::machine::MachineInfo;
use nvme_deep::model::point::Point;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::recording::{Fact, Item, Reader};

use super::guest::{Outcome, Suite};

const CONTEXT: Suite = Suite {
    env: &[("DOORBELLS", "1")],
    ..Suite::of(
        "context",
        &["nvme_null nvme0 0", "nvme_null nvme1 400000000", "nvme_null nvme2 0 mdts=1"],
    )
};

/// Every DMA goes through a bounce buffer.
const BOUNCES: Suite = Suite { variant: "-bounces", append: "swiotlb=force", ..CONTEXT };

/// Latency of nvme1.
const SLOW_NS: u64 = 400_000_000;

/// What is in the recording of a case.
#[derive(Default)]
struct Recorded {
    commands: Vec<(CommandId, CommandOutcome)>,
    activities: Vec<Activity>,
    machine: Option<MachineInfo>,
    /// What the kernel skipped, at most, as the tool says.
    skipped: u64,
}

impl Recorded {
    fn read(outcome: &Outcome, case: &str) -> Self {
        Self::of_tool(outcome, case, "record", "file")
    }

    /// With the fine stages, and with the full ones.
    fn both(outcome: &Outcome, case: &str) -> [Self; 2] {
        let full = Self::of_tool(outcome, case, "full", "full");
        [Self::read(outcome, case), full]
    }

    fn of_tool(outcome: &Outcome, case: &str, tool: &str, file: &str) -> Self {
        let said = outcome.text(case, &format!("{tool}.err"));
        assert_eq!(outcome.code(case, tool), 0, "{case}: {said}");
        assert!(said.contains("exact: "), "{case}: {said}");
        let bytes = outcome.bytes(case, file);
        let mut reader = Reader::open(bytes.as_slice()).unwrap();
        assert_eq!(reader.info().context, case != "without", "{case}");
        let boundaries = said.split("at most ").nth(1);
        let boundaries = boundaries.and_then(|rest| rest.split(' ').next());
        let mut found = Self {
            skipped: boundaries.map_or(0, |number| number.parse().unwrap()),
            ..Self::default()
        };
        while let Some(item) = reader.next().unwrap() {
            match item {
                Item::Event(Event { what: EventKind::Command(id, _, end), .. }) => {
                    found.commands.push((*id, *end))
                }
                Item::Fact(Fact::Activity(activity)) => found.activities.push(*activity),
                Item::Fact(Fact::Machine(machine)) => found.machine = Some(*machine),
                _ => {}
            }
        }
        found
    }

    /// The activity of the whole run.
    fn last(&self) -> &Activity {
        self.activities.last().expect("no activity was recorded")
    }

    /// The commands of the I/O queues, or of the admin queue.
    fn of(&self, kind: QueueKind) -> Vec<&CommandOutcome> {
        let all = self.commands.iter();
        let of_kind = all.filter(|(id, _)| id.opcode.queue == kind);
        of_kind.map(|(_, end)| end).collect()
    }
}

/// The time of the doorbell, if it was observed.
fn doorbell(command: &CommandOutcome) -> Option<u64> {
    command.timeline.as_ref()?.at(Point::Doorbell)
}

/// Numbers of commands: rung, elided, not known.
fn announced(commands: &[&CommandOutcome]) -> [u64; 3] {
    let mut counts = [0; 3];
    for command in commands {
        counts[match command.conditions.announcement() {
            Some(Announcement::Rung) => 0,
            Some(Announcement::Elided) => 1,
            None => 2,
        }] += 1;
    }
    counts
}

/// How often QEMU saw a write to a doorbell during a case.
fn written(outcome: &Outcome, case: &str, queues: &str) -> u64 {
    let count = |when: &str| -> u64 {
        let text = outcome.text(case, &format!("{queues}.{when}"));
        text.trim().parse().unwrap()
    };
    count("after") - count("before")
}

fn doorbells_are_those_that_qemu_saw(outcome: &Outcome) {
    let found = Recorded::read(outcome, "doorbells");
    let (admin, io) = (found.of(QueueKind::Admin), found.of(QueueKind::Io));
    assert_eq!((admin.len(), io.len()), (20, 300));
    assert_eq!(written(outcome, "doorbells", "admin"), 20);
    // the admin queue has no shadow doorbell; a command that was answered before the submitting
    // function returned has no doorbell time. Its announcement is known if that function returned
    // before the completion
    let late = admin.iter().filter(|c| doorbell(c).is_none()).count() as u64;
    let [rung, elided, unknown] = announced(&admin);
    assert_eq!((rung + unknown, elided), (20, 0));
    assert!(unknown <= late, "{unknown} not known, {late} late");
    // one doorbell for each command: those not known may be either
    let [rung, elided, unknown] = announced(&io);
    let writes = written(outcome, "doorbells", "io");
    let known = format!("{rung} rung, {elided} elided, {unknown} not known, {writes} written");
    assert!(rung <= writes && writes <= rung + unknown, "{known}");
    // how many are known depends on the host: beside another guest it was 38 of 300
    assert!(rung + elided > 0, "{known}");
}

fn batches_ring_as_often_as_qemu_saw(outcome: &Outcome) {
    let found = Recorded::read(outcome, "batches");
    let io = found.of(QueueKind::Io);
    assert_eq!(io.len(), 800);
    // the commands of a batch have their doorbell at the same time
    let mut batches: BTreeMap<u64, Conditions> = BTreeMap::new();
    let mut alone = 0;
    for command in &io {
        match doorbell(command) {
            Some(at) => {
                let first = batches.entry(at).or_insert(command.conditions);
                let (first, this) = (first.announcement(), command.conditions.announcement());
                assert_eq!(first, this, "a batch has one announcement");
            }
            None => alone += 1,
        }
    }
    let count = |how| -> u64 {
        let all = batches.values().filter(|c| c.announcement() == how);
        all.count() as u64
    };
    let (rung, unknown) = (count(Some(Announcement::Rung)), count(None) + alone);
    let writes = written(outcome, "batches", "io");
    let known = format!("{rung} rung, {unknown} not known, {writes} written");
    assert!(rung <= writes && writes <= rung + unknown, "{known}");
    assert!(rung + count(Some(Announcement::Elided)) > 0, "{known}");
}

fn waits_for_tags_are_those_of_the_tasks_that_found_none(outcome: &Outcome) {
    // a preemptible kernel skips programs: waits are missing, and the reading says how many at most
    let is_whole = |requests: u64, skipped: u64| requests <= 8 && requests + skipped >= 8;
    let waits = |case: &str, found: Recorded| {
        assert_eq!(found.of(QueueKind::Io).len(), 8, "{case}");
        let all = found.last().waits.clone().unwrap();
        let [waits] = all.as_slice() else {
            panic!("{case}: {all:?}");
        };
        assert_eq!((waits.ctrl, waits.nsid), (1, 1));
        let skipped = found.skipped + found.last().skipped;
        assert!(is_whole(waits.requests, skipped), "{case}: {waits:?}, {skipped} skipped");
        let machine = found.machine.unwrap();
        let disks = machine.controllers.iter().flat_map(|c| &c.disks);
        let mut tags = disks.filter(|d| d.name == "nvme1n1").map(|d| d.nr_requests);
        assert_eq!(format!("tags-{}", tags.next().unwrap().unwrap()), case);
        *waits
    };
    // four of the eight wait until the first four are answered
    let of = |case: &str| waits(case, Recorded::of_tool(outcome, case, "full", "full"));
    let (few, enough) = (of("tags-4"), of("tags-64"));
    let waited = few.waited + 8 - few.requests;
    assert!(waited >= 4, "{few:?}");
    assert!(few.sum_ns >= few.waited.min(4) * (SLOW_NS / 2), "{few:?}");
    assert!(few.max_ns > SLOW_NS / 2, "{few:?}");
    assert!(enough.max_ns < few.max_ns / 2, "{enough:?} {few:?}");
}

fn splits_are_those_of_the_transfer_size(outcome: &Outcome) {
    for found in Recorded::both(outcome, "splits") {
        has_splits(found);
    }
}

fn has_splits(found: Recorded) {
    assert_eq!(found.of(QueueKind::Io).len(), 160);
    let splits = found.last().splits.clone().unwrap();
    let [splits] = splits.as_slice() else {
        panic!("{splits:?}");
    };
    assert_eq!((splits.ctrl, splits.nsid, splits.count), (2, 1, 140));
    // the first request of each; with full stages only
    let waits = found.last().waits.clone();
    assert!(waits.is_none_or(|waits| waits[0].requests == 20));
    let machine = found.machine.unwrap();
    let limits: Vec<_> =
        machine.controllers.iter().map(|c| c.disks[0].max_hw_bytes.unwrap()).collect();
    assert_eq!(limits[2], 8192, "{limits:?}");
}

fn the_cpu_of_an_interrupt_is_idle_or_not(outcome: &Outcome) {
    let idle = |case: &str| {
        let found = Recorded::read(outcome, case);
        let io = found.of(QueueKind::Io);
        assert_eq!(io.len(), 5, "{case}");
        let known: Vec<_> = io.iter().filter_map(|c| c.conditions.cpu_idle()).collect();
        if outcome.kernel() != "5.10" {
            // the interrupt is not observed on 5.10
            assert_eq!(known.len(), 5, "{case}");
            let soft = io.iter().filter_map(|c| c.conditions.in_softirq());
            assert_eq!(soft.count(), 5, "{case}");
        }
        known.iter().filter(|idle| **idle).count()
    };
    assert_eq!(idle("busy"), 0);
    if outcome.kernel() != "5.10" {
        assert!(idle("idle") > 0);
    }
}

fn the_machine_is_described(outcome: &Outcome) {
    let found = Recorded::read(outcome, "splits");
    // the start, and the end
    assert!(found.activities.len() >= 2);
    for pair in found.activities.windows(2) {
        assert!(pair[0].at_ns < pair[1].at_ns);
    }
    let last = found.last();
    assert_eq!(last.cpus.len(), 2);
    let gaps = found.activities.iter().flat_map(|a| &a.gaps);
    for gap in gaps.clone() {
        // two ticks that are more than 3 ms apart; the first is not part of the gap
        assert!(gap.end_ns - gap.begin_ns > 2_000_000, "{gap:?}");
    }
    let counted: u64 = last.cpus.iter().filter_map(|cpu| cpu.gaps).sum();
    assert_eq!(gaps.count() as u64 + last.gaps_lost, counted);
    // two seconds of commands on CPU 0, which gets its timer after one
    let first = Recorded::read(outcome, "idle").last().cpus[0];
    assert!(first.gaps.is_some(), "{first:?}");
    assert!(first.timed_from_ns < first.timed_to_ns, "{first:?}");
    let machine = found.machine.unwrap();
    assert_eq!((machine.cpus, machine.is_virtual), (Some(2), Some(true)));
    assert_eq!(machine.controllers.len(), 3);
    for controller in &machine.controllers {
        assert_eq!(controller.transport, Some("pcie".into()));
        assert_eq!(controller.class.name(), "emulated");
    }
}

fn each_page_has_a_bounce_buffer(outcome: &Outcome) {
    let found = Recorded::read(outcome, "bounces");
    assert_eq!(found.of(QueueKind::Io).len(), 150);
    let bounces = found.last().bounces.unwrap();
    assert_eq!((bounces.count, bounces.bytes), (150, 150 * 4096));
    assert!(found.last().bounce_pool.is_some_and(|pool| pool.size > 0));
}

fn without_bounce_buffers_none_are_counted(outcome: &Outcome) {
    let found = Recorded::read(outcome, "bounces");
    let bounces = found.last().bounces.unwrap();
    assert_eq!((bounces.count, bounces.bytes), (0, 0));
    assert_eq!(found.last().iommu_maps.map(|maps| maps.count), Some(0));
}

fn nothing_of_it_is_loaded_unless_asked(outcome: &Outcome) {
    let found = Recorded::read(outcome, "without");
    assert!(found.activities.is_empty() && found.machine.is_none());
    for (_, end) in &found.commands {
        assert!(!end.conditions.is_some());
    }
    let programs = outcome.text("without", "programs");
    for name in ["split_btf", "tick"] {
        assert!(!programs.contains(name), "{name}: {programs}");
    }
    assert!(programs.contains("setup_out"), "{programs}");
    let maps = outcome.text("without", "maps");
    for name in ["activities", "disks"] {
        assert!(!maps.contains(name), "{name}: {maps}");
    }
}

super::on_kernels! {
    suite CONTEXT [
        doorbells_are_those_that_qemu_saw batches_ring_as_often_as_qemu_saw
        waits_for_tags_are_those_of_the_tasks_that_found_none splits_are_those_of_the_transfer_size
        the_cpu_of_an_interrupt_is_idle_or_not the_machine_is_described
        without_bounce_buffers_none_are_counted nothing_of_it_is_loaded_unless_asked
    ] {
        on_6_12 "6.12" | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
    bounces BOUNCES [each_page_has_a_bounce_buffer] { | only_in_test_all on_6_12 "6.12" }
}
