// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `pattern` command: sequential or random, sizes, distances, depth, in the order of submission.

use std::io::BufWriter;
use std::io::Write;
use std::mem::replace;
use std::mem::take;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::model::event::CommandId;
use nvme_deep::model::event::Event;
use nvme_deep::render::pattern::PatternReport;
use nvme_deep::render::pattern::draw;
use nvme_deep::render::pattern::json;
use nvme_deep::render::pattern::size;
use nvme_deep::render::pattern::text;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::idle::Idle;
use nvme_deep::report::idle::times;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::report::pattern::Disk;
use nvme_deep::report::pattern::Past;
use nvme_deep::report::pattern::Patterns;
use nvme_deep::report::submissions::Submissions;

use crate::cli::options::PatternOptions;
use crate::commands::names::Names;
use crate::commands::picture::Picture;
use crate::commands::replay::Replay;
use crate::commands::say;
use crate::commands::say_ledger;
use crate::commands::several::Ended;
use crate::commands::several::Form;
use crate::commands::several::open_all;
use crate::commands::several::show_each;
use crate::commands::standard::stdout;
use crate::commands::start::Ready;
use crate::commands::start::until;
use crate::commands::watch::Watched;
use crate::commands::watch::Watcher;
use crate::commands::watch::submissions_of;
use crate::commands::watch::watch;
use crate::commands::watch::watch_recording;
use crate::exit::Failure;

/// Sums the submissions of a run up, and writes reports.
struct Reporter<'o> {
    options: &'o PatternOptions,
    submissions: Submissions,
    patterns: Patterns,
    /// CLOCK_MONOTONIC nanoseconds.
    begin_ns: u64,
    /// Time and counts of the last report.
    past: (Duration, Past),
    reports: u64,
    idle: Idle,
    /// For reports on a recording.
    ledger: Option<Ledger>,
    /// An error of the output.
    written: Result<()>,
}

fn disk_of(names: &mut Names, id: &CommandId) -> Disk {
    Disk {
        lba_bytes: names.lba_bytes(id),
        name: names.of_command(Some(id)).0.to_owned(),
    }
}

impl<'o> Reporter<'o> {
    fn new(options: &'o PatternOptions, submissions: Submissions) -> Self {
        Self {
            options,
            submissions,
            patterns: Patterns::default(),
            begin_ns: 0,
            past: <_>::default(),
            reports: 0,
            idle: Idle::default(),
            ledger: None,
            written: Ok(()),
        }
    }

    /// Sums up the submissions that none can precede.
    fn take(&mut self, now_ns: u64, names: &mut Names) {
        while let Some((submitted, depth)) = self.submissions.next(now_ns) {
            let at = Duration::from_nanos(submitted.at_ns.saturating_sub(self.begin_ns));
            self.up_to(at);
            self.patterns
                .add(&submitted, depth, || disk_of(names, &submitted.id));
        }
    }

    /// Writes the reports of a recording that are due before a submission, but not those of a long time
    /// without one.
    fn up_to(&mut self, at: Duration) {
        let mut is_first = true;
        while let Some((due, ledger)) = self.due().filter(|due| *due <= at).zip(self.ledger()) {
            let written = self.interim(due, ledger);
            if self.written.is_ok() {
                self.written = written;
            }
            let step = self.options.schedule.interval.filter(|_| is_first);
            if let Some(step) = step {
                let skipped = self.idle.skip(due, at, step);
                self.past.0 = self.past.0.saturating_add(times(step, skipped));
            }
            is_first = false;
        }
    }

