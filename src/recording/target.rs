// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a target as rows of numbers, in blocks of columns as those of the driver. Readers of
//! version 1 that lack these kinds of blocks skip them. docs/record.md has the layout.

use super::block::BLOCK_ROWS;
use super::bytes::Cursor;
use super::columns::{get, put, unzigzag, zigzag};
use super::error::Damage;
use crate::model::host::{HOST_POINTS, HostCommand, HostEvent, HostId, HostPoint, HostTimes};
use crate::nvme::status::Status;

/// Most events of a block that is read.
const MAX_ROWS: usize = 4096;
const _: () = assert!(BLOCK_ROWS <= MAX_ROWS);
/// Columns of an event: kind and what is known; time; controller, queue, command id, opcode,
/// namespace; block or vector; number of blocks; status; pattern of points; request; five points.
const COLUMNS: usize = 12 + HOST_POINTS;
/// The column of the first point.
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

/// An event as a row of numbers. Points are distances from the time of the event.
fn row(event: &HostEvent) -> [u64; COLUMNS] {
    let at_ns = event.at_ns();
    let mut row = [0; COLUMNS];
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
        row[POINTS + point as usize] = zigzag(at_ns.wrapping_sub(ns));
    }
    row
}

/// The inverse of [`row`]; `None` for a kind of a later version.
fn event(row: &[u64; COLUMNS]) -> Option<HostEvent> {
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
            times.set(point, at_ns.wrapping_sub(unzigzag(row[POINTS + point as usize])));
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

/// Collects the events of a target for a block.
#[derive(Default)]
pub struct TargetBuilder {
    rows: Vec<[u64; COLUMNS]>,
    last_ns: u64,
}

impl TargetBuilder {
    /// Number of events in the block.
    pub const fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Time of the last event.
    pub const fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Adds an event.
    pub fn push(&mut self, event: &HostEvent) {
        let row = row(event);
        self.last_ns = row[1];
        self.rows.push(row);
    }

    /// Appends the block to `out`, and empties it: number of rows, time of the first, the columns.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        let base_ns = self.rows.first().map_or(0, |row| row[1]);
        out.extend((self.rows.len() as u32).to_le_bytes());
        out.extend(base_ns.to_le_bytes());
        let mut last_ns = base_ns;
        for row in &mut self.rows {
            let at_ns = row[1];
            row[1] = zigzag(at_ns.wrapping_sub(last_ns));
            last_ns = at_ns;
        }
        for n in 0..COLUMNS {
            let column: Vec<u64> = self.rows.iter().map(|row| row[n]).collect();
            put(&column, out);
        }
        self.rows.clear();
    }
}

/// Passes on the events of a block, in the order in which they were added.
pub fn target_events(payload: &[u8], to: &mut dyn FnMut(&HostEvent)) -> Result<(), Damage> {
    let mut cursor = Cursor::new(payload);
    let (count, mut at_ns) = (cursor.u32()? as usize, cursor.u64()?);
    if count > MAX_ROWS || count > payload.len() {
        return Err(Damage::Length);
    }
    let mut rows = vec![[0; COLUMNS]; count];
    for column in 0..COLUMNS {
        get(&mut cursor, column, &mut rows)?;
    }
    for row in &mut rows {
        at_ns = at_ns.wrapping_add(unzigzag(row[1]));
        row[1] = at_ns;
        let event = event(row).ok_or(Damage::Content("an event of an unknown kind"))?;
        to(&event);
    }
    Ok(())
}
