// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `host` command: the host side of NVMe commands.

mod annotate;
pub(crate) mod args;
mod latency;
mod list;
mod spdk;
mod trace;
pub mod view;

use std::io::{Write, stderr};
use std::time::Duration;

use crate::error::Kind;
use crate::host::view::{HostJson, ledger_text};
use crate::machine::System;
use crate::model::host::HostEvent;
use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, TargetInfo};
use crate::run::start::{HostSession, QemuUsdt, prepare};
use crate::settings::HostOptions;
use crate::source::HostSource;
use anyhow::{Context, Result};

use crate::host::args::{HostArgs, HostCommand, TargetArgs};
use crate::run::drive::{TargetInput, TargetStep};
use crate::run::eprint_note;
use crate::run::exit::Failure;
use crate::run::input::read_recording;

/// Attaches to the target. `measure`: also the cost of each hook.
fn attach(args: &TargetArgs, measure: bool) -> Result<Box<dyn HostSource>> {
    prepare(None)?;
    let system = System::at("/");
    let session: Box<dyn HostSource> = match (args.nvmet, args.pid) {
        (true, _) => Box::new(HostSession::nvmet(&system, measure)?),
        (false, Some(pid)) if args.usdt => Box::new(QemuUsdt::of(&system, pid)?),
        (false, Some(pid)) => {
            let options = HostOptions { measure, ends_only: args.ends, shift: args.test_shift };
            Box::new(HostSession::process(&system, pid, options)?)
        }
        (false, None) => {
            let text = "give a target: --nvmet, --pid PID, or --from FILE; `nvme-deep host list` \
                        shows what serves NVMe here";
            return Err(Failure::error(Kind::Usage, text));
        }
    };
    let target = session.target();
    let what = match (target.pid, &target.binary) {
        (Some(pid), Some(binary)) => format!("process {pid} ({binary})"),
        _ => "the kernel's target".into(),
    };
    eprint_note(&format!("tracing {what} by {}", target.by));
    Ok(session)
}

/// What takes the events of a target.
trait Taker {
    /// Takes an event, and the controllers that are known.
    fn event(&mut self, event: &HostEvent, controllers: &[HostController]) -> Result<()>;

    /// Called when no event waits. Returns whether to go on.
    fn pause(&mut self) -> Result<bool> {
        Ok(true)
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

/// Passes on the events of a target, or of the recording of one.
fn read(input: TargetInput<'_>, taker: &mut dyn Taker) -> Result<Ended> {
    let mut ended = None;
    let early = input.read(&mut |run| {
        loop {
            match run.next()? {
                TargetStep::Event(event) => taker.event(&event, run.controllers())?,
                TargetStep::Tick if taker.pause()? => {}
                TargetStep::Tick => run.stop()?,
                TargetStep::Ended => break,
            }
        }
        let (target, controllers) = (run.target().clone(), run.controllers().to_vec());
        let (ledger, took) = (run.ledger.take(), run.took);
        ended = Some(Ended { target, controllers, ledger, took, early: Ok(()) });
        Ok(())
    });
    match ended {
        Some(ended) => Ok(Ended { early, ..ended }),
        None => Err(early.err().context("the run has no end")?),
    }
}

/// Passes on the events of a target of this machine, until a signal, for this time, or to its end.
fn live(
    source: Box<dyn HostSource>,
    duration: Option<Duration>,
    taker: &mut dyn Taker,
) -> Result<Ended> {
    read(TargetInput::Live(source, duration), taker)
}

/// Passes on the events of the target that was asked for, or of the recording of one.
fn observe(
    args: &TargetArgs,
    duration: Option<Duration>,
    measure: bool,
    taker: &mut dyn Taker,
) -> Result<Ended> {
    match &args.from {
        Some(path) => {
            read(TargetInput::Recorded(Box::new(read_recording(path)?), Some(path)), taker)
        }
        None => live(attach(args, measure)?, duration, taker),
    }
}

/// Writes the ledger: as JSON to the output, as text to stderr.
///
/// # Errors
/// Errors of the writer.
fn write_ledger(
    ledger: Option<&HostLedger>,
    json: bool,
    detail: bool,
    out: &mut dyn Write,
) -> Result<()> {
    match ledger {
        Some(ledger) if json => HostJson::end(ledger, out)?,
        // a closed stderr is not an error
        Some(ledger) => _ = ledger_text(ledger, detail, &mut stderr().lock()),
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
