// SPDX-License-Identifier: MIT OR Apache-2.0
//! From snapshots to reports: rows with named stages. Pure: no maps, no terminals.

use crate::model::histogram::Histogram;
use crate::model::ids::RowKey;
use crate::model::ledger::Ledger;
use crate::model::nvme_latency::{LatBuckets, LatRow, SLOTS};
use crate::model::origin::Who;
use crate::model::point::{Pattern, Point};
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::Groups;
use crate::model::snapshot::{Cell, Snapshot, add_parts};
use crate::model::stage::{StageRun, StageSet};
use crate::units::nanos;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

/// A stage, or merged stages, of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageReport {
    /// `device`, or `submit+device` if the point between was not observed.
    pub name: String,
    /// Which stages, and between which points.
    pub run: StageRun,
    /// Its durations.
    pub hist: Histogram,
}

impl StageReport {
    /// Whether it is a wait before the request that no command had.
    pub fn is_idle_wait(&self) -> bool {
        self.run.from < Point::Start && self.hist.sum() == 0
    }
}

/// A stage, and its share of the time of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Its name.
    pub stage: String,
    /// Its time, in nanoseconds.
    pub ns: u128,
    /// Its part of the whole time: 0 to 1.
    pub share: f64,
}

/// The stages of a row or of a command, each with its time in nanoseconds.
#[derive(Clone, Debug)]
pub struct Spent<'a> {
    /// In the order of a command's life.
    pub stages: Vec<(StageRun, u128)>,
    /// The time in parts of the stages, if it is known: see [`RowReport::parts`].
    pub parts: &'a [u64],
}

/// All commands with a key: of one controller, namespace, opcode and size class, or of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct RowReport<K = RowKey> {
    /// What they have in common.
    pub key: K,
    /// Number of commands.
    pub count: u64,
    /// Of these, commands without any interval; they are in no histogram.
    pub unmeasured: u64,
    /// Commands per second.
    pub iops: f64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Megabytes (10^6) per second.
    pub mb_per_s: f64,
    /// In the order of a command's life. Merged stages follow the stage that they begin with.
    pub stages: Vec<StageReport>,
    /// For groups of stages: the time in each part ([`StageSet::Full`]) that was observed separately.
    pub parts: Vec<u64>,
    /// The total, from the first to the last observed point.
    pub total: Histogram,
    /// nvme_latency's table of the total.
    pub lat: Vec<LatRow>,
}

/// One report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The stages that commands are divided into.
    pub stage_set: StageSet,
    /// Whose process and cgroup the groups or the filter go by, if they do.
    pub who: Option<Who>,
    /// Whether it is the last report of the run.
    pub is_final: bool,
    /// Time since the start of the run.
    pub at: Duration,
    /// The time that the report covers, up to `at`.
    pub covers: Duration,
    /// By controller, namespace, opcode, size class.
    pub rows: Vec<RowReport>,
    /// By group, of a run that groups its commands.
    pub groups: Option<Groups>,
    /// The ledger of the whole run.
    pub ledger: Ledger,
    /// Names of the disks.
    pub disks: DiskNames,
}

impl<K> RowReport<K> {
    /// The row with another key.
    pub fn map_key<T>(self, map: impl FnOnce(K) -> T) -> RowReport<T> {
        RowReport {
            key: map(self.key),
            count: self.count,
            unmeasured: self.unmeasured,
            iops: self.iops,
            bytes: self.bytes,
            mb_per_s: self.mb_per_s,
            stages: self.stages,
            parts: self.parts,
            total: self.total,
            lat: self.lat,
        }
    }

    fn spent(&self) -> Spent<'_> {
        let stages = self.stages.iter().map(|stage| (stage.run, stage.hist.sum()));
        Spent { stages: stages.collect(), parts: &self.parts }
    }

    /// As [`Spent::main_part`].
    pub fn main_part(&self, group: &str, ns: u128) -> Option<Share> {
        self.spent().main_part(group, ns)
    }

    /// As [`Spent::places`].
    pub fn places(&self) -> Vec<Share> {
        self.spent().places()
    }
}

