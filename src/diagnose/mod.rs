// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `diagnose` command: observes this machine for a while, or reads a recording, and applies rules that
//! say why commands are slow. docs/diagnose.md has the rules, docs/dev/diagnose.md the method and the tests.

pub use self::affected::Affected;
pub use self::facts::{ClassFacts, Collector, Facts};
use self::incidents::STUCK_NS;
pub use self::incidents::Stuck;
pub use self::judge::{Diagnosis, Expectation, Outcome, diagnose};
pub use self::rules::{RULES, Rule, Tier};
pub use self::verdict::{Scope, Share, Status, Subject, Verdict};
use self::view::{DiagnosisView, Look};
use crate::error::{Failure, Kind, kind_of};
use crate::machine::System;
use crate::machine::clock::monotonic_ns;
use crate::machine::inflight::report::AgeLimit;
use crate::model::machine::{ControllerLogs, MachineInfo};
use crate::model::report::latency::Diagnosed;
use crate::model::stage::StageSet;
use crate::recording::Fact;
use crate::run::args::common::{Checked, FromArgs, SessionArgs, SessionOptions, WITH_FILTERS};
use crate::run::drive::{End, FileReader, Live, Run, Step, each, open_all};
use crate::run::inflight::{self, Access};
use crate::run::start::Preflight;
use crate::run::stdout::{output_width, stdout};
use crate::run::{eprint_note, say_ledger};
use crate::settings::{Detail, Events, LIVE, Mode, RingSize, Settings};
use crate::units::{parse_duration, parse_latency};
use crate::view::header::Header;
use crate::view::theme::Theme;
use anyhow::{Context, Result};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod affected;
mod command;
mod compare;
mod facts;
mod gaps;
mod incidents;
mod judge;
mod rates;
mod rules;
mod verdict;
pub mod view;

/// Refuses a recording that no diagnosis can be made of.
fn require(file: &FileReader) -> Result<()> {
    file.require_pairs()?;
    if file.info().stage_set == StageSet::Total {
        let text = format!(
            "{} has no stages, which `diagnose` needs: record without --stages=none",
            file.path
        );
        return Err(Failure::error(Kind::Usage, text));
    }
    Ok(())
}

/// The facts of a run, which is read to its end. `live`: of this machine.
fn facts_of(
    run: &mut Run<'_>,
    settings: &Settings,
    expectation: Expectation,
    live: Option<&Observed<'_>>,
) -> Result<(Facts, End)> {
    let mut collector = Collector::default();
    let facts = &mut collector.facts;
    (facts.stage_set, facts.clock.begin_ns) = (StageSet::Full, run.begin_ns);
    facts.selection.add(&settings.filter.text());
    if let Some(info) = run.file().map(FileReader::info) {
        facts.stage_set = info.stage_set;
        facts.selection.add(&info.filter);
        facts.selection.add(&info.chosen_by());
    }
    facts.machine = live.map(|live| live.machine.clone());
    loop {
        match run.next()? {
            Step::Event { event, is_selected: true, names, .. } => {
                // one of this machine may be gone at the end
                names.learn_cgroups(event);
                collector.event(event);
            }
            // later changes of the clock are not followed
            Step::Fact(Fact::Clock(offset)) => {
                _ = collector.facts.clock.wall_ns.get_or_insert(offset.wall_ns);
            }
            Step::Fact(Fact::Controllers(all)) => collector.controllers(&all),
            Step::Fact(Fact::Activity(activity)) => collector.activity(*activity),
            Step::Fact(Fact::Machine(found)) if live.is_none() => {
                collector.facts.machine = Some(*found);
            }
            Step::Ended => break,
            _ => {}
        }
    }
    if let Some(live) = live {
        live.finish(settings, &mut collector.facts);
    }
    let end = run.end()?;
    collector.facts.cgroups.clone_from(run.names.cgroups());
    collector.facts.is_cut = run.file().is_some_and(|file| file.incomplete().is_some());
    let facts = collector.finish(end.covers, Some(end.ledger.accuracy_of_most()), expectation);
    Ok((facts, end))
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
    let mut file = FileReader::open(path, &settings)?;
    require(&file)?;
    file.warn_partial();
    let (facts, _) = facts_of(&mut Run::of(&mut file), &settings, Expectation::None, None)?;
    file.check_complete()?;
    let all_ns = |own: &ClassFacts| own.has_waits.then_some(own.p50_ns);
    let medians = facts.classes.all.iter().map(|c| (c.class, (all_ns(c), c.begun_p50_ns)));
    Ok(Expectation::Baseline(medians.collect()))
}

