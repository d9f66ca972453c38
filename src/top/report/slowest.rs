// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slowest recent commands.

use std::cmp::Reverse;

use crate::model::event::{CommandId, Event, EventKind, Submission};
use crate::model::histogram::Bucket;
use crate::model::ids::row_nsid;
use crate::model::report::latency::{RowReport, Share, Spent};
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::status::Status;

/// Intervals after which a command is no longer recent.
pub const RECENT: usize = 60;
/// Commands of an interval that are kept.
const EACH: usize = 16;
/// Commands that are shown at most.
const ALL: usize = 64;

/// A finished command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Its completion (CLOCK_MONOTONIC, nanoseconds).
    pub at_ns: u64,
    /// What it was.
    pub id: CommandId,
    /// Bytes of data, if known.
    pub bytes: Option<u32>,
    /// The first logical block, if it names blocks.
    pub slba: Option<u64>,
    /// From the first to the last observed point, in nanoseconds; without stages, of the driver.
    pub total_ns: u64,
    /// Its observed points; `None` without stages.
    pub timeline: Option<Timeline>,
    /// How it ended, if known.
    pub status: Option<Status>,
    /// The name of the thread that submitted the bio, else of the one that called the driver, if known.
    pub comm: Option<String>,
}

impl SlowCommand {
    /// The finished command of an event; `None` for other events, and for commands without a latency.
    pub fn of(event: &Event, stage_set: StageSet) -> Option<Self> {
        let EventKind::Command(id, submission, outcome) = &event.what else {
            return None;
        };
        let latency_ns = outcome.latency_ns?;
        let timeline = outcome.timeline.filter(|_| stage_set != StageSet::Total);
        let total_ns = timeline.and_then(|line| line.total(StageSet::Full));
        Some(Self {
            at_ns: event.at_ns,
            // as in the row of the command
            id: CommandId { nsid: row_nsid(id.nsid), ..*id },
            bytes: submission.bytes,
            slba: blocks(id.opcode.queue, CommandSet::Nvm, &submission.sqe).map(|b| b.slba),
            total_ns: total_ns.unwrap_or(latency_ns),
            timeline,
            status: outcome.verdict.map(|v| v.status),
            comm: comm(submission),
        })
    }

    /// Where its time was, the longest first.
    pub fn places(&self) -> Vec<Share> {
        let stages = self.timeline.and_then(|line| line.segments(StageSet::Full));
        let stages = stages.into_iter().flatten().map(|s| (s.run, u128::from(s.ns)));
        Spent { stages: stages.collect(), parts: &[] }.places()
    }
}

fn comm(submission: &Submission) -> Option<String> {
    let by = &submission.origin.submitter;
    let name = match (by.is_known(), submission.knows_submitter) {
        (true, _) => by.comm(),
        (_, true) => submission.comm(),
        _ => return None,
    };
    Some(name.into_owned()).filter(|name| !name.is_empty())
}

/// Keeps the slowest of these commands.
fn keep(commands: &mut Vec<SlowCommand>, most: usize) {
    commands.sort_by_key(|c| (Reverse(c.total_ns), c.at_ns));
    commands.truncate(most);
}

/// The slowest commands of one interval.
#[derive(Clone, Debug, Default)]
pub struct Collector(Vec<SlowCommand>);

impl Collector {
    /// Adds a command.
    pub fn add(&mut self, command: SlowCommand) {
        self.0.push(command);
        if self.0.len() >= 8 * EACH {
            keep(&mut self.0, EACH);
        }
    }

    /// The slowest ones of the interval, which is over.
    #[must_use]
    pub fn take(&mut self) -> Vec<SlowCommand> {
        keep(&mut self.0, EACH);
        std::mem::take(&mut self.0)
    }
}

/// The slowest of these commands, slowest first.
pub fn slowest<'c>(commands: impl Iterator<Item = &'c SlowCommand>) -> Vec<&'c SlowCommand> {
    let mut all: Vec<_> = commands.collect();
    all.sort_by_key(|c| (Reverse(c.total_ns), c.at_ns));
    all.truncate(ALL);
    all
}

/// The latency in nanoseconds that at most 16 commands of an interval exceed.
#[must_use]
pub fn bar<K>(rows: &[RowReport<K>]) -> u64 {
    let mut buckets: Vec<Bucket> = rows.iter().flat_map(|row| row.total.iter()).collect();
    buckets.sort_by_key(|bucket| Reverse(bucket.last));
    let mut above = 0;
    for bucket in buckets {
        above += bucket.count;
        if above > EACH as u64 {
            return bucket.last;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::ids::RowKey;
    use crate::model::report::latency::rows;
    use crate::model::snapshot::Snapshot;
    use crate::testing::EventBuilder;
    use crate::testing::snapshot::{READS, cell};

    fn command(at_ns: u64, total_ns: u64) -> SlowCommand {
        SlowCommand {
            at_ns,
            id: EventBuilder::read().id,
            bytes: Some(4096),
            slba: None,
            total_ns,
            timeline: None,
            status: None,
            comm: None,
        }
    }

    #[test]
    fn an_interval_keeps_its_slowest() {
        let mut collector = Collector::default();
        (0..1000).for_each(|ns| collector.add(command(1, ns)));
        let kept: Vec<u64> = collector.take().iter().map(|c| c.total_ns).collect();
        assert_eq!(kept, (984..1000).rev().collect::<Vec<_>>());
        assert!(collector.take().is_empty());
    }

    #[test]
    fn at_most_16_commands_exceed_the_bar() {
        let bar_of = |commands: u64| {
            let each: Vec<[u64; 1]> = (1..=commands).map(|n| [n * 1000]).collect();
            let each: Vec<&[u64]> = each.iter().map(<[u64; 1]>::as_slice).collect();
            let mut snapshot = Snapshot::default();
            let key: RowKey = READS;
            snapshot.cells.insert((key, 0), cell(StageSet::Total, 0, &each));
            bar(&rows(&snapshot, StageSet::Total, None, Duration::from_secs(1)))
        };
        assert_eq!((bar_of(0), bar_of(16)), (0, 0));
        let bar = bar_of(1000);
        assert!((984_000..1_063_000).contains(&bar), "{bar}");
    }
}