impl Spent<'_> {
    /// The part that makes up at least half of a group of stages with this time.
    pub fn main_part(&self, group: &str, ns: u128) -> Option<Share> {
        let full = StageSet::Full.stages();
        let recounted = self.parts.iter().zip(full).map(|(ns, part)| (part, u128::from(*ns)));
        let measured = self.stages.iter().filter_map(|(run, ns)| {
            let part = StageSet::Full.named(run.single()?)?;
            Some((part, *ns))
        });
        let parts = recounted.chain(measured).filter(|(part, _)| part.group == group);
        let (part, of_part) = parts.max_by_key(|(_, ns)| *ns)?;
        let is_main = of_part > 0 && 2 * of_part >= ns && part.name != group;
        is_main.then(|| self.share(part.name.to_owned(), of_part))
    }

    fn share(&self, stage: String, ns: u128) -> Share {
        let whole: u128 = self.stages.iter().map(|(_, ns)| ns).sum();
        Share { stage, ns, share: ns as f64 / (whole as f64).max(1.0) }
    }

    /// Where the time was: the groups of stages, longest first. A group in which one part
    /// makes up at least half has the name and the time of that part. Empty without stages.
    pub fn places(&self) -> Vec<Share> {
        let mut groups: Vec<(String, u128)> = Vec::new();
        for (run, ns) in &self.stages {
            let name = run.group().map_or_else(|| run.name(), str::to_owned);
            match groups.iter_mut().find(|(group, _)| *group == name) {
                Some((_, sum)) => *sum += ns,
                None => groups.push((name, *ns)),
            }
        }
        groups.sort_by_key(|(_, ns)| Reverse(*ns));
        let named = groups
            .into_iter()
            .filter(|(_, ns)| *ns > 0)
            .map(|(name, ns)| self.main_part(&name, ns).unwrap_or_else(|| self.share(name, ns)));
        named.collect()
    }
}

impl RowReport {
    /// The controller's name.
    pub fn ctrl(&self) -> String {
        format!("nvme{}", self.key.ctrl)
    }
}

/// Sums of one row over its patterns.
pub(super) struct Sum {
    bytes: u64,
    unmeasured: u64,
    lat: [u64; SLOTS],
    stages: BTreeMap<StageRun, Histogram>,
    parts: Vec<u64>,
    total: Histogram,
}

impl Sum {
    pub(super) fn new() -> Self {
        Self {
            bytes: 0,
            unmeasured: 0,
            lat: [0; SLOTS],
            stages: BTreeMap::new(),
            parts: Vec::new(),
            total: Histogram::new(),
        }
    }

    pub(super) fn add(&mut self, stage_set: StageSet, pattern: Pattern, cell: &Cell) {
        self.bytes += cell.bytes;
        self.unmeasured += cell.unmeasured;
        self.lat.iter_mut().zip(cell.lat).for_each(|(sum, n)| *sum += n);
        if let Some(total) = cell.hists.get(stage_set.total_index()) {
            self.total.merge(total);
        }
        add_parts(&mut self.parts, &cell.parts);
        if stage_set == StageSet::Total {
            return;
        }
        // the histogram of a run is at the index of its first stage
        for run in stage_set.runs(pattern) {
            if let Some(hist) = cell.hists.get(run.first).filter(|h| h.count() > 0) {
                self.stages.entry(run).or_default().merge(hist);
            }
        }
    }

    pub(super) fn finish<K>(
        self,
        key: K,
        lat: Option<&LatBuckets>,
        covers: Duration,
    ) -> RowReport<K> {
        let seconds = covers.as_secs_f64().max(1e-9);
        let count = self.total.count() + self.unmeasured;
        let stages = self
            .stages
            .into_iter()
            .map(|(run, hist)| StageReport { name: run.name(), run, hist })
            .collect();
        RowReport {
            key,
            count,
            unmeasured: self.unmeasured,
            iops: count as f64 / seconds,
            bytes: self.bytes,
            mb_per_s: self.bytes as f64 / seconds / 1e6,
            stages,
            parts: self.parts,
            total: self.total,
            lat: lat.map(|l| l.rows(&self.lat)).unwrap_or_default(),
        }
    }
}

/// Builds the rows of a snapshot (of the run so far, or of an interval). Omits rows without
/// commands.
pub fn rows(
    snapshot: &Snapshot,
    stage_set: StageSet,
    lat: Option<&LatBuckets>,
    covers: Duration,
) -> Vec<RowReport> {
    let mut sums: BTreeMap<RowKey, Sum> = BTreeMap::new();
    for ((key, pattern), cell) in &snapshot.cells {
        sums.entry(*key).or_insert_with(Sum::new).add(stage_set, *pattern, cell);
    }
    sums.into_iter()
        .map(|(key, sum)| sum.finish(key, lat, covers))
        .filter(|row| row.count > 0)
        .collect()
}