/// The diagnosis of a recording, for a page. `redact`: without names.
///
/// # Errors
/// If the recording cannot be read, or no diagnosis can be made of it; one sentence.
pub(crate) fn of_file(path: &Path, settings: &Settings, redact: bool) -> Result<Diagnosed> {
    let settings = Settings { stage_set: StageSet::Total, ..settings.clone() };
    let mut file = FileReader::open(path, &settings)?;
    require(&file)?;
    file.is_extra_pass = true;
    if redact {
        file.redact();
    }
    let (facts, _) = facts_of(&mut Run::of(&mut file), &settings, Expectation::None, None)?;
    let header = &Header::default();
    Ok(DiagnosisView { facts: &facts, header, diagnosis: &diagnose(&facts) }.diagnosed())
}

/// What was read of this machine before the run.
struct Observed<'s> {
    system: &'s System,
    machine: MachineInfo,
    logs: Option<Vec<ControllerLogs>>,
}

impl Observed<'_> {
    /// Adds what is read of this machine after the run.
    fn finish(&self, settings: &Settings, facts: &mut Facts) {
        facts.in_flight = stuck(self.system, settings);
        facts.logs = self.logs.as_ref().map(|before| {
            let after = logs(self.system, settings).into_iter();
            let first = |last: &ControllerLogs| {
                before.iter().find(|first| first.instance == last.instance).copied()
            };
            after.filter_map(|last| Some((first(&last)?, last))).collect()
        });
    }
}

