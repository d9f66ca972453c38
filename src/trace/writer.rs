// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns events into lines, and writes them. The events come from a session or from a recording.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, stdout};

use crate::error::Kind;
use crate::machine::own_tgid;
use crate::model::event::{Event, EventKind, StackId};
use crate::model::ledger::{EventClass, Shown};
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::settings::OriginDetail;
use crate::view::json;
use crate::view::theme::Theme;
use crate::view::trace::{Clock, Context, EventSink, TraceJson, TraceText};
use anyhow::Result;

use crate::run::drive::{Consumer, End, Feed, Item, Moment, Names, Turn, say_own_share};
use crate::run::exit::Failure;
use crate::run::output::Output;
use crate::run::recording::RecordingFile;
use crate::run::stdout::cannot_write;
use crate::run::{exit, say_ledger};
use crate::trace::args::{TimeArg, TraceOptions};

/// The renderer of the events. The run began at `begin_ns`.
fn sink(options: &TraceOptions, begin_ns: u64) -> Box<dyn EventSink> {
    let clock = match options.time {
        TimeArg::Mono => Clock::Mono,
        TimeArg::Rel => Clock::Rel { begin_ns },
        TimeArg::Wall => Clock::wall(0),
    };
    let stage_set = options.settings.stage_set;
    let stages = (stage_set != StageSet::Total).then_some(stage_set);
    if options.json {
        return Box::new(TraceJson::new(clock, stages));
    }
    let theme = Theme { color: options.session.color.on_stdout(options.json) };
    Box::new(TraceText::new(theme, stdout().is_terminal(), clock, stages))
}

/// Turns events into lines and writes them.
pub(super) struct TraceWriter<'o> {
    options: &'o TraceOptions,
    out: Output,
    shown: Shown,
    /// `--tee`.
    tee: Option<RecordingFile>,
    sink: Box<dyn EventSink>,
    /// The rendered stacks, which are written below events.
    stacks: HashMap<StackId, String>,
    /// Events that are rendered and not written, in order.
    pending: Vec<EventClass>,
    /// Commands shown, written or pending.
    commands: u64,
    /// This process, if the events are of this machine.
    own: Option<u32>,
    /// Whether the submitters of bios are observed.
    has_submitters: bool,
}

impl<'o> TraceWriter<'o> {
    /// Writes to `out`. The run began at `begin_ns`.
    pub fn new(options: &'o TraceOptions, out: File, begin_ns: u64) -> Self {
        Self {
            options,
            sink: sink(options, begin_ns),
            tee: None,
            stacks: HashMap::new(),
            out: Output::to(out),
            shown: Shown::default(),
            pending: Vec::new(),
            commands: 0,
            own: None,
            has_submitters: options.settings.observed_origin() == OriginDetail::Submitters,
        }
    }

    /// The lines of a recording.
    pub fn of_recording(self, has_submitters: bool) -> Self {
        Self { has_submitters, ..self }
    }

    /// Counts the commands of this process, and also records what is shown.
    pub fn of_this_machine(self, tee: Option<RecordingFile>) -> Self {
        Self { tee, own: own_tgid(), ..self }
    }

    /// Adds a stack, before the first event with it.
    fn stack(&mut self, id: StackId, frames: &mut [Frame]) {
        if let Some(tee) = &mut self.tee {
            // recordings have no addresses: show what --from can show
            let unnamed = frames.iter_mut().filter(|f| f.symbol.is_none());
            unnamed.for_each(|f| f.address = 0);
            tee.stack(id, frames);
        }
        self.stacks.insert(id, self.sink.stack(frames));
    }

    /// Whether the COUNT of `-n` is reached.
    fn is_done(&self) -> bool {
        self.options.count.is_some_and(|count| self.commands >= count)
    }

