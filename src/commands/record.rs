// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `record` command: every command to a file.

use std::io::IsTerminal;
use std::io::Write;
use std::io::stderr;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use nvme_deep::machine::System;
use nvme_deep::machine::clock::wall_offset_ns;
use nvme_deep::machine::own_tgid;
use nvme_deep::model::event::EventKind;
use nvme_deep::model::ledger::EventClass;
use nvme_deep::model::ledger::Shown;
use nvme_deep::model::machine::MachineInfo;
use nvme_deep::source::EventStream;
use nvme_deep::source::Read;
use nvme_deep::source::Source;
use nvme_deep::units::size_text;

use crate::cli::options::RecordOptions;
use crate::cli::options::Trigger;
use crate::commands::drops::Drops;
use crate::commands::drops::Reader;
use crate::commands::exec::Program;
use crate::commands::exec::until_end;
use crate::commands::names::Names;
use crate::commands::recording::FileSettings;
use crate::commands::recording::RecordingFile;
use crate::commands::recording::attach;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::drain_pause;
use crate::commands::run::ledger_of_trace;
use crate::commands::run::say_own_share;
use crate::commands::run::take_in;
use crate::commands::run::take_rest;
use crate::commands::say;
use crate::commands::say_ledger;
use crate::commands::start::Ready;
use crate::commands::symbols::LiveStacks;

/// Puts events into the file.
struct Tape {
    file: RecordingFile,
    names: Names,
    stacks: Option<LiveStacks>,
    shown: Shown,
    /// Settings of the machine, with `--context`.
    machine: Option<MachineInfo>,
    /// This process.
    own: Option<u32>,
    triggers: Vec<Trigger>,
    /// What a trigger has found; empty at first.
    fired: String,
    /// When the run ends, after a trigger.
    end: Option<Duration>,
}

/// Describes the event, in a few words, if it fires the trigger.
fn fires(trigger: Trigger, what: &EventKind) -> Option<String> {
    let ctrl = what.ctrl();
    match (trigger, what) {
        (Trigger::Slow(least), EventKind::Command(id, _, end)) => {
            let took = Duration::from_nanos(end.latency_ns?);
            let name = id.opcode.name().unwrap_or("a command");
            (took >= least)
                .then(|| format!("{name} on nvme{ctrl} queue {} took {took:.1?}", id.qid))
        }
        (Trigger::Error, EventKind::Command(id, _, end)) => {
            let status = end.verdict?.status;
            let name = id.opcode.name().unwrap_or("a command");
            (!status.is_success()).then(|| format!("{name} on nvme{ctrl}: {status}"))
        }
        (Trigger::Timeout, EventKind::Timeout { .. }) => Some(format!("timeout on nvme{ctrl}")),
        (Trigger::Reset, EventKind::State { state, .. }) if state.name() == Some("resetting") => {
            Some(format!("reset of nvme{ctrl}"))
        }
        _ => None,
    }
}

impl Tape {
    fn read(&mut self, read: Read<'_>, source: &dyn Source) {
        let Some(event) = read else {
            self.shown.undecodable += 1;
            return;
        };
        if let Some(stacks) = &mut self.stacks {
            for id in event.what.stacks() {
                if let Some(frames) = stacks.learn(id, source) {
                    self.file.stack(id, &frames);
                }
            }
        }
        // a lookup of an unknown disk reads the names again
        self.names.of_command(event.what.id());
        if let Some(news) = self.names.news() {
            self.file.controllers(news);
        }
        self.file.event(event);
        if self.fired.is_empty() && !self.triggers.is_empty() {
            let mut found = self.triggers.iter().filter_map(|t| fires(*t, &event.what));
            self.fired = found.next().unwrap_or_default();
        }
        self.shown.add(EventClass::of(&event.what));
        self.shown.add_own(&event.what, self.own);
    }

    /// Takes in what is left after the end of the run.
    fn end(
        &mut self,
        events: &mut dyn EventStream,
        source: &dyn Source,
        end_ns: u64,
    ) -> Result<()> {
        take_rest(events, &mut |read| self.read(read, source))?;
        self.shown.out_of_order = events.late();
        for event in source.unfinished(end_ns.max(events.last_ns()))? {
            self.read(Some(&event), source);
        }
        self.file.activity(source.activity()?.as_ref());
        Ok(())
    }

    /// Whether the run is over. Writes the ring if a trigger has fired.
    fn is_done(&mut self, options: &RecordOptions, now: Duration) -> bool {
        if self.end.is_none() && !self.fired.is_empty() {
            say(&format!(
                "{}; recording {:?} more",
                self.fired, options.after
            ));
            self.file.dump();
            self.end = Some(now + options.after);
        }
        let full = options
            .max_size
            .is_some_and(|most| self.file.bytes() >= most);
        full || self.file.has_failed() || self.end.is_some_and(|end| now >= end)
    }

    /// What every reader needs from the start.
    fn begin(&mut self, source: &dyn Source) -> Result<()> {
        if let Some(news) = self.names.news() {
            self.file.controllers(news);
        }
        if let Some(machine) = &self.machine {
            self.file.machine(machine);
        }
        self.upkeep(Duration::ZERO, source)
    }

