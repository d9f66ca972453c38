// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `latency` command: attaches, and reports until stopped.

pub(crate) mod args;

use std::io::{BufWriter, Write};
use std::mem::take;
use std::time::Duration;

use crate::machine::System;
use crate::model::event::Event;
use crate::model::ledger::{EventClass, Ledger, Shown};
use crate::model::origin::Who;
use crate::model::point::Point;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::Groups;
use crate::model::report::idle::{Idle, times};
use crate::model::report::latency::{Report, rows};
use crate::model::report::recount::Recount;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::settings::Settings;
use crate::source::Source;
use crate::view::header::Header;
use crate::view::json;
use crate::view::text::{TextView, span};
use crate::view::theme::Theme;
use crate::view::trace::{Clock, Context, TraceLines};
use anyhow::{Result, bail};

use crate::latency::args::LatencyOptions;
use crate::run::drive::replay::{Replay, count};
use crate::run::drive::{
    Consumer, End, Feed, Form, Input, Item, Live, Moment, Reader, Start, Turn, drive, ledger_of,
    open_all,
};
use crate::run::start::Preflight;
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
        StageSet::Full => None,
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
            disks.found(&System::at("/").controllers());
        }
        disks
    }

    /// Sets the begin of the first interval, before the first report.
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

/// Writes a report during a session.
fn interim_of(
    reports: &mut Reports<'_>,
    source: &dyn Source,
    at: Duration,
    out: &mut dyn Write,
) -> Result<()> {
    let now = source.snapshot()?;
    let ledger = ledger_of(source, &now, None)?;
    reports.interim(at, &now, ledger, out)
}

/// Counts the commands of a run, and reports them.
struct Counting<'o> {
    reports: Reports<'o>,
    out: BufWriter<Stdout>,
    /// `--commands`: each finished command as an object of its own, beside the reports. The events and
    /// their JSON are those of `trace`.
    single: Option<TraceLines>,
    /// `None`: a session, which counts by itself.
    counted: Option<Counted>,
    recorded: Option<Recorded>,
}

