// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of a report as text: a line each, and with stages a table of each.

use super::json::{LatLine, Times, lat_lines, times};
use super::text::{TextView, short_count};
use crate::model::group::{By, Group, KeyPart, comm_text};
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::{GroupReport, Groups, priority};
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::units::{nanos, rate};
use serde::Serialize;
use std::borrow::Cow;
use std::io;
use std::io::Write;

/// Width of the column of names.
const NAME: usize = 23;

fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".into(), nanos)
}

/// The columns of numbers, 57 wide.
fn columns(texts: [&str; 8]) -> String {
    let [n, iops, mb, share, mean, p50, p99, max] = texts;
    format!("{n:>7}{iops:>7}{mb:>8}{share:>7}{mean:>7}{p50:>7}{p99:>7}{max:>7}")
}

fn numbers(group: &GroupReport) -> String {
    let (row, h) = (&group.row, &group.row.total);
    let percentile = |p| time(h.percentile(p).map(|ns| ns as f64));
    let mark = if h.max_exact() { "" } else { "~" };
    let max = h.max().map(|ns| format!("{mark}{}", nanos(ns as f64)));
    columns([
        &short_count(row.count),
        &rate(row.iops),
        &format!("{:.1}", row.mb_per_s),
        &format!("{:.1}%", 100.0 * group.share),
        &time(h.mean()),
        &percentile(50.0),
        &percentile(99.0),
        &max.unwrap_or_else(|| "-".into()),
    ])
}

/// Writes a name and its numbers: in a line, if the name fits its column.
fn line(name: &str, numbers: &str, out: &mut dyn Write) -> io::Result<()> {
    if name.chars().count() < NAME {
        return writeln!(out, "{name:<NAME$}{numbers}");
    }
    writeln!(out, "{name}\n{:NAME$}{numbers}", "")
}

impl TextView {
    /// Writes the first groups, and a line about those that are left out.
    pub(super) fn groups(
        &self,
        groups: &Groups,
        disks: &DiskNames,
        stage_set: StageSet,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let keys: Vec<_> = groups.by.iter().map(|by| by.name()).collect();
        let head = columns(["cmds", "IOPS", "MB/s", "share", "mean", "p50", "p99", "max"]);
        let name = format!("by {}", keys.join(","));
        writeln!(out, "{}", self.theme.dim(&format!("{name:<NAME$}{head}")))?;
        let (shown, rest) = groups.first(self.top);
        for group in &shown {
            let name = groups.name(&group.row.key, disks);
            line(&name, &numbers(group), out)?;
            if group.row.unmeasured > 0 {
                writeln!(out, "  unmeasured {}", group.row.unmeasured)?;
            }
        }
        if let Some(rest) = rest {
            writeln!(
                out,
                "{} more groups: {} commands, {:.1} % of the time; --top shows more",
                rest.groups,
                rest.commands,
                100.0 * rest.share
            )?;
        }
        writeln!(out)?;
        if stage_set == StageSet::Total && !self.hist && shown.iter().all(|g| g.row.lat.is_empty())
        {
            return Ok(());
        }
        for group in &shown {
            writeln!(out, "{}", self.theme.head(&groups.name(&group.row.key, disks)))?;
            self.stages(&group.row, stage_set, out)?;
            self.lat(&group.row, out)?;
            writeln!(out)?;
        }
        Ok(())
    }
}

/// What the commands of a group have in common. What was not asked for is left out; what is not known
/// is null.
#[derive(Default, Serialize)]
struct Key {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<Option<Text>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup_id: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submitter_pid: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submitter_comm: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submitter_cgroup: Option<Option<Text>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submitter_cgroup_id: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_name: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_name: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<Option<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ctrl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qid: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nsid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    above_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opcode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opcode_value: Option<u8>,
}

impl Key {
    /// The submitter, in keys of its own.
    fn add_submitter(&mut self, by: By, part: &KeyPart, groups: &Groups) {
        let mut plain = Self::default();
        let of_caller = match by {
            By::SubmitterProcess => By::Process,
            By::SubmitterComm => By::Comm,
            _ => By::Cgroup,
        };
        plain.add(of_caller, part, groups, &DiskNames::default());
        self.submitter_pid = self.submitter_pid.or(plain.pid);
        self.submitter_comm = self.submitter_comm.take().or(plain.comm);
        self.submitter_cgroup = self.submitter_cgroup.take().or(plain.cgroup);
        self.submitter_cgroup_id = self.submitter_cgroup_id.or(plain.cgroup_id);
    }

