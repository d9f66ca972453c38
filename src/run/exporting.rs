// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies recordings into a format of `export`; `join` draws its time line with it, too.

use std::io;
use std::time::Duration;

use anyhow::{Error, Result};

use crate::model::event::Event;
use crate::model::ledger::{EventClass, Ledger, Shown};
use crate::model::text::Text;
use crate::model::timeline::Span;
use crate::run::drive::replay::Replay;
use crate::run::drive::{Consumer, Feed, Item, Names, again, scan};
use crate::settings::Settings;
use crate::view::export::perfetto::Begins;
use crate::view::export::{Entry, Sink};

/// What was exported.
#[derive(Default)]
pub struct Counts {
    /// Commands.
    pub commands: u64,
    /// Other events.
    pub events: u64,
    /// Events that the format has no place for.
    pub left_out: u64,
    /// Commands that the filters leave out.
    pub unselected: u64,
    /// Recordings with an exact ledger, of those that are read to the end.
    pub exact: u64,
    /// Recordings that are damaged or have no end.
    pub incomplete: u64,
}

/// Puts the items of a recording into the format.
struct Copy<'a> {
    sink: &'a mut dyn Sink,
    counts: &'a mut Counts,
    shown: Shown,
    unselected: u64,
    failed: &'a dyn Fn(io::Error) -> Error,
}

impl Consumer for Copy<'_> {
    const SHOWS: bool = false;

    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        let done = match item {
            Item::Event(event) => self.event(event, feed.names),
            Item::Unselected(event) => {
                let is_command = EventClass::of(&event.what) == EventClass::Command;
                self.unselected += u64::from(is_command);
                Ok(())
            }
            Item::Stack(id, frames) => self.sink.stack(*id, frames),
            Item::Clock(wall_ns) => self.sink.clock(*wall_ns),
            _ => Ok(()),
        };
        done.map_err(self.failed)
    }
}

impl Copy<'_> {
    fn event(&mut self, event: &Event, names: &mut Names) -> io::Result<()> {
        let (disk, set, cgroups) = names.of_event(event);
        let taken = self.sink.event(&Entry { event, disk, set, cgroups })?;
        self.shown.add(EventClass::of(&event.what));
        match (taken, Span::of(event)) {
            (false, _) => self.counts.left_out += 1,
            (true, Some(_)) => self.counts.commands += 1,
            (true, None) => self.counts.events += 1,
        }
        Ok(())
    }
}

/// Looks for the begins of commands.
struct Looking(Begins);

impl Consumer for Looking {
    const SHOWS: bool = false;

    fn item(&mut self, item: &Item<'_>, _feed: &mut Feed<'_>) -> Result<()> {
        if let Item::Event(event) = item {
            self.0.add(event);
        }
        Ok(())
    }
}

/// The begins of commands, from a first pass over a recording.
///
/// # Errors
/// If it cannot be read; one sentence.
pub fn begins(settings: &Settings, replay: &Replay) -> Result<Begins> {
    let mut looking = Looking(Begins::default());
    let mut replay = again(replay, settings, "--format perfetto")?;
    replay.show_progress();
    scan(&mut replay, &mut looking)?;
    Ok(looking.0)
}

/// Adds a recording. Returns its ledger, and an error if it is damaged or has no end; the events
/// before that are added.
///
/// # Errors
/// If the recording cannot be read, or the format not be written; one sentence.
pub fn add(
    (mut replay, name): (Replay, &Text),
    sink: &mut dyn Sink,
    counts: &mut Counts,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<(Option<Ledger>, Result<()>)> {
    sink.begin(name, replay.info()).map_err(failed)?;
    let mut copy = Copy { sink, counts, shown: Shown::default(), unselected: 0, failed };
    scan(&mut replay, &mut copy)?;
    let (shown, unselected) = (copy.shown, copy.unselected);
    counts.unselected += unselected;
    let (ledger, at, ended) = match replay.end() {
        Ok((ledger, at)) => (Some(ledger), at, Ok(())),
        Err(error) => (None, Duration::ZERO, Err(error)),
    };
    let mut shows = ledger.clone();
    if let Some(trace) = shows.as_mut().and_then(|l| l.trace.as_mut()) {
        trace.show(&shown, unselected);
    }
    sink.end(shows.as_ref(), at).map_err(failed)?;
    Ok((ledger, ended.and(replay.check_complete())))
}
