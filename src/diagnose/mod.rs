// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `diagnose` command: observes this machine for a while, or reads a recording, and applies the
//! rules.

pub(crate) mod affected;
pub(crate) mod args;
pub(crate) mod collect;
pub(crate) mod command;
pub(crate) mod expectation;
pub(crate) mod facts;
pub(crate) mod gaps;
pub(crate) mod incidents;
pub(crate) mod issuers;
pub(crate) mod joined;
pub(crate) mod judge;
pub(crate) mod measure;
pub(crate) mod places;
pub(crate) mod portion;
pub(crate) mod rates;
pub mod report;
pub(crate) mod rules;
pub(crate) mod selection;
pub(crate) mod stages;
pub(crate) mod strata;
pub(crate) mod stuck;
pub(crate) mod subject;
pub(crate) mod verdict;
pub mod view;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::diagnose::report::{
    Collector, Diagnosis, Expectation, Facts, Outcome, STUCK_NS, Stuck, Usual, diagnose,
};
use crate::diagnose::view::{DiagnosisView, Origin};
use crate::error::Kind;
use crate::machine::System;
use crate::machine::clock::monotonic_ns;
use crate::machine::inflight::report::AgeLimit;
use crate::machine::overview::Identity;
use crate::model::machine::ControllerLogs;
use crate::model::stage::StageSet;
use crate::recording::RunInfo;
use crate::settings::Settings;
use crate::view::theme::Theme;
use anyhow::{Context, Result};
use serde_json::Value;

use crate::diagnose::args::DiagnoseOptions;
use crate::run::drive::replay::Replay;
use crate::run::drive::{
    Consumer, End, Feed, Form, Input, Item, Live, drive, open_all, read, say_own_share,
};
use crate::run::exit::Failure;
use crate::run::inflight::{Access, Scope};
use crate::run::start::Preflight;
use crate::run::stdout::stdout;
use crate::run::{eprint_note, say_ledger};

/// Collects the facts of a run.
#[derive(Default)]
struct DiagnoseConsumer(Collector);

impl Consumer for DiagnoseConsumer {
    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        match item {
            Item::Event(event) => {
                // one of this machine may be gone at the end
                feed.names.learn_cgroups(event);
                self.0.event(event);
            }
            Item::Clock(wall_ns) => self.0.wall_clock(*wall_ns),
            Item::Controllers(all) => self.0.controllers(all),
            Item::Activity(activity) => self.0.activity(activity.clone()),
            Item::Machine(machine) => self.0.machine((**machine).clone()),
            _ => {}
        }
        Ok(())
    }
}

impl DiagnoseConsumer {
    /// Of a recording.
    fn of(info: &RunInfo, settings: &Settings) -> Self {
        let mut intake = Self::default();
        let recorded = [info.filter.as_str(), &info.chosen_by()];
        for options in recorded.into_iter().chain([&*settings.filter.text()]) {
            intake.0.selected_by(options);
        }
        intake.0.observed(info.stage_set);
        intake.0.began(info.begin_ns);
        intake
    }

    fn finish(mut self, end: &End<'_>, expectation: Expectation) -> Facts {
        let accuracy = Some(end.ledger.accuracy());
        self.0.cgroups(end.names.cgroups());
        let mut facts = self.0.finish(end.covers, accuracy, expectation);
        facts.is_whole = end.is_whole;
        facts
    }
}

/// Refuses a recording that no diagnosis can be made of.
fn require(replay: &Replay) -> Result<()> {
    replay.require_pairs()?;
    if replay.info().stage_set == StageSet::Total {
        let text = format!(
            "{} has no stages, which a diagnosis needs: record with `record`",
            replay.path()
        );
        return Err(Failure::error(Kind::Usage, text));
    }
    Ok(())
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
    let mut replay = Replay::open(path, &settings)?;
    require(&replay)?;
    replay.warn_partial();
    replay.show_progress();
    let mut intake = DiagnoseConsumer::of(replay.info(), &settings);
    let end = read(&mut replay, &mut intake)?;
    let facts = intake.finish(&end, Expectation::None);
    replay.check_complete()?;
    let medians = facts.strata.iter().map(|s| (s.stratum, Usual::of(s)));
    Ok(Expectation::Baseline(medians.collect()))
}

