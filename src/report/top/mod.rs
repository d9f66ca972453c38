// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `top` shows: the rows of the last interval, and the history of each. Pure.

pub mod queues;
pub mod slowest;

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

use crate::model::histogram::Histogram;
use crate::model::histogram::bounds;
use crate::model::histogram::index;
use crate::model::ledger::Ledger;
use crate::model::row::RowKey;
use crate::model::stage::StageSet;
use crate::report::disk_names::DiskNames;
use crate::report::latency::RowReport;
use crate::report::top::queues::QueueLine;
use crate::report::top::slowest::SlowCommand;
use crate::report::top::slowest::Slowest;

/// Intervals that are kept.
pub const HISTORY: usize = 240;

/// The commands of an interval.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its end, since the start of the run.
    pub at: Duration,
    /// Its rows.
    pub rows: Vec<RowReport>,
    /// The ledger at its end.
    pub ledger: Ledger,
    /// Commands in flight at its end, if known.
    pub in_flight: Option<u64>,
    /// Commands that failed since the start, if they are counted.
    pub failed: Option<u64>,
    /// Its slowest commands.
    pub slowest: Vec<SlowCommand>,
    /// Its queues; `None` if they are not counted.
    pub queues: Option<Vec<QueueLine>>,
    /// Names of the disks at its end.
    pub disks: DiskNames,
}

/// Counts by bucket of a latency histogram ([`index`]), lowest first.
pub type Heat = Vec<(u16, u64)>;

/// A row in one interval.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Commands per second.
    pub iops: f64,
    /// Latencies by stage, in the order of [`Top::stages`].
    pub heat: Vec<Heat>,
}

/// A row with its history.
#[derive(Clone, Debug)]
pub struct TopRow {
    /// Controller, namespace, opcode.
    pub key: RowKey,
    /// The last interval; `None` if it has no command.
    pub last: Option<RowReport>,
    /// One point per interval, the latest last.
    pub history: VecDeque<Point>,
}

/// The rows of a run.
#[derive(Clone, Debug)]
pub struct Top {
    stages: Vec<&'static str>,
    rows: BTreeMap<RowKey, TopRow>,
    intervals: usize,
    /// The end of the last interval.
    pub at: Duration,
    /// The ledger at that time.
    pub ledger: Ledger,
    /// Commands in flight at that time, if known.
    pub in_flight: Option<u64>,
    /// Commands that failed up to that time, if they are counted.
    pub failed: Option<u64>,
    /// The slowest recent commands.
    pub slowest: Slowest,
    /// The queues in the last interval; `None` if they are not counted.
    pub queues: Option<Vec<QueueLine>>,
    /// Names of the disks.
    pub disks: DiskNames,
}

/// The bucket of a value in nanoseconds.
#[must_use]
pub fn heat_bucket(ns: u64) -> u16 {
    u16::try_from(index(ns)).unwrap_or(u16::MAX)
}

/// The lower end of a bucket, in nanoseconds.
#[must_use]
pub fn heat_begin(bucket: u16) -> u64 {
    bounds(usize::from(bucket)).0
}

fn heat(hist: &Histogram) -> Heat {
    let buckets = hist.iter();
    buckets
        .map(|(low, _, count)| (heat_bucket(low), count))
        .collect()
}

impl TopRow {
    /// The mean number of commands in flight during the last interval: the sum of their times in it.
    #[must_use]
    pub fn depth(&self) -> f64 {
        let Some(row) = &self.last else { return 0.0 };
        let seconds = row.count as f64 / row.iops.max(1e-9);
        row.total.sum() as f64 / 1e9 / seconds.max(1e-9)
    }
}

impl Top {
    /// Without rows.
    #[must_use]
    pub fn new(stage_set: StageSet) -> Self {
        let mut stages = vec!["total"];
        if stage_set != StageSet::Total {
            stages.extend(stage_set.stages().iter().map(|stage| stage.name));
        }
        Self {
            stages,
            rows: BTreeMap::new(),
            intervals: 0,
            at: Duration::ZERO,
            ledger: Ledger::default(),
            in_flight: None,
            failed: None,
            slowest: Slowest::default(),
            queues: None,
            disks: DiskNames::default(),
        }
    }

    /// The names of the stages: the total first.
    #[must_use]
    pub fn stages(&self) -> &[&'static str] {
        &self.stages
    }

    /// Whether single commands are observed: then queues are counted, too.
    #[must_use]
    pub const fn knows_commands(&self) -> bool {
        self.queues.is_some() || self.intervals == 0
    }

