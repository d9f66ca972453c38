// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a run that groups its commands: what each group has, in which order, and its names.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::group::{By, Group, GroupNames, KeyPart, Owner, comm_of, comm_text};
use crate::model::nvme_latency::LatBuckets;
use crate::model::origin::{owner, unit};
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::{RowReport, Sum};
use crate::model::snapshot::{Cells, Snapshot, add};
use crate::model::stage::StageSet;
use crate::model::text::{Text, word};
use crate::nvme::opcode::QueueKind;
use crate::units::size_text;

/// The order of groups. The first has the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Share of the time of all commands
    #[default]
    Share,
    /// 99th percentile
    P99,
    /// Commands per second
    Iops,
    /// Bytes
    Bytes,
}

/// A group and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReport {
    /// Its numbers.
    pub row: RowReport<Group>,
    /// Its part of the time of all commands.
    pub share: f64,
}

/// The groups of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// What they are grouped by.
    pub by: Vec<By>,
    /// In order. The last one may stand for the groups without a row.
    pub groups: Vec<GroupReport>,
    /// Their names.
    pub names: GroupNames,
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

/// A part of a group's name as text.
fn part_text(part: &KeyPart, by: By, names: &GroupNames, disks: &DiskNames) -> String {
    match part {
        KeyPart::Unknown => format!("unknown {by}"),
        KeyPart::Process(pid) => match names.comm(*pid) {
            Some(comm) => format!("{comm}[{pid}]"),
            None => format!("[{pid}]"),
        },
        KeyPart::Cgroup(id) => match names.cgroups.get(id) {
            Some(path) => cgroup_text(path, names),
            None => format!("cgroup {id}"),
        },
        KeyPart::Container(owner) => owner_text(owner, names),
        KeyPart::Priority(number) => priority(*number),
        KeyPart::Flags(flags) if flags.names().is_empty() => "no flags".into(),
        KeyPart::Flags(flags) => flags.names().join("+"),
        KeyPart::Comm(comm) if comm_of(comm).is_empty() => "no name".into(),
        KeyPart::Comm(comm) => comm_text(comm).into_owned(),
        KeyPart::Cpu(cpu) => format!("cpu {cpu}"),
        KeyPart::Queue(ctrl, qid) => format!("nvme{ctrl} q{qid}"),
        KeyPart::Size(None) => "no data".into(),
        KeyPart::Size(Some(exponent)) => format!("<={}", size_text(1 << exponent)),
        KeyPart::SizeAbove(exponent) => format!(">{}", size_text(1 << exponent)),
        KeyPart::Disk(ctrl, nsid) => disks.disk(*ctrl, *nsid),
        KeyPart::Opcode(opcode) => match opcode.queue {
            QueueKind::Io => opcode.name_or_code(),
            QueueKind::Admin => format!("admin {}", opcode.name_or_code()),
        },
    }
}

/// Digits of an ID in texts, as the runtimes print it.
const ID_DIGITS: usize = 12;

/// The name of a container or pod, with the ID or UID where the name is not known.
fn owner_text(owner: &Owner, names: &GroupNames) -> String {
    let name = |id: &String| names.containers.get(id).map(|name| word(name).into_owned());
    let short = |id: &String| id.chars().take(ID_DIGITS).collect();
    let id = owner.id.as_ref();
    match (&owner.pod, id.and_then(name)) {
        (_, Some(name)) => name,
        (None, None) => id.map_or_else(|| "no container".into(), short),
        (Some(pod), None) => {
            let pod = name(pod).unwrap_or_else(|| pod.clone());
            let id: Option<String> = id.map(short);
            format!("pod {pod} {}", id.unwrap_or_default()).trim_end().into()
        }
    }
}

/// A cgroup as people know it: its container, its unit, or its path.
fn cgroup_text(path: &str, names: &GroupNames) -> String {
    let owner = owner(path);
    if owner != Owner::default() {
        return owner_text(&owner, names);
    }
    word(unit(path).unwrap_or(path)).into_owned()
}

/// An I/O priority as ionice prints it.
pub fn priority(number: u16) -> String {
    let level = number & 0x7;
    match number >> 13 {
        0 => "none".into(),
        1 => format!("realtime {level}"),
        2 => format!("best-effort {level}"),
        3 => "idle".into(),
        class => format!("class {class} {level}"),
    }
}

/// The group with containers instead of cgroups, where that was asked for.
fn with_containers(group: &Group, by: &[By], names: &GroupNames) -> Group {
    let parts = group.0.iter().zip(by).map(|(part, by)| match (by, part) {
        (By::Container, KeyPart::Cgroup(id)) => {
            names.cgroups.get(id).map_or(KeyPart::Unknown, |path| KeyPart::Container(owner(path)))
        }
        _ => part.clone(),
    });
    Group(parts.collect())
}

/// The cells of the groups of a snapshot, by container where that was asked for.
pub fn cells_of(snapshot: &Snapshot, by: &[By]) -> Cells<Group> {
    let mut cells = Cells::new();
    for ((group, pattern), cell) in &snapshot.groups {
        let group = with_containers(group, by, &snapshot.names);
        add(&mut cells, (group, *pattern), cell.clone());
    }
    cells
}

/// The groups of these cells with their numbers.
pub fn rows_of(
    cells: &Cells<Group>,
    stage_set: StageSet,
    lat: Option<&LatBuckets>,
    covers: Duration,
) -> Vec<RowReport<Group>> {
    let mut sums: BTreeMap<&Group, Sum> = BTreeMap::new();
    for ((group, pattern), cell) in cells {
        sums.entry(group).or_insert_with(Sum::new).add(stage_set, *pattern, cell);
    }
    let rows = sums.into_iter();
    rows.map(|(group, sum)| sum.finish(group.clone(), lat, covers)).collect()
}

