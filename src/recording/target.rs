// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a target as fixed records.

use crate::model::host::{HOST_POINTS, HostCommand, HostEvent, HostId, HostPoint, HostTimes};
use crate::nvme::status::Status;

/// Words of an event: kind and what is known; time; controller, queue, command id, opcode, namespace;
/// block or vector; number of blocks; status; pattern of points; request; the points, as distances.
pub const TARGET_WORDS: usize = POINTS + HOST_POINTS;
/// The word of the first point.
const POINTS: usize = 12;

const COMMAND: u64 = 1;
const UNFINISHED: u64 = 2;
const INTERRUPT: u64 = 3;
/// What is known, above the byte of the kind.
const SLBA: u64 = 1 << 8;
const NLB: u64 = 1 << 9;
const STATUS: u64 = 1 << 10;
const ID: u64 = 1 << 11;
const NSID: u64 = 1 << 12;
const REQUEST: u64 = 1 << 13;

/// The record of an event.
pub fn words(event: &HostEvent) -> [u64; TARGET_WORDS] {
    let at_ns = event.at_ns();
    let mut row = [0; TARGET_WORDS];
    row[1] = at_ns;
    row[2] = event.ctrl().into();
    let (kind, command) = match event {
        HostEvent::Command(command) => (COMMAND, command),
        HostEvent::Unfinished(command) => (UNFINISHED, command),
        HostEvent::Interrupt { vector, .. } => {
            (row[0], row[7]) = (INTERRUPT, u64::from(*vector));
            return row;
        }
    };
    let known = |is, bit| if is { bit } else { 0 };
    row[0] =
        kind | known(command.status.is_some(), STATUS) | known(command.request.is_some(), REQUEST);
    if let Some(id) = &command.id {
        row[0] |= ID
            | known(id.slba.is_some(), SLBA)
            | known(id.nlb.is_some(), NLB)
            | known(id.nsid.is_some(), NSID);
        row[3] = id.qid.into();
        row[4] = id.cid.into();
        row[5] = id.opcode.into();
        row[6] = id.nsid.unwrap_or(0).into();
        row[7] = id.slba.unwrap_or(0);
        row[8] = id.nlb.unwrap_or(0).into();
    }
    row[9] = command.status.unwrap_or_default().0.into();
    row[11] = command.request.unwrap_or(0);
    for (point, ns) in command.times.seen() {
        row[10] |= 1 << point as usize;
        row[POINTS + point as usize] = at_ns.wrapping_sub(ns);
    }
    row
}

/// The inverse of [`words`]; `None` for an unknown kind.
pub fn target_event(row: &[u64; TARGET_WORDS]) -> Option<HostEvent> {
    let at_ns = row[1];
    let has = |bit| row[0] & bit != 0;
    let ctrl = row[2] as u32;
    if row[0] & 0xff == INTERRUPT {
        let vector = row[7] as u32;
        return Some(HostEvent::Interrupt { ctrl, vector, at_ns });
    }
    let mut times = HostTimes::default();
    for point in HostPoint::ALL {
        if row[10] & 1 << point as usize != 0 {
            times.set(point, at_ns.wrapping_sub(row[POINTS + point as usize]));
        }
    }
    let id = HostId {
        qid: row[3] as u16,
        cid: row[4] as u16,
        opcode: row[5] as u8,
        nsid: has(NSID).then_some(row[6] as u32),
        slba: has(SLBA).then_some(row[7]),
        nlb: has(NLB).then_some(row[8] as u32),
    };
    let command = HostCommand {
        ctrl,
        id: has(ID).then_some(id),
        request: has(REQUEST).then_some(row[11]),
        status: has(STATUS).then_some(Status(row[9] as u16)),
        times,
    };
    match row[0] & 0xff {
        COMMAND => Some(HostEvent::Command(command)),
        UNFINISHED => Some(HostEvent::Unfinished(command)),
        _ => None,
    }
}
