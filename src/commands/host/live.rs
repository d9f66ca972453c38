// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace` and `host latency`: a target of this machine, or a recording of one.

use std::cell::RefCell;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::host::latency::HostRows;
use nvme_deep::machine::System;
use nvme_deep::model::host::HostEvent;
use nvme_deep::model::host::HostLedger;
use nvme_deep::model::target::HostController;
use nvme_deep::render::host::latency_json;
use nvme_deep::render::host::latency_text;
use nvme_deep::render::theme::Theme;
use nvme_deep::session::HostOptions;
use nvme_deep::session::HostSession;
use nvme_deep::session::HostSource;
use nvme_deep::session::QemuUsdt;
use nvme_deep::session::take_over_log;

use super::check_end;
use super::file::HostFile;
use super::read_recording;
use super::view;
use crate::cli::host::HostLatencyArgs;
use crate::cli::host::HostTraceArgs;
use crate::cli::host::TargetArgs;
use crate::commands::drive::Turn;
use crate::commands::drive::turns::NoUpkeep;
use crate::commands::drive::turns::Run;
use crate::commands::drive::turns::Wake;
use crate::commands::drive::turns::stop_signals;
use crate::commands::say;
use crate::commands::standard::stdout;
use crate::exit::Failure;

/// Time between two readings of the ring.
const PAUSE: Duration = Duration::from_millis(20);

/// There may be more to read.
pub const AT_ONCE: Turn = Turn::Until(Duration::ZERO);

