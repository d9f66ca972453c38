// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of a target come back as they were written.

use std::io::Seek;

use super::*;
use crate::model::target::{HostCommand, HostPoint, HostTimes, TargetKind};
use crate::nvme::status::Status;
use crate::recording::{Content, LedgerInfo, Writer};
use proptest::prelude::*;

fn command() -> impl Strategy<Value = HostCommand> {
    let times = prop::array::uniform5(prop::option::of(any::<u64>()));
    let ids = any::<(Option<u16>, Option<u16>, Option<u8>, Option<u32>)>();
    let rest = any::<(u32, Option<u64>, Option<u16>, Option<u64>, Option<u32>)>();
    (ids, rest, times).prop_map(|((qid, cid, code, nsid), rest, points)| {
        let (ctrl, request, status, slba, nlb) = rest;
        let mut times = HostTimes::default();
        for (point, ns) in HostPoint::ALL.into_iter().zip(points) {
            ns.into_iter().for_each(|ns| times.set(point, ns));
        }
        let status = status.map(Status);
        HostCommand { ctrl, qid, cid, code, nsid, slba, nlb, request, status, times }
    })
}

fn any_event() -> impl Strategy<Value = HostEvent> {
    let interrupt = any::<(u32, u32, u64)>()
        .prop_map(|(ctrl, vector, at_ns)| HostEvent::Interrupt { ctrl, vector, at_ns });
    prop_oneof![
        4 => command().prop_map(HostEvent::Command),
        1 => command().prop_map(HostEvent::Unfinished),
        1 => interrupt,
    ]
}

fn info() -> RunInfo {
    let target =
        TargetInfo { kind: TargetKind::Qemu, by: "uprobes".into(), ..TargetInfo::default() };
    RunInfo { target: Some(target), ..RunInfo::default() }
}

/// The bytes of a recording.
fn recorded(info: &RunInfo, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    let mut recorder = Writer::create(file.try_clone().unwrap(), None).unwrap();
    recorder.block(Content::Run, 0, info);
    fill(&mut recorder);
    assert!(recorder.finish().error.is_none());
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn written(events: &[HostEvent]) -> Vec<u8> {
    let controllers = [HostController { number: 3, ..HostController::named("qemu:3") }];
    recorded(&info(), |recorder| {
        recorder.block(Content::Controllers, 0, &controllers);
        events.iter().for_each(|event| recorder.push_target(event));
        let ledger = LedgerInfo { ledger: Some(HostLedger::default()), ..LedgerInfo::default() };
        recorder.block(Content::End, 0, &ledger);
    })
}

proptest! {
    #[test]
    fn events_come_back(events in prop::collection::vec(any_event(), 0..100)) {
        let read = HostRecording::read(written(&events).as_slice()).unwrap();
        prop_assert_eq!(read.damage, None);
        prop_assert_eq!(&read.events, &events);
        prop_assert_eq!(read.name_of(3), "qemu:3");
        prop_assert!(read.ledger.is_some());
    }
}
