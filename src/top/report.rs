// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `top` shows: the rows of the last interval, and the history of each. Pure.

pub mod queues;
pub mod slowest;
pub mod view;

use std::collections::{BTreeMap, VecDeque};
use std::iter::once;
use std::mem::take;
use std::time::Duration;

use crate::model::group::{By, GroupNames};
use crate::model::histogram::{Histogram, bounds, index};
use crate::model::ledger::Ledger;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::RowReport;
use crate::model::stage::{StageRun, StageSet};
use crate::top::report::queues::QueueLine;
use crate::top::report::slowest::{SlowCommand, Slowest};
use crate::top::report::view::{TopKey, View, limit};

/// Intervals that are kept.
pub const HISTORY: usize = 240;
/// Rows of a view that are kept, unless more have commands in one interval.
const MOST_ROWS: usize = 1024;

/// The commands of an interval.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its end, since the start of the run.
    pub at: Duration,
    /// Its rows, by view.
    pub rows: Vec<Vec<RowReport<TopKey>>>,
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
    /// Names of the groups at its end.
    pub names: GroupNames,
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
    /// What its commands have in common.
    pub key: TopKey,
    /// The last interval; `None` if it has no command.
    pub last: Option<RowReport<TopKey>>,
    /// One point per interval, the latest last.
    pub history: VecDeque<Point>,
}

/// The rows of a run.
#[derive(Clone, Debug)]
pub struct Top {
    stages: Vec<&'static str>,
    /// With their rows.
    views: Vec<(View, BTreeMap<TopKey, TopRow>)>,
    /// The one that is shown.
    shown: usize,
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
    /// Names of the groups.
    pub names: GroupNames,
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
    hist.iter().map(|bucket| (heat_bucket(bucket.first), bucket.count)).collect()
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
    /// Without rows. `observed`: the stage set whose points are observed. `by`: what commands are grouped
    /// by.
    #[must_use]
    pub fn new(stage_set: StageSet, observed: StageSet, by: &[By]) -> Self {
        let mut stages = vec![stage_set.whole()];
        if stage_set != StageSet::Total {
            let runs = (0..stage_set.stages().len()).map(|n| stage_set.run(n, n));
            let seen =
                runs.filter(|run| observed.has_point(run.from) && observed.has_point(run.to));
            stages.extend(seen.filter_map(StageRun::single));
        }
        Self {
            stages,
            views: View::all(by).into_iter().map(|v| (v, BTreeMap::new())).collect(),
            shown: 0,
            intervals: 0,
            at: Duration::ZERO,
            ledger: Ledger::default(),
            in_flight: None,
            failed: None,
            slowest: Slowest::default(),
            queues: None,
            disks: DiskNames::default(),
            names: GroupNames::default(),
        }
    }

    /// What the rows that are shown are grouped by; nothing, if by disk and opcode.
    #[must_use]
    pub fn keys(&self) -> &[By] {
        &self.views[self.shown].0.keys
    }

    /// Shows the next view.
    pub fn next_view(&mut self) {
        self.shown = (self.shown + 1) % self.views.len();
    }

    /// The names of the stages: the whole first.
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
        self.views[self.shown].1.values()
    }

    /// A row.
    #[cfg(test)]
    fn row(&self, key: &TopKey) -> Option<&TopRow> {
        self.views[self.shown].1.get(key)
    }

    /// Adds an interval. A row without commands in all intervals that are kept is removed.
    pub fn push(&mut self, mut sample: Sample) {
        self.slowest.push(take(&mut sample.slowest));
        self.intervals = (self.intervals + 1).min(HISTORY);
        for ((_, kept), interval) in self.views.iter_mut().zip(take(&mut sample.rows)) {
            add_interval(kept, interval, &self.stages, self.intervals);
        }
        self.show(sample);
    }

    /// Shows the whole run instead of its last interval. The history stays.
    pub fn show_whole(&mut self, mut sample: Sample) {
        self.slowest = Slowest::default();
        self.slowest.push(take(&mut sample.slowest));
        for ((_, kept), run) in self.views.iter_mut().zip(take(&mut sample.rows)) {
            for report in run {
                let row = row_of(kept, &report.key, self.intervals);
                row.last = Some(report);
            }
        }
        self.show(sample);
    }

    /// Shows what does not belong to a row.
    fn show(&mut self, sample: Sample) {
        let Sample { at, ledger, in_flight, failed, queues, disks, names, .. } = sample;
        (self.disks, self.names) = (disks, names);
        (self.at, self.ledger, self.in_flight) = (at, ledger, in_flight);
        (self.failed, self.queues) = (failed, queues);
    }
}

