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
        recorder.block(Content::HostControllers, 0, &controllers);
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

    #[test]
    fn a_cut_file_gives_whole_blocks_and_no_ledger(cut in 0..200_usize) {
        let events = vec![HostEvent::Interrupt { ctrl: 0, vector: 1, at_ns: 7 }; 10];
        let bytes = written(&events);
        let bytes = &bytes[..bytes.len() - 1 - cut];
        match HostRecording::read(bytes) {
            Ok(read) => {
                prop_assert!(read.ledger.is_none());
                prop_assert!([0, 10].contains(&read.events.len()));
            }
            Err(Error::Damaged(_) | Error::Foreign) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn a_recording_of_the_guest_is_refused() {
    let bytes = recorded(&RunInfo::default(), |_| {});
    let refused = HostRecording::read(bytes.as_slice()).unwrap_err();
    assert!(matches!(refused, Error::GuestSide), "{refused}");
}

/// Blocks of equal readings are a few bytes each.
#[test]
fn readings_are_bounded() {
    let many = vec![ClockReading::default(); 1 << 14];
    let blocks = |n: usize| {
        let bytes = recorded(&info(), |recorder| {
            (0..n).for_each(|_| recorder.block(Content::Readings, 0, &many));
        });
        let read = HostRecording::read(bytes.as_slice()).unwrap();
        (read.readings.len() / many.len(), read.damage)
    };
    let whole = (3 << 18) / many.len();
    assert_eq!(blocks(whole), (whole, None));
    assert_eq!(blocks(whole + 1), (whole, Some(Damage::Length)));
}
