// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `diagnose` command: observes this machine for a while, or reads a recording, and applies the
//! rules.

use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::machine::System;
use nvme_deep::model::activity::Activity;
use nvme_deep::model::event::Event;
use nvme_deep::model::logs::ControllerLogs;
use nvme_deep::model::machine::MachineInfo;
use nvme_deep::model::stage::StageSet;
use nvme_deep::render::diagnosis::DiagnosisView;
use nvme_deep::render::diagnosis::Origin;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::diagnosis::Collector;
use nvme_deep::report::diagnosis::Diagnosis;
use nvme_deep::report::diagnosis::Expectation;
use nvme_deep::report::diagnosis::Facts;
use nvme_deep::report::diagnosis::Outcome;
use nvme_deep::report::diagnosis::STUCK_NS;
use nvme_deep::report::diagnosis::Stuck;
use nvme_deep::report::diagnosis::diagnose;
use nvme_deep::report::inflight::AgeLimit;
use nvme_deep::session::settings::Settings;

use crate::cli::options::DiagnoseOptions;
use crate::commands::inflight::access::Access;
use crate::commands::inflight::access::Scope;
use crate::commands::names::Names;
use crate::commands::replay::Replay;
use crate::commands::run::say_own_share;
use crate::commands::say;
use crate::commands::say_ledger;
use crate::commands::standard::stdout;
use crate::commands::start::Ready;
use crate::commands::start::until;
use crate::commands::watch::Watched;
use crate::commands::watch::Watcher;
use crate::commands::watch::watch;
use crate::commands::watch::watch_recording;
use crate::exit::Failure;

/// Collects the facts of a run.
#[derive(Default)]
struct Intake(Collector);

impl Watcher for Intake {
    fn begin(&mut self, _begin_ns: u64) {}

    fn event(&mut self, event: &Event, names: &mut Names) {
        // looks for a new namespace
        names.of_command(event.what.id());
        if let Some(news) = names.news() {
            self.0.controllers(news);
        }
        self.0.event(event);
    }

    fn activity(&mut self, activity: Activity) {
        self.0.activity(activity);
    }

    fn machine(&mut self, machine: MachineInfo) {
        self.0.machine(machine);
    }
}

impl Intake {
    fn finish(self, watched: &Watched, expectation: Expectation) -> Facts {
        let covers = watched.took.saturating_sub(watched.dropped);
        self.0
            .finish(covers, Some(watched.ledger.accuracy()), expectation)
    }
}

/// Opens a recording, and says which part of it is read.
fn open(path: &Path, settings: &Settings) -> Result<Replay> {
    let mut replay = Replay::open(path, settings)?;
    replay.require_pairs()?;
    replay.say_choice();
    replay.show_progress();
    if replay.info().stage_set == StageSet::Total {
        let text = format!(
            "{} has no stages, which a diagnosis needs: record with `record --stages=fine --context`",
            replay.path()
        );
        return Err(Failure::error(Kind::Usage, text));
    }
    Ok(replay)
}

/// Reads a recording to its end. The result is an error if the file has no end.
fn read(
    replay: Replay,
    settings: &Settings,
    expectation: Expectation,
) -> Result<(Facts, Result<()>)> {
    let mut intake = Intake::default();
    let info = replay.info();
    let recorded = [info.filter.raw(), &info.chosen_by()];
    for options in recorded.into_iter().chain([&*settings.filter.text()]) {
        intake.0.selected_by(options);
    }
    intake.0.observed(info.stage_set);
    let watched = watch_recording(replay, settings, &mut intake)?;
    let mut facts = intake.finish(&watched, expectation);
    facts.is_whole = watched.verdict.is_ok();
    Ok((facts, watched.verdict))
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
    let (facts, ended) = read(open(path, &settings)?, &settings, Expectation::None)?;
    ended?;
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
    let mut out = BufWriter::new(stdout());
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
            let text = "no rule could be judged (--check): the first line says why";
            Err(Failure::error(Kind::Run, text))
        }
    }
}

/// Diagnoses a recording.
fn replay(options: &DiagnoseOptions, path: &Path, expectation: Expectation) -> Result<()> {
    let mut settings = options.settings.clone();
    // basic stages suffice for some rules
    settings.stage_set = StageSet::Total;
    let replay = open(path, &settings)?;
    let (info, file) = (replay.info().clone(), replay.path().to_owned());
    let (facts, ended) = read(replay, &settings, expectation)?;
    let origin = Origin {
        file: Some(&file),
        kernel: info.kernel.as_ref(),
        machine: info.machine.as_ref(),
    };
    let diagnosis = show(options, origin, &facts)?;
    ended?;
    verdict(options, &diagnosis)
}

/// The commands that are stuck now, also those from before the run. Without the types of the driver's
/// queues there are none, and a message says so.
fn stuck(settings: &Settings) -> Vec<Stuck> {
    let system = System::at("/");
    let scope = Scope {
        filter: &settings.filter,
        age: AgeLimit::Time(Duration::from_nanos(STUCK_NS)),
    };
    let access = Access::open(settings.attaching.btf.as_deref(), &system);
    let found =
        access.and_then(|mut access| access.look(&system.controllers(), scope, &mut || Ok(None)));
    match found {
        Ok(found) => Stuck::of(&found),
        Err(error) => {
            say(&format!("commands in flight were not looked at: {error}"));
            Vec::new()
        }
    }
}

/// The log pages of the controllers that are selected. Those that cannot be read have none, and a
/// message says why.
fn logs(settings: &Settings) -> Vec<ControllerLogs> {
    let system = System::at("/");
    let all = system.controllers().into_iter();
    let wanted = all.filter(|c| settings.filter.has_ctrl(c.instance));
    let read = wanted.filter_map(|controller| {
        let logs = system.logs(&controller);
        logs.inspect_err(|why| say(&format!("log pages: {why}")))
            .ok()
    });
    read.collect()
}

/// Diagnoses this machine.
fn observe(options: &DiagnoseOptions, expectation: Expectation) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let identity = ready.system.identity();
    let mut intake = Intake::default();
    intake.machine(ready.system.info(options.log));
    intake.0.selected_by(&options.settings.filter.text());
    intake.0.observed(StageSet::Fine);
    let before = options.log.then(|| logs(&options.settings));
    let duration = Some(options.duration);
    let watched = watch(ready, &options.settings, until(true), duration, &mut intake)?;
    intake.0.in_flight(stuck(&options.settings));
    if let Some(before) = before {
        let after = logs(&options.settings).into_iter();
        let both = after.filter_map(|last| {
            let first = before.iter().find(|b| b.instance == last.instance)?;
            Some((*first, last))
        });
        intake.0.logs(both.collect());
    }
    let facts = intake.finish(&watched, expectation);
    let origin = Origin {
        file: None,
        kernel: identity.kernel.as_ref(),
        machine: Some(&identity.hypervisor),
    };
    let diagnosis = show(options, origin, &facts)?;
    say_own_share(&watched.ledger);
    say_ledger(&watched.ledger, options.verbose);
    watched.verdict?;
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
