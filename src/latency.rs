// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `latency` command: attach, and report until stopped.

use std::io::BufWriter;
use std::io::Write;
use std::io::stdout;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;

use crate::attach::slots;
use crate::ledger::Ledger;
use crate::ledger::Scan;
use crate::options::LatencyOptions;
use crate::report::Report;
use crate::report::rows;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::start::Care;
use crate::start::RESCAN;
use crate::start::Ready;
use crate::start::check_fit;
use crate::view::json;
use crate::view::text::TextView;
use crate::view::theme::Theme;

/// How often to empty the ring of single commands.
const DRAIN: Duration = Duration::from_millis(20);

struct Run<'o, 's, 'obj> {
    options: &'o LatencyOptions,
    session: &'s mut Session<'obj>,
    begin: Instant,
    text: TextView,
    care: Care,
}

impl Run<'_, '_, '_> {
    fn write(&self, report: &Report, out: &mut dyn Write) -> Result<()> {
        if self.options.json {
            json::report(report, self.options.hist, out)?;
        } else {
            self.text.report(report, out)?;
        }
        out.flush()?;
        Ok(())
    }

    fn report(
        &self,
        at: Duration,
        now: &Snapshot,
        shown: &Snapshot,
        covers: Duration,
        scan: Option<Scan>,
    ) -> Report {
        let Self {
            options, session, ..
        } = self;
        Report {
            cut: options.probing.cut,
            is_final: scan.is_some(),
            at,
            covers,
            rows: rows(
                shown,
                options.probing.cut,
                options.probing.lat.as_ref(),
                covers,
            ),
            ledger: Ledger::new(
                session.plan(),
                &now.counters,
                &now.misses,
                now.commands(),
                scan,
            )
            .with_unmeasured(now.unmeasured())
            .with_cost(session.plan(), session.own_cost()),
        }
    }

    /// A report while running: of the run so far, or of the time since the last one.
    fn interim(&self, last: &mut (Duration, Snapshot), out: &mut dyn Write) -> Result<()> {
        let at = self.begin.elapsed();
        let now = self.session.snapshot()?;
        check_fit(&now.counters)?;
        let report = if self.options.delta {
            self.report(at, &now, &now.minus(&last.1), at - last.0, None)
        } else {
            self.report(at, &now, &now, at, None)
        };
        *last = (at, now);
        self.write(&report, out)
    }

    /// Writes the single commands that have come, if they are wanted.
    fn drain(&self, out: &mut dyn Write) -> Result<()> {
        if !self.options.probing.commands {
            return Ok(());
        }
        let records = self.session.command_ring()?.take(Duration::ZERO)?;
        let any = !records.is_empty();
        for record in records {
            let record = record.context("a command record that can't be decoded")?;
            json::command(&record, self.options.probing.cut, out)?;
        }
        if any {
            out.flush()?;
        }
        Ok(())
    }

    /// Reports until the count, the duration or a signal ends it; then the final report.
    fn until_told(mut self, stop: &Receiver<()>, out: &mut dyn Write) -> Result<()> {
        let ended = self.interims(stop, out);
        let at = self.begin.elapsed();
        self.care.last_look(self.session)?;
        self.session.end()?;
        ended?;
        self.drain(out)?;
        let now = self.session.snapshot()?;
        check_fit(&now.counters)?;
        let scan = self.session.scan()?;
        let report = self.report(at, &now, &now, at, Some(scan));
        self.write(&report, out)?;
        self.care.verdict()
    }

    fn interims(&mut self, stop: &Receiver<()>, out: &mut dyn Write) -> Result<()> {
        let LatencyOptions {
            interval,
            count,
            duration,
            delta,
            ..
        } = *self.options;
        let commands = self.options.probing.commands;
        // in the cumulative view the final report is the last of the count
        let interims = count.map_or(u64::MAX, |n| if delta { n } else { n - 1 });
        let counted = interval.zip(count).map(|(step, n)| times(step, n));
        let end = duration.into_iter().chain(counted).min();
        let mut shown = 0;
        let mut last = (Duration::ZERO, Snapshot::default());
        let mut next_scan = RESCAN;
        loop {
            let next_report = interval
                .filter(|_| shown < interims)
                .map(|step| times(step, shown + 1));
            let mut until = next_scan;
            until = next_report.map_or(until, |t| t.min(until));
            until = end.map_or(until, |t| t.min(until));
            if commands {
                until = until.min(self.begin.elapsed() + DRAIN);
            }
            match stop.recv_timeout(until.saturating_sub(self.begin.elapsed())) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return Ok(()),
            }
            self.drain(out)?;
            let now = self.begin.elapsed();
            if next_report.is_some_and(|t| now >= t) {
                self.interim(&mut last, out)?;
                shown += 1;
            }
            if end.is_some_and(|t| now >= t) {
                return Ok(());
            }
            if now >= next_scan {
                if self.care.rescan(self.session)? {
                    return Ok(());
                }
                next_scan = now + RESCAN;
            }
        }
    }
}

/// `n` steps, or as long as a duration can be.
fn times(step: Duration, n: u64) -> Duration {
    step.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX))
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind; nothing stays attached.
pub fn run(options: &LatencyOptions) -> Result<()> {
    let ready = Ready::look(&options.probing)?;
    let until = if options.duration.is_some() || options.count.is_some() {
        ""
    } else {
        "; Ctrl-C for the final report"
    };
    let mut slots = slots();
    let mut session = ready.attach(&mut slots, &options.probing, until, None)?;
    let text = TextView {
        theme: Theme {
            color: options.color,
        },
        hist: options.hist,
        detail: options.probing.attaching.verbose > 0,
    };
    let begin = Instant::now();
    let run = Run {
        care: Care::of(&session, ready.host),
        options,
        session: &mut session,
        begin,
        text,
    };
    let mut out = BufWriter::new(stdout().lock());
    run.until_told(&ready.stop, &mut out)
}