/// The object of `diagnose --json` of a recording, for a report.
///
/// # Errors
/// If the recording cannot be read, or no diagnosis can be made of it; one sentence.
pub(crate) fn object(path: &Path, settings: &Settings, redact: bool) -> Result<Value> {
    let settings = Settings { stage_set: StageSet::Total, ..settings.clone() };
    let mut replay = Replay::open(path, &settings)?;
    require(&replay)?;
    replay.be_silent();
    if redact {
        replay.redact();
    }
    let mut intake = DiagnoseConsumer::of(replay.info(), &settings);
    let end = read(&mut replay, &mut intake)?;
    let facts = intake.finish(&end, Expectation::None);
    let origin = Origin { file: None, kernel: None, machine: None };
    let mut line = Vec::new();
    DiagnosisView { facts: &facts, origin, diagnosis: &diagnose(&facts) }.json(&mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

fn show(options: &DiagnoseOptions, origin: Origin<'_>, facts: &Facts) -> Result<Diagnosis> {
    let diagnosis = diagnose(facts);
    let view = DiagnosisView { facts, origin, diagnosis: &diagnosis };
    let mut out = BufWriter::new(stdout());
    if options.json {
        view.json(&mut out)?;
    } else {
        let theme = Theme { color: options.session.color.on_stdout(options.json) };
        view.text(theme, options.session.is_verbose(), &mut out)?;
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

/// The commands that are stuck now, also those from before the run. Without the types of the driver's
/// queues there are none, and a message says so.
fn stuck(settings: &Settings) -> Vec<Stuck> {
    let system = System::at("/");
    let scope =
        Scope { filter: &settings.filter, age: AgeLimit::Time(Duration::from_nanos(STUCK_NS)) };
    let access = Access::open(settings.attaching.btf.as_deref(), &system);
    let found =
        access.and_then(|mut access| access.look(&system.controllers(), scope, &mut || Ok(None)));
    match found {
        Ok(found) => Stuck::of(&found, monotonic_ns()),
        Err(error) => {
            eprint_note(&format!("commands in flight were not looked at: {error}"));
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
        logs.inspect_err(|why| eprint_note(&format!("log pages: {why}"))).ok()
    });
    read.collect()
}

/// Diagnoses a run.
struct Diagnosing<'o> {
    options: &'o DiagnoseOptions,
    expectation: Expectation,
    intake: DiagnoseConsumer,
    /// Of this machine.
    live: Option<Observed>,
}

/// What was read of this machine before the run.
struct Observed {
    identity: Identity,
    logs: Option<Vec<ControllerLogs>>,
}

impl Observed {
    /// What is read of this machine after the run.
    fn finish(&self, options: &DiagnoseOptions, collector: &mut Collector) {
        collector.in_flight(stuck(&options.settings));
        let Some(before) = &self.logs else {
            return;
        };
        let after = logs(&options.settings).into_iter();
        let both = after.filter_map(|last| {
            let first = before.iter().find(|b| b.instance == last.instance)?;
            Some((*first, last))
        });
        collector.logs(both.collect());
    }
}

impl Consumer for Diagnosing<'_> {
    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        match item {
            // it has been read, with more than a recording has
            Item::Machine(_) if self.live.is_some() => Ok(()),
            other => self.intake.item(other, feed),
        }
    }

    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        let options = self.options;
        if let Some(live) = &self.live {
            live.finish(options, &mut self.intake.0);
        }
        let facts = self.intake.finish(&end, self.expectation);
        let recorded = end.recording.map(|replay| (replay.path(), replay.info()));
        let live = self.live.as_ref().map(|live| &live.identity);
        let kernel = recorded.and_then(|(_, info)| info.kernel.as_deref());
        let machine = recorded.and_then(|(_, info)| info.machine.as_deref());
        let origin = Origin {
            file: recorded.map(|(path, _)| &**path),
            kernel: kernel.or_else(|| live?.kernel.as_deref()),
            machine: machine.or_else(|| live.map(|l| &*l.hypervisor)),
        };
        let diagnosis = show(options, origin, &facts)?;
        if end.session.is_some() {
            say_own_share(&end.ledger);
            say_ledger(&end.ledger, options.session.is_verbose());
        }
        Ok(verdict(options, &diagnosis))
    }
}

/// Diagnoses recordings.
fn recorded(options: &DiagnoseOptions, expectation: &Expectation) -> Result<()> {
    let mut settings = options.settings.clone();
    // basic stages suffice for some rules
    settings.stage_set = StageSet::Total;
    let replays = open_all(&options.from.files, &settings, &require)?;
    let form = Form {
        json: options.json,
        color: options.session.color.on_stdout(options.json),
        ledger_apart: false,
    };
    drive(Input::recordings(replays, form, true), &mut |start| {
        let replay = start.recording.context("a recording")?;
        replay.warn_partial();
        Ok(Diagnosing {
            options,
            expectation: expectation.clone(),
            intake: DiagnoseConsumer::of(replay.info(), &settings),
            live: None,
        })
    })
}

/// Diagnoses this machine.
fn observe(options: &DiagnoseOptions, expectation: Expectation) -> Result<()> {
    let settings = &options.settings;
    let ready = Preflight::check(settings)?;
    let mut intake = DiagnoseConsumer::default();
    intake.0.machine(ready.system.info(options.log));
    intake.0.selected_by(&settings.filter.text());
    intake.0.observed(StageSet::Full);
    let live =
        Observed { identity: ready.system.identity(), logs: options.log.then(|| logs(settings)) };
    let mut consumer = Some(Diagnosing { options, expectation, intake, live: Some(live) });
    let input = Input::live(Live::new(ready, settings, Some(options.duration())));
    drive(input, &mut |start| {
        let mut consumer = consumer.take().context("one run")?;
        consumer.intake.0.began(start.begin_ns);
        Ok(consumer)
    })
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &DiagnoseOptions) -> Result<()> {
    let expectation = expectation(options)?;
    if options.from.is_empty() {
        observe(options, expectation)
    } else {
        recorded(options, &expectation)
    }
}