/// Commands that are counted here.
struct Counted {
    recount: Recount,
    now: Snapshot,
    shown: Shown,
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
            shown: Shown::default(),
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
    fn new(options: &'o LatencyOptions, start: &Start<'_>) -> Self {
        let settings = start.recording.map_or(&options.settings, Replay::settings);
        let stages = (settings.stage_set != StageSet::Total).then_some(settings.stage_set);
        let is_live = start.session.is_some();
        let who = start.session.map_or(settings.filter.who, |session| session.origin().who());
        let mut reports = Reports::new(options, settings);
        // also those that are gone at the end
        reports.disks = reports.disks();
        reports.header = start.header.clone();
        reports.begin_at(start.from);
        Self {
            reports,
            out: BufWriter::new(stdout()),
            single: (options.commands && is_live).then(|| TraceLines::json(Clock::Mono, stages)),
            counted: (!is_live || !settings.counts()).then(|| Counted::new(settings, who)),
            recorded: start.recording.map(|replay| {
                replay.warn_partial();
                Recorded {
                    path: replay.path().to_string(),
                    begin_ns: replay.info().begin_ns,
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

    fn command(&mut self, event: &Event, feed: &mut Feed<'_>) -> Result<()> {
        if let Some(counted) = &mut self.counted {
            counted.shown.add(EventClass::of(&event.what));
            count(&counted.recount, event, &mut counted.now)?;
        }
        let Some(sink) = &mut self.single else {
            return Ok(());
        };
        let (disk, set) = feed.names.of_command(event.what.id());
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

impl Consumer for Counting<'_> {
    const SHOWS: bool = false;
    const HEADS: bool = true;

    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        match item {
            Item::Event(event) => {
                self.before(event, feed.later)?;
                self.command(event, feed)?;
            }
            Item::Unselected(event) => self.before(event, feed.later)?,
            Item::Undecodable => bail!("the ring has a record that can't be decoded"),
            Item::Controllers(all) if self.recorded.is_some() => {
                self.reports.disks.recorded(all);
            }
            Item::Cgroups(all) => {
                if let Some(counted) = &mut self.counted {
                    let all = all.iter().map(|one| (one.id, one.path.clone()));
                    counted.now.names.cgroups.extend(all);
                }
            }
            Item::Ledger(_, ledger) => {
                let ledger = with_span((*ledger).clone(), self.reports.stage_set);
                if let Some(recorded) = &mut self.recorded {
                    recorded.ledger = Some(ledger);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn wants_ledgers(&self) -> bool {
        self.recorded.is_some() && self.reports.next().is_some()
    }

    fn shown(&mut self) -> Option<&mut Shown> {
        self.counted.as_mut().filter(|_| self.recorded.is_none()).map(|counted| &mut counted.shown)
    }

    fn tick(&mut self, moment: &Moment<'_>) -> Result<Turn> {
        self.flush_commands()?;
        let Some(session) = moment.session else {
            return Ok(Turn::Items);
        };
        if self.reports.next().is_some_and(|due| moment.now >= due) {
            match &mut self.counted {
                Some(counted) => {
                    // the events of some commands are still in the ring
                    let ledger = moment.ledger()?.unwrap_or_default().when_shown(0);
                    let now = counted.with_cgroups();
                    self.reports.interim(moment.now, now, ledger, &mut self.out)?;
                }
                None => interim_of(&mut self.reports, session, moment.now, &mut self.out)?,
            }
        }
        Ok(self.reports.next().map_or(Turn::Items, Turn::Until))
    }

    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        self.flush_commands()?;
        self.reports.header = end.header;
        let (reports, out) = (&self.reports, &mut self.out);
        let Some(recorded) = &self.recorded else {
            let now = self.counted.as_mut().map_or(&end.sums, Counted::with_cgroups);
            reports.last((end.took, end.took), now, end.ledger, out)?;
            return Ok(Ok(()));
        };
        let ledger = with_span(end.ledger, reports.stage_set);
        let now = self.counted.as_ref().map_or(&end.sums, |counted| &counted.now);
        reports.last((end.took, end.covers), now, ledger, out)?;
        let left_out = reports.idle.text();
        left_out.iter().for_each(|text| eprint_note(&format!("{}: {text}", recorded.path)));
        Ok(Ok(()))
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
    let input = if options.from.is_empty() {
        let ready = Preflight::check(settings)?;
        Input::live(Live {
            exec: &options.exec.program,
            until: "; Ctrl-C for the final report",
            reader: if options.commands { Reader::Stdout } else { Reader::Sums },
            ..Live::new(ready, settings, options.schedule.end())
        })
    } else {
        let replays = open_all(&options.from.files, settings, &Replay::require_pairs)?;
        let form = Form {
            json: options.json,
            color: options.session.color.on_stdout(options.json),
            ledger_apart: false,
        };
        Input::recordings(replays, form, options.schedule.interval.is_none())
    };
    drive(input, &mut |start| Ok(Counting::new(options, start)))
}

#[cfg(test)]
mod tests {
    use crate::StageSet;
    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::cli::{Args, Command};
    use crate::run::args::common::SessionOptions;
    use crate::run::fixture::VecSource;
    use crate::testing::snapshot::{READS, cell};

    /// A snapshot with this many reads.
    fn snapshot(reads: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let reads = vec![&[1000][..]; reads as usize];
        let cell = cell(StageSet::Total, 0, &reads);
        snapshot.cells.insert((READS, 0), cell);
        snapshot
    }

    /// Numbers of reads in two interim reports and the final one.
    fn counts(words: &str) -> Vec<u64> {
        let words = ["nvme-deep", "latency", "--json"].into_iter().chain(words.split(' '));
        let Command::Latency(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("not latency");
        };
        let options = args.checked().unwrap();
        let mut source = VecSource::new(StageSet::Total);
        source.snapshots = [3, 5, 9].map(snapshot).into();
        let (mut reports, mut out) = (Reports::new(&options, &options.settings), vec![]);
        let second = Duration::from_secs(1);
        assert_eq!(reports.next(), Some(second));
        interim_of(&mut reports, &source, second, &mut out).unwrap();
        interim_of(&mut reports, &source, 2 * second, &mut out).unwrap();
        let (now, at) = (source.snapshot().unwrap(), 3 * second);
        let ledger = ledger_of(&source, &now, None).unwrap();
        reports.last((at, at), &now, ledger, &mut out).unwrap();
        let lines = std::str::from_utf8(&out).unwrap().lines();
        let reports = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        reports.map(|r| r["rows"][0]["count"].as_u64().unwrap()).collect()
    }

    #[test]
    fn reports_of_a_vector_are_of_the_run_so_far_or_of_the_interval() {
        assert_eq!(counts("1"), [3, 5, 9]);
        assert_eq!(counts("1 --delta"), [3, 2, 9]);
    }
}
