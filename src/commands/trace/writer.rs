// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns events into lines, and writes them. The events come from a session or from a recording.

use std::collections::HashMap;
use std::fs::File;
use std::io::IsTerminal;
use std::io::stdout;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::machine::own_tgid;
use nvme_deep::model::event::Event;
use nvme_deep::model::event::StackId;
use nvme_deep::model::ledger::EventClass;
use nvme_deep::model::ledger::Shown;
use nvme_deep::model::machine::MachineInfo;
use nvme_deep::model::stack::Frame;
use nvme_deep::model::stage::StageSet;
use nvme_deep::render::theme::Theme;
use nvme_deep::render::trace::Clock;
use nvme_deep::render::trace::Context;
use nvme_deep::render::trace::EventSink;
use nvme_deep::render::trace::TraceJson;
use nvme_deep::render::trace::TraceText;
use nvme_deep::source::EventStream;
use nvme_deep::source::Read;
use nvme_deep::source::Source;

use crate::cli::args::TimeArg;
use crate::cli::options::TraceOptions;
use crate::commands::names::Names;
use crate::commands::output::Output;
use crate::commands::recording::RecordingFile;
use crate::commands::run::ledger_of_trace;
use crate::commands::run::take_in;
use crate::commands::run::take_rest;
use crate::commands::symbols::LiveStacks;

/// The renderer of the events. The run began at `begin_ns`; `wall_ns` is the offset of the wall
/// clock.
fn sink(options: &TraceOptions, begin_ns: u64, wall_ns: i64) -> Box<dyn EventSink> {
    let clock = match options.time {
        TimeArg::Mono => Clock::Mono,
        TimeArg::Rel => Clock::Rel { begin_ns },
        TimeArg::Wall => Clock::wall(wall_ns),
    };
    let stage_set = options.settings.stage_set;
    let stages = (stage_set != StageSet::Total).then_some(stage_set);
    if options.json {
        return Box::new(TraceJson::new(clock, stages));
    }
    let theme = Theme {
        color: options.color,
    };
    Box::new(TraceText::new(theme, stdout().is_terminal(), clock, stages))
}

/// Turns events into lines and writes them.
pub(super) struct TraceWriter<'o> {
    pub options: &'o TraceOptions,
    pub names: Names,
    pub out: Output,
    pub shown: Shown,
    /// `--tee`.
    pub tee: Option<RecordingFile>,
    sink: Box<dyn EventSink>,
    live_stacks: Option<LiveStacks>,
    /// The rendered stacks, which are written below events.
    stacks: HashMap<StackId, String>,
    /// Events that are rendered and not written, in order.
    pending: Vec<EventClass>,
    /// Commands shown, written or pending.
    commands: u64,
    /// This process, if the events are of this machine.
    own: Option<u32>,
}

impl<'o> TraceWriter<'o> {
    /// Writes to `out`. The run began at `begin_ns`; `wall_ns` is the offset of the wall clock.
    pub fn new(
        options: &'o TraceOptions,
        out: File,
        names: Names,
        (begin_ns, wall_ns): (u64, i64),
    ) -> Self {
        Self {
            options,
            sink: sink(options, begin_ns, wall_ns),
            names,
            tee: None,
            live_stacks: None,
            stacks: HashMap::new(),
            out: Output::to(out),
            shown: Shown::default(),
            pending: Vec::new(),
            commands: 0,
            own: None,
        }
    }

    /// Takes stacks from the session. Counts the commands of this process.
    pub fn of_session(self, live_stacks: Option<LiveStacks>) -> Self {
        Self {
            live_stacks,
            own: own_tgid(),
            ..self
        }
    }

    /// Also records what is shown.
    pub fn with_tee(mut self, tee: Option<RecordingFile>, wall_ns: i64) -> Self {
        self.tee = tee;
        if let Some(tee) = &mut self.tee {
            tee.clock(wall_ns);
        }
        self.note_names();
        self
    }

    /// Sets the offset of the wall clock from here on.
    pub fn set_clock(&mut self, wall_ns: i64) {
        self.sink.clock().set_offset(wall_ns);
        if let Some(tee) = &mut self.tee {
            tee.clock(wall_ns);
        }
    }

