// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace for Perfetto: a track per controller, below it one per queue, with as many lanes as
//! commands overlap. A command is a slice, its stages are slices in it. Counters have the commands
//! in flight and the completions per second. Other events are instants. A join adds the host side.

mod packets;
mod rates;
mod target;

use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::time::Duration;

use self::packets::{Detail, Kind, Packets, Table, Track};
use self::rates::{Rate, Rates};
use super::columns::{COLUMNS, Cell, Group};
use super::{Entry, Sink};
use crate::model::event::{CommandId, EventKind, StackId};
use crate::model::ids::QueueId;
use crate::model::ledger::Ledger;
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::model::timeline::Span;
use crate::recording::RunInfo;
pub use crate::view::export::perfetto::rates::Begins;
use crate::view::export::perfetto::rates::{Depths, Lanes};
use crate::view::export::rows::{Row, Run};

/// What a track is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Ctrl(u32),
    Queue(QueueId),
    Lane(QueueId, usize),
}

/// What a track shows of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shows {
    Events,
    Depth,
    Rate,
}

/// Writes a trace.
pub struct Perfetto<W: Write> {
    packets: Packets<W>,
    run: Run,
    tracks: HashMap<(Place, Shows), u64>,
    lanes: HashMap<QueueId, Lanes>,
    /// Names of the controllers of the host side.
    targets: HashMap<u32, String>,
    depths: Depths,
    rates: Rates,
    /// Whether the clocks have been written.
    clocks: bool,
    /// Time of the last event.
    last_ns: u64,
}

/// The number of the first controller of the host side: recordings of the guest have 16 bits for theirs.
const HOST: u32 = 1 << 16;

/// Details of a command from the columns: those that the track and the slices do not show.
fn details<'r>(row: &'r Row<'_>) -> Vec<Detail<'r>> {
    let columns = COLUMNS.iter().filter(|c| matches!(c.group, Group::Command | Group::Latency));
    columns
        .map(|column| (column.name, column.get(row)))
        .filter(|(_, cell)| *cell != Cell::Empty)
        .map(|(name, cell)| Detail::Value(name, cell))
        .collect()
}

impl<W: Write> Perfetto<W> {
    /// A writer of one recording. `begins` comes from a first pass over the same events; `interval`
    /// (not zero) is the length of the intervals of the rates.
    #[must_use]
    pub fn new(out: W, begins: Begins, interval: Duration) -> Self {
        Self {
            packets: Packets::new(out),
            run: Run::default(),
            tracks: HashMap::new(),
            lanes: HashMap::new(),
            targets: HashMap::new(),
            depths: Depths::new(begins),
            rates: Rates::new(interval),
            clocks: false,
            last_ns: 0,
        }
    }

    /// The number of a track. Describes it, and those above it, at the first use.
    fn track(&mut self, place: Place, shows: Shows) -> io::Result<u64> {
        if let Some(track) = self.tracks.get(&(place, shows)) {
            return Ok(*track);
        }
        let (name, parent, rank) = match (place, shows) {
            (_, Shows::Depth) => ("in flight".into(), Some(place), 0),
            (_, Shows::Rate) => ("completions".into(), Some(place), 1),
            (Place::Ctrl(ctrl), _) => {
                let name = self.targets.get(&ctrl).cloned();
                (name.unwrap_or_else(|| format!("nvme{ctrl}")), None, ctrl)
            }
            (Place::Queue(QueueId { ctrl, qid }), _) => {
                let name = if qid == 0 { "admin queue".into() } else { format!("queue {qid}") };
                (name, Some(Place::Ctrl(ctrl)), 2 + u32::from(qid))
            }
            (Place::Lane(queue, lane), _) => {
                let rank = 2 + u32::try_from(lane).unwrap_or(u32::MAX - 2);
                (format!("lane {}", lane + 1), Some(Place::Queue(queue)), rank)
            }
        };
        let parent = match parent {
            Some(parent) => self.track(parent, Shows::Events)?,
            None => 0,
        };
        let track = self.packets.track(&Track {
            name: &name,
            parent,
            rank,
            unit: match shows {
                Shows::Events => None,
                Shows::Depth => Some("commands"),
                Shows::Rate => Some("commands/s"),
            },
        })?;
        self.tracks.insert((place, shows), track);
        Ok(track)
    }

    /// Writes the clocks as they are at the last event.
    fn clocks(&mut self) -> io::Result<()> {
        let at_ns = self.last_ns.max(self.run.info.begin_ns);
        let real_ns = self.run.wall_ns.map(|w| at_ns.wrapping_add_signed(w));
        self.clocks = true;
        self.packets.clocks(at_ns, real_ns)
    }

