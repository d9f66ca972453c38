// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the sizes of the maps.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::machine::System;
use crate::machine::sysfs::Namespace;
use crate::model::group::By;
use crate::model::stack::StackAt;
use crate::nvme::decode::CommandSet;
use crate::settings::{
    Detail, EventStacks, Events, Histograms, Mode, Outcome, RingSize, StackSample,
};

const fn all_online(cpus: u32) -> Cpus {
    Cpus { possible: cpus, online: cpus, caches: cpus.div_ceil(8) }
}

fn controller(queues: u32, depth: u32) -> Controller {
    Controller {
        instance: 0,
        model: "".into(),
        transport: "pcie".into(),
        cntlid: None,
        nqn: None,
        queues: Some(queues),
        depth: Some(depth),
        namespaces: vec![],
    }
}

fn settings(stage_set: StageSet) -> Settings {
    Settings::of(stage_set)
}

const AT_SUBMIT: StackSample = StackSample::every(StackAt::Submit);

fn with_rings(ring_bytes: Option<u32>) -> Settings {
    let events = Events { ring_size: RingSize { bytes: ring_bytes }, ..Events::default() };
    Mode::Events(events).with(StageSet::Fine)
}

fn with_stack_sums() -> Settings {
    Mode::Stacks(AT_SUBMIT, Outcome::default()).with(StageSet::Fine)
}

#[test]
fn every_controller_has_room_and_one_more_may_come() {
    let all = [controller(3, 1024), controller(65, 256)];
    let mut layout = Layout::new(&settings(StageSet::Basic), all_online(64), &all);
    let mut end = 0;
    for c in &all {
        let size = layout.size_of(c);
        let place = layout.take(&size).unwrap();
        assert_eq!(place.base, end);
        end = place.base + size.queues * size.stride;
    }
    let size = layout.size_of(&all[1]);
    assert!(layout.take(&size).is_some());
    assert!(layout.take(&size).is_none());
}

#[test]
fn the_stride_is_a_power_of_two_and_holds_the_admin_queue() {
    let layout = Layout::new(&settings(StageSet::Basic), all_online(4), &[]);
    assert_eq!(layout.size_of(&controller(3, 8)).stride, 64);
    assert_eq!(layout.size_of(&controller(3, 1000)).stride, 1024);
}

/// Machines: CPUs, controllers, queues of each, tags of each queue.
const MACHINES: [(u32, u32, u32, u32); 8] = [
    (1, 1, 2, 1024),
    (4, 1, 5, 1024),
    (64, 4, 65, 1024),
    (64, 8, 65, 1024),
    (128, 24, 129, 1024),
    (256, 1, 257, 1024),
    (384, 8, 129, 1024),
    (384, 128, 129, 1024),
];

/// Each kind of run.
fn runs() -> Vec<Settings> {
    let mut all = vec![];
    for stage_set in [StageSet::Total, StageSet::Basic, StageSet::Fine] {
        all.push(settings(stage_set));
    }
    for stage_set in [StageSet::Total, StageSet::Fine] {
        let histograms = Histograms { by: vec![By::Cgroup], ..Histograms::default() };
        all.push(Mode::Histograms(histograms).with(stage_set));
    }
    for extra in [ExtraEvents::TopCounters, ExtraEvents::Commands] {
        let histograms = Histograms { extra, ..Histograms::default() };
        all.push(Mode::Histograms(histograms).with(StageSet::Fine));
    }
    for stack in [None, Some(AT_SUBMIT)] {
        let stacks = EventStacks { kstack: stack.map(|stack| stack.at), sample: None };
        let detail = Detail { stacks, ..Detail::default() };
        let events = Events { detail, ..Events::default() };
        all.push(Mode::Events(events).with(StageSet::Fine));
        all.push(Mode::Flight(stack).with(StageSet::Fine));
    }
    all.push(settings(StageSet::Full));
    all.push(Mode::Events(Events::default()).with(StageSet::Full));
    all.push(with_stack_sums());
    all
}

/// The most that the maps of a run may take.
fn most_bytes(settings: &Settings) -> usize {
    let waits = match settings.stage_set {
        StageSet::Full => 52_000_000,
        StageSet::Total | StageSet::Basic | StageSet::Fine => 0,
    };
    waits + if settings.is_trace() { 96_000_000 } else { 64_000_000 }
}