    fn add(&mut self, by: By, part: &KeyPart, groups: &Groups, disks: &DiskNames) {
        if by.is_submitter() {
            return self.add_submitter(by, part, groups);
        }
        match part {
            KeyPart::Unknown => match by {
                By::Process => self.pid = Some(None),
                By::Comm => self.comm = Some(None),
                By::Cpu => self.cpu = Some(None),
                By::Size(_) => self.max_bytes = Some(None),
                By::Cgroup => (self.cgroup, self.cgroup_id) = (Some(None), Some(None)),
                By::Container => (self.container, self.pod) = (Some(None), Some(None)),
                By::Priority => self.priority = Some(None),
                _ => {}
            },
            KeyPart::Process(pid) => {
                let comm = groups.names.comm(*pid);
                self.pid = Some(Some(*pid));
                self.comm = Some(comm.map(Cow::into_owned));
            }
            KeyPart::Comm(comm) => self.comm = Some(Some(comm_text(comm).into_owned())),
            KeyPart::Cgroup(id) => {
                self.cgroup = Some(groups.names.cgroups.get(id).cloned());
                self.cgroup_id = Some(Some(*id));
            }
            KeyPart::Container(owner) => {
                self.container = Some(owner.id.clone());
                self.pod = Some(owner.pod.clone());
                let name = |id: &Option<String>| {
                    let name = id.as_ref().and_then(|id| groups.names.containers.get(id));
                    name.cloned()
                };
                (self.container_name, self.pod_name) = (name(&owner.id), name(&owner.pod));
            }
            KeyPart::Priority(number) => self.priority = Some(Some(priority(*number))),
            KeyPart::Cpu(cpu) => self.cpu = Some(Some(*cpu)),
            KeyPart::Queue(ctrl, qid) => {
                (self.ctrl, self.qid) = (Some(format!("nvme{ctrl}")), Some(*qid));
            }
            KeyPart::Size(exponent) => {
                self.max_bytes = Some(Some(exponent.map_or(0, |n| 1 << n)));
            }
            KeyPart::SizeAbove(exponent) => self.above_bytes = Some(1 << exponent),
            KeyPart::Disk(ctrl, nsid) => {
                (self.ctrl, self.nsid) = (Some(format!("nvme{ctrl}")), Some(*nsid));
                self.disk = Some(disks.disk(*ctrl, *nsid));
            }
            KeyPart::Opcode(opcode) => {
                self.queue = Some(opcode.queue.to_string());
                self.opcode = Some(opcode.name_or_code());
                self.opcode_value = Some(opcode.code);
            }
        }
    }

    fn of(group: &Group, groups: &Groups, disks: &DiskNames) -> Self {
        let mut key = Self::default();
        for (part, by) in group.0.iter().zip(&groups.by) {
            key.add(*by, part, groups, disks);
        }
        key
    }
}

#[derive(Serialize)]
struct GroupLine<'a> {
    #[serde(flatten)]
    key: Key,
    #[serde(skip_serializing_if = "is_false")]
    other: bool,
    count: u64,
    unmeasured: u64,
    iops: f64,
    bytes: u64,
    mb_per_s: f64,
    time_share: f64,
    #[serde(flatten)]
    times: Times<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lat_buckets: Vec<LatLine>,
}

const fn is_false(is: &bool) -> bool {
    !*is
}

fn group_line<'a>(
    group: &'a GroupReport,
    groups: &Groups,
    disks: &DiskNames,
    stage_set: StageSet,
    buckets: bool,
) -> GroupLine<'a> {
    let row = &group.row;
    GroupLine {
        key: Key::of(&row.key, groups, disks),
        other: row.key.is_other(),
        count: row.count,
        unmeasured: row.unmeasured,
        iops: row.iops,
        bytes: row.bytes,
        mb_per_s: row.mb_per_s,
        time_share: group.share,
        times: times(row, stage_set, buckets),
        lat_buckets: lat_lines(row),
    }
}

/// The groups of a report.
#[derive(Serialize)]
pub(crate) struct GroupLines<'a> {
    by: Vec<&'static str>,
    groups: Vec<GroupLine<'a>>,
}

/// All groups, in their order.
pub(crate) fn lines<'a>(
    groups: &'a Groups,
    disks: &DiskNames,
    stage_set: StageSet,
    buckets: bool,
) -> GroupLines<'a> {
    let each = groups.groups.iter();
    GroupLines {
        by: groups.by.iter().map(|by| by.name()).collect(),
        groups: each.map(|g| group_line(g, groups, disks, stage_set, buckets)).collect(),
    }
}
