// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a run that groups its commands: what each group has, in which order, and its names.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::group::By;
use crate::model::group::Group;
use crate::model::group::GroupNames;
use crate::model::group::Part;
use crate::model::group::comm_of;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::model::untrusted::Escaped;
use crate::nvme::opcode::QueueKind;
use crate::report::disk_names::DiskNames;
use crate::report::latency::RowReport;
use crate::report::latency::Sum;
use crate::units::size_text;

/// The order of groups. The first has the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Share of the device's time.
    #[default]
    Share,
    /// The 99th percentile of the total.
    P99,
    /// Commands.
    Iops,
    /// Bytes.
    Bytes,
}

/// A group and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReport {
    /// Its numbers.
    pub row: RowReport<Group>,
    /// Its part of the time that all commands spent in the device, or, without stages, in flight.
    pub share: f64,
}

/// The groups of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// What they are grouped by.
    pub by: Vec<By>,
    /// In order. The last one may be that of the groups without a row.
    pub groups: Vec<GroupReport>,
    /// Their names.
    pub names: GroupNames,
}

/// The time of these commands in the device, with stages that are merged with it; in flight, if stages
/// are not measured.
fn device_ns(row: &RowReport<Group>, stage_set: StageSet) -> u128 {
    if stage_set == StageSet::Total {
        return row.total.sum();
    }
    let of_device = |name: &str| name.split('+').any(|part| part == "device");
    let stages = row.stages.iter().filter(|s| of_device(&s.name));
    stages.map(|s| s.hist.sum()).sum()
}

fn compare(a: &GroupReport, b: &GroupReport, sort: Sort) -> Ordering {
    match sort {
        Sort::Share => a.share.total_cmp(&b.share),
        Sort::P99 => {
            let p99 = |g: &GroupReport| g.row.total.percentile(99.0);
            p99(a).cmp(&p99(b))
        }
        Sort::Iops => a.row.count.cmp(&b.row.count),
        Sort::Bytes => a.row.bytes.cmp(&b.row.bytes),
    }
}

/// A part of a group's name as text. Names from outside are escaped.
fn part_text(part: &Part, by: By, names: &GroupNames, disks: &DiskNames) -> String {
    match part {
        Part::Unknown => format!("unknown {by}"),
        Part::Process(pid) => match names.comm(*pid) {
            Some(comm) => format!("{} ({pid})", Escaped(comm)),
            None => format!("({pid})"),
        },
        Part::Comm(comm) if comm_of(comm).is_empty() => "no name".into(),
        Part::Comm(comm) => Escaped(comm_of(comm)).to_string(),
        Part::Cpu(cpu) => format!("cpu {cpu}"),
        Part::Queue(ctrl, qid) => format!("nvme{ctrl} q{qid}"),
        Part::Size(None) => "no data".into(),
        Part::Size(Some(exponent)) => format!("<={}", size_of(1 << exponent)),
        Part::Disk(ctrl, nsid) => disks.disk(*ctrl, *nsid),
        Part::Opcode(opcode) => match opcode.queue {
            QueueKind::Io => opcode.name_or_code(),
            QueueKind::Admin => format!("admin {}", opcode.name_or_code()),
        },
    }
}

/// A size that is a power of two.
fn size_of(bytes: u64) -> String {
    if bytes < 1024 {
        format!("{bytes}B")
    } else {
        size_text(bytes).replace(' ', "")
    }
}

/// The groups that a text leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rest {
    /// How many.
    pub groups: usize,
    /// Their commands.
    pub commands: u64,
    /// Their part of the time.
    pub share: f64,
}

impl Groups {
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The first ones, with that of the groups without a row, and the sums of the rest.
    pub fn first(&self, most: usize) -> (Vec<&GroupReport>, Option<Rest>) {
        let (other, own): (Vec<_>, Vec<_>) = self.groups.iter().partition(|g| g.row.key.is_other());
        let (shown, left_out) = own.split_at(most.min(own.len()));
        let mut rest = Rest::default();
        for group in left_out {
            rest.groups += 1;
            rest.commands += group.row.count;
            rest.share += group.share;
        }
        let rest = Some(rest).filter(|rest| rest.groups > 0);
        (shown.iter().copied().chain(other).collect(), rest)
    }

    /// The groups of a snapshot. Omits groups without commands.
    pub fn of(
        snapshot: &Snapshot,
        by: &[By],
        stage_set: StageSet,
        covers: Duration,
        sort: Sort,
    ) -> Self {
        let mut sums: BTreeMap<Group, Sum> = BTreeMap::new();
        for ((group, pattern), cell) in &snapshot.groups {
            sums.entry(group.clone())
                .or_insert_with(Sum::new)
                .add(stage_set, *pattern, cell);
        }
        let rows = sums
            .into_iter()
            .map(|(group, sum)| sum.finish(group, stage_set, None, covers));
        let rows: Vec<_> = rows.filter(|row| row.count > 0).collect();
        let times = rows.iter().map(|row| device_ns(row, stage_set));
        let all: u128 = times.clone().sum();
        let shares: Vec<f64> = times.map(|ns| ns as f64 / (all as f64).max(1.0)).collect();
        let mut groups: Vec<_> = rows
            .into_iter()
            .zip(shares)
            .map(|(row, share)| GroupReport { row, share })
            .collect();
        groups.sort_by(|a, b| {
            let other = a.row.key.is_other().cmp(&b.row.key.is_other());
            other.then_with(|| compare(b, a, sort))
        });
        Self {
            by: by.to_vec(),
            groups,
            names: snapshot.names.clone(),
        }
    }
    /// The name of a group as text.
    pub fn name(&self, group: &Group, disks: &DiskNames) -> String {
        if group.is_other() {
            return "other".into();
        }
        let parts = group.0.iter().zip(&self.by);
        let texts = parts.map(|(part, by)| part_text(part, *by, &self.names, disks));
        texts.collect::<Vec<_>>().join(" ")
    }
}
