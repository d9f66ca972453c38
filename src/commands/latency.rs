// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `latency` command: attaches, and reports until stopped.

use std::io::BufWriter;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::machine::System;
use nvme_deep::model::milestone::Milestone;
use nvme_deep::model::run::Scan;
use nvme_deep::model::snapshot::Snapshot;
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::stratum::BlockSizes;
use nvme_deep::recording::ControllerInfo;
use nvme_deep::recording::Item;
use nvme_deep::render::ReportSink;
use nvme_deep::render::json::JsonView;
use nvme_deep::render::text::TextView;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::disk_names::DiskNames;
use nvme_deep::report::idle::Idle;
use nvme_deep::report::idle::times;
use nvme_deep::report::latency::Report;
use nvme_deep::report::latency::rows;
use nvme_deep::report::ledger::EventClass;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::report::recount::Recount;
use nvme_deep::session::settings::Settings;
use nvme_deep::source::Source;

use crate::cli::options::LatencyOptions;
use crate::commands::exec::Program;
use crate::commands::exec::until_end;
use crate::commands::replay::Replay;
use crate::commands::replay::count;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::check_fit;
use crate::commands::say;
use crate::commands::several::Ended;
use crate::commands::several::Form;
use crate::commands::several::open_all;
use crate::commands::several::show_each;
use crate::commands::single::SingleCommands;
use crate::commands::standard::stdout;
use crate::commands::start::Ready;

/// Interval between reads of the event ring.
const DRAIN: Duration = Duration::from_millis(20);

/// The reports of a run.
struct Reports<'o> {
    options: &'o LatencyOptions,
    sink: Box<dyn ReportSink>,
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
    fn new(options: &'o LatencyOptions) -> Self {
        let sink: Box<dyn ReportSink> = if options.json {
            Box::new(JsonView {
                buckets: options.hist,
            })
        } else {
            Box::new(TextView {
                theme: Theme {
                    color: options.color,
                },
                hist: options.hist,
                detail: options.settings.attaching.verbose > 0,
            })
        };
        Self {
            options,
            sink,
            begin: Duration::ZERO,
            last: <_>::default(),
            shown: 0,
            idle: Idle::default(),
            disks: DiskNames::default(),
        }
    }

    /// The names of the disks. Those of this machine are read again: a disk may be new.
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

    /// Writes the reports of a recording that are due before an event, but not those of a long time
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

    fn write(
        &self,
        (at, covers): (Duration, Duration),
        shown: &Snapshot,
        ledger: Ledger,
        is_final: bool,
        out: &mut dyn Write,
    ) -> Result<()> {
        let Settings { stage_set, lat, .. } = &self.options.settings;
        let report = Report {
            stage_set: *stage_set,
            is_final,
            at,
            covers,
            rows: rows(shown, *stage_set, lat.as_ref(), covers),
            ledger,
            disks: self.disks(),
        };
        self.sink.report(&report, out)?;
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
        at: Duration,
        now: &Snapshot,
        ledger: Ledger,
        out: &mut dyn Write,
    ) -> Result<()> {
        self.write((at, at), now, ledger, true, out)
    }
}