fn with_namespace(queues: u32, depth: u32) -> Controller {
    Controller {
        namespaces: vec![Namespace {
            name: "nvme0n1".into(),
            nsid: 1,
            lba_bytes: 512,
            set: CommandSet::Nvm,
        }],
        ..controller(queues, depth)
    }
}

#[test]
fn every_machine_stays_within_the_limits() {
    for (cpus, controllers, queues, depth) in MACHINES {
        let all = vec![with_namespace(queues, depth); controllers as usize];
        for settings in runs() {
            let layout = Layout::new(&settings, all_online(cpus), &all);
            let limit = most_bytes(&settings);
            let what = format!("{cpus} CPUs, {controllers} x {queues}: {settings:?}");
            assert!(layout.bytes <= limit, "{}: {what}", layout.bytes);
            let need = controllers as usize * queues as usize * depth as usize;
            let (slots, tags) = (layout.slots as usize, need + 3 * 1024);
            match layout.windows {
                Some(windows) => assert_eq!(slots, (windows.slots() + EXTRA) as usize, "{what}"),
                None => assert!(slots >= tags, "{what}"),
            }
            let Cells { rows, count, sparse } = layout.cells;
            match sparse {
                // a cell for each row and group, and as many for single CPUs
                Some(Sparse { own, groups }) => {
                    assert!(own >= count / 2 && own + rows * groups == count, "{what}");
                    assert!(!settings.counts() || rows >= controllers.min(120), "{rows}: {what}");
                }
                None if settings.counts() => assert_eq!(count, rows * cpus, "{what}"),
                None => {}
            }
        }
    }
}

