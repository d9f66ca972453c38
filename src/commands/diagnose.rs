// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `diagnose` command: observes this machine for a while, or reads a recording, and applies the
//! rules.

use std::io::BufWriter;
use std::io::Write;
use std::io::stdout;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::machine::own_tgid;
use nvme_deep::model::stage::StageSet;
use nvme_deep::recording::Item;
use nvme_deep::render::diagnosis::DiagnosisView;
use nvme_deep::render::diagnosis::Origin;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::diagnosis::Collector;
use nvme_deep::report::diagnosis::Diagnosis;
use nvme_deep::report::diagnosis::Expectation;
use nvme_deep::report::diagnosis::Facts;
use nvme_deep::report::diagnosis::Outcome;
use nvme_deep::report::diagnosis::diagnose;
use nvme_deep::report::ledger::EventClass;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::report::ledger::Shown;
use nvme_deep::session::settings::Settings;
use nvme_deep::source::EventStream;
use nvme_deep::source::Read;
use nvme_deep::source::Source;

use crate::cli::options::DiagnoseOptions;
use crate::commands::drops::Drops;
use crate::commands::drops::Reader;
use crate::commands::names::Names;
use crate::commands::replay::Replay;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::drain_pause;
use crate::commands::run::ledger_of_trace;
use crate::commands::run::say_own_share;
use crate::commands::run::take_in;
use crate::commands::run::take_rest;
use crate::commands::say_ledger;
use crate::commands::start::Ready;
use crate::commands::start::until;
use crate::exit::Failure;

/// Reads a recording to its end. The result is an error if the file has no end.
fn read(
    path: &Path,
    settings: &Settings,
    expectation: Expectation,
) -> Result<(Replay, Facts, Ledger)> {
    let mut replay = Replay::open(path, settings)?;
    replay.require_pairs()?;
    replay.say_choice();
    if replay.info().stage_set == StageSet::Total {
        let text = format!(
            "{} has no stages, which a diagnosis needs: record with `record --stages=fine --context`",
            replay.path()
        );
        return Err(Failure::error(Kind::Usage, text));
    }
    let mut collector = Collector::default();
    while replay.next(&mut |item| match item {
        Item::Event(event) if settings.selects(event) => collector.event(event),
        Item::Controllers(all) => {
            collector.controllers(&all);
        }
        Item::Activity(activity) => collector.activity(activity),
        Item::Machine(machine) => collector.machine(*machine),
        _ => {}
    })? {}
    let (ledger, _) = replay.end()?;
    let facts = collector.finish(replay.covers(), Some(ledger.accuracy()), expectation);
    Ok((replay, facts, ledger))
}

/// What commands should take.
fn expectation(options: &DiagnoseOptions) -> Result<Expectation> {
    if let Some(expect) = options.expect {
        let ns = u64::try_from(expect.as_nanos()).unwrap_or(u64::MAX);
        return Ok(Expectation::Median(ns));
    }
    let Some(path) = &options.baseline else {
        return Ok(Expectation::None);
    };
    let settings = Settings::of(StageSet::Total);
    let (replay, facts, _) = read(path, &settings, Expectation::None)?;
    replay.verdict()?;
    let medians = facts.strata.iter().map(|s| (s.stratum, s.p50_ns));
    Ok(Expectation::Baseline(medians.collect()))
}

fn show(options: &DiagnoseOptions, origin: Origin<'_>, facts: &Facts) -> Result<Diagnosis> {
    let diagnosis = diagnose(facts);
    let view = DiagnosisView {
        facts,
        origin,
        diagnosis: &diagnosis,
    };
    let mut out = BufWriter::new(stdout().lock());
    if options.json {
        view.json(&mut out)?;
    } else {
        let theme = Theme {
            color: options.color,
        };
        view.text(theme, options.verbose, &mut out)?;
    }
    out.flush()?;
    Ok(diagnosis)
}

/// The result of `--check`.
fn verdict(options: &DiagnoseOptions, diagnosis: &Diagnosis) -> Result<()> {
    if !options.check {
        return Ok(());
    }
    match diagnosis.outcome {
        Outcome::Nothing => Ok(()),
        Outcome::Cause => {
            let rules = diagnosis.causes.iter().map(|c| c.finding.rule);
            let rules = rules.collect::<Vec<_>>().join(", ");
            let text = format!("found: {rules} (--check)");
            Err(Failure::error(Kind::Check, text))
        }
        Outcome::Unknown => {
            let text = "nothing can be said (--check): see above";
            Err(Failure::error(Kind::Run, text))
        }
    }
}

