// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latency --commands`: each finished command as an object of its own, beside the reports. The
//! events and their JSON are those of `trace --pair`.

use std::io::Write;

use anyhow::Result;
use anyhow::bail;
use nvme_deep::machine::System;
use nvme_deep::model::stage::StageSet;
use nvme_deep::render::trace::Clock;
use nvme_deep::render::trace::Context;
use nvme_deep::render::trace::EventSink;
use nvme_deep::render::trace::TraceJson;
use nvme_deep::source::EventStream;
use nvme_deep::source::Read;

use crate::commands::names::Names;
use crate::commands::run::take_in;
use crate::commands::run::take_rest;

/// Passes events on: [`take_in`] or [`take_rest`].
type Take<'t> = dyn FnMut(&mut dyn EventStream, &mut dyn FnMut(Read<'_>)) -> Result<()> + 't;

/// Writes the finished commands of a run.
pub struct SingleCommands<E> {
    events: E,
    sink: TraceJson,
    names: Names,
}

impl<E: EventStream> SingleCommands<E> {
    /// Reads `events`; `system` names the disks.
    pub fn new(events: E, stage_set: StageSet, system: System) -> Self {
        let stages = (stage_set != StageSet::Total).then_some(stage_set);
        Self {
            events,
            sink: TraceJson::new(Clock::Mono, stages),
            names: Names::of(system),
        }
    }

    /// Allows one more read of sysfs for the names of new disks.
    pub const fn may_look(&mut self) {
        self.names.may_look();
    }

    /// Writes the commands that have finished, except the latest, because earlier ones may still
    /// arrive. Returns true if there may be more.
    ///
    /// # Errors
    /// Errors of the ring and of the writer, and a record that cannot be decoded.
    pub fn drain(&mut self, out: &mut dyn Write) -> Result<bool> {
        let mut more = false;
        self.write(out, &mut |events, to| {
            more = take_in(events, to)?;
            Ok(())
        })?;
        Ok(more)
    }

    /// After the end of the run: writes the others.
    ///
    /// # Errors
    /// As `drain`.
    pub fn finish(&mut self, out: &mut dyn Write) -> Result<()> {
        self.write(out, &mut |events, to| take_rest(events, to))
    }

    fn write(&mut self, out: &mut dyn Write, take: &mut Take<'_>) -> Result<()> {
        let Self {
            events,
            sink,
            names,
        } = self;
        let mut done = Ok(());
        take(events, &mut |read| {
            if done.is_err() {
                return;
            }
            let Some(event) = read else {
                done = Err(None);
                return;
            };
            let (disk, set) = names.of_command(event.what.id());
            let cx = Context {
                disk,
                set,
                ..Context::default()
            };
            sink.event(event, &cx);
            if sink.is_full() {
                done = sink.take(|lines| out.write_all(lines)).map_err(Some);
            }
        })?;
        match done {
            Ok(()) => sink.take(|lines| out.write_all(lines))?,
            Err(Some(error)) => return Err(error.into()),
            Err(None) => bail!("the ring has a record that can't be decoded"),
        }
        Ok(out.flush()?)
    }
}
