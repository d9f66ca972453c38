// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a Perfetto trace: clocks, tracks, events. The numbers are field numbers in
//! Perfetto's definitions (protos/perfetto/trace).

use crate::model::timeline::Span;
use crate::view::export::columns::Cell;
use std::collections::HashMap;
use std::io;
use std::io::Write;

/// Trace.packet.
const PACKET: u32 = 1;

/// Fields of TracePacket.
mod packet {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// Fields of TrackEvent.
mod event {
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const COUNTER: u32 = 30;
    pub(super) const COUNTER_DOUBLE: u32 = 44;
}

/// BUILTIN_CLOCK_REALTIME.
const REALTIME: u32 = 1;
/// BUILTIN_CLOCK_MONOTONIC.
const MONOTONIC: u32 = 3;

/// Numbered texts (InternedData).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Table {
    EventNames = 2,
    AnnotationNames = 3,
    AnnotationTexts = 29,
}

/// A track to describe.
pub(super) struct Track<'a> {
    pub(super) name: &'a str,
    /// The track that it belongs to; 0 for none.
    pub(super) parent: u64,
    /// Its place among the tracks of its parent.
    pub(super) rank: u32,
    /// The unit, if it is a counter.
    pub(super) unit: Option<&'a str>,
}

/// The kind of an event.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// A detail of an event: its name, and its value or the number of a text in
/// [`Table::AnnotationTexts`].
pub(super) enum Detail<'a> {
    Value(&'static str, Cell<'a>),
    Text(&'static str, u64),
}

/// Writes packets.
pub(super) struct Packets<W> {
    out: W,
    message: Message,
    interned: HashMap<Table, HashMap<String, u64>>,
    tracks: u64,
    begun: bool,
}

