// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of the host side come back as they were written.

use super::*;
use crate::model::target::TargetKind;
use proptest::prelude::*;

fn id() -> impl Strategy<Value = HostId> {
    let ids = any::<(u16, u16, u8)>();
    let rest = any::<(Option<u32>, Option<u64>, Option<u32>)>();
    (ids, rest).prop_map(|((qid, cid, opcode), (nsid, slba, nlb))| HostId {
        qid,
        cid,
        nsid,
        opcode,
        slba,
        nlb,
    })
}

fn command() -> impl Strategy<Value = HostCommand> {
    let times = prop::array::uniform5(prop::option::of(any::<u64>()));
    let rest = any::<(u32, Option<u64>, Option<u16>)>();
    (prop::option::of(id()), rest, times).prop_map(|(id, (ctrl, request, status), points)| {
        let mut times = HostTimes::default();
        for (point, ns) in HostPoint::ALL.into_iter().zip(points) {
            ns.into_iter().for_each(|ns| times.set(point, ns));
        }
        HostCommand {
            ctrl,
            id,
            request,
            status: status.map(Status),
            times,
        }
    })
}

fn any_event() -> impl Strategy<Value = HostEvent> {
    let interrupt =
        any::<(u32, u32, u64)>().prop_map(|(ctrl, vector, at_ns)| HostEvent::Interrupt {
            ctrl,
            vector,
            at_ns,
        });
    prop_oneof![
        4 => command().prop_map(HostEvent::Command),
        1 => command().prop_map(HostEvent::Unfinished),
        1 => interrupt,
    ]
}

fn info() -> RunInfo {
    RunInfo {
        target: Some(TargetInfo {
            kind: TargetKind::Qemu,
            by: "uprobes".into(),
            ..TargetInfo::default()
        }),
        ..RunInfo::default()
    }
}

fn written(events: &[HostEvent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut recorder = HostRecorder::create(&mut bytes, &info()).unwrap();
    let controllers = [HostController {
        number: 3,
        name: "qemu:3".into(),
        ..HostController::default()
    }];
    recorder.controllers(&controllers).unwrap();
    let mut ledger = HostLedger::default();
    for event in events {
        recorder.event(event).unwrap();
        ledger.count(event);
    }
    recorder.finish(5, &ledger).unwrap();
    bytes
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
    let mut bytes = Vec::new();
    let recorder = HostRecorder::create(&mut bytes, &RunInfo::default()).unwrap();
    recorder.finish(0, &HostLedger::default()).unwrap();
    let refused = HostRecording::read(bytes.as_slice()).unwrap_err();
    assert!(matches!(refused, Error::GuestSide), "{refused}");
}

#[test]
fn many_events_fill_several_blocks() {
    let events: Vec<HostEvent> = (0..10_000)
        .map(|n| HostEvent::Interrupt {
            ctrl: 1,
            vector: n % 3,
            at_ns: u64::from(n) * 1000,
        })
        .collect();
    let read = HostRecording::read(written(&events).as_slice()).unwrap();
    assert_eq!(read.events, events);
}

/// Blocks of equal readings are a few bytes each.
#[test]
fn readings_are_bounded() {
    let many = vec![ClockReading::default(); 1 << 14];
    let payload = serde_json::to_vec(&many).unwrap();
    let mut read = HostRecording::default();
    let mut add = || read.add(Content::Readings, &payload);
    let whole = MOST_READINGS / many.len();
    assert!((0..whole).all(|_| add().is_ok()));
    assert_eq!(add(), Err(Damage::Length));
}