    /// Shows an event.
    fn event(&mut self, event: &Event, names: &mut Names) {
        if self.is_done() {
            let is_over = !matches!(event.what, EventKind::Unfinished { .. });
            self.shown.past_count += u64::from(is_over);
            return;
        }
        if let Some(tee) = &mut self.tee {
            tee.event(event);
        }
        let block = |id| self.stacks.get(&id).map_or("", String::as_str);
        let [kstack, kstack_complete] =
            if self.stacks.is_empty() { [""; 2] } else { event.what.stacks().map(block) };
        let (disk, set, cgroups) = names.of_event(event);
        let cx = Context {
            disk,
            set,
            kstack,
            kstack_complete,
            cgroups: Some(cgroups),
            has_submitters: self.has_submitters,
        };
        self.sink.event(event, &cx);
        self.shown.add_own(&event.what, self.own);
        let class = EventClass::of(&event.what);
        self.commands += u64::from(matches!(class, EventClass::Command));
        self.pending.push(class);
        if self.sink.is_full() {
            self.flush();
        }
    }

    /// An error if the output could not be written. `missing`: what it lacks.
    fn output_error(&mut self, missing: &str) -> Result<()> {
        match self.out.take_error() {
            Some(error) if error.kind() == ErrorKind::BrokenPipe => Err(error.into()),
            Some(error) => {
                Err(Failure::error(Kind::Run, format!("{}; {missing}", cannot_write(&error))))
            }
            None => Ok(()),
        }
    }
}

impl Consumer for TraceWriter<'_> {
    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        match item {
            Item::Event(event) => self.event(event, feed.names),
            Item::Stack(id, frames) => {
                if self.options.settings.stack().is_some() {
                    self.stack(*id, &mut frames.clone());
                }
            }
            other => {
                if let Item::Clock(wall_ns) = other {
                    self.sink.clock().set_offset(*wall_ns);
                }
                self.tee.iter_mut().for_each(|tee| tee.item(other));
            }
        }
        Ok(())
    }

    /// Writes the lines that are rendered.
    fn flush(&mut self) {
        let (mut lost, out) = (0, &mut self.out);
        self.sink.drain(&mut |lines| lost = out.write(lines));
        // the lines that were not written are the last ones
        let written = self.pending.len().saturating_sub(lost as usize);
        for class in &self.pending[..written] {
            self.shown.add(*class);
        }
        self.shown.not_written += lost;
        self.pending.clear();
    }

    fn wants_ledgers(&self) -> bool {
        self.tee.is_some()
    }

    fn shown(&mut self) -> Option<&mut Shown> {
        Some(&mut self.shown)
    }

    fn tick(&mut self, moment: &Moment<'_>) -> Result<Turn> {
        if moment.session.is_none() {
            // the rest of the file, and the ledger of the whole run, have not been read
            self.output_error("the output is incomplete")?;
            return Ok(Turn::Items);
        }
        self.out.look();
        Ok(match self.is_done() || self.out.has_failed() {
            true => Turn::Done,
            false => Turn::Items,
        })
    }

    /// Writes the ledger. Reports errors of the output, and of the file of `--tee`.
    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        let (ledger, at) = (&end.ledger, end.took);
        if self.options.json {
            let mut line = Vec::new();
            json::end(ledger, at, &mut line)?;
            // not an event: if it is missing, the error reports it
            self.out.write(&line);
        } else {
            say_ledger(ledger, self.options.session.is_verbose());
        }
        let teed = self.tee.take().map_or(Ok(()), |tee| {
            let done = tee.finish(at, ledger);
            done.map(|_| ())
        });
        if end.session.is_some() {
            say_own_share(ledger);
        }
        let missing = format!("{} events are missing at its end", self.shown.not_written);
        let written =
            self.output_error(&missing).or_else(|error| match exit::is_closed_pipe(&error) {
                // a reader that has gone is no error
                true => Ok(()),
                false => Err(error),
            });
        written.and(teed)?;
        Ok(Ok(()))
    }
}