/// The commands that are stuck now, also those from before the run. Without the types of the driver's
/// queues there are none, and a message says so.
fn stuck(system: &System, settings: &Settings) -> Vec<Stuck> {
    let scope = inflight::Scope {
        filter: &settings.filter,
        age: AgeLimit::Time(Duration::from_nanos(STUCK_NS)),
    };
    let access = Access::open(settings.attaching.btf.as_deref(), system);
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
fn logs(system: &System, settings: &Settings) -> Vec<ControllerLogs> {
    let all = system.controllers().into_iter();
    let wanted = all.filter(|c| settings.filter.has_ctrl(c.instance));
    let read = wanted.filter_map(|controller| {
        let logs = system.logs(&controller);
        logs.inspect_err(|why| eprint_note(&format!("log pages: {why}"))).ok()
    });
    read.collect()
}

/// Diagnoses a run. Returns why `--check` fails.
fn report(
    run: &mut Run<'_>,
    options: &DiagnoseOptions,
    settings: &Settings,
    expectation: &Expectation,
    live: Option<&Observed<'_>>,
) -> Result<Option<anyhow::Error>> {
    let (facts, end) = facts_of(run, settings, expectation.clone(), live)?;
    let diagnosis = diagnose(&facts);
    let view = DiagnosisView { facts: &facts, header: &run.header, diagnosis: &diagnosis };
    let detail = options.session.is_verbose();
    let mut out = BufWriter::new(stdout());
    if options.json {
        view.json(&mut out)?;
    } else {
        let theme = Theme { color: options.session.color.on_stdout(options.json) };
        view.text(Look { theme, width: output_width(), detail }, &mut out)?;
    }
    out.flush()?;
    if live.is_some() {
        say_ledger(&end.ledger, detail);
    }
    Ok(failure(&diagnosis).filter(|_| options.check))
}

/// Why `--check` fails.
fn failure(diagnosis: &Diagnosis) -> Option<anyhow::Error> {
    match diagnosis.outcome {
        Outcome::Nothing => None,
        Outcome::Cause => {
            let rules = diagnosis.causes().map(|v| v.rule).collect::<Vec<_>>().join(", ");
            Some(Failure::error(Kind::Check, format!("found: {rules} (--check)")))
        }
        Outcome::Unknown => {
            let text = "no rule could be judged (--check): the first line says why";
            Some(Failure::error(Kind::Run, text))
        }
    }
}

/// Diagnoses recordings.
fn recorded(options: &DiagnoseOptions, expectation: &Expectation) -> Result<()> {
    // basic stages suffice for some rules
    let settings = Settings { stage_set: StageSet::Total, ..options.settings.clone() };
    let files = open_all(&options.from.files, &settings, &require)?;
    let (all, mut is_first, mut failed) = (files.len(), true, Vec::new());
    let read = each(files, options.json, false, &mut |run| {
        let file = run.file().context("a recording")?;
        file.warn_partial();
        let path = file.path.clone();
        if !is_first && !options.json {
            writeln!(stdout())?;
        }
        is_first = false;
        if let Some(error) = report(run, options, &settings, expectation, None)? {
            if all > 1 {
                eprint_note(&format!("{path}: {error:#}"));
            }
            failed.push(error);
        }
        Ok(())
    });
    read?;
    // what was found counts more than what could not be judged
    let count = failed.len();
    failed.sort_by_key(|error| kind_of(error) != Kind::Check);
    match failed.into_iter().next() {
        None => Ok(()),
        Some(error) if all == 1 => Err(error),
        Some(error) => {
            let text = format!("{count} of {all} recordings did not pass: see above");
            Err(Failure::error(kind_of(&error), text))
        }
    }
}

/// Diagnoses this machine.
fn observe(options: &DiagnoseOptions, expectation: &Expectation) -> Result<()> {
    let settings = &options.settings;
    let ready = Preflight::check(settings)?;
    let system = ready.system.clone();
    let live = Observed {
        machine: system.info(options.log),
        logs: options.log.then(|| logs(&system, settings)),
        system: &system,
    };
    let failed = Live::new(ready, settings, Some(options.duration()))
        .run(|run| report(run, options, settings, expectation, Some(&live)))?;
    failed.map_or(Ok(()), Err)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &DiagnoseOptions) -> Result<()> {
    let expectation = expectation(options)?;
    match options.from.is_empty() {
        true => observe(options, &expectation),
        false => recorded(options, &expectation),
    }
}

const EXAMPLES: &str = "\
Examples:
  nvme-deep diagnose
      Observe for 10 s
  nvme-deep diagnose --duration 60s --expect 200us
      Observe for a minute; commands should take 200 us
  nvme-deep diagnose --from slow.nvd --baseline good.nvd
      Compare with a recording made when the disk was fast";

/// How long to observe without `--duration`.
const DURATION: Duration = Duration::from_secs(10);

/// `diagnose`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep diagnose [OPTIONS] [FILE]...")]
#[command(mut_arg("verbose", |arg| arg
    .help("All kinds of commands, and all rules with their reasons")
    .long_help("All kinds of commands, and all rules with their reasons. While tracing, also the hooks, the \
                reasons for fallbacks, all event counts; -vv: libbpf's log too")))]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct DiagnoseArgs {
    /// How long to observe (`10s`, `1m`) [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, group = LIVE)]
    pub duration: Option<Duration>,

    /// Commands are slow if their median is above this time (`200us`)
    #[arg(long, value_name = "TIME", value_parser = parse_latency, conflicts_with = "baseline")]
    pub expect: Option<Duration>,

    /// Compare with this recording of the same load
    ///
    /// Commands are slow if their median is 20% higher than in that recording.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Also read log pages of the controllers: SMART, EBS statistics
    ///
    /// Before and after. Sends Get Log Page and Identify commands to each; otherwise `diagnose` sends
    /// none.
    #[arg(long, group = LIVE)]
    pub log: bool,

    /// End with exit code 3 if a cause was found
    ///
    /// Or with 1 if no rule could be judged.
    #[arg(long)]
    pub check: bool,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub ring_size: RingSize,

    /// One JSON object instead of text
    ///
    /// The schema is in docs/reference/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type DiagnoseOptions = Checked<DiagnoseArgs>;

impl SessionOptions for DiagnoseArgs {
    fn settings(&self) -> Result<Settings> {
        let events =
            Events { detail: Detail::all(), ring_size: self.ring_size, ..Events::default() };
        self.session.settings(!self.from.is_empty(), Mode::Events(events), StageSet::Full)
    }
}

impl DiagnoseArgs {
    /// Length of the run.
    pub fn duration(&self) -> Duration {
        self.duration.unwrap_or(DURATION)
    }
}
