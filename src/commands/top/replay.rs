// SPDX-License-Identifier: MIT OR Apache-2.0
//! `top --from`: the intervals of a recording.

use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::model::event::Event;
use nvme_deep::model::finished::Finished;
use nvme_deep::model::row::RowKey;
use nvme_deep::model::snapshot::Snapshot;
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::stratum::BlockSizes;
use nvme_deep::recording::Item;
use nvme_deep::report::disk_names::DiskNames;
use nvme_deep::report::idle::Idle;
use nvme_deep::report::idle::times;
use nvme_deep::report::latency::rows;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::report::recount::Recount;
use nvme_deep::report::top::Sample;
use nvme_deep::report::top::queues::QueueCollector;
use nvme_deep::report::top::slowest::Collector;
use nvme_deep::report::top::slowest::SlowCommand;
use nvme_deep::session::settings::Settings;

use crate::cli::options::TopOptions;
use crate::commands::replay::Replay;
use crate::commands::replay::count;
use crate::exit::Failure;

/// Most rows of a recording: each has a history.
const MOST_ROWS: usize = 1024;

/// A recording as intervals, which are read as they are asked for.
pub struct Recorded {
    /// The stages that it has, or that were asked for.
    pub stage_set: StageSet,
    replay: Replay,
    settings: Settings,
    cutter: Cutter,
    /// Events that were read, and the ledger before them.
    events: VecDeque<Event>,
    before: Ledger,
    is_first: bool,
    ledger: Option<Ledger>,
}

/// Counts the commands of the current interval.
struct Cutter {
    recount: Recount,
    step: Duration,
    now: Snapshot,
    /// Intervals that have ended.
    ended: VecDeque<Sample>,
    /// Number of the current interval.
    number: u64,
    begin_ns: u64,
    /// The time of the last event: it may be later than the end of the run.
    last: Duration,
    collector: Collector,
    queues: QueueCollector,
    /// Commands that failed, since the start.
    failed: u64,
    idle: Idle,
    keys: BTreeSet<RowKey>,
    disks: DiskNames,
}

impl Cutter {
    fn new(step: Duration, stage_set: StageSet, begin_ns: u64) -> Self {
        Self {
            recount: Recount {
                stage_set,
                lat: None,
                split_size: false,
                block_sizes: BlockSizes::default(),
            },
            step,
            now: Snapshot::default(),
            ended: VecDeque::new(),
            number: 0,
            begin_ns,
            last: Duration::ZERO,
            collector: Collector::default(),
            queues: QueueCollector::default(),
            failed: 0,
            idle: Idle::default(),
            keys: BTreeSet::new(),
            disks: DiskNames::default(),
        }
    }

    fn end(&self) -> Duration {
        times(self.step, self.number.saturating_add(1))
    }

    /// Ends the interval at this time, which is earlier than its end for the last one.
    fn close(&mut self, at: Duration, ledger: &Ledger) {
        let stage_set = self.recount.stage_set;
        let begin = times(self.step, self.number);
        let covers = at.saturating_sub(begin).max(Duration::from_nanos(1));
        self.ended.push_back(Sample {
            at,
            rows: rows(&self.now, stage_set, None, covers),
            ledger: ledger.clone(),
            in_flight: None,
            failed: Some(self.failed),
            slowest: self.collector.take(),
            queues: Some(self.queues.take(covers)),
            disks: self.disks.clone(),
        });
        self.now = Snapshot::default();
        self.number = self.number.saturating_add(1);
    }

