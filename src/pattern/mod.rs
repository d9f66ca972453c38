// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `pattern` command: sequential or random, sizes, distances, commands in flight, in the order of submission.

use crate::error::{Failure, Kind};
use crate::model::event::CommandId;
use crate::model::ledger::Ledger;
use crate::model::report::latency::{Idle, times};
use crate::model::report::submissions::{Submissions, TaskKind};
use crate::model::stage::StageSet;
use crate::pattern::report::{Disk, Past, Patterns};
use crate::pattern::view::{PatternReport, PatternText, draw, json, size};
use crate::recording::Fact;
use crate::run::args::common::{
    Checked, FromArgs, JSON, JSON_LONG, Schedule, SessionArgs, SessionOptions, WITH_FILTERS,
    ending_of, refuse_two_on_stdout,
};
use crate::run::drive::{FileReader, Live, Names, Run, Step, each, open_all, submissions_of};
use crate::run::picture::Picture;
use crate::run::start::Preflight;
use crate::run::stdout::{output_width, stdout};
use crate::run::{eprint_note, say_ledger};
use crate::settings::{Detail, Events, Mode, RingSize, Settings};
use crate::view::header::Header;
use crate::view::theme::Theme;
use anyhow::Result;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) mod report;
pub(crate) mod view;

/// Sums the submissions of a run up, and writes reports.
struct Reporter<'o> {
    options: &'o PatternOptions,
    submissions: Submissions,
    patterns: Patterns,
    /// CLOCK_MONOTONIC nanoseconds.
    begin_ns: u64,
    /// Since then: the start of the first interval.
    from: Duration,
    is_recorded: bool,
    /// Time and counts of the last report.
    past: (Duration, Past),
    reports: u64,
    idle: Idle,
    /// What is known of the header.
    header: Header,
    /// For reports on a recording.
    ledger: Option<Ledger>,
    picture: Option<Picture>,
}

fn disk_of(names: &mut Names, id: &CommandId) -> Disk {
    Disk { lba_bytes: names.lba_bytes(id), name: names.of_command(Some(id)).0.to_owned() }
}

impl<'o> Reporter<'o> {
    fn new(
        options: &'o PatternOptions,
        submissions: Submissions,
        run: &Run<'_>,
        picture: Option<Picture>,
    ) -> Self {
        Self {
            options,
            submissions,
            patterns: Patterns::default(),
            begin_ns: run.begin_ns,
            from: run.header.from,
            is_recorded: run.file().is_some(),
            past: (run.header.from, <_>::default()),
            reports: 0,
            idle: Idle::default(),
            header: run.header.clone(),
            ledger: None,
            picture,
        }
    }

    /// Sums up the submissions that none can precede.
    fn take(&mut self, now_ns: u64, names: &mut Names) -> Result<()> {
        while let Some((submitted, depth)) = self.submissions.next(now_ns) {
            let at = Duration::from_nanos(submitted.at_ns.saturating_sub(self.begin_ns));
            self.up_to(at)?;
            self.patterns.add(&submitted, depth, || disk_of(names, &submitted.id));
        }
        Ok(())
    }

    /// Writes the reports of a recording that are due before a submission, except for a long time
    /// without one.
    fn up_to(&mut self, at: Duration) -> Result<()> {
        let mut is_first = true;
        while let Some(due) = self.due().filter(|due| *due <= at) {
            let Some(ledger) = self.ledger.clone() else {
                break;
            };
            self.interim(due, ledger)?;
            let step = self.options.schedule.interval.filter(|_| is_first);
            if let Some(step) = step {
                let skipped = self.idle.skip(due, at, step);
                self.past.0 = self.past.0.saturating_add(times(step, skipped));
            }
            is_first = false;
        }
        Ok(())
    }

    fn summary(
        &self,
        at: Duration,
        covers: Duration,
        past: &Past,
        ledger: Ledger,
    ) -> PatternReport {
        PatternReport {
            is_final: false,
            at,
            covers,
            rows: self.patterns.rows(past),
            without_blocks: self.patterns.without_blocks(),
            unknown: self.submissions.unknown(),
            forgotten: self.submissions.forgotten(),
            task_kind: self.options.task_kind(),
            ledger,
        }
    }

    fn interim(&mut self, at: Duration, ledger: Ledger) -> Result<()> {
        let begin = if self.options.schedule.delta { self.past.0 } else { self.from };
        let report = self.summary(at, at.saturating_sub(begin), &self.past.1, ledger);
        self.write(&report)?;
        self.reports += 1;
        if self.options.schedule.delta {
            self.past = (at, self.patterns.now());
        }
        Ok(())
    }

    /// Writes a report: the first and the last below the header, the others below their time.
    fn write(&self, report: &PatternReport) -> Result<()> {
        let mut out = BufWriter::new(stdout());
        let options = self.options;
        if options.json {
            json(report, &mut out)?;
        } else {
            let theme = Theme { color: options.session.color.on_stdout(false) };
            let (width, detail) = (output_width(), options.session.is_verbose());
            if report.is_final || self.reports == 0 {
                writeln!(out, "{}", self.header.text(theme, width))?;
            }
            if !report.is_final {
                write!(out, "{}", self.header.interval(report.at, report.covers, theme))?;
            }
            let text = PatternText { theme, width, detail };
            text.report(report, &mut out)?;
        }
        out.flush()?;
        Ok(())
    }

