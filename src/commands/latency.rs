// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `latency` command: attaches, and reports until stopped.

use std::io::BufWriter;
use std::io::Write;
use std::io::stdout;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::model::run::Scan;
use nvme_deep::model::snapshot::Snapshot;
use nvme_deep::render::ReportSink;
use nvme_deep::render::json::JsonView;
use nvme_deep::render::text::TextView;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::latency::Report;
use nvme_deep::report::latency::rows;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::session::settings::Settings;
use nvme_deep::source::Source;

use crate::cli::options::LatencyOptions;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::check_fit;
use crate::commands::single::SingleCommands;
use crate::commands::start::Ready;

/// Interval between reads of the event ring.
const DRAIN: Duration = Duration::from_millis(20);

/// The reports of a run.
struct Reports<'o> {
    options: &'o LatencyOptions,
    sink: Box<dyn ReportSink>,
    /// Time and snapshot of the last report.
    last: (Duration, Snapshot),
    shown: u64,
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
            last: <_>::default(),
            shown: 0,
        }
    }

    /// When the next report is due. Without `--delta` the final report counts as one of COUNT.
    fn next(&self) -> Option<Duration> {
        let LatencyOptions {
            interval,
            count,
            delta,
            ..
        } = *self.options;
        let interims = count.map_or(u64::MAX, |n| if delta { n } else { n - 1 });
        interval
            .filter(|_| self.shown < interims)
            .map(|step| times(step, self.shown + 1))
    }

    fn write(
        &self,
        source: &dyn Source,
        at: Duration,
        (now, shown): (&Snapshot, &Snapshot),
        covers: Duration,
        scan: Option<Scan>,
        out: &mut dyn Write,
    ) -> Result<()> {
        check_fit(&now.counters)?;
        let Settings { stage_set, lat, .. } = &self.options.settings;
        let plan = source.plan();
        let ledger = Ledger::new(plan, &now.counters, &now.misses, now.commands(), scan);
        let report = Report {
            stage_set: *stage_set,
            is_final: scan.is_some(),
            at,
            covers,
            rows: rows(shown, *stage_set, lat.as_ref(), covers),
            ledger: ledger
                .with_unmeasured(now.unmeasured())
                .with_cost(plan, source.run_times().as_ref()),
        };
        self.sink.report(&report, out)?;
        out.flush()?;
        Ok(())
    }

    /// Writes a report during the run: of the run so far, or with `--delta` of the last interval.
    fn interim(&mut self, source: &dyn Source, at: Duration, out: &mut dyn Write) -> Result<()> {
        let now = source.snapshot()?;
        if self.options.delta {
            let shown = now.minus(&self.last.1);
            self.write(source, at, (&now, &shown), at - self.last.0, None, out)?;
        } else {
            self.write(source, at, (&now, &now), at, None, out)?;
        }
        self.last = (at, now);
        self.shown += 1;
        Ok(())
    }

    /// Writes the final report.
    fn last(&self, source: &dyn Source, at: Duration, out: &mut dyn Write) -> Result<()> {
        let now = source.snapshot()?;
        let scan = source.scan()?;
        self.write(source, at, (&now, &now), at, Some(scan), out)
    }
}

/// `n` times `step`; saturates.
fn times(step: Duration, n: u64) -> Duration {
    step.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX))
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &LatencyOptions) -> Result<()> {
    let ready = Ready::look(&options.settings)?;
    let until = if options.duration.is_some() || options.count.is_some() {
        ""
    } else {
        "; Ctrl-C for the final report"
    };
    let mut session = ready.attach(&options.settings, until, None)?;
    let counted = options.interval.zip(options.count);
    let counted = counted.map(|(step, n)| times(step, n));
    let end = options.duration.into_iter().chain(counted).min();
    let mut watchdog = Watchdog::of(&session, ready.system.clone());
    let mut reports = Reports::new(options);
    let mut single = match &options.settings.trace {
        Some(_) => Some(SingleCommands::new(
            session.events()?,
            options.settings.stage_set,
            ready.system.clone(),
        )),
        None => None,
    };
    let mut out = BufWriter::new(stdout().lock());
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
            reports.interim(session, run.elapsed(), &mut out)?;
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
    reports.last(&session, at, &mut out)?;
    watchdog.verdict()
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
        reports.interim(&source, second, &mut out).unwrap();
        reports.interim(&source, 2 * second, &mut out).unwrap();
        reports.last(&source, 3 * second, &mut out).unwrap();
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
