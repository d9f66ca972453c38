// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `latency` command: attaches, and reports until stopped.

pub(crate) mod args;

use std::io::{BufWriter, Write};
use std::mem::take;
use std::time::Duration;

use crate::machine::System;
use crate::model::event::Event;
use crate::model::ledger::Ledger;
use crate::model::origin::Who;
use crate::model::point::Point;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::Groups;
use crate::model::report::latency::{Idle, Report, rows, times};
use crate::model::report::recount::Recount;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::recording::Fact;
use crate::settings::Settings;
use crate::view::header::Header;
use crate::view::json;
use crate::view::text::{TextView, span};
use crate::view::theme::Theme;
use crate::view::trace::{Clock, Context, TraceLines};
use anyhow::Result;

use crate::latency::args::LatencyOptions;
use crate::run::drive::{
    FileReader, Live, Names, Run, SUMS_ARE_SLOW, Step, count, each, ledger_of_rows, open_all,
};
use crate::run::start::{Preflight, Session};
use crate::run::stdout::{Stdout, output_width, stdout};
use crate::run::{WAITS_UNMEASURED, eprint_note};

/// What a live run did not measure.
fn advice(options: &LatencyOptions) -> Option<&'static str> {
    match options.settings.stage_set {
        _ if !options.from.is_empty() => None,
        StageSet::Total => {
            Some("--stages shows where the time went: queue, submit, device, complete")
        }
        StageSet::Basic | StageSet::Fine => Some(WAITS_UNMEASURED),
        StageSet::Full | StageSet::Host | StageSet::Join => None,
    }
}

/// The reports of a run.
struct Reports<'o> {
    options: &'o LatencyOptions,
    /// The stages that are shown.
    stage_set: StageSet,
    /// `None`: JSON.
    text: Option<TextView>,
    /// What is known of the header.
    header: Header,
    /// Begin of the first interval, since the start of the run.
    begin: Duration,
    /// Time and snapshot of the last report.
    last: (Duration, Snapshot),
    shown: u64,
    idle: Idle,
    /// Names of the disks, for text.
    disks: DiskNames,
}

impl<'o> Reports<'o> {
    fn new(options: &'o LatencyOptions, settings: &Settings) -> Self {
        let text = TextView {
            theme: Theme { color: options.session.color.on_stdout(options.json) },
            width: output_width(),
            hist: options.hist,
            detail: options.session.is_verbose(),
            top: usize::try_from(options.group.top).unwrap_or(usize::MAX),
            advice: advice(options),
        };
        Self {
            options,
            stage_set: settings.stage_set,
            text: (!options.json).then_some(text),
            header: Header::default(),
            begin: Duration::ZERO,
            last: <_>::default(),
            shown: 0,
            idle: Idle::default(),
            disks: DiskNames::default(),
        }
    }

    /// What stands above a report: the header above the first and the last, the time above the others.
    fn heading(&self, report: &Report, view: &TextView) -> String {
        let TextView { theme, width, .. } = *view;
        let mut text = String::new();
        if report.is_final || self.shown == 0 {
            let span = span(report.stage_set, &report.ledger);
            text = format!("{}{}\n\n", self.header.text(theme, width), theme.dim(&span));
        }
        if !report.is_final {
            text += &self.header.interval(report.at, report.covers, theme);
        }
        text
    }

    /// The names of the disks. This machine's names are read again: a disk may be new.
    fn disks(&self) -> DiskNames {
        let mut disks = self.disks.clone();
        if self.options.from.is_empty() && !self.options.json {
            disks.recorded(&System::at("/").controllers());
        }
        disks
    }

    /// Sets the start of the first interval, before the first report.
    fn begin_at(&mut self, at: Duration) {
        (self.begin, self.last.0) = (at, at);
    }

    /// When the next report is due.
    fn next(&self) -> Option<Duration> {
        let due = self.options.schedule.due(self.shown, self.idle.skipped)?;
        Some(self.begin.saturating_add(due))
    }

    /// Writes the reports of a recording that are due before an event, except for a long time
    /// without an event.
    fn up_to(
        &mut self,
        at: Duration,
        now: &Snapshot,
        ledger: &Ledger,
        out: &mut dyn Write,
    ) -> Result<()> {
        let mut is_first = true;
        while let Some(due) = self.next().filter(|due| *due <= at) {
            self.interim(due, now, ledger.clone(), out)?;
            let step = self.options.schedule.interval.filter(|_| is_first);
            if let Some(step) = step {
                let skipped = self.idle.skip(due, at, step);
                self.last.0 = self.last.0.saturating_add(times(step, skipped));
            }
            is_first = false;
        }
        Ok(())
    }

    /// The groups, if commands are grouped.
    fn groups(&self, shown: &Snapshot, covers: Duration) -> Option<Groups> {
        let by = self.options.settings.by();
        let stage_set = self.stage_set;
        let sort = self.options.group.sort;
        let lat = self.options.settings.lat();
        (!by.is_empty()).then(|| Groups::of(shown, by, stage_set, lat.as_ref(), covers, sort))
    }

