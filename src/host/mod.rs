// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `host` command: the host side of NVMe commands.

mod annotate;
pub(crate) mod args;
mod latency;
mod list;
mod spdk;
mod trace;
mod view;

use std::io::{BufWriter, Write, stderr};
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::host::view::{end_json, ledger_text};
use crate::machine::System;
use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, HostEvent, TargetInfo};
use crate::recording::HostRecording;
use crate::run::start::{commands, prepare};
use crate::run::stdout::{Stdout, stdout};
use crate::settings::{ChosenTarget, HostOptions};
use crate::source::HostSource;
use anyhow::Result;

use crate::host::args::{HostArgs, HostCommand, TargetArgs};
use crate::run::drive::turns::{Turns, stop_receiver};
use crate::run::eprint_note;
use crate::run::input::{check_target_end, read_recording};

/// Attaches to the target.
fn attach(args: &TargetArgs) -> Result<Box<dyn HostSource<HostEvent>>> {
    prepare(None)?;
    let chosen = match (args.nvmet, args.pid) {
        (true, _) => ChosenTarget::Nvmet,
        (false, Some(pid)) if args.usdt => ChosenTarget::Usdt(pid),
        (false, Some(pid)) => ChosenTarget::Process(pid),
        (false, None) => {
            let text = "give a target: --nvmet, --pid PID, or --from FILE; `nvme-deep host list` \
                        shows what serves NVMe here";
            return Err(Failure::error(Kind::Usage, text));
        }
    };
    let options =
        HostOptions { measure: args.verbose, ends_only: args.ends, shift: args.test_shift };
    let source = commands(&System::at("/"), chosen, options)?;
    let target = source.target();
    let what = match (target.pid, &target.binary) {
        (Some(pid), Some(binary)) => format!("process {pid} ({binary})"),
        _ => "the kernel's target".into(),
    };
    eprint_note(&format!("tracing {what} by {}", target.by));
    Ok(source)
}

/// What takes the events of a target.
trait Taker<E> {
    /// Takes an event, and the controllers that are known.
    fn event(&mut self, event: &E, controllers: &[HostController]) -> Result<()>;

    /// Called when no event waits. Returns whether to go on.
    fn pause(&mut self) -> Result<bool> {
        Ok(true)
    }
}

/// Writes a line for each event.
struct Lines {
    json: bool,
    out: BufWriter<Stdout>,
}

impl Lines {
    fn new(json: bool) -> Self {
        Self { json, out: BufWriter::new(stdout()) }
    }
}

/// The end of a run of a target, or of its recording.
struct Ended {
    target: TargetInfo,
    controllers: Vec<HostController>,
    /// `None`: a recording without an end.
    ledger: Option<HostLedger>,
    took: Duration,
    /// To be returned after the output: that the target, or the recording, ended early.
    early: Result<()>,
}

/// Passes on the events of a target of this machine, until a signal, for this time, or to its end.
fn live<E>(
    mut source: Box<dyn HostSource<E>>,
    duration: Option<Duration>,
    taker: &mut dyn Taker<E>,
) -> Result<Ended> {
    let stop = stop_receiver()?;
    let mut turns = Turns::begin(stop, duration);
    let mut more = true;
    while taker.pause()? && source.alive().is_ok() && turns.pause(more) {
        more = source.take(&mut |event, controllers| taker.event(event, controllers))?;
    }
    let (took, early) = (turns.elapsed(), source.alive());
    let ledger = source.end(&mut |event, controllers| taker.event(event, controllers))?;
    let (target, controllers) = (source.target().clone(), source.controllers().to_vec());
    Ok(Ended { target, controllers, ledger: Some(ledger), took, early })
}

/// Passes on the events of the target that was asked for, or of the recording of one.
fn observe(args: &TargetArgs, taker: &mut dyn Taker<HostEvent>) -> Result<Ended> {
    let Some(path) = &args.from else {
        return live(attach(args)?, args.duration, taker);
    };
    let recording = read_recording(path)?;
    let early = check_target_end(&recording, path);
    for event in &recording.events {
        taker.event(event, &recording.controllers)?;
    }
    let HostRecording { target, controllers, ledger, .. } = recording;
    Ok(Ended { target, controllers, ledger, took: Duration::ZERO, early })
}

/// Writes the ledger: as JSON to the output, as text to stderr.
///
/// # Errors
/// Errors of the writer.
fn write_ledger(ledger: Option<&HostLedger>, args: &TargetArgs, out: &mut dyn Write) -> Result<()> {
    match ledger {
        Some(ledger) if args.json => end_json(ledger, out)?,
        // a closed stderr is not an error
        Some(ledger) => _ = ledger_text(ledger, args.verbose, &mut stderr().lock()),
        None => {}
    }
    Ok(())
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostArgs) -> Result<()> {
    match &args.command {
        HostCommand::List(args) => list::run(args),
        HostCommand::Trace(args) => trace::run(args),
        HostCommand::Latency(args) => latency::run(args),
        HostCommand::Annotate(args) => annotate::run(args),
        HostCommand::Spdk(args) => spdk::states(args),
        HostCommand::Msgs(args) => spdk::messages(args),
    }
}