    /// Once a second: the clock, and the ledger up to here.
    fn upkeep(&mut self, at: Duration, source: &dyn Source) -> Result<()> {
        self.names.may_look();
        self.file.clock(wall_offset_ns());
        self.file.activity(source.activity()?.as_ref());
        let ledger = ledger_of_trace(source, &self.shown, None)?;
        self.file.ledger(at, &ledger);
        Ok(())
    }
}

/// Shows the progress on a terminal.
struct Progress {
    commands: u64,
    at: Duration,
    is_terminal: bool,
}

impl Progress {
    fn show(&mut self, at: Duration, tape: &Tape) {
        if !self.is_terminal {
            return;
        }
        let seconds = (at - self.at).as_secs_f64().max(0.001);
        let rate = (tape.shown.commands - self.commands) as f64 / seconds;
        let line = format!(
            "{:.0} s  {} commands  {rate:.0}/s  {}",
            at.as_secs_f64(),
            tape.shown.commands,
            size_text(tape.file.bytes())
        );
        // one line, written over; a closed stderr is not an error
        let _ = write!(stderr(), "\r{line:<70}");
        (self.commands, self.at) = (tape.shown.commands, at);
    }

    fn end(&self) {
        if self.is_terminal {
            let _ = write!(stderr(), "\r{:<70}\r", "");
        }
    }
}

fn create(options: &RecordOptions, system: &System) -> Result<RecordingFile> {
    let file = FileSettings {
        path: &options.output,
        force: options.force,
        compress: options.compress,
        redact: options.redact,
        count: None,
        keep: options.keep,
    };
    RecordingFile::create(&file, &options.settings, system)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &RecordOptions) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let wants = options.settings.trace.as_ref();
    let wants = wants.context("no trace was asked for")?;
    let stacks = wants.stack.map(LiveStacks::new);
    let file = create(options, &ready.system)?;
    let irq_entry = stacks.as_ref().and_then(LiveStacks::irq_entry);
    let until = until_end(&options.exec, options.duration.is_some());
    let (mut session, file) = attach(&ready, &options.settings, &until, irq_entry, Some(file))?;
    let file = file.context("no file was opened")?;
    let reader = Reader::File {
        compress: options.compress,
    };
    let drops = Drops::watch(&session, &options.settings, reader)?;
    let mut watchdog = Watchdog::of(&session, ready.system.clone());
    let machine = options.settings.context.then(|| ready.system.info(false));
    let mut tape = Tape {
        file,
        names: Names::of(ready.system),
        stacks,
        shown: Shown::default(),
        machine,
        own: own_tgid(),
        triggers: options.triggers.clone(),
        fired: String::new(),
        end: None,
    };
    tape.begin(&session)?;
    let mut progress = Progress {
        commands: 0,
        at: Duration::ZERO,
        is_terminal: stderr().is_terminal(),
    };
    let mut events = session.events()?;
    let pause = drain_pause(session.rings().bytes);
    let program = Program::start(&options.exec, &ready.waker)?;
    let run = Run::begin(&ready.stop, options.duration);
    let ended = run.turns(&mut session, &mut watchdog, &mut |session, tick| {
        if tick.rescanned {
            tape.upkeep(tick.now, session)?;
            progress.show(tick.now, &tape);
        }
        let more = take_in(&mut events, &mut |read| tape.read(read, session))?;
        if tape.is_done(options, tick.now) {
            return Ok(Turn::Done);
        }
        let next = if more {
            tick.now
        } else {
            run.elapsed() + pause
        };
        Ok(Turn::Until(next))
    });
    let at = run.elapsed();
    progress.end();
    let end_ns = drops.close(&mut session, &mut watchdog, ended)?;
    tape.end(&mut events, &session, end_ns)?;
    finish(tape, options, &session, at)?;
    watchdog.verdict()?;
    program.end()
}

/// Ends the file, and reports what is in it.
fn finish(tape: Tape, options: &RecordOptions, source: &dyn Source, at: Duration) -> Result<()> {
    let ledger = ledger_of_trace(source, &tape.shown, Some(source.scan()?))?;
    let shown = tape.shown.commands;
    let name = tape.file.name();
    let file = tape.file.finish(at, &ledger)?;
    let (kept, what) = if file.evicted > 0 {
        (file.events, "events")
    } else {
        (shown, "commands")
    };
    let mut text = format!(
        "{}: {kept} {what} in {:.1} s, {}",
        name,
        at.as_secs_f64(),
        size_text(file.bytes),
    );
    if kept > 0 {
        text += &format!(", {:.1} bytes each", file.bytes as f64 / kept as f64);
    }
    if file.evicted > 0 {
        text += &format!("; {} older events were dropped from the ring", file.evicted);
    }
    say(&text);
    say_own_share(&ledger);
    say_ledger(&ledger, options.settings.attaching.verbose > 0);
    Ok(())
}