/// The ledger of a session with histograms. `scan`: the slots, after the end of the session.
///
/// # Errors
/// If the types do not fit the kernel.
pub fn ledger_of(source: &dyn Source, now: &Snapshot, scan: Option<Scan>) -> Result<Ledger> {
    check_fit(&now.counters)?;
    let plan = source.plan();
    let ledger = Ledger::new(plan, &now.counters, &now.misses, now.commands(), scan);
    Ok(ledger
        .with_unmeasured(now.unmeasured())
        .with_cost(plan, source.run_times().as_ref()))
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

/// Writes the final report of a session.
fn last_of(
    reports: &Reports<'_>,
    source: &dyn Source,
    at: Duration,
    out: &mut dyn Write,
) -> Result<()> {
    let now = source.snapshot()?;
    let scan = source.scan()?;
    let ledger = ledger_of(source, &now, Some(scan))?;
    reports.last(at, &now, ledger, out)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &LatencyOptions) -> Result<()> {
    if options.from.is_empty() {
        return live(options);
    }
    let replays = open_all(&options.from, &options.settings, &Replay::require_pairs)?;
    let form = Form {
        json: options.json,
        color: options.color,
        ledger_apart: false,
    };
    show_each(replays, &form, &mut |replay| replayed(options, replay))
}

/// Reports on a recording.
fn replayed(options: &LatencyOptions, mut replay: Replay) -> Result<Ended> {
    let settings = &options.settings;
    replay.say_choice();
    if options.schedule.interval.is_none() {
        replay.show_progress();
    }
    let begin_ns = replay.info().begin_ns;
    let mut recount = Recount {
        stage_set: settings.stage_set,
        lat: settings.lat,
        split_size: settings.split_size,
        block_sizes: BlockSizes::default(),
    };
    let (mut now, mut reports) = (Snapshot::default(), Reports::new(options));
    let mut out = BufWriter::new(stdout());
    let mut done = Ok(());
    let mut more = true;
    while more && done.is_ok() {
        // a recording begins with a ledger, and has a new one every second
        let ledger = reports.next().and_then(|_| replay.ledger());
        let ledger = ledger.map(|ledger| with_span(ledger, settings.stage_set));
        let (begins_late, mut later) = (replay.begins_late(), replay.later());
        let read = replay.next(&mut |item| match item {
            Item::Event(event) => {
                let at = Duration::from_nanos(event.at_ns.saturating_sub(begin_ns));
                if begins_late && reports.begin.is_zero() {
                    reports.begin_at(at);
                }
                // without a ledger there is only the end to report
                let is_due = done.is_ok() && reports.next().is_some_and(|due| due <= at);
                if let Some(ledger) = ledger.as_ref().filter(|_| is_due) {
                    done = reports.up_to(at, &now, &ledger.clone().when_shown(later), &mut out);
                }
                later += u64::from(EventClass::of(&event.what) == EventClass::Command);
                if done.is_ok() && settings.selects(event) {
                    done = count(&recount, event, &mut now);
                }
            }
            Item::Controllers(all) => {
                let sizes = all.iter().flat_map(ControllerInfo::block_sizes);
                recount.block_sizes.extend(sizes);
                reports.disks.recorded(&all);
            }
            _ => {}
        });
        more = match read {
            Ok(more) => more,
            Err(error) => return Ok(error.into()),
        };
    }
    done?;
    let (ledger, at) = match replay.end() {
        Ok(end) => end,
        Err(error) => return Ok(error.into()),
    };
    let ledger = with_span(ledger, settings.stage_set);
    reports.write((at, replay.covers()), &now, ledger, true, &mut out)?;
    let left_out = reports.idle.text();
    left_out
        .iter()
        .for_each(|text| say(&format!("{}: {text}", replay.path())));
    Ok(Ended::File(replay.verdict()))
}

/// A recorded ledger with the span of what is shown, which may be less than what was recorded.
fn with_span(mut ledger: Ledger, shown: StageSet) -> Ledger {
    match shown {
        StageSet::Total => ledger.span = (Milestone::SetupOut, Milestone::Complete),
        StageSet::Basic => ledger.span.1 = Milestone::Complete,
        StageSet::Fine => {}
    }
    ledger
}

fn live(options: &LatencyOptions) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let end = options.schedule.end();
    let has_end = end.is_some();
    let until = if has_end || !options.exec.is_empty() {
        until_end(&options.exec, has_end)
    } else {
        "; Ctrl-C for the final report".into()
    };
    let mut session = ready.attach(&options.settings, &until, None)?;
    let mut watchdog = Watchdog::of(&session, ready.system.clone());
    let mut reports = Reports::new(options);
    // also those that are gone at the end
    reports.disks.found(&ready.system.controllers());
    let mut single = match &options.settings.trace {
        Some(_) => Some(SingleCommands::new(
            session.events()?,
            options.settings.stage_set,
            ready.system.clone(),
        )),
        None => None,
    };
    let mut out = BufWriter::new(stdout());
    let program = Program::start(&options.exec, &ready.waker)?;
    let run = Run::begin(&ready.stop, end);
    let ended = run.turns(&mut session, &mut watchdog, &mut |session, tick| {
        let mut again = Duration::MAX;
        if let Some(single) = &mut single {
            if tick.rescanned {
                single.may_look();
            }
            let more = single.drain(&mut out)?;
            again = tick.now + if more { Duration::ZERO } else { DRAIN };
        }
        if reports.next().is_some_and(|t| tick.now >= t) {
            interim_of(&mut reports, session, run.elapsed(), &mut out)?;
        }
        let next = reports.next().unwrap_or(Duration::MAX);
        Ok(Turn::Until(again.min(next)))
    });
    let at = run.elapsed();
    watchdog.last_look(&session)?;
    session.end()?;
    ended?;
    if let Some(single) = &mut single {
        single.finish(&mut out)?;
    }
    last_of(&reports, &session, at, &mut out)?;
    watchdog.verdict()?;
    program.end()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use nvme_deep::Opcode;
    use nvme_deep::QueueKind;
    use nvme_deep::StageSet;
    use nvme_deep::model::row::RowKey;
    use nvme_deep::model::snapshot::Cell;
    use serde_json::Value;

    use super::*;
    use crate::cli::args::Args;
    use crate::cli::args::Command;
    use crate::commands::fixture::VecSource;

    /// A snapshot with this many reads.
    fn snapshot(reads: u64) -> Snapshot {
        let key = RowKey {
            ctrl: 0,
            nsid: 1,
            opcode: Opcode {
                queue: QueueKind::Io,
                code: 2,
            },
            class: 0,
        };
        let mut cell = Cell::empty(StageSet::Total);
        (0..reads).for_each(|_| cell.hists[0].record(1000));
        let mut snapshot = Snapshot::default();
        snapshot.cells.insert((key, 0), cell);
        snapshot
    }

    /// Numbers of reads in two interim reports and the final one.
    fn counts(words: &str) -> Vec<u64> {
        let words = ["nvme-deep", "latency", "--json"]
            .into_iter()
            .chain(words.split(' '));
        let Command::Latency(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("not latency");
        };
        let options = args.try_into().unwrap();
        let mut source = VecSource::new(StageSet::Total);
        source.snapshots = [3, 5, 9].map(snapshot).into();
        let (mut reports, mut out) = (Reports::new(&options), vec![]);
        let second = Duration::from_secs(1);
        assert_eq!(reports.next(), Some(second));
        interim_of(&mut reports, &source, second, &mut out).unwrap();
        interim_of(&mut reports, &source, 2 * second, &mut out).unwrap();
        last_of(&reports, &source, 3 * second, &mut out).unwrap();
        let lines = std::str::from_utf8(&out).unwrap().lines();
        let reports = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        reports
            .map(|r| r["rows"][0]["count"].as_u64().unwrap())
            .collect()
    }

    #[test]
    fn reports_of_a_vector_are_of_the_run_so_far_or_of_the_interval() {
        assert_eq!(counts("1"), [3, 5, 9]);
        assert_eq!(counts("1 --delta"), [3, 2, 9]);
    }
}
