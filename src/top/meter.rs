// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intervals of a session.

use std::time::Duration;

use crate::machine::System;
use crate::model::counters::Failures;
use crate::model::event::Event;
use crate::model::report::disk_names::DiskNames;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::run::start::Session;
use crate::top::report::queues::{QueueCounts, Queues};
use crate::top::report::slowest::{Collector, SlowCommand, bar};
use crate::top::report::view::rows_by_view;
use crate::top::report::{Row, Sample, State};
use anyhow::Result;

use crate::run::drive::{CountedBy, ledger};
use crate::top::args::TopOptions;

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
        self.disks.found(&self.system.controllers());
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
        let ledger = ledger(session, CountedBy::Programs(&now), None)?;
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
