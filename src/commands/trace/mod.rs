// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `trace` command: every command as it happens.
//!
//! One thread reads the ring, and orders, renders and writes the events. If it is blocked (slow
//! reader, stopped terminal), the ring fills. The BPF side counts the events that find no room, and
//! another thread reports them during the run.

mod replay;
mod writer;

use std::fs::File;
use std::io::ErrorKind;
use std::io::stdout;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::machine::System;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::machine::clock::wall_offset_ns;
use nvme_deep::model::ledger::Ledger;
use nvme_deep::render::json;
use nvme_deep::session::Session;
use nvme_deep::session::settings::Settings;
use nvme_deep::session::settings::Tracing;

use self::writer::TraceWriter;
use crate::cli::options::TraceOptions;
use crate::commands::drops::Drops;
use crate::commands::drops::Reader;
use crate::commands::exec::Program;
use crate::commands::exec::until_end;
use crate::commands::names::Names;
use crate::commands::output::Output;
use crate::commands::recording::FileSettings;
use crate::commands::recording::RecordingFile;
use crate::commands::recording::attach;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::drain_pause;
use crate::commands::run::ledger_of_trace;
use crate::commands::run::say_own_share;
use crate::commands::say;
use crate::commands::say_ledger;
use crate::commands::standard::cannot_write;
use crate::commands::start::Ready;
use crate::commands::start::refuse_unknown;
use crate::commands::symbols::LiveStacks;
use crate::exit::Failure;

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
    if options.from.is_empty() {
        live(options)
    } else {
        replay::run(options)
    }
}

/// Creates the file of `--tee`.
fn tee(options: &TraceOptions, system: &System) -> Result<Option<RecordingFile>> {
    let Some(path) = options.tee.as_deref() else {
        return Ok(None);
    };
    let file = FileSettings {
        path,
        force: options.force,
        compress: true,
        redact: false,
        count: options.count,
        keep: None,
    };
    RecordingFile::create(&file, &options.settings, system).map(Some)
}

/// Once a second.
fn upkeep(writer: &mut TraceWriter<'_>, session: &Session, at: Duration) -> Result<()> {
    writer.names.may_look();
    writer.set_clock(wall_offset_ns());
    writer.tee_ledger(at, session)
}

fn live(options: &TraceOptions) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let wants = tracing(&options.settings)?;
    let stacks = wants.stack.map(LiveStacks::new);
    let tee = tee(options, &ready.system)?;
    let until = until_end(
        &options.exec,
        options.duration.is_some() || options.count.is_some(),
    );
    let irq_entry = stacks.as_ref().and_then(LiveStacks::irq_entry);
    let (mut session, tee) = attach(&ready, &options.settings, &until, irq_entry, tee)?;
    refuse_unknown(wants, &session)?;
    let drops = Drops::watch(&session, &options.settings, Reader::Stdout)?;
    let mut watchdog = Watchdog::of(&session, ready.system.clone());
    let out = output(&ready.system)?;
    let begin_ns = tee
        .as_ref()
        .map_or_else(monotonic_ns, RecordingFile::begin_ns);
    let wall_ns = wall_offset_ns();
    let machine = (options.settings.context && tee.is_some()).then(|| ready.system.info(false));
    let names = Names::of(ready.system);
    let writer = TraceWriter::new(options, out, names, (begin_ns, wall_ns));
    let mut writer = writer.of_session(stacks).with_tee(tee, wall_ns);
    machine
        .iter()
        .for_each(|machine| writer.tee_machine(machine));
    writer.tee_ledger(Duration::ZERO, &session)?;
    let mut events = session.events()?;
    let pause = drain_pause(session.rings().bytes);
    let program = Program::start(&options.exec, &ready.waker)?;
    let run = Run::begin(&ready.stop, options.duration);
    let ended = run.turns(&mut session, &mut watchdog, &mut |session, tick| {
        if tick.rescanned {
            upkeep(&mut writer, session, tick.now)?;
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
    let end_ns = drops.close(&mut session, &mut watchdog, ended)?;
    writer.end(&mut events, &session, end_ns)?;
    writer.tee_activity(&session)?;
    let ledger = ledger_of_trace(&session, &writer.shown, Some(session.scan()?))?;
    let written = finish(writer, &ledger, at);
    say_own_share(&ledger);
    written?;
    watchdog.verdict()?;
    program.end()
}

/// Writes the ledger. Reports errors of the output, and of the file of `--tee`.
fn finish(mut writer: TraceWriter<'_>, ledger: &Ledger, at: Duration) -> Result<()> {
    if writer.options.json {
        let mut line = Vec::new();
        json::end(ledger, at, &mut line)?;
        // not an event: if it is missing, the error reports it
        writer.out.write(&line);
    } else {
        say_ledger(ledger, writer.options.settings.attaching.verbose > 0);
    }
    let teed = writer.tee.take().map_or(Ok(()), |tee| {
        let done = tee.finish(at, ledger);
        done.map(|_| ())
    });
    let missing = format!("{} events are missing at its end", writer.shown.not_written);
    output_verdict(writer.out, &missing).and(teed)
}

/// An error if the output could not be written. A reader that has gone is none. `missing`: what the
/// output lacks.
fn output_verdict(out: Output, missing: &str) -> Result<()> {
    match out.into_error() {
        Some(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Some(error) => Err(Failure::error(
            Kind::Run,
            format!("{}; {missing}", cannot_write(&error)),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
