// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `record` command: every command to a file.

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;
use rustix::time::{ClockId, clock_gettime};

use crate::machine::System;
use crate::model::event::{Event, EventKind};
use crate::model::ledger::Shown;
use crate::model::text::Text;
use crate::model::timeline::total_ns;
use crate::units::size_text;
use anyhow::{Context, Result};

use crate::record::args::{RecordOptions, Trigger};
use crate::run::drive::{End, Input, Live, Reader, Run, Step, Tick, say_own_share};
use crate::run::recording::{FileSettings, FileWriter};
use crate::run::start::{CostSample, Preflight, Session};
use crate::run::symbols::LiveStacks;
use crate::run::{eprint_note, say_ledger};

/// Puts the items of a run into the file.
struct Recorder<'o> {
    options: &'o RecordOptions,
    file: FileWriter,
    /// What a trigger has found; empty at first.
    fired: String,
    /// When the run ends, after a trigger.
    end: Option<Duration>,
    progress: Progress,
    cost: Cost,
}

/// What the run costs.
struct Cost {
    /// CPU time of this process at the begin.
    begin: Duration,
    sample: Sample,
}

/// The run time of the programs, for a second.
enum Sample {
    /// Not yet.
    Later,
    /// Begun.
    Now(CostSample),
    /// Nanoseconds per command.
    Done(f64),
}

/// CPU time of this process, all threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let [s, ns] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Duration::new(s, 0) + Duration::from_nanos(ns)
}

impl Cost {
    /// Once a second: measures from the first turn to the next one, and on until there are commands.
    fn second(&mut self, session: &Session) -> Result<()> {
        let next = match &self.sample {
            Sample::Later => session.sample_cost()?.map(Sample::Now),
            Sample::Now(sample) => session.ns_per_command(sample)?.map(Sample::Done),
            Sample::Done(_) => None,
        };
        if let Some(next) = next {
            self.sample = next;
        }
        Ok(())
    }

    /// The last line of the run, which took this long and wrote this much.
    fn text(&self, took: Duration, bytes: u64, commands: u64) -> String {
        let cpu = cpu_time().saturating_sub(self.begin).as_secs_f64();
        let share = 100.0 * cpu / took.as_secs_f64().max(0.001);
        let mut text = format!("cost: {cpu:.2} s of CPU time ({share:.1} % of a CPU)");
        if commands > 0 {
            text += &format!(", {:.1} bytes per command", bytes as f64 / commands as f64);
        }
        if let Sample::Done(ns) = self.sample {
            let us = ns / 1e3;
            text += &format!("; BPF programs {us:.1} us per command (measured on a sample)");
        }
        text
    }
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
    fn begin(options: &'o RecordOptions, mut file: FileWriter) -> Self {
        file.begin();
        Self {
            options,
            file,
            fired: String::new(),
            end: None,
            progress: Progress {
                commands: 0,
                at: Duration::ZERO,
                is_terminal: stderr().is_terminal(),
            },
            cost: Cost { begin: cpu_time(), sample: Sample::Later },
        }
    }

    /// Whether the run is over. Writes the ring if a trigger has fired.
    fn is_done(&mut self, now: Duration) -> bool {
        let options = self.options;
        if self.end.is_none() && !self.fired.is_empty() {
            eprint_note(&format!("{}; recording {:?} more", self.fired, options.after));
            self.file.dump();
            self.end = Some(now + options.after);
        }
        options.is_full(self.file.bytes())
            || self.file.has_failed()
            || self.end.is_some_and(|end| now >= end)
    }
}

impl Recorder<'_> {
    fn event(&mut self, event: &Event) {
        self.file.event(event);
        if self.fired.is_empty() && !self.options.trigger.is_empty() {
            let triggers = self.options.trigger.iter();
            let mut found = triggers.filter_map(|t| fires(*t, event));
            self.fired = found.next().unwrap_or_default();
        }
    }

    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Event(seen) => self.event(seen.event),
                Step::Fact(fact) => self.file.fact(&fact),
                Step::Tick(Tick { now, is_second }) => {
                    if is_second {
                        self.file.ledger(now, &run.ledger()?);
                        self.progress.show(now, run.shown.commands, self.file.bytes());
                        run.session().map_or(Ok(()), |session| self.cost.second(session))?;
                    }
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
    fn finish(self, shown: &Shown, end: End) -> Result<()> {
        let Self { file, options, progress, cost, .. } = self;
        // erases its line
        drop(progress);
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
        say_own_share(&ledger);
        say_ledger(&ledger, options.session.is_verbose());
        eprint_note(&cost.text(at, file.bytes, kept));
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

/// The file without `-o`: `nvme-HOST-YYYYMMDD-HHMMSS.nvd`, in local time.
fn default_name(host: Option<&str>, time: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host: String = host.unwrap_or_default().chars().filter(|c| is_plain(*c)).collect();
    let parts = ["nvme", &host, time].into_iter().filter(|part| !part.is_empty());
    format!("{}.nvd", parts.collect::<Vec<_>>().join("-")).into()
}

fn create(options: &RecordOptions, system: &System) -> Result<FileWriter> {
    let path = options.output.clone().unwrap_or_else(|| {
        let host = system.identity().host.filter(|_| !options.redact);
        let time = Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
        default_name(host.as_ref().map(Text::as_str), &time)
    });
    let file = FileSettings {
        path: &path,
        force: options.force,
        inputs: &[],
        redact: options.redact,
        count: None,
        keep: options.keep(),
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
    let mut file = Some(create(options, &ready.system)?);
    let input = Input::live(Live {
        exec: &options.exec.program,
        reader: Reader::File,
        stacks,
        ..Live::new(ready, settings, options.run.duration)
    });
    input.each(&mut |run| {
        let mut file = file.take().context("the file has been begun")?;
        run.session().into_iter().for_each(|session| file.shows(session.origin()));
        Recorder::begin(options, file).read(run)
    })
}

pub(crate) mod args;
#[cfg(test)]
#[cfg(feature = "live")]
mod tests;
