// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of joined commands by controller, namespace and opcode.

use std::collections::BTreeMap;

use super::Join;
use crate::model::histogram::Histogram;
use crate::nvme::opcode::Opcode;

/// Controller of the guest, namespace id, opcode.
pub type StratumOf = (u32, u32, Opcode);

/// A part of the time of the commands of a stratum.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Name of the part.
    pub name: String,
    /// Times; a negative one counts as zero here.
    pub times: Histogram,
    /// Exact sum in nanoseconds.
    pub sum_ns: i128,
    /// Whether the clock's error applies.
    pub by_clock: bool,
}

/// Joined commands by stratum: the parts of their times in the order of a command's life, and the
/// totals.
#[derive(Clone, Debug, Default)]
pub struct Strata {
    /// The parts.
    pub parts: BTreeMap<StratumOf, Vec<Part>>,
    /// The guest's totals.
    pub totals: BTreeMap<StratumOf, Part>,
}

/// Where a part is in a command's life: the place of the first of its names.
fn place(name: &str) -> usize {
    let order = [
        "guest_submit",
        "to_host",
        "host_submit",
        "backend",
        "host_complete",
        "interrupt",
        "transit",
        "to_guest",
        "guest_complete",
    ];
    let first = name.split('+').next().unwrap_or_default();
    let place = order.iter().position(|known| *known == first);
    place.unwrap_or(order.len())
}

impl Part {
    fn add(&mut self, ns: i64) {
        self.times.record(ns.max(0).unsigned_abs());
        self.sum_ns += i128::from(ns);
    }
}

impl Strata {
    /// Adds up all pairs.
    pub fn of(join: &Join) -> Self {
        let mut strata = Self::default();
        for (guest, _, parts) in join.commands() {
            let of = (guest.ctrl, guest.nsid, guest.opcode);
            let all = strata.parts.entry(of).or_default();
            let mut total = 0;
            for segment in parts {
                total += segment.ns;
                let found = all.iter().position(|p| p.name == segment.name);
                let at = found.unwrap_or_else(|| {
                    all.push(Part {
                        name: segment.name.clone(),
                        by_clock: segment.by_clock,
                        ..Part::default()
                    });
                    all.len() - 1
                });
                all[at].add(segment.ns);
            }
            strata.totals.entry(of).or_default().add(total);
        }
        for parts in strata.parts.values_mut() {
            parts.sort_by_key(|p| (place(&p.name), p.name.len()));
        }
        strata
    }
}
