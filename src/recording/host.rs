// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of the host side. The blocks of their events are columns of numbers, as those of the
//! guest's events; readers of version 1 that lack the kinds skip them. docs/record.md has the layout.

use std::array;
use std::io;
use std::io::Read;
use std::io::Write;

use serde::Serialize;

use super::bytes::Cursor;
use super::columns::get;
use super::columns::put;
use super::columns::unzigzag;
use super::columns::zigzag;
use super::error::Damage;
use super::error::Error;
use super::frame::Content;
use super::json::ledger;
use super::json::parse;
use super::meta::LedgerInfo;
use super::meta::RunInfo;
use super::playback::MOST_READINGS;
use super::reader::Blocks;
use super::reader::Ending;
use super::writer::Block;
use super::writer::BlockWriter;
use crate::model::clock::ClockReading;
use crate::model::host::HOST_POINTS;
use crate::model::host::HostCommand;
use crate::model::host::HostEvent;
use crate::model::host::HostId;
use crate::model::host::HostLedger;
use crate::model::host::HostPoint;
use crate::model::host::HostTimes;
use crate::model::target::HostController;
use crate::model::target::TargetInfo;
use crate::model::untrusted::Untrusted;
use crate::nvme::status::Status;

/// Maximum number of events in a block.
const MAX_ROWS: usize = 4096;
/// Most events of a recording, beyond one for each two bytes of its file: they are kept in memory, and
/// a few bytes can be a block of thousands.
const MOST_EVENTS: u64 = 400_000;
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
        return Some(HostEvent::Interrupt {
            ctrl,
            vector,
            at_ns,
        });
    }
    let mut times = HostTimes::default();
    for point in HostPoint::ALL {
        if row[10] & 1 << point as usize != 0 {
            times.set(
                point,
                at_ns.wrapping_sub(unzigzag(row[POINTS + point as usize])),
            );
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

/// Appends the events as a block: number of rows, time of the first, the columns.
fn encode(events: &[HostEvent], out: &mut Vec<u8>) {
    let base_ns = events.first().map_or(0, HostEvent::at_ns);
    out.extend((events.len() as u32).to_le_bytes());
    out.extend(base_ns.to_le_bytes());
    let mut rows: Vec<_> = events.iter().map(row).collect();
    let mut last_ns = base_ns;
    for row in &mut rows {
        let at_ns = row[1];
        row[1] = zigzag(at_ns.wrapping_sub(last_ns));
        last_ns = at_ns;
    }
    let columns: [Vec<u64>; COLUMNS] = array::from_fn(|n| rows.iter().map(|r| r[n]).collect());
    columns.iter().for_each(|column| put(column, out));
}

/// The inverse of [`encode`].
fn decode(payload: &[u8], to: &mut Vec<HostEvent>) -> Result<(), Damage> {
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
        to.push(event);
    }
    Ok(())
}

/// Writes a recording of the host side.
pub struct HostRecorder<W> {
    file: BlockWriter<W>,
    events: Vec<HostEvent>,
    payload: Vec<u8>,
}

impl<W: Write> HostRecorder<W> {
    /// Begins a recording. `info.target` must be set.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(file: W, info: &RunInfo) -> io::Result<Self> {
        let mut recorder = Self {
            file: BlockWriter::create(file, true)?,
            events: Vec::with_capacity(MAX_ROWS),
            payload: Vec::new(),
        };
        recorder.block(Content::Run, info.begin_ns, info)?;
        Ok(recorder)
    }

    fn block(&mut self, content: Content, at_ns: u64, data: &impl Serialize) -> io::Result<()> {
        let payload = serde_json::to_vec(data)?;
        self.file.write(&Block {
            content,
            payload: &payload,
            events: 0,
            at_ns,
        })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn event(&mut self, event: &HostEvent) -> io::Result<()> {
        self.events.push(*event);
        if self.events.len() == MAX_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the events that wait.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(last) = self.events.last() else {
            return Ok(());
        };
        self.payload.clear();
        encode(&self.events, &mut self.payload);
        self.file.write(&Block {
            content: Content::HostEvents,
            payload: &self.payload,
            events: self.events.len() as u32,
            at_ns: last.at_ns(),
        })?;
        self.events.clear();
        Ok(())
    }

    /// Adds readings of clocks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn readings(&mut self, readings: &[ClockReading]) -> io::Result<()> {
        self.flush()?;
        let at_ns = readings.iter().map(|r| r.mono_ns).max().unwrap_or(0);
        self.block(Content::Readings, at_ns, &readings)
    }

    /// Sets the controllers of the whole recording.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn controllers(&mut self, controllers: &[HostController]) -> io::Result<()> {
        self.flush()?;
        self.block(Content::HostControllers, 0, &controllers)
    }

    /// Ends the recording. `at_ns`: nanoseconds since its begin. Returns the number of bytes.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self, at_ns: u64, ledger: &HostLedger) -> io::Result<u64> {
        self.flush()?;
        let info = LedgerInfo {
            at_ns,
            evicted: 0,
            ledger: Some(ledger),
        };
        self.block(Content::End, at_ns, &info)?;
        // a buffer that is dropped hides its errors
        self.file.flush()?;
        Ok(self.file.bytes())
    }
}