/// The name of a group as text.
pub fn name_of(group: &Group, by: &[By], names: &GroupNames, disks: &DiskNames) -> String {
    if group.is_other() {
        return "other".into();
    }
    let parts = group.0.iter().zip(by);
    let texts = parts.map(|(part, by)| part_text(part, *by, names, disks));
    texts.collect::<Vec<_>>().join(" ")
}

/// Labels of a group by cgroup or container: path of the cgroup, ID of the container, UID of the pod, name.
/// Those that it does not have are empty; all are `other` for the groups without a series.
pub fn labels(group: &Group, names: &GroupNames) -> [Text; 4] {
    let owner_labels = |path: Text, owner: &Owner| {
        let text = |part: &Option<String>| part.as_deref().unwrap_or_default().into();
        let name = owner.id.as_ref().or(owner.pod.as_ref());
        let name = name.and_then(|id| names.containers.get(id)).cloned();
        [path, text(&owner.id), text(&owner.pod), name.unwrap_or_default()]
    };
    match group.0.first() {
        None => ["other", "other", "other", ""].map(Text::from),
        Some(KeyPart::Cgroup(id)) => match names.cgroups.get(id) {
            Some(path) => owner_labels(path.clone(), &owner(path)),
            None => owner_labels(format!("cgroup {id}").into(), &Owner::default()),
        },
        Some(KeyPart::Container(owner)) => owner_labels(Text::default(), owner),
        Some(_) => ["unknown", "", "", ""].map(Text::from),
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

    /// The first ones, the one for groups without a row, and the sums of the rest.
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
        lat: Option<&LatBuckets>,
        covers: Duration,
        sort: Sort,
    ) -> Self {
        let mut rows = rows_of(&cells_of(snapshot, by), stage_set, lat, covers);
        rows.retain(|row| row.count > 0);
        let times = rows.iter().map(|row| row.total.sum());
        let all: u128 = times.clone().sum();
        let shares: Vec<f64> = times.map(|ns| ns as f64 / (all as f64).max(1.0)).collect();
        let mut groups: Vec<_> =
            rows.into_iter().zip(shares).map(|(row, share)| GroupReport { row, share }).collect();
        groups.sort_by(|a, b| {
            let other = a.row.key.is_other().cmp(&b.row.key.is_other());
            other.then_with(|| compare(b, a, sort))
        });
        Self { by: by.to_vec(), groups, names: snapshot.names.clone() }
    }

    /// The name of a group as text.
    pub fn name(&self, group: &Group, disks: &DiskNames) -> String {
        name_of(group, &self.by, &self.names, disks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cgroup's name in a text.
    fn shown(path: &str, names: &GroupNames) -> String {
        cgroup_text(&Text::from(path), names)
    }

    #[test]
    fn cgroups_have_the_names_that_people_know() {
        let id = format!("{:0<64}", "abc1");
        let uid = "0b6d2f9e-1c3a-4d5e-8f70-112233445566";
        let mut names = GroupNames::default();
        let docker = format!("/system.slice/docker-{id}.scope");
        let pod = format!("/kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
        let inside = format!("{pod}/cri-containerd-{id}.scope");
        assert_eq!(shown("/", &names), "/");
        assert_eq!(shown("/my/jobs", &names), "/my/jobs");
        assert_eq!(shown("/system.slice/pg.service", &names), "pg.service");
        assert_eq!(shown("/a/b\n.service", &names), r"b\n.service");
        assert_eq!(shown(&docker, &names), "abc100000000");
        assert_eq!(shown(&pod, &names), format!("pod {uid}"));
        assert_eq!(shown(&inside, &names), format!("pod {uid} abc100000000"));
        names.containers.insert(uid.into(), "prod/pg-0".into());
        assert_eq!(shown(&inside, &names), "pod prod/pg-0 abc100000000");
        names.containers.insert(id, "web\u{1b}".into());
        assert_eq!(shown(&docker, &names), r"web\u{1b}");
    }

    #[test]
    fn labels_join_with_kubernetes_labels() {
        let id = format!("{:0<64}", "abc1");
        let uid = "0b6d2f9e-1c3a-4d5e-8f70-112233445566";
        let path = format!("/kubepods/pod{uid}/{id}");
        let mut names = GroupNames::default();
        names.cgroups.insert(7, path.as_str().into());
        names.containers.insert(id.clone(), "web".into());
        let of = |part, names: &GroupNames| {
            labels(&Group(vec![part]), names).map(|label| label.to_string())
        };
        let want = [path.as_str(), id.as_str(), uid, "web"];
        assert_eq!(of(KeyPart::Cgroup(7), &names), want);
        let owner = owner(&path);
        assert_eq!(of(KeyPart::Container(owner), &names)[1..], want[1..]);
        assert_eq!(of(KeyPart::Cgroup(8), &names), ["cgroup 8", "", "", ""]);
        let other = labels(&Group::OTHER, &names).map(|label| label.to_string());
        assert_eq!(other, ["other", "other", "other", ""]);
    }

    #[test]
    fn priorities_are_as_ionice_shows_them() {
        let texts = [0, 0x2000, 0x4004, 0x6000, 0x8001].map(priority);
        assert_eq!(texts, ["none", "realtime 0", "best-effort 4", "idle", "class 4 1"]);
    }
}