/// Diagnoses a recording.
fn replay(options: &DiagnoseOptions, path: &Path, expectation: Expectation) -> Result<()> {
    let mut settings = options.settings.clone();
    // basic stages suffice for some rules
    settings.stage_set = StageSet::Total;
    let (replay, facts, _) = read(path, &settings, expectation)?;
    let info = replay.info().clone();
    let origin = Origin {
        file: Some(replay.path()),
        kernel: info.kernel.as_deref(),
        machine: info.machine.as_deref(),
    };
    let diagnosis = show(options, origin, &facts)?;
    replay.verdict()?;
    verdict(options, &diagnosis)
}

/// Takes in the events of a run.
struct Intake {
    collector: Collector,
    names: Names,
    shown: Shown,
    own: Option<u32>,
}

impl Intake {
    fn read(&mut self, read: Read<'_>) {
        let Some(event) = read else {
            self.shown.undecodable += 1;
            return;
        };
        self.names.of_command(event.what.id());
        if let Some(news) = self.names.news() {
            self.collector.controllers(news);
        }
        self.collector.event(event);
        self.shown.add(EventClass::of(&event.what));
        self.shown.add_own(&event.what, self.own);
    }

    /// Once a second, at the begin and at the end.
    fn upkeep(&mut self, source: &dyn Source) -> Result<()> {
        self.names.may_look();
        if let Some(activity) = source.activity()? {
            self.collector.activity(activity);
        }
        Ok(())
    }

    fn end(
        &mut self,
        events: &mut dyn EventStream,
        source: &dyn Source,
        end_ns: u64,
    ) -> Result<()> {
        take_rest(events, &mut |read| self.read(read))?;
        self.upkeep(source)?;
        self.shown.out_of_order = events.late();
        for event in source.unfinished(end_ns.max(events.last_ns()))? {
            self.read(Some(&event));
        }
        Ok(())
    }
}

/// Diagnoses this machine.
fn observe(options: &DiagnoseOptions, expectation: Expectation) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let mut session = ready.attach(&options.settings, until(true), None)?;
    let drops = Drops::watch(&session, &options.settings, Reader::Sums)?;
    let mut watchdog = Watchdog::of(&session, ready.system.clone());
    let identity = ready.system.identity();
    let mut collector = Collector::default();
    collector.machine(ready.system.info(true));
    let mut intake = Intake {
        collector,
        names: Names::of(ready.system.clone()),
        shown: Shown::default(),
        own: own_tgid(),
    };
    intake.upkeep(&session)?;
    let mut events = session.events()?;
    let pause = drain_pause(session.rings().bytes);
    let run = Run::begin(&ready.stop, Some(options.duration));
    let ended = run.turns(&mut session, &mut watchdog, &mut |session, tick| {
        if tick.rescanned {
            intake.upkeep(session)?;
        }
        let more = take_in(&mut events, &mut |read| intake.read(read))?;
        let next = if more {
            tick.now
        } else {
            run.elapsed() + pause
        };
        Ok(Turn::Until(next))
    });
    let covers: Duration = run.elapsed();
    let end_ns = drops.close(&mut session, &mut watchdog, ended)?;
    intake.end(&mut events, &session, end_ns)?;
    let ledger = ledger_of_trace(&session, &intake.shown, Some(session.scan()?))?;
    let accuracy = Some(ledger.accuracy());
    let facts = intake.collector.finish(covers, accuracy, expectation);
    let origin = Origin {
        file: None,
        kernel: identity.kernel.as_deref(),
        machine: Some(&identity.hypervisor),
    };
    let diagnosis = show(options, origin, &facts)?;
    say_own_share(&ledger);
    say_ledger(&ledger, options.verbose);
    watchdog.verdict()?;
    verdict(options, &diagnosis)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &DiagnoseOptions) -> Result<()> {
    let expectation = expectation(options)?;
    match &options.from {
        Some(path) => replay(options, path, expectation),
        None => observe(options, expectation),
    }
}
