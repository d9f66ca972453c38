// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `trace` command: every command as it happens.
//!
//! One thread reads the ring, and orders, renders and writes the events. If it is blocked (slow
//! reader, stopped terminal), the ring fills. The BPF side counts the events that find no room, and
//! another thread reports them during the run.

mod drops;
mod stacks;

use std::fs::File;
use std::io::ErrorKind;
use std::io::IsTerminal;
use std::io::Write;
use std::io::stderr;
use std::io::stdout;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::machine::System;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::machine::clock::wall_offset_ns;
use nvme_deep::model::event::Event;
use nvme_deep::model::event::EventKind;
use nvme_deep::model::event::StackId;
use nvme_deep::model::stage::StageSet;
use nvme_deep::render::json;
use nvme_deep::render::ledger::ledger as write_ledger;
use nvme_deep::render::theme::Theme;
use nvme_deep::render::trace::Clock;
use nvme_deep::render::trace::Context;
use nvme_deep::render::trace::EventSink;
use nvme_deep::render::trace::TraceJson;
use nvme_deep::render::trace::TraceText;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::report::ledger::Shown;
use nvme_deep::session::settings::Settings;
use nvme_deep::session::settings::Tracing;
use nvme_deep::source::EventStream;
use nvme_deep::source::REORDER_NS;
use nvme_deep::source::Read;
use nvme_deep::source::Source;

use self::drops::Drops;
use self::stacks::Stacks;
use crate::cli::args::TimeArg;
use crate::cli::options::TraceOptions;
use crate::commands::names::Names;
use crate::commands::output::Output;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::ledger_of_trace;
use crate::commands::say;
use crate::commands::start::Ready;
use crate::commands::start::refuse_unknown;
use crate::commands::start::until;
use crate::exit::Failure;

/// Interval between drains of the ring. At a million commands per second, about 4 MB of events
/// arrive in this time. A smaller ring is drained more often.
const DRAIN: Duration = Duration::from_millis(20);
const ROOM_FOR_DRAIN: u32 = 4 << 20;
const SHORTEST_DRAIN: Duration = Duration::from_millis(1);

