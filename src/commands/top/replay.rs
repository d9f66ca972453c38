// SPDX-License-Identifier: MIT OR Apache-2.0
//! `top --from`: the intervals of a recording.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::model::event::Event;
use nvme_deep::model::snapshot::Snapshot;
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::stratum::BlockSizes;
use nvme_deep::recording::Item;
use nvme_deep::report::latency::rows;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::report::recount::Recount;
use nvme_deep::report::top::Sample;
use nvme_deep::report::top::queues::QueueCollector;
use nvme_deep::report::top::slowest::Collector;
use nvme_deep::report::top::slowest::SlowCommand;

use crate::cli::options::TopOptions;
use crate::commands::replay::Replay;

/// A recording as intervals.
pub struct Recorded {
    /// The stages that it has, or that were asked for.
    pub stage_set: StageSet,
    /// The intervals, the first one first.
    pub samples: VecDeque<Sample>,
    /// The ledger of the run.
    pub ledger: Ledger,
    /// An error if the file is not complete.
    pub verdict: Result<()>,
}

/// Counts the commands of the current interval.
struct Cutter {
    recount: Recount,
    step: Duration,
    now: Snapshot,
    samples: VecDeque<Sample>,
    /// Number of the current interval.
    number: u32,
    begin_ns: u64,
    /// The time of the last event: it may be later than the end of the run.
    last: Duration,
    collector: Collector,
    queues: QueueCollector,
    /// Commands that failed, since the start.
    failed: u64,
}

impl Cutter {
    fn end(&self) -> Duration {
        self.step.saturating_mul(self.number + 1)
    }

    /// Ends the interval at this time, which is earlier than its end for the last one.
    fn close(&mut self, at: Duration, ledger: &Ledger) {
        let stage_set = self.recount.stage_set;
        let begin = self.step.saturating_mul(self.number);
        let covers = at.saturating_sub(begin).max(Duration::from_nanos(1));
        self.samples.push_back(Sample {
            at,
            rows: rows(&self.now, stage_set, None, covers),
            ledger: ledger.clone(),
            in_flight: None,
            failed: Some(self.failed),
            slowest: self.collector.take(),
            queues: Some(self.queues.take(covers)),
        });
        self.now = Snapshot::default();
        self.number += 1;
    }

    fn add(&mut self, event: &Event, at: Duration, ledger: &Ledger) {
        while at >= self.end() {
            self.close(self.end(), ledger);
        }
        self.last = at.max(self.last);
        self.recount.add(event, &mut self.now);
        self.queues.add(event);
        let command = SlowCommand::of(event, self.recount.stage_set, self.begin_ns);
        command.into_iter().for_each(|c| self.collector.add(c));
        let verdict = event.what.outcome().and_then(|o| o.verdict);
        self.failed += u64::from(verdict.is_some_and(|v| !v.status.is_success()));
    }
}

/// Reads a recording.
///
/// # Errors
/// If it cannot be read, or lacks what is asked for; one sentence.
pub fn read(path: &Path, options: &TopOptions) -> Result<Recorded> {
    let mut settings = options.settings.clone();
    if !options.needs_stages {
        settings.stage_set = StageSet::Total;
    }
    let mut replay = Replay::open(path, &settings)?;
    replay.require_pairs()?;
    replay.say_choice();
    replay.show_progress();
    // without --stages, what the recording has
    if !options.needs_stages && replay.info().stage_set != StageSet::Total {
        settings.stage_set = StageSet::Basic;
    }
    let begin_ns = replay.info().begin_ns;
    let mut cutter = Cutter {
        recount: Recount {
            stage_set: settings.stage_set,
            lat: None,
            split_size: false,
            block_sizes: BlockSizes::default(),
        },
        step: options.interval,
        now: Snapshot::default(),
        samples: VecDeque::new(),
        number: 0,
        begin_ns,
        last: Duration::ZERO,
        collector: Collector::default(),
        queues: QueueCollector::default(),
        failed: 0,
    };
    let mut is_first = true;
    let mut more = true;
    while more {
        let ledger = replay.ledger().unwrap_or_default();
        more = replay.next(&mut |item| {
            if let Item::Event(event) = item {
                let at = Duration::from_nanos(event.at_ns.saturating_sub(begin_ns));
                if is_first {
                    // a ring may have dropped the begin
                    let number = at.as_nanos() / options.interval.as_nanos().max(1);
                    cutter.number = u32::try_from(number).unwrap_or(u32::MAX - 1);
                    is_first = false;
                }
                if settings.selects(event) {
                    cutter.add(event, at, &ledger);
                }
            }
        })?;
    }
    let (ledger, ended) = replay.end()?;
    let ended = ended.max(cutter.last);
    cutter.close(ended.min(cutter.end()), &ledger);
    Ok(Recorded {
        stage_set: settings.stage_set,
        samples: cutter.samples,
        ledger,
        verdict: replay.verdict(),
    })
}