impl<W: Write> Packets<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, message: Message::default(), interned: HashMap::new(), tracks: 0, begun: false }
    }

    fn write(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let first = !self.begun;
        self.begun = true;
        self.message.clear();
        self.message.nested(PACKET, |p| {
            p.number(packet::SEQUENCE, 1_u32);
            // SEQ_INCREMENTAL_STATE_CLEARED, then SEQ_NEEDS_INCREMENTAL_STATE
            p.number(packet::SEQUENCE_FLAGS, if first { 1_u32 } else { 2 });
            if first {
                p.nested(packet::DEFAULTS, |d| d.number(58, MONOTONIC));
            }
            fill(p);
        });
        self.out.write_all(self.message.bytes())
    }

    /// Writes readings of the clocks at the same time. The trace is in CLOCK_MONOTONIC.
    pub(super) fn clocks(&mut self, monotonic_ns: u64, real_ns: Option<u64>) -> io::Result<()> {
        self.write(|p| {
            p.nested(packet::CLOCK_SNAPSHOT, |snapshot| {
                let mut clock = |id: u32, ns: u64| {
                    snapshot.nested(1, |clock| {
                        clock.number(1, id);
                        clock.number(2, ns);
                    });
                };
                clock(MONOTONIC, monotonic_ns);
                real_ns.into_iter().for_each(|ns| clock(REALTIME, ns));
                snapshot.number(2, MONOTONIC);
            });
        })
    }

    /// Describes a track, and returns its number.
    pub(super) fn track(&mut self, track: &Track<'_>) -> io::Result<u64> {
        self.tracks += 1;
        let uuid = self.tracks;
        self.write(|p| {
            p.nested(packet::TRACK_DESCRIPTOR, |d| {
                d.number(1, uuid);
                d.text(2, track.name);
                if track.parent != 0 {
                    d.number(5, track.parent);
                }
                if let Some(unit) = track.unit {
                    d.nested(8, |counter| counter.text(6, unit));
                }
                // the order of its own tracks: EXPLICIT, by rank
                d.number(11, 3_u32);
                d.number(12, track.rank);
            });
        })?;
        Ok(uuid)
    }

    /// The number of a text.
    pub(super) fn intern(&mut self, table: Table, text: &str) -> io::Result<u64> {
        let texts = self.interned.entry(table).or_default();
        if let Some(iid) = texts.get(text) {
            return Ok(*iid);
        }
        let iid = texts.len() as u64 + 1;
        texts.insert(text.to_owned(), iid);
        self.write(|p| {
            p.nested(packet::INTERNED_DATA, |data| {
                data.nested(table as u32, |entry| {
                    entry.number(1, iid);
                    entry.text(2, text);
                });
            });
        })?;
        Ok(iid)
    }

    /// Writes an event with a name and details.
    pub(super) fn event(
        &mut self,
        (kind, track, at_ns): (Kind, u64, u64),
        name: &str,
        details: &[Detail<'_>],
    ) -> io::Result<()> {
        let name = self.intern(Table::EventNames, name)?;
        let mut names = Vec::with_capacity(details.len());
        for detail in details {
            let (Detail::Value(name, _) | Detail::Text(name, _)) = detail;
            names.push(self.intern(Table::AnnotationNames, name)?);
        }
        self.write(|p| {
            p.number(packet::TIMESTAMP, at_ns);
            p.nested(packet::TRACK_EVENT, |e| {
                e.number(event::TYPE, kind as u32);
                e.number(event::TRACK, track);
                e.number(event::NAME_IID, name);
                for (detail, iid) in details.iter().zip(names) {
                    e.nested(event::ANNOTATION, |note| {
                        note.number(1, iid);
                        value(note, detail);
                    });
                }
            });
        })
    }

    /// Ends the slice that began last on a track.
    pub(super) fn slice_end(&mut self, track: u64, at_ns: u64) -> io::Result<()> {
        self.write(|p| {
            p.number(packet::TIMESTAMP, at_ns);
            p.nested(packet::TRACK_EVENT, |e| {
                e.number(event::TYPE, Kind::End as u32);
                e.number(event::TRACK, track);
            });
        })
    }

    /// Writes the slice of a command, and inside it a slice for each stage. The first begins at `first_ns`.
    pub(super) fn slices<N: AsRef<str>>(
        &mut self,
        (track, span): (u64, &Span),
        (name, details): (&str, &[Detail<'_>]),
        first_ns: Option<u64>,
        stages: impl Iterator<Item = (N, u64)>,
    ) -> io::Result<()> {
        self.event((Kind::Begin, track, span.begin_ns), name, details)?;
        let mut at_ns = first_ns.unwrap_or(span.begin_ns);
        for (name, ns) in stages {
            self.event((Kind::Begin, track, at_ns), name.as_ref(), &[])?;
            at_ns = at_ns.saturating_add(ns);
            self.slice_end(track, at_ns)?;
        }
        span.end_ns.map_or(Ok(()), |end_ns| self.slice_end(track, end_ns))
    }

    /// Sets a counter, a whole number or not.
    pub(super) fn counter(
        &mut self,
        (track, at_ns): (u64, u64),
        count: Result<u64, f64>,
    ) -> io::Result<()> {
        self.write(|p| {
            p.number(packet::TIMESTAMP, at_ns);
            p.nested(packet::TRACK_EVENT, |e| {
                e.number(event::TYPE, Kind::Counter as u32);
                e.number(event::TRACK, track);
                match count {
                    Ok(n) => e.number(event::COUNTER, n),
                    Err(n) => e.double(event::COUNTER_DOUBLE, n),
                }
            });
        })
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn value(note: &mut Message, detail: &Detail<'_>) {
    match detail {
        Detail::Value(_, Cell::Empty) => {}
        Detail::Value(_, Cell::Flag(flag)) => note.number(2, *flag),
        Detail::Value(_, Cell::Unsigned(n)) => note.number(3, *n),
        Detail::Value(_, Cell::Int(n) | Cell::Time(n)) => note.signed(4, *n),
        Detail::Value(_, Cell::Text(text)) => note.text(6, text),
        Detail::Text(_, iid) => note.number(17, *iid),
    }
}

/// Wire types of Protocol Buffers.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

/// A message that is being written.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

fn varint(mut n: u64, to: &mut impl FnMut(u8)) {
    while n >= 0x80 {
        to((n as u8 & 0x7f) | 0x80);
        n >>= 7;
    }
    to(n as u8);
}

impl Message {
    fn raw(&mut self, n: u64) {
        varint(n, &mut |byte| self.bytes.push(byte));
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.raw(u64::from(field << 3 | wire));
    }

    /// A number, or a bool or an enum.
    pub(crate) fn number(&mut self, field: u32, n: impl Into<u64>) {
        self.key(field, VARINT);
        self.raw(n.into());
    }

    /// A signed number (int32, int64).
    pub(crate) fn signed(&mut self, field: u32, n: i64) {
        self.number(field, n.cast_unsigned());
    }

    /// A double.
    pub(crate) fn double(&mut self, field: u32, n: f64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&n.to_le_bytes());
    }

    /// Text.
    pub(crate) fn text(&mut self, field: u32, text: &str) {
        self.key(field, LENGTH);
        self.raw(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A message in this message.
    pub(crate) fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH);
        let begin = self.bytes.len();
        write(self);
        // the length comes before the content, and most have one byte
        let len = (self.bytes.len() - begin) as u64;
        let mut at = begin;
        varint(len, &mut |byte| {
            self.bytes.insert(at, byte);
            at += 1;
        });
    }

    /// The message so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the message.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}
