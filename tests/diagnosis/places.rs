// SPDX-License-Identifier: MIT OR Apache-2.0
//! How commands come by themselves, and the machine on which they run.

use fastrand::Rng;
use nvme_deep::model::machine::Class;
use nvme_deep::model::point::Pattern;

use super::level::exponential;
use super::load::SECOND;
use crate::testing::ALL_SEEN;

/// How commands come that wait for no other.
#[derive(Clone, Copy, Debug, Default)]
pub enum Arrivals {
    #[default]
    None,
    /// At random, with this rate per second.
    Poisson(f64),
    /// At equal times, with this rate per second.
    Paced(f64),
    /// At random with the first rate for half of each second, and with the second one otherwise.
    OnOff(f64, f64),
    /// At random, with the first rate in the first half of the run, and with the second one later.
    Steps(f64, f64),
    /// So many at once, so often per second.
    Batches(u32, f64),
}

impl Arrivals {
    /// The time from one arrival to the next, and how many come at once.
    pub fn next(self, at_ns: u64, half_ns: u64, rng: &mut Rng) -> Option<(u64, u32)> {
        let gap = |rng: &mut Rng, rate: f64| exponential(rng, 1e9 / rate) as u64;
        Some(match self {
            Self::None => return None,
            Self::Poisson(rate) => (gap(rng, rate), 1),
            Self::Paced(rate) => ((1e9 / rate) as u64, 1),
            Self::OnOff(on, off) => {
                let is_on = at_ns % SECOND < SECOND / 2;
                let until = SECOND / 2 - at_ns % (SECOND / 2);
                match gap(rng, if is_on { on } else { off }) {
                    gap if gap < until => (gap, 1),
                    // it begins anew with the other rate
                    _ => (until, 0),
                }
            }
            Self::Steps(first, second) => {
                let rate = if at_ns < half_ns { first } else { second };
                (gap(rng, rate), 1)
            }
            Self::Batches(size, rate) => (gap(rng, rate), size),
        })
    }
}

/// The machine, and what is observed on it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The kind of device.
    pub class: Class,
    pub transport: &'static str,
    pub hypervisor: Option<&'static str>,
    pub shadow_doorbells: Option<bool>,
    pub iommu_group: Option<&'static str>,
    pub scheduler: &'static str,
    /// Polled queues, beside the others; and whether commands use them.
    pub poll_queues: (u32, bool),
    /// The points that are observed.
    pub pattern: Pattern,
    pub has_conditions: bool,
    /// Whether bios are observed, and what each waits for before its request.
    pub has_waits: bool,
    /// The number of the controller.
    pub ctrl: u32,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            class: Class::Emulated,
            transport: "pcie",
            hypervisor: Some("KVM"),
            shadow_doorbells: Some(true),
            iommu_group: None,
            scheduler: "none",
            poll_queues: (0, false),
            pattern: ALL_SEEN,
            has_conditions: true,
            has_waits: true,
            ctrl: 0,
        }
    }
}
