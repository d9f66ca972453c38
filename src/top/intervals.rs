// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intervals of a recording.

use crate::machine::System;
use crate::model::counters::Failures;
use crate::model::event::Event;
use crate::model::group::By;
use crate::model::ledger::Ledger;
use crate::model::origin::Who;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::{Idle, times};
use crate::model::report::recount::Recount;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::recording::CgroupInfo;
use crate::run::drive::{count, ledger_of_rows};
use crate::run::start::Session;
use crate::top::args::TopOptions;
use crate::top::report::{
    Collector, QueueCollector, QueueCounts, Queues, Row, Sample, SlowCommand, State, bar,
    rows_by_view,
};
use anyhow::Result;
use std::collections::VecDeque;
use std::mem::take;
use std::time::Duration;

/// Counts of an interval, or of the whole run.
#[derive(Default)]
struct Counts {
    snapshot: Snapshot,
    slowest: Collector,
    queues: QueueCollector,
}

impl Counts {
    fn add(&mut self, recount: &Recount, event: &Event) -> Result<()> {
        count(recount, event, &mut self.snapshot)?;
        self.queues.add(event);
        let command = SlowCommand::of(event, recount.stage_set);
        command.into_iter().for_each(|c| self.slowest.add(c));
        Ok(())
    }
}

/// Counts the commands of each interval.
pub struct IntervalConsumer {
    recount: Recount,
    stages: Vec<&'static str>,
    step: Duration,
    now: Counts,
    /// `None`: it has too many rows.
    run: Option<Counts>,
    /// Intervals that have ended.
    pub ended: VecDeque<Sample>,
    /// The whole run, when it is over.
    pub whole: Option<Sample>,
    /// There will be no more.
    pub is_last: bool,
    /// The last ledger of the recording.
    pub ledger: Ledger,
    is_first: bool,
    /// Number of the current interval.
    number: u64,
    begin_ns: u64,
    /// The time of the last event: it may be later than the end of the run.
    last: Duration,
    /// Commands that failed, since the start.
    failed: u64,
    /// Intervals that were left out.
    pub idle: Idle,
    /// The names of the disks.
    pub disks: DiskNames,
}

impl IntervalConsumer {
    /// Cuts a recording that began at `begin_ns`. `by`: what commands are grouped by. `stages`: of the heat
    /// map.
    pub fn new(
        step: Duration,
        stage_set: StageSet,
        (by, who): (&[By], Who),
        stages: Vec<&'static str>,
        begin_ns: u64,
    ) -> Self {
        Self {
            recount: Recount { stage_set, lat: None, by: by.to_vec(), who },
            stages,
            step,
            now: Counts::default(),
            run: Some(Counts::default()),
            ended: VecDeque::new(),
            whole: None,
            is_last: false,
            ledger: Ledger::default(),
            is_first: true,
            number: 0,
            begin_ns,
            last: Duration::ZERO,
            failed: 0,
            idle: Idle::default(),
            disks: DiskNames::default(),
        }
    }

    fn end(&self) -> Duration {
        times(self.step, self.number.saturating_add(1))
    }

    /// The sample of these counts, of the time up to `at` that they cover.
    fn sample(&self, mut counts: Counts, at: Duration, covers: Duration) -> Sample {
        let covers = covers.max(Duration::from_nanos(1));
        let Recount { by, stage_set, .. } = &self.recount;
        let rows = rows_by_view(&counts.snapshot, by, *stage_set, covers).into_iter();
        let row = |row| Row::new(row, &self.stages);
        Sample {
            at,
            rows: rows.map(|view| view.into_iter().map(row).collect()).collect(),
            state: State::new(&self.ledger, Some(self.failed)),
            in_flight: None,
            slowest: counts.slowest.take(),
            queues: Some(counts.queues.take(covers)),
            disks: self.disks.clone(),
            names: counts.snapshot.names,
        }
    }

    /// Ends the interval at this time, which is earlier than its end for the last one.
    fn close(&mut self, at: Duration) {
        let counts = take(&mut self.now);
        self.now.snapshot.names = counts.snapshot.names.clone();
        let covers = at.saturating_sub(times(self.step, self.number));
        let sample = self.sample(counts, at, covers);
        self.ended.push_back(sample);
        self.number = self.number.saturating_add(1);
    }

    /// Takes cgroups: their paths.
    pub fn cgroups(&mut self, all: &[CgroupInfo]) {
        for counts in self.run.iter_mut().chain([&mut self.now]) {
            let all = all.iter().map(|one| (one.id, one.path.clone()));
            counts.snapshot.names.cgroups.extend(all);
        }
    }

