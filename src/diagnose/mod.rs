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
use crate::model::machine::ControllerLogs;
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

/// The facts of a run, which is read to its end.
fn facts_of(run: &mut Run<'_>, settings: &Settings) -> Result<(Facts, End)> {
    let mut collector = Collector::default();
    let facts = &mut collector.facts;
    (facts.stage_set, facts.clock.begin_ns) = (StageSet::Full, run.begin_ns);
    facts.selection.add(&settings.filter.text());
    if let Some(info) = run.file().map(FileReader::info) {
        facts.stage_set = info.stage_set;
        facts.selection.add(&info.filter);
        facts.selection.add(&info.chosen_by());
    }
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
            Step::Fact(Fact::Machine(found)) => collector.facts.machine = Some(*found),
            Step::Ended => break,
            _ => {}
        }
    }
    let end = run.end()?;
    let facts = &mut collector.facts;
    facts.cgroups.clone_from(run.names.cgroups());
    facts.is_cut = run.file().is_some_and(|file| file.incomplete().is_some());
    (facts.covers, facts.accuracy) = (end.covers, Some(end.ledger.accuracy_of_most()));
    Ok((collector.finish(), end))
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
    let (facts, _) = facts_of(&mut Run::of(&mut file), &settings)?;
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
    let (facts, _) = facts_of(&mut Run::of(&mut file), &settings)?;
    let header = &Header::default();
    Ok(DiagnosisView { facts: &facts, header, diagnosis: &diagnose(&facts) }.diagnosed())
}

/// The commands that are stuck now, also those from before the run. Without the types of the driver's
/// queues there are none, and a message says so.
fn stuck(system: &System, settings: &Settings) -> Vec<Stuck> {
    let age = AgeLimit::Time(Duration::from_nanos(STUCK_NS));
    let scope = inflight::Scope { filter: &settings.filter, age };
    let access = Access::open(settings.attaching.btf.as_deref(), system);
    let found = access.and_then(|mut a| a.look(&system.controllers(), scope, &mut || Ok(None)));
    found.map_or_else(
        |error| {
            eprint_note(&format!("commands in flight were not looked at: {error}"));
            Vec::new()
        },
        |found| Stuck::of(&found, monotonic_ns()),
    )
}

/// The log pages of the controllers that are selected. Those that cannot be read have none, and a
/// message says why.
fn logs(system: &System, settings: &Settings) -> Vec<ControllerLogs> {
    let wanted = system.controllers().into_iter().filter(|c| settings.filter.has_ctrl(c.instance));
    let say = |why: &_| eprint_note(&format!("log pages: {why}"));
    wanted.filter_map(|controller| system.logs(&controller).inspect_err(say).ok()).collect()
}

/// Diagnoses a run: of this machine, if `look` adds what is read of it. Returns why `--check` fails.
fn report(
    run: &mut Run<'_>,
    options: &DiagnoseOptions,
    expectation: &Expectation,
    look: Option<&dyn Fn(&mut Facts)>,
) -> Result<Option<anyhow::Error>> {
    let (mut facts, end) = facts_of(run, &options.settings)?;
    facts.expectation = expectation.clone();
    if let Some(look) = look {
        look(&mut facts);
    }
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
    if look.is_some() {
        say_ledger(&end.ledger, detail);
    }
    Ok(failure(&diagnosis).filter(|_| options.check))
}

/// Why `--check` fails.
fn failure(diagnosis: &Diagnosis) -> Option<anyhow::Error> {
    let (kind, text) = match diagnosis.outcome {
        Outcome::Nothing => return None,
        Outcome::Cause => {
            let rules = diagnosis.causes().map(|v| v.rule).collect::<Vec<_>>().join(", ");
            (Kind::Check, format!("found: {rules} (--check)"))
        }
        Outcome::Unknown => {
            (Kind::Run, "no rule could be judged (--check): the first line says why".into())
        }
    };
    Some(Failure::error(kind, text))
}

/// Diagnoses recordings.
fn recorded(options: &DiagnoseOptions, expectation: &Expectation) -> Result<()> {
    // basic stages suffice for some rules
    let settings = Settings { stage_set: StageSet::Total, ..options.settings.clone() };
    let files = open_all(&options.from.files, &settings, &require)?;
    let (all, mut number, mut failed) = (files.len(), 0, Vec::new());
    each(files, options.json, false, &mut |run| {
        let file = run.file().context("a recording")?;
        file.warn_partial();
        let path = file.path.clone();
        if number > 0 && !options.json {
            writeln!(stdout())?;
        }
        number += 1;
        if let Some(error) = report(run, options, expectation, None)? {
            if all > 1 {
                eprint_note(&format!("{path}: {error:#}"));
            }
            failed.push(error);
        }
        Ok(())
    })?;
    let count = failed.len();
    // what was found counts more than what could not be judged
    match failed.into_iter().max_by_key(|error| kind_of(error) == Kind::Check) {
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
    let machine = system.info(options.log);
    let before = options.log.then(|| logs(&system, settings));
    let look = |facts: &mut Facts| {
        facts.machine = Some(machine.clone());
        facts.in_flight = stuck(&system, settings);
        facts.logs = before.as_ref().map(|before| {
            let first = |last: &ControllerLogs| before.iter().find(|f| f.instance == last.instance);
            let after = logs(&system, settings).into_iter();
            after.filter_map(|last| Some((*first(&last)?, last))).collect()
        });
    };
    let duration = options.duration.unwrap_or(DURATION);
    let failed = Live::new(ready, settings, Some(duration))
        .run(|run| report(run, options, expectation, Some(&look)))?;
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
