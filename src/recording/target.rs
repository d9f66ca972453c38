// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a target as fixed records.

use super::events::Words;
use crate::abi::TIMES_OF_RECORD;
use crate::model::target::{HostCommand, HostEvent, HostPoint, HostTimes};
use crate::nvme::status::Status;

/// The word of the first point, where the driver's records have times, too. Before them: kind and what is
/// known; time; controller; the parts; pattern of points.
const POINTS: usize = TIMES_OF_RECORD[1];

const COMMAND: u64 = 1;
const UNFINISHED: u64 = 2;
const INTERRUPT: u64 = 3;

/// The parts of a command that its source may lack: the bit in the first word that says whether it is
/// known, and its word.
const PARTS: [(u32, usize); 8] =
    [(11, 3), (14, 4), (15, 5), (12, 12), (8, 7), (9, 8), (10, 9), (13, 11)];
/// The word of the pattern of points.
const PATTERN: usize = 10;

fn parts(command: &HostCommand) -> [Option<u64>; PARTS.len()] {
    [
        command.qid.map(u64::from),
        command.cid.map(u64::from),
        command.code.map(u64::from),
        command.nsid.map(u64::from),
        command.slba,
        command.nlb.map(u64::from),
        command.status.map(|status| status.0.into()),
        command.request,
    ]
}

/// Makes the record of an event of these words, which are zero.
pub fn fill(row: &mut Words, event: &HostEvent) {
    let at_ns = event.at_ns();
    (row[1], row[2]) = (at_ns, event.ctrl().into());
    let (kind, command) = match event {
        HostEvent::Command(command) => (COMMAND, command),
        HostEvent::Unfinished(command) => (UNFINISHED, command),
        HostEvent::Interrupt { vector, .. } => {
            (row[0], row[7]) = (INTERRUPT, u64::from(*vector));
            return;
        }
        // not in recordings
        HostEvent::State(_) | HostEvent::Call(_) => return,
    };
    row[0] = kind;
    for ((bit, word), part) in PARTS.into_iter().zip(parts(command)) {
        if let Some(value) = part {
            row[0] |= 1 << bit;
            row[word] = value;
        }
    }
    for (point, ns) in command.times.seen() {
        row[PATTERN] |= 1 << point as usize;
        row[POINTS + point as usize] = ns;
    }
}

/// The inverse of [`fill`]; `None` for an unknown kind.
pub fn target_event(row: &Words) -> Option<HostEvent> {
    let (at_ns, ctrl) = (row[1], row[2] as u32);
    let kind = row[0] & 0xff;
    if kind == INTERRUPT {
        return Some(HostEvent::Interrupt { ctrl, vector: row[7] as u32, at_ns });
    }
    let mut times = HostTimes::default();
    for point in HostPoint::ALL {
        if row[PATTERN] & 1 << point as usize != 0 {
            times.set(point, row[POINTS + point as usize]);
        }
    }
    let part = |n: usize| {
        let (bit, word) = PARTS[n];
        (row[0] >> bit & 1 != 0).then_some(row[word])
    };
    let command = HostCommand {
        ctrl,
        qid: part(0).map(|n| n as u16),
        cid: part(1).map(|n| n as u16),
        code: part(2).map(|n| n as u8),
        nsid: part(3).map(|n| n as u32),
        slba: part(4),
        nlb: part(5).map(|n| n as u32),
        status: part(6).map(|n| Status(n as u16)),
        request: part(7),
        times,
    };
    match kind {
        COMMAND => Some(HostEvent::Command(command)),
        UNFINISHED => Some(HostEvent::Unfinished(command)),
        _ => None,
    }
}