    /// Closes the last interval and the run, whose events cover this time.
    pub fn finish(&mut self, took: Duration, covers: Duration, ledger: &Ledger) {
        let ended = took.max(self.last);
        self.ledger.clone_from(ledger);
        self.close(ended.min(self.end()));
        self.whole = self.run.take().map(|counts| self.sample(counts, took, covers));
        self.is_last = true;
    }

    /// Takes an event.
    ///
    /// # Errors
    /// If there are more rows than can be counted; one sentence.
    pub fn add(&mut self, event: &Event, is_selected: bool) -> Result<()> {
        let at = Duration::from_nanos(event.at_ns.saturating_sub(self.begin_ns));
        if take(&mut self.is_first) {
            // a ring may have dropped the start
            let number = at.as_nanos() / self.step.as_nanos().max(1);
            self.number = u64::try_from(number).unwrap_or(u64::MAX);
        }
        if !is_selected {
            return Ok(());
        }
        if at >= self.end() {
            let due = self.end();
            self.close(due);
            let skipped = self.idle.skip(due, at, self.step);
            self.number = self.number.saturating_add(skipped);
        }
        // at most those that Idle permits
        while at >= self.end() && self.number < u64::MAX {
            self.close(self.end());
        }
        self.last = at.max(self.last);
        self.now.add(&self.recount, event)?;
        self.run.take_if(|run| run.add(&self.recount, event).is_err());
        let verdict = event.what.outcome().and_then(|o| o.verdict);
        self.failed += u64::from(verdict.is_some_and(|v| !v.status.is_success()));
        Ok(())
    }
}

/// Reads the intervals of a session.
pub struct Meter {
    system: System,
    last: (Duration, Snapshot),
    queues: Option<Queues>,
    /// The slowest commands.
    collector: Collector,
    disks: DiskNames,
}

/// The commands and the interrupts of each queue; `None` if the run does not count them.
fn queues(session: &Session, system: &System) -> Result<Option<Queues>> {
    let Some(counts) = session.queue_counts()? else {
        return Ok(None);
    };
    let mut queues = Queues::default();
    for found in system.queue_interrupts() {
        let queue = queues.0.entry(found.queue).or_default();
        (queue.irq, queue.interrupts) = (Some(found.irq), Some(found.by_cpu));
    }
    for (id, commands) in counts {
        queues.0.entry(id).or_insert_with(QueueCounts::default).commands = commands;
    }
    Ok(Some(queues))
}

impl Meter {
    /// Begins now.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn begin(session: &Session, system: System) -> Result<Self> {
        Ok(Self {
            last: <_>::default(),
            queues: queues(session, &system)?,
            collector: Collector::default(),
            system,
            disks: DiskNames::default(),
        })
    }

    /// Takes an event: one of the slowest commands.
    pub fn event(&mut self, event: &Event, stage_set: StageSet) {
        let command = SlowCommand::of(event, stage_set);
        command.into_iter().for_each(|c| self.collector.add(c));
    }

    /// The names of the disks. Disks may be new.
    fn disks(&mut self) -> DiskNames {
        self.disks.recorded(&self.system.controllers());
        self.disks.clone()
    }

    /// The interval that ends now, `at` after the start, with the latencies of these stages.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn sample(
        &mut self,
        options: &TopOptions,
        session: &Session,
        stages: &[&str],
        at: Duration,
    ) -> Result<Sample> {
        let stage_set = options.settings.stage_set;
        let now = session.snapshot()?;
        let ledger = ledger_of_rows(session, &now, None)?;
        let in_flight = session.in_flight_by_queue()?;
        let filter = &options.settings.filter;
        let of_filter = in_flight.iter().filter(|(queue, _)| filter.has_ctrl(queue.ctrl));
        let flying = of_filter.map(|(_, n)| n).sum();
        let covers = at.saturating_sub(self.last.0);
        let interval = now.minus(&self.last.1);
        let rows = rows_by_view(&interval, options.settings.by(), stage_set, covers);
        let queues = queues(session, &self.system)?;
        let lines = queues.as_ref().zip(self.queues.as_ref());
        let lines = lines.map(|(now, earlier)| now.lines(earlier, &in_flight, covers));
        if queues.is_some() {
            session.set_slow_bar(rows.first().map_or(0, |rows| bar(rows)))?;
        }
        let failed = |failures: &Failures| failures.by_type.iter().sum::<u64>();
        let counts_failures = !now.failures.is_empty();
        let failed = counts_failures.then(|| now.failures.values().map(failed).sum());
        self.queues = queues;
        let names = interval.names;
        self.last = (at, now);
        let row = |row| Row::new(row, stages);
        Ok(Sample {
            at,
            rows: rows.into_iter().map(|view| view.into_iter().map(row).collect()).collect(),
            state: State::new(&ledger, failed),
            in_flight: Some(flying),
            slowest: self.collector.take(),
            queues: lines,
            disks: self.disks(),
            names,
        })
    }
}