    /// Adds a stack, before the first event with it.
    pub fn stack(&mut self, id: StackId, frames: &mut [Frame]) {
        if let Some(tee) = &mut self.tee {
            // recordings have no addresses: show what --from can show
            let unnamed = frames.iter_mut().filter(|f| f.symbol.is_none());
            unnamed.for_each(|f| f.address = 0);
            tee.stack(id, frames);
        }
        self.stacks.insert(id, self.sink.stack(frames));
    }

    /// Records the settings of the machine.
    pub fn tee_machine(&mut self, machine: &MachineInfo) {
        if let Some(tee) = &mut self.tee {
            tee.machine(machine);
        }
    }

    /// Records what the machine did besides the commands up to here, if that is observed.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn tee_activity(&mut self, source: &dyn Source) -> Result<()> {
        if let Some(tee) = &mut self.tee {
            tee.activity(source.activity()?.as_ref());
        }
        Ok(())
    }

    /// Records the ledger up to here.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn tee_ledger(&mut self, at: Duration, source: &dyn Source) -> Result<()> {
        self.tee_activity(source)?;
        if let Some(tee) = &mut self.tee {
            tee.ledger(at, &ledger_of_trace(source, &self.shown, None)?);
        }
        Ok(())
    }

    fn note_names(&mut self) {
        if let Some(tee) = &mut self.tee
            && let Some(news) = self.names.news()
        {
            tee.controllers(news);
        }
    }

    /// Whether the COUNT of `-n` is reached.
    pub fn is_done(&self) -> bool {
        self.options
            .count
            .is_some_and(|count| self.commands >= count)
    }

    fn read(&mut self, read: Read<'_>, source: &dyn Source) {
        match read {
            Some(event) => {
                self.learn(event, source);
                self.event(event);
            }
            None => self.shown.undecodable += 1,
        }
    }

    /// Records an event, with the names as they are shown.
    fn note(&mut self, event: &Event) {
        if self.tee.is_some() {
            self.names.of_command(event.what.id());
            self.note_names();
        }
        if let Some(tee) = &mut self.tee {
            tee.event(event);
        }
    }

    /// Reads the stacks of an event from the session.
    fn learn(&mut self, event: &Event, source: &dyn Source) {
        if self.live_stacks.is_none() {
            return;
        }
        for id in event.what.stacks() {
            let live = self.live_stacks.as_mut();
            if let Some(mut frames) = live.and_then(|live| live.learn(id, source)) {
                self.stack(id, &mut frames);
            }
        }
    }

    /// Shows an event.
    pub fn event(&mut self, event: &Event) {
        if self.is_done() {
            self.shown.past_count += 1;
            return;
        }
        self.note(event);
        let block = |id| self.stacks.get(&id).map_or("", String::as_str);
        let [kstack, kstack_complete] = if self.stacks.is_empty() {
            [""; 2]
        } else {
            event.what.stacks().map(block)
        };
        let (disk, set) = self.names.of_command(event.what.id());
        let cx = Context {
            disk,
            set,
            kstack,
            kstack_complete,
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

    /// Writes the events of the ring except the latest, because earlier ones may still arrive.
    /// Returns true if there may be more.
    pub fn take_in(&mut self, events: &mut dyn EventStream, source: &dyn Source) -> Result<bool> {
        let more = take_in(events, &mut |read| self.read(read, source))?;
        self.flush();
        self.out.look();
        Ok(more)
    }

    /// After the end of the run: writes the remaining events, and the commands that have not ended.
    pub fn end(
        &mut self,
        events: &mut dyn EventStream,
        source: &dyn Source,
        end_ns: u64,
    ) -> Result<()> {
        take_rest(events, &mut |read| self.read(read, source))?;
        self.shown.out_of_order = events.late();
        if !self.is_done() {
            for event in source.unfinished(end_ns.max(events.last_ns()))? {
                self.learn(&event, source);
                self.event(&event);
            }
        }
        self.flush();
        Ok(())
    }

    /// Writes the lines that are rendered.
    pub fn flush(&mut self) {
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
}