/// Most intervals without an event, one after the other, that have reports.
pub const IN_A_ROW: u64 = 60;
/// Most such intervals of a recording that have reports.
pub const IN_ALL: u64 = 3600;

/// `n` times `step`; saturates.
#[must_use]
pub fn times(step: Duration, n: u64) -> Duration {
    let ns = step.as_nanos().saturating_mul(n.into());
    let seconds = u64::try_from(ns / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (ns % 1_000_000_000) as u32)
}

/// The intervals that are left out.
#[derive(Clone, Debug, Default)]
pub struct Idle {
    reported: u64,
    /// Number of intervals that were left out so far.
    pub skipped: u64,
    longest: Duration,
}

impl Idle {
    /// How many intervals of length `step` to leave out before an event at `at`. They come after the
    /// one that ends at `due`, which has a report.
    pub fn skip(&mut self, due: Duration, at: Duration, step: Duration) -> u64 {
        let gap = at.saturating_sub(due);
        let empty = gap.as_nanos() / step.as_nanos().max(1);
        let empty = u64::try_from(empty).unwrap_or(u64::MAX);
        if empty <= IN_A_ROW && empty <= IN_ALL - self.reported {
            self.reported += empty;
            return 0;
        }
        self.skipped = self.skipped.saturating_add(empty);
        self.longest = self.longest.max(gap);
        empty
    }

    /// A sentence on what was left out.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let longest = nanos(self.longest.as_nanos() as f64);
        (self.skipped > 0).then(|| {
            format!(
                "{} intervals without an event are left out; the longest gap lasts {longest}",
                self.skipped
            )
        })
    }
}

/// Importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A note for reading the numbers.
    Note,
    /// Something works less well than it could, and the user can change it.
    Warning,
}

/// An observation that supports a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The source: a sysctl, a file of sysfs, a field of a report.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A diagnosis as a page shows it.
#[derive(Clone, Debug)]
pub struct Diagnosed {
    /// The first line.
    pub headline: String,
    /// What was found or noted.
    pub causes: Vec<Explained>,
    /// Rules that found nothing, by what that means: rule, subject, reason.
    pub others: Vec<(&'static str, Vec<[String; 3]>)>,
}

/// A cause, or something to note.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The rule and its subject.
    pub title: String,
    /// It takes no measured share of the time.
    pub is_note: bool,
    /// Lines with their labels.
    pub lines: Vec<Evidence>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The stable name of the rule.
    pub rule: &'static str,
    /// Its importance.
    pub severity: Severity,
    /// The disk, controller or other subject; `None`: the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The observations that support it.
    pub evidence: Vec<Evidence>,
    /// The meaning, or what to do, in one sentence.
    pub advice: String,
}

impl Finding {
    /// A finding about the machine, without evidence.
    pub fn new(rule: &'static str, severity: Severity, advice: impl Into<String>) -> Self {
        Self { rule, severity, subject: None, evidence: vec![], advice: advice.into() }
    }

    /// Sets the subject.
    #[must_use]
    pub fn about(self, subject: &str) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Adds evidence.
    #[must_use]
    pub fn shown_by(mut self, name: &str, value: impl Display) -> Self {
        self.evidence.push(Evidence { name: name.into(), value: value.to_string() });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn short_gaps_have_reports_and_long_ones_none() {
        let mut idle = Idle::default();
        assert_eq!(idle.skip(S, 61 * S + S / 2, S), 0);
        assert_eq!(idle.text(), None);
        assert_eq!(idle.skip(S, 62 * S, S), 61);
        assert_eq!(idle.skip(S, Duration::MAX, S), u64::MAX - 1);
        assert_eq!(idle.skip(2 * S, S, S), 0);
        assert!(idle.text().is_some_and(|t| t.contains("18446744073709551615 intervals")));
        // many short gaps have an end
        let mut idle = Idle::default();
        let reported: u64 = (0..1000).map(|_| 50 - idle.skip(S, 51 * S, S)).sum();
        assert_eq!(reported, IN_ALL);
        assert_eq!(times(Duration::from_millis(1500), 5), Duration::from_millis(7500));
        assert_eq!(times(Duration::MAX, u64::MAX).as_secs(), u64::MAX);
    }
}
