// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `top` shows of an interval. Pure.

pub mod queues;
pub mod slowest;
pub mod view;

use std::iter::once;
use std::time::Duration;

use crate::model::group::GroupNames;
use crate::model::histogram::{Histogram, index};
use crate::model::ledger::{Accuracy, Ledger};
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::{RowReport, Share};
use crate::model::stage::{StageRun, StageSet};
use crate::top::report::queues::QueueLine;
use crate::top::report::slowest::SlowCommand;
use crate::top::report::view::TopKey;

/// Counts by bucket of a latency histogram ([`index`]), lowest first.
pub type Heat = Vec<(u16, u32)>;

/// The commands of an interval, or of the whole run.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its end, since the start of the run.
    pub at: Duration,
    /// Its rows, by view.
    pub rows: Vec<Vec<Row>>,
    /// What the ledger says at its end.
    pub state: State,
    /// Commands in flight at its end, if known.
    pub in_flight: Option<u64>,
    /// Its slowest commands.
    pub slowest: Vec<SlowCommand>,
    /// Its queues; `None` if they are not counted.
    pub queues: Option<Vec<QueueLine>>,
    /// Names of the disks at its end.
    pub disks: DiskNames,
    /// Names of the groups at its end.
    pub names: GroupNames,
}

impl Sample {
    /// About how many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let rows = self.rows.iter().flatten();
        let rows = rows.map(|row| 512 + 8 * row.heat.iter().map(Vec::len).sum::<usize>());
        let queues = self.queues.as_ref().map_or(0, Vec::len);
        rows.sum::<usize>() + 256 * (self.slowest.len() + queues)
    }
}

/// A row in an interval, or in the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What its commands have in common.
    pub key: TopKey,
    /// Commands per second.
    pub iops: f64,
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// The mean number of commands that wait or are in flight: the sum of their times, divided by the interval.
    pub depth: f64,
    /// The median of the total.
    pub p50: Option<u64>,
    /// The 99th percentile of the total.
    pub p99: Option<u64>,
    /// The longest command.
    pub max: Option<u64>,
    /// Where the time was spent, the longest first.
    pub places: Vec<Share>,
    /// Latencies by stage, in the order of [`stages`].
    pub heat: Vec<Heat>,
}

fn heat(hist: &Histogram) -> Heat {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    hist.iter().map(|b| (index(b.first) as u16, count(b.count))).collect()
}

impl Row {
    /// A row of a report, with the latencies of these stages.
    #[must_use]
    pub fn new(row: RowReport<TopKey>, stages: &[&str]) -> Self {
        let seconds = row.count as f64 / row.iops.max(1e-9);
        let of_stage = |name: &&str| {
            let stage = row.stages.iter().find(|stage| stage.name == *name);
            stage.map_or_else(Heat::new, |stage| heat(&stage.hist))
        };
        let parts = stages.iter().skip(1).map(of_stage);
        Self {
            iops: row.iops,
            mb_per_s: row.mb_per_s,
            depth: row.total.sum() as f64 / 1e9 / seconds.max(1e-9),
            p50: row.total.percentile(50.0),
            p99: row.total.percentile(99.0),
            max: row.total.max(),
            places: row.places(),
            heat: once(heat(&row.total)).chain(parts).collect(),
            key: row.key,
        }
    }
}

/// The names of the stages of heat maps, the whole first. `observed`: the stage set whose points are observed.
#[must_use]
pub fn stages(stage_set: StageSet, observed: StageSet) -> Vec<&'static str> {
    let all = if stage_set == StageSet::Total { 0 } else { stage_set.stages().len() };
    let runs = (0..all).map(|n| stage_set.run(n, n));
    let seen = runs.filter(|run| observed.has_point(run.from) && observed.has_point(run.to));
    once(stage_set.whole()).chain(seen.filter_map(StageRun::single)).collect()
}

/// The accuracy of counts that lack something.
pub const DEGRADED: &str = "DEGRADED";

/// Whether something is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// `exact`, or what else the counts are.
    pub accuracy: &'static str,
    /// What is wrong: failed commands and the like, then what the counts lack.
    pub alarms: Vec<String>,
}

impl State {
    /// `failed`: commands that failed since the start, if they are counted.
    #[must_use]
    pub fn new(ledger: &Ledger, failed: Option<u64>) -> Self {
        let hits = |target: &str| {
            let hooks = ledger.hooks.iter().filter(|hook| hook.target == target);
            hooks.map(|hook| hook.hits).sum()
        };
        let trouble = [
            ("failed", failed.unwrap_or(0)),
            ("timeouts", hits("nvme_timeout")),
            ("cancels", hits("nvme_cancel_request")),
            ("requeues", ledger.requeue_events),
        ];
        let trouble = trouble.into_iter().filter(|(_, n)| *n > 0);
        let mut alarms: Vec<String> = trouble.map(|(name, n)| format!("{name} {n}")).collect();
        let accuracy = match ledger.accuracy() {
            Accuracy::Exact => "exact",
            Accuracy::Unknown => "losses not counted",
            Accuracy::Degraded(reasons) => {
                alarms.extend(reasons);
                DEGRADED
            }
        };
        Self { accuracy, alarms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::snapshot::Snapshot;
    use crate::testing::snapshot::{READS, cell};
    use crate::top::report::view::rows_by_view;

    fn row(commands: &[&[u64]]) -> Row {
        let mut snapshot = Snapshot::default();
        let full = 0b010_1001;
        snapshot.cells.insert((READS, full), cell(StageSet::Basic, full, commands));
        let second = Duration::from_secs(1);
        let mut views = rows_by_view(&snapshot, &[], StageSet::Basic, second);
        let stages = stages(StageSet::Basic, StageSet::Basic);
        assert_eq!(stages, ["total", "queue", "submit", "device", "complete"]);
        Row::new(views.remove(0).remove(0), &stages)
    }

    #[test]
    fn a_row_has_the_latencies_of_each_stage() {
        let row = row(&[&[10, 20, 300, 40], &[10, 20, 900, 40]]);
        assert_eq!((row.iops, row.max), (2.0, Some(970)));
        assert_eq!(row.heat[3], [300, 900].map(|ns| (index(ns) as u16, 1)));
        assert_eq!(row.heat[1], [(index(10) as u16, 2)]);
    }

    #[test]
    fn the_depth_is_the_time_of_all_commands_in_a_second() {
        let half: &[u64] = &[0, 0, 500_000_000, 0];
        assert!((row(&[half; 6]).depth - 3.0).abs() < 1e-6);
    }
}
