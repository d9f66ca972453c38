// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `record` command: every command to a file.

use std::io::{IsTerminal, Write, stderr};
use std::mem::take;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::machine::{System, own_tgid};
use crate::model::event::{Event, EventKind};
use crate::model::ledger::{Ledger, Shown};
use crate::model::text::Text;
use crate::model::timeline::total_ns;
use crate::units::size_text;
use anyhow::Result;

use crate::record::args::{RecordOptions, Trigger};
use crate::record::flight::{Flight, file_name, now};
use crate::run::drive::{End, Live, Run, Step};
use crate::run::recording::{FileSettings, FileWriter, Fired};
use crate::run::start::{LiveStacks, Preflight};
use crate::run::{eprint_note, say_ledger};

/// Puts the items of a run into the file.
struct Recorder<'o> {
    options: &'o RecordOptions,
    file: FileWriter,
    /// What has fired a trigger; empty at first.
    fired: Fired,
    /// This process.
    own: Option<u32>,
    /// When the run ends, or the ring is written, after a trigger.
    end: Option<Duration>,
    /// `None`: a trigger ends the run.
    flight: Option<Flight>,
    progress: Progress,
    /// CPU time of this process at the start.
    cpu_before: Duration,
}

/// CPU time of this process, all threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let [s, ns] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Duration::new(s, 0) + Duration::from_nanos(ns)
}

/// The last line of a run that took this long, and wrote so many bytes.
fn cost(cpu: Duration, took: Duration, bytes: u64, commands: u64) -> String {
    let cpu = cpu.as_secs_f64();
    let share = 100.0 * cpu / took.as_secs_f64().max(0.001);
    let mut text = format!("cost: {cpu:.2} s of CPU time ({share:.1}% of a CPU)");
    if commands > 0 {
        text += &format!(", {:.1} bytes per command", bytes as f64 / commands as f64);
    }
    text
}