fn point(row: &RowReport<TopKey>, stages: &[&'static str]) -> Point {
    let of_stage = |name: &&str| {
        let stage = row.stages.iter().find(|stage| stage.name == *name);
        stage.map_or_else(Heat::new, |stage| heat(&stage.hist))
    };
    let whole = heat(&row.total);
    let each = stages.iter().skip(1).map(of_stage);
    Point { iops: row.iops, heat: once(whole).chain(each).collect() }
}

/// The row with this key, new if there is none. `intervals`: how many are kept.
fn row_of<'r>(
    rows: &'r mut BTreeMap<TopKey, TopRow>,
    key: &TopKey,
    intervals: usize,
) -> &'r mut TopRow {
    rows.entry(key.clone()).or_insert_with(|| TopRow {
        key: key.clone(),
        last: None,
        history: vec![Point::default(); intervals].into(),
    })
}

/// Adds an interval to the rows of a view. `intervals`: how many are kept then.
fn add_interval(
    rows: &mut BTreeMap<TopKey, TopRow>,
    interval: Vec<RowReport<TopKey>>,
    stages: &[&'static str],
    intervals: usize,
) {
    for row in rows.values_mut() {
        row.last = None;
        row.history.push_back(Point::default());
    }
    for report in interval {
        let row = row_of(rows, &report.key, intervals);
        if let Some(last) = row.history.back_mut() {
            *last = point(&report, stages);
        }
        row.last = Some(report);
    }
    for row in rows.values_mut() {
        while row.history.len() > HISTORY {
            row.history.pop_front();
        }
    }
    let is_used = |row: &TopRow| row.history.iter().any(|point| point.iops > 0.0);
    rows.retain(|_, row| is_used(row));
    limit(rows, MOST_ROWS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::group::{Group, KeyPart};
    use crate::model::snapshot::Snapshot;
    use crate::testing::snapshot::{READS, cell};
    use crate::top::report::view::rows_by_view;

    fn sample(second: u64, commands: &[&[u64]]) -> Sample {
        let mut snapshot = Snapshot::default();
        let full = 0b010_1001;
        let cell = cell(StageSet::Basic, full, commands);
        snapshot.cells.insert((READS, full), cell);
        Sample {
            at: Duration::from_secs(second),
            rows: rows_by_view(&snapshot, &[], StageSet::Basic, Duration::from_secs(1)),
            ledger: Ledger::default(),
            in_flight: Some(1),
            failed: None,
            slowest: vec![],
            queues: None,
            disks: DiskNames::default(),
            names: GroupNames::default(),
        }
    }

    #[test]
    fn a_row_has_a_point_per_interval() {
        let mut top = Top::new(StageSet::Basic, StageSet::Basic, &[]);
        assert_eq!(top.stages(), ["total", "queue", "submit", "device", "complete"]);
        top.push(sample(1, &[]));
        top.push(sample(2, &[&[10, 20, 300, 40], &[10, 20, 900, 40]]));
        top.push(sample(3, &[]));
        let row = top.row(&TopKey::Row(READS)).unwrap();
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
        let mut top = Top::new(StageSet::Basic, StageSet::Basic, &[]);
        let half: &[u64] = &[0, 0, 500_000_000, 0];
        top.push(sample(1, &[half; 6]));
        assert!((top.row(&TopKey::Row(READS)).unwrap().depth() - 3.0).abs() < 1e-6);
    }

    #[test]
    fn the_history_has_an_end_and_idle_rows_go() {
        let mut top = Top::new(StageSet::Basic, StageSet::Basic, &[]);
        top.push(sample(0, &[&[1, 2, 3, 4]]));
        for second in 1..HISTORY as u64 {
            top.push(sample(second, &[]));
        }
        assert_eq!(top.row(&TopKey::Row(READS)).unwrap().history.len(), HISTORY);
        top.push(sample(999, &[]));
        assert_eq!(top.rows().count(), 0);
    }

    #[test]
    fn a_view_keeps_its_busiest_rows() {
        let (by, second) = ([By::Process], Duration::from_secs(1));
        let mut top = Top::new(StageSet::Total, StageSet::Total, &by);
        let key = |pid| Group(vec![KeyPart::Process(pid)]);
        let mut push = |pids: std::ops::Range<u32>| {
            let mut snapshot = Snapshot::default();
            for pid in pids {
                let commands = if pid < 10 { 9 } else { 1 };
                let cell = cell(StageSet::Total, 0, &vec![&[100][..]; commands]);
                snapshot.groups.insert((key(pid), 0), cell);
            }
            let rows = rows_by_view(&snapshot, &by, StageSet::Total, second);
            top.push(Sample { rows, ..sample(1, &[]) });
            top.clone()
        };
        assert_eq!(push(0..MOST_ROWS as u32 + 100).rows().count(), MOST_ROWS + 100);
        let top = push(5000..5001);
        assert_eq!(top.rows().count(), MOST_ROWS);
        let mut kept = (0..10).chain([5000]);
        assert!(kept.all(|pid| top.row(&TopKey::Group(key(pid))).is_some()));
    }
}