    fn write(
        &self,
        (at, covers): (Duration, Duration),
        shown: &Snapshot,
        ledger: Ledger,
        is_final: bool,
        out: &mut dyn Write,
    ) -> Result<()> {
        let settings = &self.options.settings;
        let report = Report {
            stage_set: self.stage_set,
            who: self.header.who,
            is_final,
            at,
            covers,
            rows: rows(shown, self.stage_set, settings.lat().as_ref(), covers),
            groups: self.groups(shown, covers),
            ledger,
            disks: self.disks(),
        };
        match &self.text {
            Some(view) => {
                out.write_all(self.heading(&report, view).as_bytes())?;
                view.report(&report, out)?;
            }
            None => json::report(&report, self.options.hist, out)?,
        }
        out.flush()?;
        Ok(())
    }

    /// Writes a report during the run: of the run so far, or with `--delta` of the last interval.
    fn interim(
        &mut self,
        at: Duration,
        now: &Snapshot,
        ledger: Ledger,
        out: &mut dyn Write,
    ) -> Result<()> {
        if self.options.schedule.delta {
            let shown = now.minus(&self.last.1);
            let covers = at.saturating_sub(self.last.0);
            self.write((at, covers), &shown, ledger, false, out)?;
            self.last.1.clone_from(now);
        } else {
            let covers = at.saturating_sub(self.begin);
            self.write((at, covers), now, ledger, false, out)?;
        }
        self.last.0 = at;
        self.shown += 1;
        Ok(())
    }

    /// Writes the final report.
    fn last(
        &self,
        (at, covers): (Duration, Duration),
        now: &Snapshot,
        ledger: Ledger,
        out: &mut dyn Write,
    ) -> Result<()> {
        self.write((at, covers), now, ledger, true, out)
    }
}

/// Counts the commands of a run, and reports them.
struct Counting<'o> {
    reports: Reports<'o>,
    out: BufWriter<Stdout>,
    /// `--commands`: each finished command as an object of its own, beside the reports. The events and
    /// their JSON are `trace`'s.
    single: Option<TraceLines>,
    /// `None`: a session, which counts by itself.
    counted: Option<Counted>,
    recorded: Option<Recorded>,
}

/// Commands that are counted here.
struct Counted {
    recount: Recount,
    now: Snapshot,
}

/// A recording.
struct Recorded {
    path: String,
    begin_ns: u64,
    /// The last one. A recording begins with one, and has a new one every second.
    ledger: Option<Ledger>,
    is_first: bool,
}

impl Counted {
    fn new(settings: &Settings, who: Who) -> Self {
        let by = settings.by().to_vec();
        Self {
            recount: Recount { stage_set: settings.stage_set, lat: settings.lat(), by, who },
            now: Snapshot::default(),
        }
    }

    /// The snapshot with the paths of the cgroups of this machine.
    fn with_cgroups(&mut self) -> &Snapshot {
        if self.recount.by.iter().any(|by| by.is_cgroup()) {
            let paths = System::at("/").cgroup_paths().unwrap_or_default();
            self.now.names.cgroups.extend(paths);
        }
        &self.now
    }
}

impl<'o> Counting<'o> {
    fn new(options: &'o LatencyOptions, run: &Run<'_>) -> Self {
        let settings = run.file().map_or(&options.settings, |file| &file.settings);
        let stages = (settings.stage_set != StageSet::Total).then_some(settings.stage_set);
        let is_live = run.session().is_some();
        let who = run.session().map_or(settings.filter.who, |session| session.origin().who());
        let mut reports = Reports::new(options, settings);
        // also those that are gone at the end
        reports.disks = reports.disks();
        reports.header = run.header.clone();
        reports.begin_at(run.header.from);
        Self {
            reports,
            out: BufWriter::new(stdout()),
            single: (options.commands && is_live).then(|| TraceLines::json(Clock::Mono, stages)),
            counted: (!is_live || !settings.counts()).then(|| Counted::new(settings, who)),
            recorded: run.file().map(|file| {
                file.warn_partial();
                Recorded {
                    path: file.path.to_string(),
                    begin_ns: file.info().begin_ns,
                    ledger: None,
                    is_first: true,
                }
            }),
        }
    }

    /// Writes the reports that are due before an event of a recording. `later`: commands since the last
    /// ledger.
    fn before(&mut self, event: &Event, later: u64) -> Result<()> {
        let Some(recorded) = &mut self.recorded else {
            return Ok(());
        };
        let at = Duration::from_nanos(event.at_ns.saturating_sub(recorded.begin_ns));
        let Some(ledger) = &recorded.ledger else {
            // without a ledger there is only the end to report
            return Ok(());
        };
        let is_whole = self.reports.begin.is_zero();
        if take(&mut recorded.is_first)
            && is_whole
            && ledger.trace.as_ref().is_some_and(|t| t.events() > 0)
        {
            // a ring dropped the events that were counted
            self.reports.begin_at(at);
        }
        if self.reports.next().is_none_or(|due| due > at) {
            return Ok(());
        }
        let ledger = ledger.clone().when_shown(later);
        match &self.counted {
            Some(counted) => self.reports.up_to(at, &counted.now, &ledger, &mut self.out),
            None => Ok(()),
        }
    }

