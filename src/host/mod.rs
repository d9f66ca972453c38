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
use crate::model::ledger::HostLedger;
use crate::run::start::{HostSession, QemuUsdt, prepare};
use crate::settings::HostOptions;
use crate::source::HostSource;
use anyhow::Result;

use crate::host::args::{HostArgs, HostCommand, TargetArgs};
use crate::run::drive::{Input, LiveTarget, TargetRecording};
use crate::run::eprint_note;
use crate::run::exit::Failure;
use crate::run::input::read_recording;

/// Attaches to the target.
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

/// The target that was asked for, or the recording of one. `measure`: also the cost of each hook.
///
/// # Errors
/// If it cannot be traced or read; one sentence.
fn input<'a>(args: &'a TargetArgs, duration: Option<Duration>, measure: bool) -> Result<Input<'a>> {
    Ok(match &args.from {
        Some(path) => Input::TargetRecording(Box::new(TargetRecording {
            recording: read_recording(path)?,
            path: Some(path),
        })),
        None => Input::Target(LiveTarget { source: attach(args, measure)?, duration }),
    })
}

/// Writes the ledger: as JSON to the output, as text to stderr.
///
/// # Errors
/// Errors of the writer.
fn write_ledger(ledger: &HostLedger, json: bool, detail: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        HostJson::end(ledger, out)?;
    } else {
        // a closed stderr is not an error
        let _ = ledger_text(ledger, detail, &mut stderr().lock());
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