    fn add(&mut self, event: &Event, at: Duration, ledger: &Ledger) -> Result<()> {
        if at >= self.end() {
            let due = self.end();
            self.close(due, ledger);
            let skipped = self.idle.skip(due, at, self.step);
            self.number = self.number.saturating_add(skipped);
        }
        // at most those that Idle permits
        while at >= self.end() && self.number < u64::MAX {
            self.close(self.end(), ledger);
        }
        self.last = at.max(self.last);
        count(&self.recount, event, &mut self.now)?;
        let command = Finished::of(event);
        self.keys.extend(command.map(|c| self.recount.row(&c)));
        if self.keys.len() > MOST_ROWS {
            let text = format!(
                "the recording has more than {MOST_ROWS} rows: choose some by --ctrl, --nsid or \
                 --opcode"
            );
            return Err(Failure::error(Kind::Usage, text));
        }
        self.queues.add(event);
        let command = SlowCommand::of(event, self.recount.stage_set, self.begin_ns);
        command.into_iter().for_each(|c| self.collector.add(c));
        let verdict = event.what.outcome().and_then(|o| o.verdict);
        self.failed += u64::from(verdict.is_some_and(|v| !v.status.is_success()));
        Ok(())
    }
}

impl Recorded {
    /// Opens a recording.
    ///
    /// # Errors
    /// If it cannot be read, or lacks what is asked for; one sentence.
    pub fn open(path: &Path, options: &TopOptions) -> Result<Self> {
        let mut settings = options.settings.clone();
        if !options.needs_stages {
            settings.stage_set = StageSet::Total;
        }
        let replay = Replay::open(path, &settings)?;
        replay.require_pairs()?;
        replay.say_choice();
        // without --stages, what the recording has
        if !options.needs_stages && replay.info().stage_set != StageSet::Total {
            settings.stage_set = StageSet::Basic;
        }
        let begin_ns = replay.info().begin_ns;
        Ok(Self {
            stage_set: settings.stage_set,
            cutter: Cutter::new(options.interval, settings.stage_set, begin_ns),
            replay,
            settings,
            events: VecDeque::new(),
            before: Ledger::default(),
            is_first: true,
            ledger: None,
        })
    }

    fn take(&mut self, event: &Event) -> Result<()> {
        let Cutter { begin_ns, step, .. } = self.cutter;
        let at = Duration::from_nanos(event.at_ns.saturating_sub(begin_ns));
        if self.is_first {
            // a ring may have dropped the begin
            let number = at.as_nanos() / step.as_nanos().max(1);
            self.cutter.number = u64::try_from(number).unwrap_or(u64::MAX);
            self.is_first = false;
        }
        if self.settings.selects(event) {
            self.cutter.add(event, at, &self.before)?;
        }
        Ok(())
    }

    /// Reads the next block. At the end, closes the last interval.
    fn read(&mut self) -> Result<()> {
        self.before = self.replay.ledger().unwrap_or_default();
        let (events, disks) = (&mut self.events, &mut self.cutter.disks);
        let more = self.replay.next(&mut |item| match item {
            Item::Event(event) => events.push_back(*event),
            Item::Controllers(all) => disks.recorded(&all),
            _ => {}
        })?;
        if !more {
            let (ledger, ended) = self.replay.end()?;
            let ended = ended.max(self.cutter.last);
            self.cutter.close(ended.min(self.cutter.end()), &ledger);
            self.ledger = Some(ledger);
        }
        Ok(())
    }

    /// The next interval; `None` at the end.
    ///
    /// # Errors
    /// If the recording cannot be read; one sentence.
    pub fn next(&mut self) -> Result<Option<Sample>> {
        loop {
            if let Some(sample) = self.cutter.ended.pop_front() {
                return Ok(Some(sample));
            }
            if let Some(event) = self.events.pop_front() {
                self.take(&event)?;
            } else if self.ledger.is_some() {
                return Ok(None);
            } else {
                self.read()?;
            }
        }
    }

    /// After the last interval: the ledger, which intervals were left out, and an error if the file is
    /// not complete.
    pub fn end(&self) -> (Ledger, Option<String>, Result<()>) {
        let ledger = self.ledger.clone().unwrap_or_default();
        (ledger, self.cutter.idle.text(), self.replay.verdict())
    }
}
