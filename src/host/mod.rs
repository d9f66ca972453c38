// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `host` command: the host side of NVMe commands.

mod annotate;
pub(crate) mod args;
mod latency;
mod list;
mod spdk;
mod trace;

use std::collections::BTreeMap;
use std::io;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::host::args::{HostArgs, HostCommand, TargetArgs};
use crate::machine::System;
use crate::model::ledger::Ledger;
use crate::model::stage::StageSet;
use crate::model::target::{HostController, TargetInfo, name_of};
use crate::model::text::word;
use crate::recording::Fact;
use crate::run::drive::turns::{Turns, stop_receiver};
use crate::run::drive::{FileReader, Run, Step as FileStep};
use crate::run::start::{HostSession, prepare, target};
use crate::run::stdout::Stdout;
use crate::run::{eprint_note, say_ledger};
use crate::settings::{ChosenTarget, HostOptions, Settings};
use crate::target::{HostEvent, StateChange};
use crate::view::json::typed_line;
use crate::view::theme::Theme;
use crate::view::trace::{Clock, Context, TraceLines};
use anyhow::Result;
use serde_json::{Value, json};

/// Attaches to a target. Also returns what it is, for the first line.
fn attach(chosen: ChosenTarget, options: HostOptions) -> Result<(HostSession, String)> {
    prepare(None)?;
    let source = target(&System::at("/"), chosen, options)?;
    let TargetInfo { pid, binary, version, .. } = source.target();
    let what = match (pid, binary) {
        (Some(pid), Some(binary)) => {
            let release = version.as_ref().map(|release| format!(", SPDK {release}"));
            format!("process {pid} ({binary}{})", release.unwrap_or_default())
        }
        _ => "the kernel's target".into(),
    };
    Ok((source, what))
}

/// A step of a run.
enum Step<'a> {
    /// An event, and the controllers that are known.
    Event(&'a HostEvent<'a>, &'a [HostController]),
    /// No event waits.
    Pause,
}