    /// The ledger of a recording, for a report during it.
    fn ledger(&self) -> Option<Ledger> {
        self.ledger.clone()
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
            ledger,
        }
    }

    fn interim(&mut self, at: Duration, ledger: Ledger) -> Result<()> {
        let begin = if self.options.schedule.delta {
            self.past.0
        } else {
            Duration::ZERO
        };
        let report = self.summary(at, at.saturating_sub(begin), &self.past.1, ledger);
        self.reports += 1;
        if self.options.schedule.delta {
            self.past = (at, self.patterns.now());
        }
        write(self.options, &report)
    }

    /// Writes the final report, and the picture.
    fn finish(mut self, watched: Watched, picture: Option<Picture>) -> Result<Result<()>> {
        let Watched {
            ledger,
            took,
            dropped,
            mut names,
            verdict,
            ..
        } = watched;
        self.take(u64::MAX, &mut names);
        replace(&mut self.written, Ok(()))?;
        if self.patterns.is_crowded() {
            let text = "there are too many disks and opcodes for a report: choose some by --ctrl, \
                        --nsid or --opcode";
            return Err(Failure::error(Kind::Usage, text));
        }
        let covers = took.saturating_sub(dropped);
        let mut report = self.summary(took, covers, &Past::new(), ledger);
        report.is_final = true;
        if picture.as_ref().is_some_and(Picture::is_stdout) {
            say_ledger(&report.ledger, self.options.settings.attaching.verbose > 0);
        } else {
            write(self.options, &report)?;
        }
        let left_out = self.idle.text();
        left_out.iter().for_each(|text| say(text));
        if let Some(picture) = picture {
            let what = format!("{} rows", report.rows.len());
            let name = "Access patterns at submission";
            picture.write(size(&report), name, &what, |canvas| draw(&report, canvas))?;
        }
        Ok(verdict)
    }
}

fn write(options: &PatternOptions, report: &PatternReport) -> Result<()> {
    let mut out = BufWriter::new(stdout());
    if options.json {
        json(report, &mut out)?;
    } else {
        let theme = Theme {
            color: options.color,
        };
        let detail = options.settings.attaching.verbose > 0;
        text(report, theme, (options.hist, detail), &mut out)?;
    }
    out.flush()?;
    Ok(())
}

impl Watcher for Reporter<'_> {
    fn begin(&mut self, begin_ns: u64) {
        self.begin_ns = begin_ns;
    }

    fn event(&mut self, event: &Event, names: &mut Names) {
        let (_, set) = names.of_command(event.what.id());
        self.submissions.add(event, set);
        self.take(event.at_ns, names);
    }

    fn due(&self) -> Option<Duration> {
        self.written
            .is_ok()
            .then(|| self.options.schedule.due(self.reports, self.idle.skipped))?
    }

    fn report(&mut self, at: Duration, ledger: Ledger) -> Result<()> {
        self.interim(at, ledger)
    }

    fn recorded_ledger(&mut self, ledger: Option<Ledger>) {
        self.ledger = ledger;
    }
}

fn live(options: &PatternOptions) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let picture = options.picture.as_ref();
    let picture = picture.map(|p| Picture::create(p, &[])).transpose()?;
    let end = options.schedule.end();
    let mut reporter = Reporter::new(options, Submissions::of_events());
    let until = until(end.is_some());
    let watched = watch(ready, &options.settings, until, end, &mut reporter)?;
    reporter.finish(watched, picture)?
}

fn of_recording(
    options: &PatternOptions,
    replay: Replay,
    picture: Option<Picture>,
) -> Result<Ended> {
    replay.say_choice();
    let seen = submissions_of(&replay, &options.settings, "`pattern`").and_then(|submissions| {
        let mut reporter = Reporter::new(options, submissions);
        let watched = watch_recording(replay, &options.settings, &mut reporter)?;
        Ok((reporter, watched))
    });
    match seen {
        Ok((reporter, watched)) => {
            let ended = reporter.finish(watched, picture)?;
            Ok(Ended::File(ended))
        }
        Err(error) => Ok(error.into()),
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &PatternOptions) -> Result<()> {
    if options.from.is_empty() {
        return live(options);
    }
    let filter = &options.settings.filter;
    let by_submission = filter.needs_submission();
    let replays = open_all(
        &options.from,
        &options.settings,
        &|replay| match by_submission {
            true => replay.require_pairs(),
            false => Ok(()),
        },
    )?;
    let picture = options.picture.as_ref();
    let mut picture = picture
        .map(|p| Picture::create(p, &options.from))
        .transpose()?;
    let form = Form {
        json: options.json,
        color: options.color,
        ledger_apart: false,
    };
    show_each(replays, &form, &mut |mut replay| {
        if options.schedule.interval.is_none() {
            replay.show_progress();
        }
        of_recording(options, replay, take(&mut picture))
    })
}