/// Describes the event, in a few words, if it fires the trigger.
fn fires(trigger: Trigger, event: &Event) -> Option<String> {
    let ctrl = event.what.ctrl();
    match (trigger, &event.what) {
        (Trigger::Slow(least), EventKind::Command(id, ..)) => {
            let took = Duration::from_nanos(total_ns(event)?);
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

impl<'o> Recorder<'o> {
    fn begin(options: &'o RecordOptions, mut file: FileWriter, flight: Option<Flight>) -> Self {
        file.begin();
        Self {
            options,
            file,
            fired: Fired::default(),
            own: own_tgid(),
            end: None,
            flight,
            progress: Progress {
                commands: 0,
                at: Duration::ZERO,
                is_terminal: stderr().is_terminal(),
            },
            cpu_before: cpu_time(),
        }
    }

    /// Whether the run is over. Writes the ring if a trigger has fired.
    fn is_done(&mut self, now: Duration) -> bool {
        let options = self.options;
        if self.end.is_none() && !self.fired.what.is_empty() {
            eprint_note(&format!("{}; recording {:?} more", self.fired.what, options.after));
            if self.flight.is_none() {
                self.file.dump();
            }
            self.end = Some(now + options.after);
        }
        options.is_full(self.file.bytes())
            || self.file.has_failed()
            || self.flight.is_none() && self.end.is_some_and(|end| now >= end)
    }

    /// Writes the ring to a file of its own, if one is due after a trigger.
    fn fly(&mut self, now: Duration, run: &Run<'_>) -> Result<()> {
        let is_due = self.end.is_some_and(|end| now >= end);
        if let Some(flight) = self.flight.as_mut().filter(|_| is_due)
            && !flight.is_busy()
        {
            self.write_ring(now, &run.ledger()?);
        }
        Ok(())
    }

    fn write_ring(&mut self, now: Duration, ledger: &Ledger) {
        self.end = None;
        let ring = self.file.ring(&take(&mut self.fired), now, ledger);
        if let Some((flight, ring)) = self.flight.as_mut().zip(ring) {
            flight.write(ring);
        }
    }
}

impl Recorder<'_> {
    fn event(&mut self, event: &Event) {
        self.file.event(event);
        // what the recorder itself writes must not make it write again
        let by = event.what.submission().filter(|s| s.knows_submitter).map(|s| s.pid);
        let is_own = self.own.is_some() && by == self.own;
        if self.fired.what.is_empty() && !self.options.trigger.is_empty() && !is_own {
            let triggers = self.options.trigger.iter();
            let mut found = triggers.filter_map(|t| fires(*t, event));
            if let Some(what) = found.next() {
                self.fired = Fired { what, at_ns: event.at_ns };
            }
        }
    }

    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Event { event, .. } => self.event(event),
                Step::Fact(fact) => self.file.fact(fact),
                Step::Tick { now, is_second } => {
                    if is_second {
                        self.file.ledger(now, &run.ledger()?);
                        self.progress.show(now, run.shown.commands, self.file.bytes());
                    }
                    self.fly(now, run)?;
                    if self.is_done(now) {
                        run.stop();
                    }
                }
                Step::Ended => break,
            }
        }
        let end = run.end()?;
        self.finish(&run.shown, end)
    }

    /// Ends the file, and reports what is in it.
    fn finish(mut self, shown: &Shown, end: End) -> Result<()> {
        if !self.fired.what.is_empty() && self.flight.is_some() {
            // stopped soon after a trigger, or it was among the last events
            self.write_ring(end.took, &end.ledger);
        }
        let Self { mut file, options, progress, cpu_before, flight, .. } = self;
        // erases its line
        drop(progress);
        if let Some(mut flight) = flight {
            let written = flight.wait();
            say_ledger(&end.ledger, options.session.is_verbose());
            return written;
        }
        if options.ring().is_some() {
            file.kernel_log(&System::at("/"));
        }
        let (name, ledger, at) = (file.name(), end.ledger, end.took);
        let file = file.finish(at, &ledger)?;
        let (kept, what) =
            if file.evicted > 0 { (file.events, "events") } else { (shown.commands, "commands") };
        let mut text = format!(
            "{name}: {kept} {what} in {:.1} s, {}",
            at.as_secs_f64(),
            size_text(file.bytes),
        );
        if file.evicted > 0 {
            text += &format!("; {} older events were dropped from the ring", file.evicted);
        }
        eprint_note(&text);
        say_ledger(&ledger, options.session.is_verbose());
        eprint_note(&cost(cpu_time().saturating_sub(cpu_before), at, file.bytes, kept));
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
    fn show(&mut self, at: Duration, commands: u64, bytes: u64) {
        if !self.is_terminal {
            return;
        }
        let seconds = (at - self.at).as_secs_f64().max(0.001);
        let rate = (commands - self.commands) as f64 / seconds;
        let line = format!(
            "{:.0} s  {commands} commands  {rate:.0}/s  {}",
            at.as_secs_f64(),
            size_text(bytes)
        );
        // one line, written over; a closed stderr is not an error
        let _ = write!(stderr(), "\r{line:<70}");
        (self.commands, self.at) = (commands, at);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = write!(stderr(), "\r{:<70}\r", "");
        }
    }
}

/// The name of this machine, for names of files.
fn host(options: &RecordOptions, system: &System) -> Option<Text> {
    system.identity().host.filter(|_| !options.redact)
}

fn create(options: &RecordOptions, system: &System) -> Result<FileWriter> {
    let path = match (&options.output, options.keep) {
        // the ring alone has the events
        (_, Some(_)) => "/dev/null".into(),
        (Some(path), None) => path.clone(),
        (None, None) => file_name(host(options, system).as_ref().map(Text::as_str), &now()),
    };
    let file = FileSettings {
        path: &path,
        force: options.force,
        inputs: &[],
        redact: options.redact,
        count: None,
        keep: options.ring(),
    };
    FileWriter::create(&file, &options.settings, system)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &RecordOptions) -> Result<()> {
    let settings = &options.settings;
    let ready = Preflight::check(settings)?;
    let stacks = settings.stack().map(|stack| LiveStacks::new(stack.at));
    let mut file = create(options, &ready.system)?;
    let flight = match options.output.as_ref().zip(options.keep) {
        None => None,
        Some((dir, most)) => {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            Some(Flight::new(dir, most, host(options, &ready.system), &ready.system)?)
        }
    };
    let live = Live {
        exec: &options.exec.program,
        advice: "the file is not written fast enough: a larger --buffer, --stages=none, --sample or \
                 filters (--ctrl, --opcode) help",
        stacks,
        ..Live::new(ready, settings, options.run.duration)
    };
    live.run(|run| {
        run.session().into_iter().for_each(|session| file.shows(session.origin()));
        Recorder::begin(options, file, flight).read(run)
    })
}

pub(crate) mod args;
mod flight;
#[cfg(test)]
#[cfg(feature = "live")]
mod tests;
