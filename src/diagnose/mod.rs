// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `diagnose` command: observes this machine for a while, or reads a recording, and applies the
//! rules.

mod affected;
pub(crate) mod args;
mod classes;
mod command;
mod compare;
mod expectation;
mod facts;
mod gaps;
mod incidents;
mod issuers;
mod judge;
mod rates;
pub mod report;
mod rule;
mod rules;
mod selection;
mod share;
mod stages;
mod stuck;
mod subject;
mod verdict;
pub mod view;

use std::io::{BufWriter, Write};
use std::time::Duration;

use self::args::DiagnoseOptions;
use self::report::{Collector, Diagnosis, Expectation, Facts, Outcome, Stuck, diagnose};
use self::stuck::STUCK_NS;
use self::view::{DiagnosisView, Look, Origin};
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

use crate::run::drive::replay::Replay;
use crate::run::drive::{
    Consumer, End, Feed, Form, Input, Item, Live, drive, open_all, read, say_own_share,
};
use crate::run::exit::Failure;
use crate::run::inflight::{Access, Scope};
use crate::run::start::Preflight;
use crate::run::stdout::{output_width, stdout};
use crate::run::{eprint_note, say_ledger};

/// Takes in an item of a run.
fn take(collector: &mut Collector, item: &Item<'_>, feed: &mut Feed<'_>) {
    let facts = &mut collector.facts;
    match item {
        Item::Event(event) => {
            // one of this machine may be gone at the end
            feed.names.learn_cgroups(event);
            collector.event(event);
        }
        // later changes of the clock are not followed
        Item::Clock(wall_ns) => _ = facts.clock.wall_ns.get_or_insert(*wall_ns),
        Item::Controllers(all) => collector.controllers(all),
        Item::Activity(activity) => collector.activity(activity.clone()),
        Item::Machine(machine) => facts.machine = Some((**machine).clone()),
        _ => {}
    }
}

/// A collector for a recording.
fn collector_of(info: &RunInfo, settings: &Settings) -> Collector {
    let mut collector = Collector::default();
    let facts = &mut collector.facts;
    for options in [info.filter.as_str(), &info.chosen_by(), &settings.filter.text()] {
        facts.selection.add(options);
    }
    (facts.stage_set, facts.clock.begin_ns) = (info.stage_set, info.begin_ns);
    collector
}

fn finish(mut collector: Collector, end: &End<'_>, expectation: Expectation) -> Facts {
    collector.facts.cgroups.clone_from(end.names.cgroups());
    collector.facts.is_cut = !end.is_whole;
    collector.finish(end.covers, Some(end.ledger.accuracy()), expectation)
}

/// Collects the facts of a baseline.
struct Baseline(Collector);

impl Consumer for Baseline {
    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        take(&mut self.0, item, feed);
        Ok(())
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

/// How long commands should take.
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
    let mut baseline = Baseline(collector_of(replay.info(), &settings));
    let end = read(&mut replay, &mut baseline)?;
    let facts = finish(baseline.0, &end, Expectation::None);
    replay.check_complete()?;
    let medians = facts.classes.all.iter().map(|own| (own.class, own.medians()));
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
        let detail = options.session.is_verbose();
        view.text(Look { theme, width: output_width(), detail }, &mut out)?;
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
            let rules = diagnosis.causes().map(|v| v.rule).collect::<Vec<_>>().join(", ");
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
    collector: Collector,
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
        collector.facts.in_flight = stuck(&options.settings);
        let Some(before) = &self.logs else {
            return;
        };
        let after = logs(&options.settings).into_iter();
        let both = after.filter_map(|last| {
            let first = before.iter().find(|b| b.instance == last.instance)?;
            Some((*first, last))
        });
        collector.facts.logs = Some(both.collect());
    }
}

impl Consumer for Diagnosing<'_> {
    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        // settings of this machine have been read, with more than a recording has
        if self.live.is_none() || !matches!(item, Item::Machine(_)) {
            take(&mut self.collector, item, feed);
        }
        Ok(())
    }

    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        let options = self.options;
        if let Some(live) = &self.live {
            live.finish(options, &mut self.collector);
        }
        let facts = finish(self.collector, &end, self.expectation);
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
            collector: collector_of(replay.info(), &settings),
            live: None,
        })
    })
}

/// Diagnoses this machine.
fn observe(options: &DiagnoseOptions, expectation: Expectation) -> Result<()> {
    let settings = &options.settings;
    let ready = Preflight::check(settings)?;
    let mut collector = Collector::default();
    collector.facts.machine = Some(ready.system.info(options.log));
    collector.facts.selection.add(&settings.filter.text());
    collector.facts.stage_set = StageSet::Full;
    let live =
        Observed { identity: ready.system.identity(), logs: options.log.then(|| logs(settings)) };
    let mut consumer = Some(Diagnosing { options, expectation, collector, live: Some(live) });
    let input = Input::live(Live::new(ready, settings, Some(options.duration())));
    drive(input, &mut |start| {
        let mut consumer = consumer.take().context("one run")?;
        consumer.collector.facts.clock.begin_ns = start.begin_ns;
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
