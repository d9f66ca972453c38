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
use crate::model::text::Text;
use crate::recording::{Fact, RunInfo};
use crate::settings::Settings;
use crate::view::theme::Theme;
use anyhow::{Context, Result};

use crate::diagnose::args::DiagnoseOptions;
use crate::run::drive::{
    End, FileReader, Form, Input, Live, Run, Seen, Step, open_all, say_own_share,
};
use crate::run::exit::{Failure, kind_of};
use crate::run::inflight::{Access, Scope};
use crate::run::start::Preflight;
use crate::run::stdout::stdout;
use crate::run::{eprint_note, say_ledger};

/// Collects the facts of a run.
#[derive(Default)]
struct DiagnoseConsumer(Collector);

impl DiagnoseConsumer {
    /// Reads a run to its end. `machine`: its settings were not read before.
    fn read(&mut self, run: &mut Run<'_>, machine: bool) -> Result<()> {
        loop {
            match run.next()? {
                Step::Event(Seen { event, is_selected: true, names, .. }) => {
                    // one of this machine may be gone at the end
                    names.learn_cgroups(event);
                    self.0.event(event);
                }
                Step::Fact(Fact::Clock(offset)) => self.0.wall_clock(offset.wall_ns),
                Step::Fact(Fact::Controllers(all)) => self.0.controllers(&all),
                Step::Fact(Fact::Activity(activity)) => self.0.activity(activity),
                Step::Fact(Fact::Machine(found)) if machine => self.0.machine(*found),
                Step::Ended => return Ok(()),
                _ => {}
            }
        }
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

    fn finish(mut self, run: &mut Run<'_>, expectation: Expectation) -> Result<(Facts, End)> {
        let end = run.end_of_shown()?;
        self.0.cgroups(run.names().cgroups());
        let mut facts = self.0.finish(end.covers, Some(end.ledger.accuracy()), expectation);
        facts.is_whole = run.file().is_none_or(|file| file.incomplete().is_none());
        Ok((facts, end))
    }
}

/// Refuses a recording that no diagnosis can be made of.
fn require(file: &FileReader) -> Result<()> {
    file.require_pairs()?;
    if file.info().stage_set == StageSet::Total {
        let text =
            format!("{} has no stages, which a diagnosis needs: record with `record`", file.path);
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
    let mut file = FileReader::open(path, &settings)?;
    require(&file)?;
    file.warn_partial();
    file.show_progress();
    let mut intake = DiagnoseConsumer::of(file.info(), &settings);
    let mut run = Run::of(&mut file);
    intake.read(&mut run, true)?;
    let (facts, _) = intake.finish(&mut run, Expectation::None)?;
    file.check_complete()?;
    let medians = facts.strata.iter().map(|s| (s.stratum, Usual::of(s)));
    Ok(Expectation::Baseline(medians.collect()))
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

impl Diagnosing<'_> {
    /// Diagnoses a run. Returns the result of `--check`.
    fn read(mut self, run: &mut Run<'_>) -> Result<Result<()>> {
        let options = self.options;
        self.intake.read(run, self.live.is_none())?;
        if let Some(live) = &self.live {
            live.finish(options, &mut self.intake.0);
        }
        let (facts, end) = self.intake.finish(run, self.expectation)?;
        let recorded = run.file().map(|file| (&file.path, file.info()));
        let live = self.live.as_ref().map(|live| &live.identity);
        let kernel = recorded.and_then(|(_, info)| info.kernel.as_deref());
        let machine = recorded.and_then(|(_, info)| info.machine.as_deref());
        let origin = Origin {
            file: recorded.map(|(path, _)| &**path),
            kernel: kernel.or_else(|| live?.kernel.as_deref()),
            machine: machine.or_else(|| live.map(|l| &*l.hypervisor)),
        };
        let diagnosis = show(options, origin, &facts)?;
        if run.session().is_some() {
            say_own_share(&end.ledger);
            say_ledger(&end.ledger, options.session.is_verbose());
        }
        Ok(verdict(options, &diagnosis))
    }
}

/// The result of `--check` for several recordings. What was found counts more than what could not be
/// judged.
fn verdict_of_all(all: usize, mut failed: Vec<(Text, anyhow::Error)>) -> Result<()> {
    if all == 1 {
        return failed.pop().map_or(Ok(()), |(_, error)| Err(error));
    }
    for (path, error) in &failed {
        eprint_note(&format!("{path}: {error:#}"));
    }
    let kinds: Vec<Kind> = failed.iter().map(|(_, error)| kind_of(error)).collect();
    let found = kinds.iter().find(|kind| **kind == Kind::Check);
    found.or(kinds.first()).map_or(Ok(()), |kind| {
        let text = format!("{} of {all} recordings did not pass: see above", kinds.len());
        Err(Failure::error(*kind, text))
    })
}

/// Diagnoses recordings.
fn recorded(options: &DiagnoseOptions, expectation: &Expectation) -> Result<()> {
    let mut settings = options.settings.clone();
    // basic stages suffice for some rules
    settings.stage_set = StageSet::Total;
    let files = open_all(&options.from.files, &settings, &require)?;
    let form = Form {
        json: options.json,
        color: options.session.color.on_stdout(options.json),
        ledger_apart: false,
        has_header: false,
        is_silent: true,
    };
    let (all, mut failed) = (files.len(), Vec::new());
    Input::files(files, form).each(&mut |run| {
        let file = run.file().context("a recording")?;
        file.warn_partial();
        let path = file.path.clone();
        let intake = DiagnoseConsumer::of(file.info(), &settings);
        let expectation = expectation.clone();
        let diagnosing = Diagnosing { options, expectation, intake, live: None };
        failed.extend(diagnosing.read(run)?.err().map(|error| (path, error)));
        Ok(())
    })?;
    verdict_of_all(all, failed)
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
    let mut verdict = Ok(());
    input.each(&mut |run| {
        let mut consumer = consumer.take().context("one run")?;
        consumer.intake.0.began(run.begin_ns());
        verdict = consumer.read(run)?;
        Ok(())
    })?;
    verdict
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
