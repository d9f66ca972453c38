// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structs to read, and their layouts on this kernel.

use crate::machine::types::Structure;
use std::collections::BTreeMap;
use std::time::Duration;

/// What must be described: block layer and nvme_core, then the PCI driver. (include/linux/blk-mq.h,
/// include/linux/sbitmap.h, drivers/nvme/host/nvme.h, drivers/nvme/host/pci.c)
pub const NEEDED: [(&str, &[&str]); 11] = [
    ("blk_mq_tag_set", &["tags", "nr_hw_queues"]),
    ("blk_mq_tags", &["nr_tags", "nr_reserved_tags", "bitmap_tags", "breserved_tags", "rqs"]),
    ("sbitmap_queue", &["sb"]),
    ("sbitmap", &["depth", "shift", "map_nr", "map"]),
    ("sbitmap_word", &["word", "cleared"]),
    ("request", &["state", "tag", "deadline", "timeout"]),
    ("nvme_subsystem", &["entry", "ctrls"]),
    ("nvme_ctrl", &["instance", "tagset", "admin_tagset", "subsys_entry"]),
    ("nvme_request", &["cmd"]),
    ("nvme_dev", &["queues", "ctrl"]),
    (
        "nvme_queue",
        &[
            "sq_cmds",
            "cqes",
            "q_depth",
            "sq_tail",
            "last_sq_tail",
            "cq_head",
            "cq_phase",
            "flags",
            "dbbuf_sq_ei",
        ],
    ),
];

/// The structs of the PCI driver. Without them there are commands, but no verdicts.
const PCI: [&str; 2] = ["nvme_dev", "nvme_queue"];

/// A struct or member that is not described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's types lack {what}")]
pub struct Missing {
    /// `struct` or `struct.member`.
    pub what: String,
}

/// Layouts of the structs in [`NEEDED`].
#[derive(Clone, Debug, Default)]
pub struct Types(BTreeMap<&'static str, Structure>);

impl Types {
    /// Finds the layouts.
    ///
    /// # Errors
    /// If something is missing, except the PCI driver.
    pub fn new(find: impl Fn(&str) -> Option<Structure>) -> Result<Self, Missing> {
        let mut types = Self::default();
        for (name, members) in NEEDED {
            let found = find(name).ok_or_else(|| name.to_owned());
            let found = found.and_then(|s| {
                let missing = members.iter().find(|m| !s.members.contains_key(**m));
                missing.map_or(Ok(s), |m| Err(format!("{name}.{m}")))
            });
            match found {
                Ok(structure) => {
                    types.0.insert(name, structure);
                }
                Err(_) if PCI.contains(&name) => {}
                Err(what) => return Err(Missing { what }),
            }
        }
        Ok(types)
    }

    /// Whether the PCI driver is described.
    pub fn has_pci(&self) -> bool {
        PCI.iter().all(|name| self.0.contains_key(name))
    }

    /// The size of a struct in bytes.
    pub(super) fn size(&self, name: &str) -> Option<usize> {
        usize::try_from(self.0.get(name)?.size).ok()
    }

    /// The offset of a member in bytes.
    pub(super) fn offset(&self, name: &str, member: &str) -> Option<usize> {
        usize::try_from(*self.0.get(name)?.members.get(member)?).ok()
    }
}

/// The timer frequencies that a kernel may have (CONFIG_HZ).
const FREQUENCIES: [u32; 4] = [100, 250, 300, 1000];

/// Jiffies at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// `jiffies_64`
    pub now: u64,
    /// Ticks per second.
    pub hz: u32,
}

/// When the driver gives up on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Since the driver started it.
    pub after: Duration,
    pub left: Duration,
}

/// `jiffies_64` at boot: five minutes before its lower half wraps around (INITIAL_JIFFIES).
fn initial(hz: u32) -> u64 {
    (1 << 32) - 300 * u64::from(hz)
}

