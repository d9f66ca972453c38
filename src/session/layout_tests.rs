// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the sizes of the maps.

use super::*;
use crate::machine::tests::TestMachine;
use crate::model::group::By;
use crate::model::machine::DiskInfo;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::settings::{Detail, EventStacks, Events, Histograms, Outcome, RingSize, StackSample};

/// A machine whose CPUs are all online, with this much memory.
fn capacity(cpus: u32, gib: u64) -> Capacity {
    let memory = MapMemory::of(gib << 30, None);
    Capacity { possible: cpus, online: cpus, present: (0..cpus).collect(), memory }
}

/// As many controllers with one namespace each.
fn controllers(count: u32, queues: u32, depth: u32) -> Vec<ControllerInfo> {
    let one = |instance| {
        let disk = DiskInfo { name: format!("nvme{instance}n1").into(), nsid: 1, ..<_>::default() };
        let (queues, depth, disks) = (Some(queues), Some(depth), vec![disk]);
        let transport = "pcie".into();
        ControllerInfo { instance, transport, queues, depth, disks, ..ControllerInfo::default() }
    };
    (0..count).map(one).collect()
}

const AT_SUBMIT: StackSample = StackSample::every(StackAt::Submit);

fn by(keys: &[By], stage_set: StageSet) -> Settings {
    Mode::Histograms(Histograms { by: keys.to_vec(), ..Histograms::default() }).with(stage_set)
}

fn with_rings(ring_bytes: Option<u32>) -> Settings {
    let events = Events { ring_size: RingSize { bytes: ring_bytes }, ..Events::default() };
    Mode::Events(events).with(StageSet::Fine)
}

/// Each kind of run.
fn runs() -> Vec<Settings> {
    let mut all = [StageSet::Total, StageSet::Basic, StageSet::Fine, StageSet::Full]
        .map(Settings::of)
        .to_vec();
    all.extend([StageSet::Total, StageSet::Fine].map(|set| by(&[By::Cgroup], set)));
    for extra in [ExtraEvents::TopCounters, ExtraEvents::Commands] {
        let histograms = Histograms { extra, ..Histograms::default() };
        all.push(Mode::Histograms(histograms).with(StageSet::Fine));
    }
    for stack in [None, Some(AT_SUBMIT)] {
        let stacks = EventStacks { kstack: stack.map(|stack| stack.at), sample: None };
        let events = Events { detail: Detail { stacks, ..Detail::all() }, ..Events::default() };
        all.push(Mode::Events(events).with(StageSet::Full));
        all.push(Mode::Flight(stack).with(StageSet::Total));
    }
    all.push(Mode::Stacks(AT_SUBMIT, Outcome::default()).with(StageSet::Fine));
    all
}

#[test]
fn every_tag_has_a_slot_and_one_more_controller_may_come() {
    let mut all = controllers(1, 3, 1024);
    all.extend(controllers(1, 65, 256));
    for settings in runs() {
        let mut layout = Layout::new(&settings, &capacity(64, 64), &all);
        assert_eq!(layout.slot_bytes % LINE, 0);
        let mut end = 0;
        for c in &all {
            let size = layout.size_of(c);
            let place = layout.take(&size).unwrap();
            assert_eq!(place.base, end);
            end = place.base + size.queues * size.stride;
            assert_eq!(place.queue_of_slot(end - 1), Some(size.queues - 1));
            assert_eq!(place.queue_of_slot(end), None);
        }
        let size = layout.size_of(&all[1]);
        assert!(layout.take(&size).is_some());
        assert!(layout.take(&size).is_none());
    }
}

#[test]
fn only_selected_controllers_have_slots() {
    let all = controllers(8, 129, 1024);
    let mut settings = Settings::of(StageSet::Basic);
    let whole = Layout::new(&settings, &capacity(128, 64), &all);
    settings.filter.ctrls.insert(3);
    let one = Layout::new(&settings, &capacity(128, 64), &all);
    assert_eq!((whole.slots, one.slots), (9 * 129 * 1024, 2 * 129 * 1024));
    assert!(one.leaves_out(2) && !one.leaves_out(3) && !whole.leaves_out(2));
    // the stride is a power of two, and holds the admin queue
    let stride = |depth| whole.size_of(&controllers(1, 3, depth)[0]).stride;
    assert_eq!([8, 1000].map(stride), [64, 1024]);
}

/// Machines: CPUs, memory in GiB, controllers, queues of each.
const MACHINES: [(u32, u64, u32, u32); 7] = [
    (1, 1, 1, 2),
    (4, 4, 1, 5),
    (16, 16, 4, 17),
    (64, 128, 8, 65),
    (128, 256, 8, 129),
    (128, 512, 24, 129),
    (384, 1024, 24, 129),
];

#[test]
fn maps_stay_within_the_memory_or_have_their_least_size() {
    for (cpus, gib, count, queues) in MACHINES {
        let all = controllers(count, queues, 1024);
        for settings in runs() {
            let capacity = capacity(cpus, gib);
            let layout = Layout::new(&settings, &capacity, &all);
            let what = format!("{cpus} CPUs, {count} x {queues}: {settings:?}");
            assert!(layout.remark().is_ok(), "{what}");
            let cells = &layout.cells;
            let of_cells = cells.count() as usize * cell_stride(settings.stage_set);
            let usual = capacity.memory.usual;
            let is_small = of_cells <= usual / 2 || cells.groups == 2;
            assert!(layout.bytes <= usual || is_small, "{of_cells} of {}: {what}", layout.bytes);
            assert!(cells.rows >= MIN_ROWS || !settings.counts(), "{what}");
            // what people use does not share
            if settings.stage_set <= StageSet::Fine && settings.by().is_empty() {
                assert!(!cells.are_shared(), "{what}: {} of {}", cells.groups, cells.rows);
            }
        }
    }
}

