// SPDX-License-Identifier: MIT OR Apache-2.0
//! One JSON object per line: those of `trace --json --events`, with the stages and stacks of the
//! recording, between a `run` and an `end`. Changes of the wall clock's offset are lines of type
//! `clock`.

use std::io;
use std::io::Write;
use std::time::Duration;

use serde::Serialize;

use super::stacks::Stacks;
use super::{Entry, Sink};
use crate::model::event::StackId;
use crate::model::ledger::Ledger;
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::recording::RunInfo;
use crate::view::json;
use crate::view::json::SCHEMA_VERSION;
use crate::view::trace::{Clock, Context, TraceLines};

#[derive(Serialize)]
struct RunLine<'a> {
    r#type: &'static str,
    schema_version: u32,
    recording: &'a Text,
    #[serde(flatten)]
    info: &'a RunInfo,
}

#[derive(Serialize)]
struct ClockLine {
    r#type: &'static str,
    schema_version: u32,
    wall_ns: i64,
}

/// Writes events as JSON.
pub struct Ndjson<W: Write> {
    out: W,
    lines: TraceLines,
    stacks: Stacks,
    has_submitters: bool,
}

impl<W: Write> Ndjson<W> {
    /// A writer.
    #[must_use]
    pub fn new(out: W) -> Self {
        Self {
            out,
            lines: TraceLines::json(Clock::Mono, None),
            stacks: Stacks::default(),
            has_submitters: false,
        }
    }

    fn drain(&mut self) -> io::Result<()> {
        let out = &mut self.out;
        self.lines.take(|lines| out.write_all(lines))
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.drain()?;
        json::line(line, &mut self.out)
    }
}

impl<W: Write> Sink for Ndjson<W> {
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()> {
        self.drain()?;
        let stages = (info.stage_set != StageSet::Total).then_some(info.stage_set);
        self.lines = TraceLines::json(Clock::Mono, stages);
        self.stacks = Stacks::default();
        self.has_submitters = info.submitters;
        self.line(&RunLine { r#type: "run", schema_version: SCHEMA_VERSION, recording: name, info })
    }

    fn clock(&mut self, wall_ns: i64) -> io::Result<()> {
        self.line(&ClockLine { r#type: "clock", schema_version: SCHEMA_VERSION, wall_ns })
    }

    fn stack(&mut self, id: StackId, frames: &[Frame]) -> io::Result<()> {
        self.stacks.set(id, self.lines.stack(frames));
        Ok(())
    }

    fn event(&mut self, entry: &Entry<'_>) -> io::Result<bool> {
        let [kstack, kstack_complete] = entry.event.what.stacks().map(|id| self.stacks.get(id));
        let cx = Context {
            disk: entry.disk,
            set: entry.set,
            kstack,
            kstack_complete,
            cgroups: Some(entry.cgroups),
            has_submitters: self.has_submitters,
            is_second_line: false,
        };
        self.lines.event(entry.event, &cx);
        if self.lines.is_full() {
            self.drain()?;
        }
        Ok(true)
    }

    fn end(&mut self, ledger: Option<&Ledger>, at: Duration) -> io::Result<()> {
        self.drain()?;
        ledger.map_or(Ok(()), |ledger| json::end(ledger, at, &mut self.out))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.drain()?;
        self.out.flush()
    }
}