impl Ticks {
    /// Finds the frequency from `jiffies_64` and the time since boot (CLOCK_MONOTONIC). Around 300 s
    /// after boot all frequencies give the same value: `None`.
    pub fn new(now: u64, since_boot: Duration) -> Option<Self> {
        if since_boot.abs_diff(Duration::from_secs(300)) < Duration::from_secs(10) {
            return None;
        }
        let off = |hz: u32| {
            let ticks = since_boot.as_secs_f64() * f64::from(hz);
            (initial(hz) as f64 + ticks - now as f64).abs() / f64::from(hz)
        };
        let mut by_distance = FREQUENCIES.map(|hz| (off(hz), hz));
        by_distance.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [(best, hz), (second, _), ..] = by_distance;
        // seconds; the clocks may differ by a few
        (best < second / 4.0).then_some(Self { now, hz })
    }

    /// The age of a request, from its deadline and timeout in jiffies; zero if it was started up to
    /// a second later. `None` if it has none, or they make no sense.
    pub fn age(self, deadline: u64, timeout: u32) -> Option<Duration> {
        let since = deadline.checked_sub(u64::from(timeout))?;
        let age = match self.now.checked_sub(since) {
            Some(age) => age,
            None if since - self.now <= u64::from(self.hz) => 0,
            None => return None,
        };
        (deadline != 0).then(|| self.duration(age))
    }

    /// The timeout of a request, and how long until it.
    pub fn timeout(self, deadline: u64, timeout: u32) -> Option<Timeout> {
        self.age(deadline, timeout)?;
        let left = deadline.saturating_sub(self.now);
        Some(Timeout { after: self.duration(timeout.into()), left: self.duration(left) })
    }

    fn duration(self, ticks: u64) -> Duration {
        Duration::from_secs_f64(ticks as f64 / f64::from(self.hz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_missing_is_named_except_for_the_pci_driver() {
        let without = |lacks: &str| {
            Types::new(|name| {
                let (_, members) = NEEDED.iter().find(|(n, _)| *n == name && name != lacks)?;
                let members = (0..).zip(*members).filter(|(_, m)| **m != lacks);
                let members = members.map(|(at, m)| ((*m).into(), at)).collect();
                Some(Structure { size: 64, members })
            })
        };
        assert!(without("").unwrap().has_pci());
        assert!(!without("nvme_queue").unwrap().has_pci());
        let error = without("sbitmap").unwrap_err();
        assert_eq!(error.to_string(), "the kernel's types lack sbitmap");
        assert_eq!(without("deadline").unwrap_err().what, "request.deadline");
    }

    #[test]
    fn an_age_is_the_time_since_the_timer_was_set() {
        let now = Ticks { now: 10_000, hz: 250 };
        let second = Duration::from_secs(1);
        for (deadline, age, left) in [
            (17_000, Some(2 * second), Some(28 * second)),
            (9_000, Some(34 * second), Some(Duration::ZERO)), // it is due
            (0, None, None),
            (17_600, Some(Duration::ZERO), Some(second * 152 / 5)), // a moment later
            (20_000, None, None),                                   // in the future
        ] {
            assert_eq!(now.age(deadline, 7500), age, "{deadline}");
            let timeout = left.map(|left| Timeout { after: 30 * second, left });
            assert_eq!(now.timeout(deadline, 7500), timeout, "{deadline}");
        }
    }

    proptest! {
        #[test]
        fn the_frequency_is_found_except_around_five_minutes_after_boot(
            which in 0..4_usize, ms in 0..100_000_000_u64, late_ms in 0..200_u64,
        ) {
            let hz = FREQUENCIES[which];
            let now = initial(hz) + ms * u64::from(hz) / 1000;
            let found = Ticks::new(now, Duration::from_millis(ms + late_ms));
            if ms.abs_diff(300_000) > 30_000 {
                prop_assert_eq!(found, Some(Ticks { now, hz }));
            } else {
                prop_assert!(found.is_none_or(|t| t.hz == hz));
            }
        }
    }
}
