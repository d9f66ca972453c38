// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intervals of a recording.

use std::collections::{BTreeSet, VecDeque};
use std::mem::take;
use std::time::Duration;

use crate::error::Kind;
use crate::model::event::Event;
use crate::model::finished::Finished;
use crate::model::group::By;
use crate::model::ids::RowKey;
use crate::model::ledger::Ledger;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::idle::{Idle, times};
use crate::model::report::recount::Recount;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::recording::CgroupInfo;
use crate::top::report::Sample;
use crate::top::report::queues::QueueCollector;
use crate::top::report::slowest::{Collector, SlowCommand};
use crate::top::report::view::rows_by_view;
use anyhow::Result;

use crate::run::drive::replay::count;
use crate::run::exit::Failure;

/// Most rows of a recording: each has a history.
const MOST_ROWS: usize = 1024;

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
    step: Duration,
    now: Counts,
    /// `None`: it has too many rows.
    run: Option<Counts>,
    /// Events that were read, and whether they are selected.
    events: VecDeque<(Event, bool)>,
    /// Intervals that have ended.
    ended: VecDeque<Sample>,
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
    keys: BTreeSet<RowKey>,
    /// The names of the disks.
    pub disks: DiskNames,
}

impl IntervalConsumer {
    /// Cuts a recording that began at `begin_ns`. `by`: what commands are grouped by.
    pub fn new(step: Duration, stage_set: StageSet, by: &[By], begin_ns: u64) -> Self {
        Self {
            recount: Recount { stage_set, lat: None, by: by.to_vec() },
            step,
            now: Counts::default(),
            run: Some(Counts::default()),
            events: VecDeque::new(),
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
            keys: BTreeSet::new(),
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
        Sample {
            at,
            rows: rows_by_view(&counts.snapshot, by, *stage_set, covers),
            ledger: self.ledger.clone(),
            in_flight: None,
            failed: Some(self.failed),
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

    /// Takes an event, to be counted when its interval is asked for.
    pub fn push(&mut self, event: &Event, is_selected: bool) {
        self.events.push_back((*event, is_selected));
    }

    /// Takes cgroups: their paths.
    pub fn cgroups(&mut self, all: &[CgroupInfo]) {
        for counts in self.run.iter_mut().chain([&mut self.now]) {
            let all = all.iter().map(|one| (one.id, one.path.clone()));
            counts.snapshot.names.cgroups.extend(all);
        }
    }

    /// The next interval; `None`: it takes more events, or there are no more.
    ///
    /// # Errors
    /// If there are too many rows; one sentence.
    pub fn next(&mut self) -> Result<Option<Sample>> {
        loop {
            if let Some(sample) = self.ended.pop_front() {
                return Ok(Some(sample));
            }
            let Some((event, is_selected)) = self.events.pop_front() else {
                return Ok(None);
            };
            let at = self.at(&event);
            if is_selected {
                self.add(&event, at)?;
            }
        }
    }

    /// The time of an event since the start.
    fn at(&mut self, event: &Event) -> Duration {
        let at = Duration::from_nanos(event.at_ns.saturating_sub(self.begin_ns));
        if take(&mut self.is_first) {
            // a ring may have dropped the begin
            let number = at.as_nanos() / self.step.as_nanos().max(1);
            self.number = u64::try_from(number).unwrap_or(u64::MAX);
        }
        at
    }

    /// Closes the last interval, and the run, of which the events cover this time.
    pub fn finish(&mut self, took: Duration, covers: Duration, ledger: &Ledger) {
        let ended = took.max(self.last);
        self.ledger.clone_from(ledger);
        self.close(ended.min(self.end()));
        self.whole = self.run.take().map(|counts| self.sample(counts, took, covers));
        self.is_last = true;
    }

    fn add(&mut self, event: &Event, at: Duration) -> Result<()> {
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
        let command = Finished::of(event);
        if self.recount.by.is_empty() {
            self.keys.extend(command.map(|c| self.recount.row(&c)));
        }
        if self.keys.len() > MOST_ROWS {
            let text = format!(
                "the recording has more than {MOST_ROWS} rows: choose some by --ctrl, --nsid or \
                 --opcode"
            );
            return Err(Failure::error(Kind::Usage, text));
        }
        let verdict = event.what.outcome().and_then(|o| o.verdict);
        self.failed += u64::from(verdict.is_some_and(|v| !v.status.is_success()));
        Ok(())
    }
}