    fn command(&mut self, event: &Event, names: &mut Names) -> Result<()> {
        if let Some(counted) = &mut self.counted {
            count(&counted.recount, event, &mut counted.now)?;
        }
        let Some(sink) = &mut self.single else {
            return Ok(());
        };
        let (disk, set) = names.of_command(event.what.id());
        let cx = Context { disk, set, ..Context::default() };
        sink.event(event, &cx);
        if sink.is_full() {
            sink.take(|lines| self.out.write_all(lines))?;
        }
        Ok(())
    }

    /// Writes the commands that wait.
    fn flush_commands(&mut self) -> Result<()> {
        if let Some(sink) = &mut self.single {
            sink.take(|lines| self.out.write_all(lines))?;
            self.out.flush()?;
        }
        Ok(())
    }
}

impl Counting<'_> {
    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Event { event, is_selected, names, later } => {
                    self.before(event, later)?;
                    if is_selected {
                        self.command(event, names)?;
                    }
                }
                Step::Fact(fact) => self.fact(fact),
                Step::Tick { now, .. } => {
                    self.flush_commands()?;
                    self.tick(run, now)?;
                }
                Step::Ended => break,
            }
        }
        self.flush_commands()?;
        let end = run.end()?;
        self.reports.header = run.header.clone();
        let (reports, out) = (&self.reports, &mut self.out);
        let sums = run.session().filter(|_| self.counted.is_none()).map(Session::snapshot);
        let sums = sums.transpose()?.unwrap_or_default();
        let Some(recorded) = &self.recorded else {
            let now = self.counted.as_mut().map_or(&sums, Counted::with_cgroups);
            return reports.last((end.took, end.took), now, end.ledger, out);
        };
        let ledger = with_span(end.ledger, reports.stage_set);
        let now = self.counted.as_ref().map_or(&sums, |counted| &counted.now);
        reports.last((end.took, end.covers), now, ledger, out)?;
        let left_out = reports.idle.text();
        left_out.iter().for_each(|text| eprint_note(&format!("{}: {text}", recorded.path)));
        Ok(())
    }

    fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Controllers(all) if self.recorded.is_some() => self.reports.disks.recorded(&all),
            Fact::Cgroups(all) => {
                if let Some(counted) = &mut self.counted {
                    let all = all.into_iter().map(|one| (one.id, one.path));
                    counted.now.names.cgroups.extend(all);
                }
            }
            Fact::Ledger(info) | Fact::End(info) => {
                if let (Some(recorded), Some(ledger)) = (&mut self.recorded, info.ledger) {
                    recorded.ledger = Some(with_span(ledger, self.reports.stage_set));
                }
            }
            _ => {}
        }
    }

    /// Writes a report of a session, if one is due.
    fn tick(&mut self, run: &mut Run<'_>, now: Duration) -> Result<()> {
        let Some(session) = run.session() else {
            return Ok(());
        };
        if self.reports.next().is_some_and(|due| now >= due) {
            let (found, sums);
            let shown = match &mut self.counted {
                Some(counted) => {
                    // the events of some commands are still in the ring
                    found = run.ledger()?.when_shown(0);
                    counted.with_cgroups()
                }
                None => {
                    sums = session.snapshot()?;
                    found = ledger_of_rows(session, &sums, None)?;
                    &sums
                }
            };
            self.reports.interim(now, shown, found, &mut self.out)?;
        }
        run.wake_at(self.reports.next());
        Ok(())
    }
}

/// A recorded ledger with the span of what is shown.
fn with_span(mut ledger: Ledger, shown: StageSet) -> Ledger {
    if shown == StageSet::Total {
        ledger.span = (Point::SetupOut, Point::Complete);
    }
    ledger
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &LatencyOptions) -> Result<()> {
    let settings = &options.settings;
    let mut read = |run: &mut Run<'_>| Counting::new(options, run).read(run);
    if options.from.is_empty() {
        let ready = Preflight::check(settings)?;
        let live = Live {
            exec: &options.exec.program,
            advice: match options.commands {
                true => {
                    "stdout is not read fast enough: --stages=none or filters (--ctrl, --opcode) help"
                }
                false => SUMS_ARE_SLOW,
            },
            ..Live::new(ready, settings, options.schedule.end())
        };
        return live.run(read);
    }
    let files = open_all(&options.from.files, settings, &FileReader::require_pairs)?;
    each(files, options.json, options.schedule.interval.is_some(), &mut read)
}
