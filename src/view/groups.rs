// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of a report as JSON.

use super::json::{Numbers, numbers};
use crate::model::group::{By, Group, KeyPart, comm_text};
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::{GroupReport, Groups, priority};
use crate::model::stage::StageSet;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// What the commands of a group have in common. What is not known is null.
struct Key(Vec<(&'static str, Value)>);

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// The keys of a part that is not known.
const fn keys(by: By) -> &'static [&'static str] {
    match by {
        By::Process => &["pid"],
        By::Comm => &["comm"],
        By::Cgroup => &["cgroup", "cgroup_id"],
        By::Container => &["container", "pod"],
        By::Cpu => &["cpu"],
        By::Size(_) => &["max_bytes"],
        By::Priority => &["priority"],
        By::Flags => &["flags"],
        By::Queue | By::Disk | By::Opcode => &[],
    }
}

fn fields(
    by: By,
    part: &KeyPart,
    groups: &Groups,
    disks: &DiskNames,
) -> Vec<(&'static str, Value)> {
    let names = &groups.names;
    match part {
        KeyPart::Unknown => keys(by).iter().map(|key| (*key, Value::Null)).collect(),
        KeyPart::Process(pid) => vec![("pid", json!(pid)), ("comm", json!(names.comm(*pid)))],
        KeyPart::Comm(comm) => vec![("comm", json!(comm_text(comm)))],
        KeyPart::Cgroup(id) => {
            vec![("cgroup", json!(names.cgroups.get(id))), ("cgroup_id", json!(id))]
        }
        KeyPart::Container(owner) => {
            let mut fields = vec![("container", json!(owner.id)), ("pod", json!(owner.pod))];
            for (key, id) in [("container_name", &owner.id), ("pod_name", &owner.pod)] {
                let name = id.as_ref().and_then(|id| names.containers.get(id));
                fields.extend(name.map(|name| (key, json!(name))));
            }
            fields
        }
        KeyPart::Priority(number) => vec![("priority", json!(priority(*number)))],
        KeyPart::Flags(flags) => vec![("flags", json!(flags.names()))],
        KeyPart::Cpu(cpu) => vec![("cpu", json!(cpu))],
        KeyPart::Queue(ctrl, qid) => {
            vec![("ctrl", json!(format!("nvme{ctrl}"))), ("qid", json!(qid))]
        }
        KeyPart::Size(exponent) => {
            vec![("max_bytes", json!(exponent.map_or(0_u64, |n| 1 << n)))]
        }
        KeyPart::SizeAbove(exponent) => vec![("above_bytes", json!(1_u64 << exponent))],
        KeyPart::Disk(ctrl, nsid) => vec![
            ("ctrl", json!(format!("nvme{ctrl}"))),
            ("nsid", json!(nsid)),
            ("disk", json!(disks.disk(*ctrl, *nsid))),
        ],
        KeyPart::Opcode(opcode) => vec![
            ("queue", json!(opcode.queue.to_string())),
            ("opcode", json!(opcode.name_or_code())),
            ("opcode_value", json!(opcode.code)),
        ],
    }
}

impl Key {
    fn of(group: &Group, groups: &Groups, disks: &DiskNames) -> Self {
        let mut all: Vec<(&'static str, Value)> = Vec::new();
        for (part, by) in group.0.iter().zip(&groups.by) {
            for (name, value) in fields(*by, part, groups, disks) {
                all.retain(|(other, _)| *other != name);
                all.push((name, value));
            }
        }
        Self(all)
    }
}

#[derive(Serialize)]
struct GroupLine<'a> {
    #[serde(flatten)]
    key: Key,
    #[serde(skip_serializing_if = "is_false")]
    other: bool,
    time_share: f64,
    #[serde(flatten)]
    numbers: Numbers<'a>,
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
        time_share: group.share,
        numbers: numbers(row, stage_set, buckets),
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