/// A server with 24 drives, in a faked sysfs.
fn server(root: &TempDir, queues: u32) -> Vec<Controller> {
    for n in 0..24 {
        let put = |name: &str, text: String| {
            let path = root.path().join(format!("sys/class/nvme/nvme{n}")).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("transport", "pcie\n".into());
        put("queue_count", format!("{queues}\n"));
        put("sqsize", "1023\n".into());
        put(&format!("nvme{n}n1/nsid"), "1\n".into());
    }
    System::at(root.path()).controllers()
}

/// A limit of memory in a file of contrib: `MemoryMax=256M`, `memory: 256Mi`.
fn limit_in(file: &str, before: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib").join(file);
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(before).unwrap();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    assert!(rest[digits..].starts_with('M'));
    rest[..digits].parse::<usize>().unwrap() << 20
}

#[test]
fn the_maps_of_a_server_fit_the_limits_of_the_unit_and_the_daemonset() {
    let root = TempDir::new().unwrap();
    let all = server(&root, 129);
    assert_eq!((all.len(), all[23].namespaces.len()), (24, 1));
    for settings in runs() {
        let layout = Layout::new(&settings, all_online(128), &all);
        // the process and the loaded programs need the rest
        for limit in [
            limit_in("nvme-deep.service", "MemoryMax="),
            limit_in("daemonset.yaml", "limits: { memory: "),
        ] {
            let bytes = layout.bytes;
            assert!(bytes + (96 << 20) <= limit, "{bytes} of {limit}: {settings:?}");
        }
    }
}

#[test]
fn usual_machines_have_a_slot_per_tag_and_cells_per_cpu() {
    let all = [with_namespace(17, 1024), with_namespace(17, 1024)];
    for settings in runs() {
        let layout = Layout::new(&settings, all_online(16), &all);
        assert_eq!(layout.windows, None, "{settings:?}");
        let many_rows = !settings.by().is_empty() || settings.stage_set == StageSet::Full;
        if !settings.is_trace() && !many_rows {
            assert_eq!(layout.cells.sparse, None, "{settings:?}");
        }
        assert_eq!(layout.slot_bytes % LINE, 0);
    }
}

#[test]
fn queues_have_numbers_where_they_have_windows() {
    let all = vec![controller(129, 1024); 24];
    let mut layout = Layout::new(&settings(StageSet::Fine), all_online(128), &all);
    let windows = layout.windows.unwrap();
    assert_eq!((windows.tags, windows.count), (8, 4096));
    let size = layout.size_of(&all[0]);
    assert_eq!((size.stride, size.queues), (8, 129));
    let places: Vec<_> = all.iter().map(|_| layout.take(&size).unwrap()).collect();
    assert_eq!((places[0].base, places[23].base), (0, 23 * 129));
    assert_eq!(places[1].queue_of_number(128), None);
    assert_eq!(places[1].queue_of_number(130), Some(1));
    assert_eq!(places[0].queue_of_number(129), None);
    // others may come
    assert!((0..16).all(|_| layout.take(&size).is_some()));
    assert!(layout.take(&size).is_none());
}

#[test]
fn commands_that_are_identified_by_tag_need_the_whole_queue() {
    let all = vec![controller(129, 1024); 24];
    let layout = Layout::new(&settings(StageSet::Basic), all_online(128), &all);
    let mut layout = layout.by_tag();
    let size = layout.size_of(&all[0]);
    assert_eq!(size.stride, 1024);
    let room = (0..24).filter(|_| layout.take(&size).is_some()).count();
    assert_eq!(room as u32, layout.slots / (129 * 1024));
}

#[test]
fn cells_are_shared_by_few_groups_if_many_rows_need_them() {
    let all = vec![with_namespace(65, 256); 8];
    let mut cpus = all_online(64);
    let groups = |cpus| {
        let layout = Layout::new(&settings(StageSet::Fine), cpus, &all);
        let cells = layout.cells;
        (cells.rows, cells.sparse.unwrap().groups)
    };
    assert_eq!(groups(cpus), (256, 3));
    cpus.caches = 1;
    assert_eq!(groups(cpus), (256, 1));
}

#[test]
fn rings_give_way_to_many_tags_but_not_if_their_size_was_asked_for() {
    let rings = |queues, asked| {
        let all = [controller(queues, 1024)];
        Layout::new(&with_rings(asked), all_online(64), &all).rings.total()
    };
    assert_eq!(rings(3, None), 16 << 20);
    assert_eq!(rings(129, None), 16 << 20);
    assert_eq!(rings(1025, None), 8 << 20);
    assert_eq!(rings(1025, Some(1 << 20)), 1 << 20);
    assert_eq!(rings(1025, Some(1 << 30)), 1 << 30);
    let layout = Layout::new(&with_stack_sums(), all_online(256), &[]);
    assert_eq!(layout.rings, Rings::NONE);
}

#[test]
fn each_group_of_online_cpus_has_a_ring() {
    let rings = |online, asked| {
        let cpus = Cpus { possible: 256, online, caches: 32 };
        let rings = Layout::new(&with_rings(asked), cpus, &[controller(9, 256)]).rings;
        (rings.count, rings.bytes)
    };
    assert_eq!(rings(1, None), (1, 16 << 20));
    assert_eq!(rings(8, None), (1, 16 << 20));
    assert_eq!(rings(9, None), (2, 8 << 20));
    assert_eq!(rings(20, None), (3, 4 << 20));
    assert_eq!(rings(128, None), (16, 2 << 20));
    assert_eq!(rings(256, None), (32, 2 << 20));
    assert_eq!(rings(256, Some(1 << 20)), (16, 64 << 10));
    assert_eq!(rings(256, Some(64 << 10)), (1, 64 << 10));
}

/// The numbers of CPUs may have holes: tables have an entry up to the highest.
#[test]
fn tables_have_an_entry_for_each_number_of_a_cpu() {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("sys/devices/system/cpu");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("possible"), "0-3,8-11\n").unwrap();
    fs::write(dir.join("online"), "0-3,8-9\n").unwrap();
    let cpus = super::super::cpus_of(&System::at(root.path())).unwrap();
    assert_eq!((cpus.possible, cpus.online), (12, 10));
}

/// Each CPU keeps up to 128 entries of an LRU map to itself.
#[test]
fn maps_that_forget_grow_with_the_cpus() {
    let bytes = |cpus, selects: bool| {
        let mut settings = settings(StageSet::Total);
        settings.filter.submitter_pids = selects.then_some(1).into_iter().collect();
        Layout::new(&settings, all_online(cpus), &[]).bytes
    };
    let of_submitters = |cpus| bytes(cpus, true) - bytes(cpus, false);
    assert!(of_submitters(2) > 0 && of_submitters(256) > 2 * of_submitters(2));
}