    /// When the next report is due.
    fn due(&self) -> Option<Duration> {
        let schedule = &self.options.schedule;
        Some(self.from.saturating_add(schedule.due(self.reports, self.idle.skipped)?))
    }
}

impl Reporter<'_> {
    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Event { event, is_selected: true, names, .. } => {
                    let (_, set) = names.of_command(event.what.id());
                    self.submissions.add(event, set);
                    self.take(event.at_ns, names)?;
                }
                Step::Fact(Fact::Ledger(ledger)) => self.ledger = ledger.ledger,
                Step::Tick { now, .. } if !self.is_recorded => {
                    while self.due().is_some_and(|due| due <= now) {
                        self.interim(now, run.ledger()?)?;
                    }
                    run.wake_at(self.due());
                }
                Step::Ended => break,
                _ => {}
            }
        }
        self.finish(run)
    }

    /// Writes the final report, and the picture.
    fn finish(mut self, run: &mut Run<'_>) -> Result<()> {
        let end = run.end()?;
        self.take(u64::MAX, &mut run.names)?;
        if self.patterns.is_crowded() {
            let text = "there are too many disks and opcodes for a report: choose some by --ctrl, \
                        --nsid or --opcode";
            return Err(Failure::error(Kind::Usage, text));
        }
        self.header = run.header.clone();
        let mut report = self.summary(end.took, end.covers, &Past::new(), end.ledger);
        report.is_final = true;
        if self.picture.as_ref().is_some_and(Picture::is_stdout) {
            say_ledger(&report.ledger, self.options.session.is_verbose());
        } else {
            self.write(&report)?;
        }
        let left_out = self.idle.text();
        left_out.iter().for_each(|text| eprint_note(text));
        if let Some(picture) = self.picture {
            let what = format!("{} rows", report.rows.len());
            let name = "Access patterns at submission";
            picture.write(size(&report), name, &what, |canvas| {
                draw(&report, &self.header, canvas);
            })?;
        }
        Ok(())
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &PatternOptions) -> Result<()> {
    let settings = &options.settings;
    let ready = options.from.is_empty().then(|| Preflight::check(settings)).transpose()?;
    let by_submission = settings.filter.needs_submission();
    let files = open_all(&options.from.files, settings, &|file| match by_submission {
        true => file.require_pairs(),
        false => Ok(()),
    })?;
    let picture = options.output.as_deref();
    let picture = picture.map(|path| Picture::create(path, options.force, &options.from.files));
    let mut picture = picture.transpose()?;
    let mut read = |run: &mut Run<'_>| {
        run.file().into_iter().for_each(FileReader::warn_partial);
        let submissions = submissions_of(run, settings, options.task_kind(), "`pattern`")?;
        Reporter::new(options, submissions, run, picture.take()).read(run)
    };
    if let Some(ready) = ready {
        return Live::new(ready, settings, options.schedule.end()).run(read);
    }
    each(files, options.json, options.schedule.interval.is_some(), &mut read)
}

const EXAMPLES: &str = "\
Examples:
  nvme-deep pattern --duration 10s
      One report of 10 s
  nvme-deep pattern 1 --delta
      Each second separately
  nvme-deep pattern run.nvd -o pattern.svg
      A recording, also as a picture";

/// `pattern`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep pattern [OPTIONS] [FILE]... [INTERVAL] [COUNT]")]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct PatternArgs {
    #[command(flatten)]
    pub schedule: Schedule,

    /// Also write the final report as a picture (SVG)
    ///
    /// `-`: only the picture, to stdout.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace the file of -o if it exists
    #[arg(long, requires = "output")]
    pub force: bool,

    /// A row per submitter, not per process that calls the driver
    ///
    /// The submitter is the task that submitted the bio. With an I/O scheduler or device mapper, a kernel thread
    /// often calls the driver for it.
    #[arg(long)]
    pub submitters: bool,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    #[command(flatten)]
    pub ring_size: RingSize,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type PatternOptions = Checked<PatternArgs>;

impl SessionOptions for PatternArgs {
    fn settings(&self) -> Result<Settings> {
        let lines = self.json || self.schedule.interval.is_some();
        refuse_two_on_stdout(self.output.as_deref(), lines)?;
        if let Some(path) = &self.output {
            ending_of(path, &["svg"])?;
            self.from.refuse_several("-o shows")?;
        }
        let events = Events {
            // submissions come in the order of time; a recording may have one event per command
            submits: self.from.is_empty(),
            ring_size: self.ring_size,
            detail: Detail { submitters: self.submitters, ..Detail::default() },
            ..Events::default()
        };
        self.session.settings(!self.from.is_empty(), Mode::Events(events), StageSet::Total)
    }
}

impl PatternArgs {
    /// The task of each row.
    pub const fn task_kind(&self) -> TaskKind {
        match self.submitters {
            true => TaskKind::Submitter,
            false => TaskKind::Caller,
        }
    }
}