/// Virtual machines report many CPUs, and have few of them.
#[test]
fn cpus_that_are_not_present_share_one_group() {
    let capacity = Capacity { present: vec![0, 1, 2, 5], ..capacity(128, 4) };
    let all = controllers(4, 5, 1024);
    let Layout { cells, .. } = Layout::new(&Settings::of(StageSet::Fine), &capacity, &all);
    assert_eq!(cells.groups, 5);
    assert_eq!([0, 1, 2, 5, 3, 4, 127].map(|cpu| cells.group_of(cpu)), [0, 1, 2, 3, 4, 4, 4]);
    assert_eq!([0, 3, 4].map(|group| cells.is_shared(group)), [false, false, true]);
    assert!(!cells.are_shared());
}

#[test]
fn with_little_memory_neighbours_share_cells() {
    let cells = Cells::new(64, 1000, 64 * 1000 * 5, &(0..8).collect::<Vec<_>>());
    assert_eq!((cells.rows, cells.groups), (64, 5));
    let groups: Vec<u32> = (0..10).map(|cpu| cells.group_of(cpu)).collect();
    assert_eq!(groups, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    assert!(cells.are_shared() && cells.is_shared(0));
    // first there are fewer rows
    let cells = Cells::new(256, 1000, 100 * 1000 * 9, &(0..8).collect::<Vec<_>>());
    assert_eq!((cells.rows, cells.groups), (100, 9));
}

#[test]
fn slots_that_need_much_memory_are_said_and_too_many_are_refused() {
    let all = controllers(24, 129, 1024);
    let said = |gib| Layout::new(&Settings::of(StageSet::Fine), &capacity(128, gib), &all).remark();
    assert_eq!(said(512).unwrap(), None);
    let text = said(64).unwrap().unwrap();
    assert!(text.ends_with("choose fewer controllers by --ctrl or --disk"), "{text}");
    assert!(said(4).is_err());
}

/// A limit of memory in a file of contrib: `MemoryMax=256M`, `memory: 256Mi`.
fn limit_in(file: &str, before: &str) -> u64 {
    let text = std::fs::read_to_string(format!("contrib/{file}")).unwrap();
    let (_, rest) = text.split_once(before).unwrap();
    let (digits, _) = rest.split_once('M').unwrap();
    digits.parse::<u64>().unwrap() << 20
}

/// `serve` on a server with 24 drives.
#[test]
fn the_unit_and_the_daemonset_have_room_for_a_server() {
    let all = controllers(24, 129, 1024);
    for limit in [
        limit_in("nvme-deep.service", "MemoryMax="),
        limit_in("daemonset.yaml", "limits: { memory: "),
    ] {
        let memory = MapMemory::of(512 << 30, Some(limit));
        let capacity = Capacity { memory, ..capacity(128, 512) };
        let histograms = Histograms { extra: ExtraEvents::CountErrors, ..Histograms::default() };
        for stage_set in [StageSet::Total, StageSet::Basic, StageSet::Fine] {
            let settings = Mode::Histograms(histograms.clone()).with(stage_set);
            let layout = Layout::new(&settings, &capacity, &all);
            assert_eq!(layout.remark().unwrap(), None, "{stage_set:?} in {limit}");
            assert!(layout.bytes as u64 + (96 << 20) <= limit, "{}", layout.bytes);
        }
    }
}

#[test]
fn rings_give_way_to_many_tags_but_not_if_their_size_was_asked_for() {
    for (queues, asked, bytes) in [
        (3, None, 16 << 20),
        (1025, None, 4 << 20),
        (1025, Some(1 << 20), 1 << 20),
        (1025, Some(1 << 30), 1 << 30),
    ] {
        let all = controllers(1, queues, 1024);
        let layout = Layout::new(&with_rings(asked), &capacity(64, 16), &all);
        assert_eq!(layout.rings.total(), bytes, "{queues} {asked:?}");
    }
    let stacks = Mode::Stacks(AT_SUBMIT, Outcome::default()).with(StageSet::Fine);
    assert_eq!(Layout::new(&stacks, &capacity(256, 16), &[]).rings, Rings::NONE);
}

#[test]
fn each_group_of_online_cpus_has_a_ring() {
    for (online, asked, count, bytes) in [
        (1, None, 1, 16 << 20),
        (8, None, 1, 16 << 20),
        (9, None, 2, 8 << 20),
        (20, None, 3, 4 << 20),
        (128, None, 16, 2 << 20),
        (256, None, 32, 2 << 20),
        (256, Some(1 << 20), 16, 64 << 10),
        (256, Some(64 << 10), 1, 64 << 10),
    ] {
        let capacity = Capacity { online, ..capacity(256, 64) };
        let rings = Layout::new(&with_rings(asked), &capacity, &controllers(1, 9, 256)).rings;
        assert_eq!((rings.count, rings.bytes), (count, bytes), "{online} {asked:?}");
    }
}

#[test]
fn tables_have_an_entry_for_each_number_of_a_cpu() {
    let machine = TestMachine::new(&[
        ("sys/devices/system/cpu/possible", "0-3,8-11\n"),
        ("sys/devices/system/cpu/present", "0-3,8\n"),
        ("sys/devices/system/cpu/online", "0-2\n"),
    ]);
    let found = Capacity::of(&machine).unwrap();
    assert_eq!((found.possible, found.online), (12, 3));
    assert_eq!(found.present, [0, 1, 2, 3, 8]);
}