/// The renderer of the events.
fn sink(options: &TraceOptions) -> Box<dyn EventSink> {
    let clock = match options.time {
        TimeArg::Mono => Clock::Mono,
        TimeArg::Rel => Clock::Rel {
            begin_ns: monotonic_ns(),
        },
        TimeArg::Wall => Clock::wall(wall_offset_ns()),
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
struct TraceWriter<'o> {
    options: &'o TraceOptions,
    sink: Box<dyn EventSink>,
    names: Names,
    stacks: Option<Stacks>,
    out: Output,
    shown: Shown,
    /// Events that are rendered and not written, in order.
    pending: Vec<EventClass>,
    /// Commands shown, written or pending.
    commands: u64,
}

/// The class of an event in the ledger.
#[derive(Clone, Copy, Debug)]
enum EventClass {
    Submit,
    Command,
    Other,
}

impl<'o> TraceWriter<'o> {
    fn new(options: &'o TraceOptions, out: File, system: System, stacks: Option<Stacks>) -> Self {
        Self {
            options,
            sink: sink(options),
            names: Names::of(system),
            stacks,
            out: Output::to(out),
            shown: Shown::default(),
            pending: Vec::new(),
            commands: 0,
        }
    }

    /// Whether the COUNT of `-n` is reached.
    fn is_done(&self) -> bool {
        self.options
            .count
            .is_some_and(|count| self.commands >= count)
    }

    fn read(&mut self, read: Read<'_>, source: &dyn Source) {
        match read {
            Some(event) => self.event(event, source),
            None => self.shown.undecodable += 1,
        }
    }

    fn event(&mut self, event: &Event, source: &dyn Source) {
        if self.is_done() {
            self.shown.past_count += 1;
            return;
        }
        let [kstack, kstack_complete] = match &mut self.stacks {
            Some(stacks) => {
                let ids = stack_ids(&event.what);
                for id in ids {
                    stacks.learn(id, source, |frames| self.sink.stack(frames));
                }
                ids.map(|id| stacks.block(id))
            }
            None => [""; 2],
        };
        let (disk, set) = self.names.of_command(event.what.id());
        let cx = Context {
            disk,
            set,
            kstack,
            kstack_complete,
        };
        self.sink.event(event, &cx);
        let class = match event.what {
            EventKind::Submit(..) => EventClass::Submit,
            EventKind::Complete(..) | EventKind::Command(..) | EventKind::Missed { .. } => {
                EventClass::Command
            }
            _ => EventClass::Other,
        };
        self.commands += u64::from(matches!(class, EventClass::Command));
        self.pending.push(class);
        if self.sink.is_full() {
            self.flush();
        }
    }

    /// Writes the events of the ring except the latest, because earlier ones may still arrive.
    /// Returns true if there may be more.
    fn take_in(&mut self, events: &mut dyn EventStream, source: &dyn Source) -> Result<bool> {
        let until_ns = monotonic_ns().saturating_sub(REORDER_NS);
        let more = events.fetch()?;
        events.release(until_ns, &mut |read| self.read(read, source));
        self.flush();
        self.out.look();
        Ok(more)
    }

    /// After the end of the run: writes the remaining events, and the commands that have not ended.
    fn end(
        &mut self,
        events: &mut dyn EventStream,
        source: &dyn Source,
        end_ns: u64,
    ) -> Result<()> {
        while events.fetch()? {}
        events.release(u64::MAX, &mut |read| self.read(read, source));
        self.shown.out_of_order = events.late();
        if !self.is_done() {
            for event in source.unfinished(end_ns.max(events.last_ns()))? {
                self.event(&event, source);
            }
        }
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        let (mut lost, out) = (0, &mut self.out);
        self.sink.drain(&mut |lines| lost = out.write(lines));
        // the lines that were not written are the last ones
        let written = self.pending.len().saturating_sub(lost as usize);
        for class in &self.pending[..written] {
            match class {
                EventClass::Submit => self.shown.submits += 1,
                EventClass::Command => self.shown.commands += 1,
                EventClass::Other => self.shown.events += 1,
            }
        }
        self.shown.not_written += lost;
        self.pending.clear();
    }
}

/// The stacks at submission and at completion.
fn stack_ids(what: &EventKind) -> [StackId; 2] {
    let submission = match what {
        EventKind::Unfinished { .. } => None,
        _ => what.submission(),
    };
    [
        submission.map_or_else(StackId::default, |s| s.stack),
        what.outcome().map_or_else(StackId::default, |o| o.stack),
    ]
}

/// Time between two drains of the ring.
fn pause(ring_bytes: u32) -> Duration {
    let share = f64::from(ring_bytes) / f64::from(ROOM_FOR_DRAIN);
    DRAIN.mul_f64(share.min(1.0)).max(SHORTEST_DRAIN)
}

fn tracing(settings: &Settings) -> Result<&Tracing> {
    settings.trace.as_ref().context("no trace was asked for")
}

/// The output file. Warns if it is on an NVMe disk.
fn output(system: &System) -> Result<File> {
    let file = File::from(stdout().as_fd().try_clone_to_owned()?);
    if let Some(disk) = system.nvme_disk_of(&file) {
        say(&format!(
            "stdout is a file on {disk}: writing the trace makes commands, which are traced too. \
             Better write to a tmpfs, or leave that controller out (--ctrl)"
        ));
    }
    Ok(file)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &TraceOptions) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let wants = tracing(&options.settings)?;
    let stacks = wants.stack.map(Stacks::new);
    let until = until(options.duration.is_some() || options.count.is_some());
    let irq_entry = stacks.as_ref().and_then(Stacks::irq_entry);
    let mut session = ready.attach(&options.settings, until, irq_entry)?;
    refuse_unknown(wants, &session)?;
    let drops = Drops::watch(session.counter_reader()?);
    let mut watchdog = Watchdog::of(&session, ready.system.clone());
    let out = output(&ready.system)?;
    let mut writer = TraceWriter::new(options, out, ready.system, stacks);
    let mut events = session.events()?;
    let pause = pause(session.ring_bytes());
    let run = Run::begin(&ready.stop, options.duration);
    let ended = run.turns(&mut session, &mut watchdog, &mut |session, tick| {
        if tick.rescanned {
            writer.names.may_look();
            writer.sink.clock().set_offset(wall_offset_ns());
        }
        let more = writer.take_in(&mut events, session)?;
        if writer.is_done() || writer.out.has_failed() {
            return Ok(Turn::Done);
        }
        Ok(Turn::Until(if more {
            tick.now
        } else {
            run.elapsed() + pause
        }))
    });
    let at = run.elapsed();
    watchdog.last_look(&session)?;
    // commands continue while the hooks are detached, which takes time; their events are still read
    let end_ns = monotonic_ns();
    let closed = session.end();
    drops.stop();
    ended?;
    closed?;
    writer.end(&mut events, &session, end_ns)?;
    let ledger = ledger_of_trace(&session, &writer.shown)?;
    finish(writer, &ledger, at)?;
    watchdog.verdict()
}

/// Writes the ledger. Reports errors of the output.
fn finish(mut writer: TraceWriter<'_>, ledger: &Ledger, at: Duration) -> Result<()> {
    if writer.options.json {
        let mut line = Vec::new();
        json::end(ledger, at, &mut line)?;
        // not an event: if it is missing, the error reports it
        writer.out.write(&line);
    } else {
        let mut err = stderr().lock();
        let theme = Theme { color: false };
        let detail = writer.options.settings.attaching.verbose > 0;
        // a closed stderr is not an error
        let _ = write_ledger(ledger, theme, detail, &mut err).and_then(|()| err.flush());
    }
    let not_written = writer.shown.not_written;
    match writer.out.into_error() {
        Some(error) if error.kind() == ErrorKind::BrokenPipe => {
            say(&format!(
                "the reader of stdout has gone; {not_written} events were not written"
            ));
            Ok(())
        }
        Some(error) => Err(Failure::error(
            Kind::Run,
            format!(
                "stdout can't be written ({error}): {not_written} events are missing at the end. \
                 Make room, or write elsewhere"
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
