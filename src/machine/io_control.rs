// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of cgroups (io.max) and io.cost, by disk: cgroups of version 2. Users name cgroups and
//! can create any number of them, so what is read and kept is limited.

use std::collections::BTreeMap;
use std::path::Path;

use super::System;
use crate::machine::cgroups::each_below;
use crate::machine::process::read_some;
use crate::model::machine::{IoCost, IoLimit, IoLimits};
use crate::model::text::Text;

/// Most cgroups that are looked at.
const MOST_CGROUPS: usize = 20_000;
/// Most limits of a disk that are kept.
const MOST_LIMITS: usize = 64;
/// Bytes of a file that are read: a line per disk.
const MOST_BYTES: u64 = 1 << 16;
/// Longest path of a cgroup that is kept, and longest line.
const LONGEST: usize = 4096;

/// Major and minor number of a disk.
pub type Number = [u32; 2];

/// What cgroups do to the I/O of disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoControl {
    limits: BTreeMap<Number, IoLimits>,
    /// `None`: the kernel has no io.cost.
    costs: Option<BTreeMap<Number, IoCost>>,
    /// Not all cgroups were looked at.
    more: bool,
}

/// A number of the form `259:0`.
pub fn number(text: &str) -> Option<Number> {
    let (major, minor) = text.split_once(':')?;
    Some([major.parse().ok()?, minor.parse().ok()?])
}

/// The lines of a file with a line per disk.
fn by_disk(text: &str) -> impl Iterator<Item = (Number, &str)> {
    text.lines().filter_map(|line| {
        let (disk, rest) = line.trim().split_once(' ')?;
        Some((number(disk)?, rest))
    })
}

/// The value of a key of `key=value ...`.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let mut words = text.split_whitespace();
    words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// A line of io.max, without the number of the disk.
fn limit(cgroup: &Text, text: &str) -> Option<IoLimit> {
    let of = |key| value(text, key)?.parse().ok();
    let limit = IoLimit {
        cgroup: cgroup.clone(),
        rbps: of("rbps"),
        wbps: of("wbps"),
        riops: of("riops"),
        wiops: of("wiops"),
    };
    (!limit.is_max()).then_some(limit)
}

/// A line of io.cost.qos, without the number of the disk.
fn cost(text: &str) -> Option<IoCost> {
    let rest = text.split_whitespace();
    let rest = rest.filter(|word| !word.starts_with("enable="));
    (text.len() <= LONGEST).then(|| IoCost {
        enabled: value(text, "enable") == Some("1"),
        qos: rest.collect::<Vec<_>>().join(" ").into(),
    })
}

/// The text of a file of a cgroup; `None`: it cannot be read.
fn text(path: &Path) -> Option<String> {
    String::from_utf8(read_some(path, MOST_BYTES).ok()?).ok()
}

impl IoControl {
    /// Adds the io.max of a cgroup.
    fn add(&mut self, cgroup: &Text, text: &str) {
        for (disk, line) in by_disk(text) {
            let limits = self.limits.entry(disk).or_default();
            let has_room = limits.cgroups.len() < MOST_LIMITS;
            match limit(cgroup, line) {
                Some(limit) if has_room => limits.cgroups.push(limit),
                Some(_) => limits.more = true,
                None => {}
            }
        }
    }

    /// The limits of all cgroups on a disk.
    pub fn limits(&self, disk: Number) -> IoLimits {
        let found = self.limits.get(&disk).cloned().unwrap_or_default();
        IoLimits { more: found.more || self.more, ..found }
    }

    /// The settings of io.cost for a disk.
    pub fn cost(&self, disk: Number) -> Option<IoCost> {
        Some(self.costs.as_ref()?.get(&disk).cloned().unwrap_or_default())
    }
}

impl System {
    /// Reads what the cgroups of version 2 do to the I/O of disks. `None`: they are not mounted.
    pub fn io_control(&self) -> Option<IoControl> {
        let top = self.cgroups()?;
        let mut found = IoControl::default();
        let mut left = MOST_CGROUPS;
        let all = each_below(&top, Path::new("/"), 0, &mut |entry, path| {
            let dir = entry.path();
            if dir.as_os_str().len() > LONGEST {
                found.more = true;
            } else if let Some(text) = text(&dir.join("io.max")) {
                found.add(&path, &text);
            }
            left -= 1;
            left > 0
        });
        for limits in found.limits.values_mut() {
            limits.cgroups.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
        }
        found.more |= !all;
        if let Some(text) = text(&top.join("io.cost.qos")) {
            let all = by_disk(&text).filter_map(|(disk, line)| Some((disk, cost(line)?)));
            found.costs = Some(all.collect());
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;

    #[test]
    fn what_has_no_room_is_said() {
        let machine = TestMachine::new(&[("proc/mounts", "c /cg cgroup2 rw 0 0\n")]);
        (0..=MOST_LIMITS).for_each(|n| machine.put(&format!("cg/{n}/io.max"), "259:1 riops=5\n"));
        let found = machine.io_control().unwrap().limits([259, 1]);
        assert_eq!((found.cgroups.len(), found.more), (MOST_LIMITS, true));
    }
}