/// A whole recording of the host side, in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRecording {
    /// The run.
    pub info: RunInfo,
    /// The target.
    pub target: TargetInfo,
    /// Its controllers.
    pub controllers: Vec<HostController>,
    /// Its events, in the order of the file.
    pub events: Vec<HostEvent>,
    /// Readings of clocks, in the order of the file.
    pub readings: Vec<ClockReading>,
    /// The ledger; `None` if the recording has no end.
    pub ledger: Option<HostLedger>,
    /// Why the file is not whole.
    pub damage: Option<Damage>,
}

impl HostRecording {
    /// Reads a recording to its end, or up to a damage.
    ///
    /// # Errors
    /// If the file cannot be read, is no recording, is of a later version, or is not one of the
    /// host side.
    pub fn read(file: impl Read) -> Result<Self, Error> {
        let mut blocks = Blocks::open(file)?;
        let info: RunInfo = match blocks.next()? {
            Some((head, payload)) if head.content == Content::Run => parse(payload)?,
            _ => return Err(Damage::Content("it does not begin with a run").into()),
        };
        let Some(target) = info.target.clone() else {
            return Err(Error::GuestSide);
        };
        let mut read = Self {
            info,
            target,
            ..Self::default()
        };
        while let Some((head, payload)) = blocks.next()? {
            let added = read.add(head.content, payload);
            let most = MOST_EVENTS + blocks.whole_bytes() / 2;
            match added {
                Ok(()) if read.events.len() as u64 > most => blocks.reject(Damage::Length),
                Ok(()) => {}
                Err(damage) => blocks.reject(damage),
            }
        }
        if let Some(Ending::Damaged(damage)) = blocks.ending() {
            read.damage = Some(damage);
        }
        Ok(read)
    }

    fn add(&mut self, content: Content, payload: &[u8]) -> Result<(), Damage> {
        match content {
            Content::HostEvents => decode(payload, &mut self.events)?,
            Content::HostControllers => self.controllers = parse(payload)?,
            Content::Readings => {
                self.readings.extend(parse::<Vec<ClockReading>>(payload)?);
                if self.readings.len() > MOST_READINGS {
                    return Err(Damage::Length);
                }
            }
            Content::End => {
                self.ledger = ledger(payload)?.ledger;
            }
            _ => {}
        }
        Ok(())
    }

    /// The name of a controller, or its number.
    pub fn name_of(&self, ctrl: u32) -> Untrusted {
        let mut all = self.controllers.iter();
        let found = all.find(|c| c.number == ctrl);
        found.map_or_else(|| ctrl.to_string().into(), |c| c.name.clone())
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