    /// All rows, in the order of their keys.
    pub fn rows(&self) -> impl Iterator<Item = &TopRow> {
        self.rows.values()
    }

    /// A row.
    #[must_use]
    pub fn row(&self, key: &RowKey) -> Option<&TopRow> {
        self.rows.get(key)
    }

    fn point(&self, row: &RowReport) -> Point {
        let of_stage = |name: &&str| match *name {
            "total" => heat(&row.total),
            name => {
                let stage = row.stages.iter().find(|stage| stage.name == name);
                stage.map_or_else(Heat::new, |stage| heat(&stage.hist))
            }
        };
        Point {
            iops: row.iops,
            heat: self.stages.iter().map(of_stage).collect(),
        }
    }

    /// Adds an interval. A row without commands in all intervals that are kept is removed.
    pub fn push(&mut self, sample: Sample) {
        let Sample {
            at,
            rows,
            ledger,
            in_flight,
            failed,
            slowest,
            queues,
            disks,
        } = sample;
        self.disks = disks;
        (self.at, self.ledger, self.in_flight) = (at, ledger, in_flight);
        (self.failed, self.queues) = (failed, queues);
        self.slowest.push(slowest);
        for row in self.rows.values_mut() {
            row.last = None;
            row.history.push_back(Point::default());
        }
        self.intervals = (self.intervals + 1).min(HISTORY);
        for report in rows {
            let point = self.point(&report);
            let intervals = self.intervals;
            let row = self.rows.entry(report.key).or_insert_with(|| TopRow {
                key: report.key,
                last: None,
                history: vec![Point::default(); intervals].into(),
            });
            if let Some(last) = row.history.back_mut() {
                *last = point;
            }
            row.last = Some(report);
        }
        for row in self.rows.values_mut() {
            while row.history.len() > HISTORY {
                row.history.pop_front();
            }
        }
        let is_used = |row: &TopRow| row.history.iter().any(|point| point.iops > 0.0);
        self.rows.retain(|_, row| is_used(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::snapshot::Snapshot;
    use crate::report::latency::rows;
    use crate::testing::snapshot::READS;
    use crate::testing::snapshot::cell;

    fn sample(second: u64, commands: &[&[u64]]) -> Sample {
        let mut snapshot = Snapshot::default();
        let full = 0b010_1001;
        let cell = cell(StageSet::Basic, full, commands);
        snapshot.cells.insert((READS, full), cell);
        Sample {
            at: Duration::from_secs(second),
            rows: rows(&snapshot, StageSet::Basic, None, Duration::from_secs(1)),
            ledger: Ledger::default(),
            in_flight: Some(1),
            failed: None,
            slowest: vec![],
            queues: None,
            disks: DiskNames::default(),
        }
    }

    #[test]
    fn a_row_has_a_point_per_interval() {
        let mut top = Top::new(StageSet::Basic);
        assert_eq!(
            top.stages(),
            ["total", "queue", "submit", "device", "complete"]
        );
        top.push(sample(1, &[]));
        top.push(sample(2, &[&[10, 20, 300, 40], &[10, 20, 900, 40]]));
        top.push(sample(3, &[]));
        let row = top.row(&READS).unwrap();
        let iops: Vec<f64> = row.history.iter().map(|p| p.iops).collect();
        assert_eq!(iops, [0.0, 2.0, 0.0]);
        assert!(row.last.is_none());
        let device = &row.history[1].heat[3];
        assert_eq!(*device, [(heat_bucket(300), 1), (heat_bucket(900), 1)]);
        assert!(heat_begin(heat_bucket(300)) <= 300);
        assert!(heat_begin(heat_bucket(300) + 1) > 300);
    }

    #[test]
    fn the_depth_is_the_time_of_all_commands_in_a_second() {
        let mut top = Top::new(StageSet::Basic);
        let half: &[u64] = &[0, 0, 500_000_000, 0];
        top.push(sample(1, &[half; 6]));
        assert!((top.row(&READS).unwrap().depth() - 3.0).abs() < 1e-6);
    }

    #[test]
    fn the_history_has_an_end_and_idle_rows_go() {
        let mut top = Top::new(StageSet::Basic);
        top.push(sample(0, &[&[1, 2, 3, 4]]));
        for second in 1..HISTORY as u64 {
            top.push(sample(second, &[]));
        }
        assert_eq!(top.row(&READS).unwrap().history.len(), HISTORY);
        top.push(sample(999, &[]));
        assert_eq!(top.rows().count(), 0);
    }
}
