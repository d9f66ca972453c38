// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that bios of device mapper and md spend above NVMe: from the time of the bios, the time of the commands
//! below is subtracted. A bio that is split, mirrored or coded has several commands, which are all subtracted,
//! though they ran at the same time. So the result is a lower bound.

use super::waits::{LARGE, seen_bios};
use super::{FULL, not_observed};
use crate::diagnose::affected::first_of;
use crate::diagnose::facts::Facts;
use crate::diagnose::rule::{Case, Kind, Rule, Tier};
use crate::diagnose::verdict::{Reason, Scope, Verdict, absent, needs, open, out};
use crate::machine::disk::disk_of_path;
use crate::model::machine::UpperDisk;
use crate::units::nanos;

/// Fewest bios.
const ENOUGH: u64 = 200;
/// The bios of at least this part of the reads and writes must be observed. For the rest, the waits below
/// device mapper are unknown.
const NEARLY_ALL: f64 = 0.95;

pub const RULE: Rule = Rule {
    id: "above-nvme",
    noun: "time above NVMe",
    tier: Tier::Above,
    scope: Scope::Machine,
    kind: Kind::Event(above_nvme),
    found: "bios of a device mapper or md disk spend 30% of their time above NVMe",
    text: "Bios on {upper} wait {above} of {mean} above NVMe",
    advice: "find the layer that adds the time. dm-crypt queues its work: `cryptsetup refresh --perf-no_read_workqueue \
             --perf-no_write_workqueue NAME` turns that off; RAID computes parity, updates its bitmap and resyncs; \
             snapshots and thin pools copy",
    risk: "without them, the submitting task encrypts and soft interrupts decrypt",
};

/// Whether they are on a disk that is the same.
fn share_disk(a: &UpperDisk, b: &UpperDisk) -> bool {
    a.disks.iter().any(|disk| b.disks.contains(disk))
}

/// Bios, and their time in nanoseconds: all of it, and the time of the commands below.
#[derive(Default)]
struct Times {
    bios: u64,
    longest_ns: u64,
    all_ns: f64,
    below_ns: f64,
}

fn times(facts: &Facts, group: &[&UpperDisk]) -> Times {
    let mut times = Times::default();
    let counted = facts.counted(|a| a.upper.as_deref()).unwrap_or_default();
    for bios in counted.iter().filter(|bios| group.iter().any(|u| u.name == bios.name)) {
        times.bios += bios.bios;
        times.longest_ns = times.longest_ns.max(bios.max_ns);
        times.all_ns += bios.sum_ns as f64;
    }
    for class in &facts.classes.all {
        let path = facts.disk_name(class.class.ctrl, class.class.nsid);
        let disk = disk_of_path(&path);
        if group.iter().any(|upper| upper.disks.iter().any(|own| *own == *disk)) {
            times.below_ns += facts.sum(facts.of_class(class), |c| c.below_ns);
        }
    }
    times
}

fn above_nvme(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let facts = case.facts;
    let machine = facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    if machine.upper.is_empty() {
        return Err(absent("no disk of device mapper or md is above NVMe"));
    }
    if facts.counted(|a| a.upper.as_ref()).is_none() {
        return Err(not_observed(facts, "bios of disks above NVMe"));
    }
    case.needs_all()?;
    if seen_bios(case, NEARLY_ALL)? <= 0.0 {
        return Err(open("the bios of the reads and writes were not observed"));
    }
    // disks that share disks below are judged together
    let top = || machine.upper.iter().filter(|upper| upper.is_top);
    let all = top().map(|own| {
        let group: Vec<&UpperDisk> = top().filter(|upper| share_disk(own, upper)).collect();
        (times(facts, &group), group)
    });
    let above = |times: &Times| times.all_ns - times.below_ns;
    let most = all.max_by(|(a, _), (b, _)| above(a).total_cmp(&above(b)));
    let Some((times, group)) = most.filter(|(times, _)| times.bios > 0) else {
        return Err(absent("no bio ended on a disk above NVMe"));
    };
    let names = first_of(group.iter().map(|upper| upper.name.to_string()));
    let each = |ns: f64| nanos(ns.max(0.0) / times.bios as f64);
    let [mean, below] = [times.all_ns, times.below_ns].map(each);
    if times.bios < ENOUGH {
        return Err(open(format!(
            "only {} bios ended on {names}, and {ENOUGH} are needed",
            times.bios
        )));
    }
    let share = above(&times) / times.all_ns.max(1.0);
    if share < LARGE {
        return Err(out(format!("bios on {names} take {mean}, their commands {below}")));
    }
    if group.iter().any(|upper| upper.has_others) {
        return Err(open(format!("{names} also uses disks that are not NVMe")));
    }
    let longest = nanos(times.longest_ns as f64);
    verdict.shows("impact", format!("{} bios; mean {mean}, longest {longest}", times.bios));
    verdict.shows("time of the commands below, for each bio", below);
    for upper in &group {
        let kind = upper.kind.as_ref().map_or(String::new(), |kind| format!(" ({kind})"));
        let disks = first_of(upper.disks.iter().map(ToString::to_string));
        verdict.shows("setting", format!("{}{kind} on {disks}", upper.name));
    }
    verdict.name("upper", names);
    verdict.name("above", each(above(&times)));
    verdict.name("mean", mean);
    Ok(())
}