/// Attaches to the target.
fn open(args: &TargetArgs, measure: bool) -> Result<Box<dyn HostSource>> {
    take_over_log(None);
    let system = System::at("/");
    let session: Box<dyn HostSource> = match (args.nvmet, args.pid) {
        (true, _) => Box::new(HostSession::nvmet(&system, measure)?),
        (false, Some(pid)) if args.usdt => Box::new(QemuUsdt::of(&system, pid)?),
        (false, Some(pid)) => {
            let options = HostOptions {
                measure,
                ends_only: args.ends,
                shift: args.test_shift,
            };
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
    say(&format!("tracing {what} by {}", target.by));
    Ok(session)
}

/// Begins to listen for the signals that end a run.
///
/// # Errors
/// If the kernel refuses.
pub fn stop_receiver() -> Result<Receiver<Wake>> {
    let (sender, stop) = channel();
    stop_signals(sender)?;
    Ok(stop)
}

/// Takes turns until a signal, for this time, or until the target has ended.
///
/// # Errors
/// Those of the turns.
pub fn until_stopped(
    duration: Option<Duration>,
    turn: &mut dyn FnMut() -> Result<Turn>,
) -> Result<()> {
    until_stop(&stop_receiver()?, duration, turn)
}

/// The same, if signals are listened for already.
///
/// # Errors
/// Those of the turns.
pub fn until_stop(
    stop: &Receiver<Wake>,
    duration: Option<Duration>,
    turn: &mut dyn FnMut() -> Result<Turn>,
) -> Result<()> {
    let run = Run::begin(stop, duration);
    run.turns(&mut (), &mut NoUpkeep, &mut |(), _| match turn()? {
        Turn::Items => Ok(Turn::Until(run.elapsed() + PAUSE)),
        other => Ok(other),
    })
}

/// Passes on the events until a signal, or for this time, and those in flight. Returns the ledger, and
/// an error if the target has ended.
fn follow(
    session: &mut dyn HostSource,
    duration: Option<Duration>,
    to: &mut dyn FnMut(&HostEvent, &[HostController]) -> Result<()>,
    idle: &mut dyn FnMut() -> Result<()>,
) -> Result<(HostLedger, Result<()>)> {
    let mut done = Ok(());
    until_stopped(duration, &mut || {
        let more = session.take(false, &mut |event, controllers| {
            if done.is_ok() {
                done = to(event, controllers);
            }
        })?;
        std::mem::replace(&mut done, Ok(()))?;
        idle()?;
        Ok(match (session.alive(), more) {
            (Err(_), _) => Turn::Done,
            (Ok(()), true) => AT_ONCE,
            (Ok(()), false) => Turn::Items,
        })
    })?;
    let alive = session.alive();
    let ledger = session.end(&mut |event, controllers| {
        if done.is_ok() {
            done = to(event, controllers);
        }
    })?;
    done?;
    Ok((ledger, alive.map_err(Into::into)))
}

/// Runs `host trace`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn trace(args: &HostTraceArgs) -> Result<()> {
    let mut out = BufWriter::new(stdout());
    if let Some(path) = &args.target.from {
        return replay(path, args, &mut out);
    }
    if let Some(path) = &args.output {
        return record(path, args);
    }
    let mut session = open(&args.target, args.verbose)?;
    let (ledger, alive) = {
        let out = RefCell::new(&mut out);
        let mut to = |event: &HostEvent, controllers: &[HostController]| {
            view::event(event, controllers, args.json, *out.borrow_mut())
        };
        let mut idle = || Ok(out.borrow_mut().flush()?);
        follow(&mut *session, args.duration, &mut to, &mut idle)?
    };
    view::target(session.target(), session.controllers(), args.json, &mut out)?;
    view::ledger(&ledger, args.json, args.verbose, &mut out)?;
    out.flush()?;
    alive
}

fn record(path: &Path, args: &HostTraceArgs) -> Result<()> {
    let mut session = open(&args.target, args.verbose)?;
    let mut file = HostFile::create(path, args.force, &[], session.target().clone(), true)?;
    let (ledger, alive) = {
        let file = RefCell::new(&mut file);
        let mut to = |event: &HostEvent, _: &[HostController]| file.borrow_mut().event(event);
        let mut idle = || file.borrow_mut().upkeep();
        follow(&mut *session, args.duration, &mut to, &mut idle)?
    };
    file.finish(session.controllers(), &ledger)?;
    view::ledger(&ledger, false, args.verbose, &mut std::io::sink())?;
    alive
}

fn replay(path: &Path, args: &HostTraceArgs, out: &mut dyn Write) -> Result<()> {
    let recording = read_recording(path)?;
    view::target(&recording.target, &recording.controllers, args.json, out)?;
    for event in &recording.events {
        view::event(event, &recording.controllers, args.json, out)?;
    }
    if let Some(ledger) = &recording.ledger {
        view::ledger(ledger, args.json, args.verbose, out)?;
    }
    out.flush()?;
    check_end(&recording, path)
}

/// Runs `host latency`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn latency(args: &HostLatencyArgs) -> Result<()> {
    let mut rows = HostRows::default();
    let mut add = |event: &HostEvent| {
        if let HostEvent::Command(command) = event {
            rows.add(command);
        }
    };
    let (controllers, ledger, ended) = match &args.target.from {
        Some(path) => {
            let recording = read_recording(path)?;
            recording.events.iter().for_each(add);
            let ended = check_end(&recording, path);
            (recording.controllers, recording.ledger, ended)
        }
        None => {
            let mut session = open(&args.target, args.verbose)?;
            let mut to = |event: &HostEvent, _: &[HostController]| {
                add(event);
                Ok(())
            };
            let (ledger, alive) = follow(&mut *session, args.duration, &mut to, &mut || Ok(()))?;
            (session.controllers().to_vec(), Some(ledger), alive)
        }
    };
    let name_of = |ctrl| view::name_of(&controllers, ctrl);
    let mut out = BufWriter::new(stdout());
    let written = if args.json {
        latency_json(&rows, &name_of, &mut out)
    } else {
        let color = args.color.on_stdout(false);
        latency_text(&rows, &name_of, Theme { color }, &mut out)
    };
    written?;
    if let Some(ledger) = &ledger {
        view::ledger(ledger, args.json, args.verbose, &mut out)?;
    }
    out.flush()?;
    ended
}