/// Takes the steps of a run. Returns whether to go on.
type Taker<'t> = &'t mut dyn FnMut(Step<'_>) -> Result<bool>;

/// Writes a line for each event.
fn lines(json: bool, out: &mut BufWriter<Stdout>) -> impl FnMut(Step<'_>) -> Result<bool> {
    let stages = Some(StageSet::Host);
    let mut lines = match json {
        true => TraceLines::json(Clock::Mono, stages),
        false => TraceLines::long(Theme { color: false }, Clock::Mono, stages),
    };
    move |step| {
        match step {
            Step::Event(HostEvent::Nvme(event), controllers) => {
                let name = name_of(controllers, event.what.ctrl());
                lines.event(event, &Context { disk: &name, ..Context::default() });
                lines.take(|lines| out.write_all(lines))?;
            }
            Step::Event(HostEvent::State(change), _) => state(change, json, out)?,
            Step::Event(HostEvent::Call { .. }, _) => {}
            Step::Pause => out.flush()?,
        }
        Ok(true)
    }
}

/// Writes a change of state as a line, or as an object.
fn state(change: &StateChange, json: bool, out: &mut dyn Write) -> io::Result<()> {
    let StateChange { at_ns, probe, fields } = change;
    if json {
        let fields: BTreeMap<&str, &Value> = fields.iter().map(|(name, v)| (*name, v)).collect();
        let line = json!({ "time_ns": at_ns, "probe": probe, "fields": fields });
        return typed_line("spdk_state", &line, out);
    }
    let field = |(name, value): &(&str, Value)| match value.as_str() {
        // a host that connects chooses its name
        Some(text) => format!("{name}={}", word(text)),
        None => format!("{name}={value}"),
    };
    let fields: Vec<String> = fields.iter().map(field).collect();
    writeln!(out, "{at_ns} - State {probe}: {}", fields.join(", "))
}

/// The end of a run of a target, or of its recording.
struct Ended {
    target: TargetInfo,
    controllers: Vec<HostController>,
    /// `None`: a recording without an end.
    ledger: Option<Ledger>,
    took: Duration,
    /// To be returned after the output: that the target, or the recording, ended early.
    early: Result<()>,
}

/// Passes on the events of a target of this machine, until a signal, for this time, or to its end.
fn live(mut source: HostSession, duration: Option<Duration>, taker: Taker<'_>) -> Result<Ended> {
    let mut turns = Turns::begin(stop_receiver()?, duration);
    let mut more = true;
    while taker(Step::Pause)? && source.alive().is_ok() && turns.pause(more) {
        more = source.take(&mut |event, known| taker(Step::Event(event, known)).map(drop))?;
    }
    let (took, early) = (turns.elapsed(), source.alive());
    let ledger = source.end(&mut |event, known| taker(Step::Event(event, known)).map(drop))?;
    let (target, controllers) = (source.target().clone(), source.controllers().to_vec());
    Ok(Ended { target, controllers, ledger: Some(ledger), took, early })
}

/// Attaches to the target that was asked for, and says so.
fn asked_for(args: &TargetArgs) -> Result<HostSession> {
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
    let (source, what) = attach(chosen, options)?;
    eprint_note(&format!("tracing {what} by {}", source.target().by));
    Ok(source)
}

/// Passes on the events of the target that was asked for, or of the recording of one.
fn observe(args: &TargetArgs, taker: Taker<'_>) -> Result<Ended> {
    let Some(path) = &args.from else {
        return live(asked_for(args)?, args.duration, taker);
    };
    recorded(path, taker)
}

/// Passes on the events of a recording.
fn recorded(path: &Path, taker: Taker<'_>) -> Result<Ended> {
    let mut reader = FileReader::open(path, &Settings::of(StageSet::Host))?;
    let (mut controllers, mut took) = (Vec::new(), Duration::ZERO);
    let mut first_ns = None;
    let mut run = Run::of(&mut reader);
    loop {
        match run.next()? {
            FileStep::Event { event, .. } => {
                let first_ns = *first_ns.get_or_insert(event.at_ns);
                took = took.max(Duration::from_nanos(event.at_ns.saturating_sub(first_ns)));
                taker(Step::Event(&HostEvent::Nvme(event), &controllers))?;
            }
            FileStep::Fact(Fact::TargetControllers(all)) => controllers = all,
            FileStep::Fact(_) | FileStep::Tick { .. } => {}
            FileStep::Ended => break,
        }
    }
    let (target, ledger) = (reader.info().target.clone(), reader.ledger().cloned());
    let early = reader.check_complete();
    Ok(Ended { target: target.unwrap_or_default(), controllers, ledger, took, early })
}

/// Writes the ledger after the rest of the output: as JSON, or as text to stderr.
fn write_ledger(ledger: Option<&Ledger>, args: &TargetArgs, out: &mut dyn Write) -> Result<()> {
    match ledger {
        Some(ledger) if args.json => {
            let line = json!({ "exact": ledger.is_exact(), "ledger": ledger });
            typed_line("host_end", &line, out)?;
            out.flush()?;
        }
        Some(ledger) => {
            out.flush()?;
            say_ledger(ledger, args.verbose);
        }
        None => out.flush()?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_line() {
        let change = StateChange {
            at_ns: 7,
            probe: "nvmf_subsystem_change_state",
            fields: vec![
                ("nqn", json!("nqn.a b")),
                ("to", json!("ACTIVATING")),
                ("from", json!(-9)),
            ],
        };
        let text = |json| {
            let mut out = Vec::new();
            state(&change, json, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let name = word("nqn.a b");
        let want =
            format!("7 - State nvmf_subsystem_change_state: nqn={name}, to=ACTIVATING, from=-9\n");
        assert_eq!(text(false), want);
        let line: Value = serde_json::from_str(&text(true)).unwrap();
        assert_eq!(line["fields"], json!({ "nqn": "nqn.a b", "to": "ACTIVATING", "from": -9 }));
    }
}