    /// Writes the slices of a command.
    fn command(&mut self, entry: &Entry<'_>, id: &CommandId, span: &Span) -> io::Result<()> {
        let lanes = self.lanes.entry(id.queue()).or_default();
        let lane = lanes.put(span);
        let track = self.track(Place::Lane(id.queue(), lane), Shows::Events)?;
        let Some(row) = Row::new(entry, &self.run) else {
            return Ok(());
        };
        let mut all = details(&row);
        let stacks = [("kstack", row.kstack), ("kstack_complete", row.kstack_complete)];
        for (name, text) in stacks.into_iter().filter(|(_, text)| !text.is_empty()) {
            let text = self.packets.intern(Table::AnnotationTexts, text)?;
            all.push(Detail::Text(name, text));
        }
        let name = match &entry.event.what {
            EventKind::Command(..) => row.opcode.clone(),
            what => format!("{} ({})", row.opcode, what.name()),
        };
        let stage_set = self.run.info.stage_set;
        let line = row.timeline().filter(|_| stage_set != StageSet::Total);
        let segments = line.and_then(|line| line.segments(stage_set)).unwrap_or_default();
        let first = segments.first().zip(line).and_then(|(s, line)| line.at(s.run.from));
        let stages = segments.iter().map(|segment| (segment.run.name(), segment.ns));
        self.packets.slices((track, span), (&name, &all), first, stages)
    }

    /// Writes an event that is not a command.
    fn instant(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let what = &entry.event.what;
        let place = match (what.id(), what) {
            (Some(id), _) => Place::Queue(id.queue()),
            (None, EventKind::Sq { ctrl, qid, .. }) => Place::Queue(QueueId::new(*ctrl, *qid)),
            (None, _) => Place::Ctrl(what.ctrl()),
        };
        let track = self.track(place, Shows::Events)?;
        let number = |name, n: u64| Detail::Value(name, Cell::Unsigned(n));
        let mut details = vec![];
        let opcode = what.id().map(|id| id.opcode.to_string());
        if let Some((id, opcode)) = what.id().zip(opcode.as_deref()) {
            details.push(number("cid", id.cid.into()));
            details.push(number("nsid", id.nsid.into()));
            details.push(Detail::Value("opcode", Cell::Text(opcode)));
        }
        match what {
            EventKind::Timeout { age_ns, .. } | EventKind::Cancel { age_ns, .. } => {
                details.push(number("age_ns", *age_ns));
            }
            EventKind::Retry { retries, .. } => {
                details.extend(retries.map(|n| number("retries", n.into())));
            }
            EventKind::Sq { head, tail, .. } => {
                details.push(number("sq_head", (*head).into()));
                details.push(number("sq_tail", (*tail).into()));
            }
            EventKind::AsyncEvent { event, .. } => {
                details.push(number("result", event.0.into()));
                details.push(Detail::Value("info", Cell::Text(event.info_name())));
            }
            EventKind::State { state, requested, .. } => {
                let name = state.name().map_or(Cell::Empty, Cell::Text);
                details.push(number("state_value", state.0.into()));
                details.push(Detail::Value("state", name));
                details.push(Detail::Value("asked", Cell::Flag(*requested)));
            }
            _ => {}
        }
        let at = (Kind::Instant, track, entry.event.at_ns);
        self.packets.event(at, what.name(), &details)
    }

    /// Writes the numbers of commands in flight that are final.
    fn depths(&mut self, now_ns: u64) -> io::Result<()> {
        while let Some(depth) = self.depths.next(now_ns) {
            for (place, n) in [
                (Place::Queue(depth.queue), depth.commands),
                (Place::Ctrl(depth.queue.ctrl), depth.of_ctrl),
            ] {
                let track = self.track(place, Shows::Depth)?;
                self.packets.counter((track, depth.at_ns), Ok(n))?;
            }
        }
        Ok(())
    }

    fn rates(&mut self, rates: &[Rate]) -> io::Result<()> {
        for rate in rates {
            let track = self.track(rate.place, Shows::Rate)?;
            let at = (track, rate.at_ns);
            self.packets.counter(at, Err(rate.per_second))?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()> {
        self.run = Run::new(name, info);
        self.rates.begin(info.begin_ns);
        Ok(())
    }

    fn clock(&mut self, wall_ns: i64) -> io::Result<()> {
        self.run.wall_ns = Some(wall_ns);
        self.clocks()
    }

    fn stack(&mut self, id: StackId, frames: &[Frame]) -> io::Result<()> {
        self.run.stacks.join(id, frames, "\n");
        Ok(())
    }

    fn event(&mut self, entry: &Entry<'_>) -> io::Result<bool> {
        if !self.clocks {
            self.clocks()?;
        }
        let event = entry.event;
        self.last_ns = self.last_ns.max(event.at_ns);
        let Some((span, id)) = Span::of(event).zip(event.what.id()) else {
            self.instant(entry)?;
            return Ok(true);
        };
        self.command(entry, id, &span)?;
        self.depths.add(id.queue(), &span);
        self.depths(event.at_ns)?;
        if span.end_ns.is_some() {
            let places = [Place::Queue(id.queue()), Place::Ctrl(id.ctrl)];
            let rates = self.rates.add(places, event.at_ns);
            self.rates(&rates)?;
        }
        Ok(true)
    }

    fn end(&mut self, _: Option<&Ledger>, _: Duration) -> io::Result<()> {
        self.depths(u64::MAX)?;
        let rates = self.rates.end();
        self.rates(&rates)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.packets.flush()
    }
}
