// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times of commands in a target, or on both sides, by controller, namespace and opcode: the tables
//! of `host latency` and `join`.

use std::collections::BTreeMap;

use crate::model::histogram::Histogram;
use crate::model::target::Part;
use crate::nvme::opcode::Opcode;

/// Controller, CDW1 of the SQE, opcode.
pub type PartKey = (u32, u32, Opcode);

/// The times of a part.
#[derive(Clone, Debug, Default)]
pub struct PartTimes {
    /// Name of the part.
    pub name: String,
    /// Times; a negative one counts as zero here.
    pub times: Histogram,
    /// Exact sum in nanoseconds.
    pub sum_ns: i128,
    /// Whether the clock's error applies.
    pub by_clock: bool,
}

/// The commands of a row.
#[derive(Clone, Debug, Default)]
pub struct PartRow {
    /// Commands.
    pub count: u64,
    /// Of these, without two points in order.
    pub unmeasured: u64,
    /// The parts, in the order of a command's life.
    pub parts: Vec<PartTimes>,
    /// From the first to the last observed point.
    pub total: PartTimes,
}

/// All rows.
pub type PartRows = BTreeMap<PartKey, PartRow>;

/// Where a part is in a command's life: the place of the first of its names, shorter names first.
fn place(name: &str) -> (usize, usize) {
    let order = [
        "guest_submit",
        "to_host",
        "host_submit",
        "backend",
        "host_complete",
        "interrupt",
        "to_guest",
        "guest_complete",
    ];
    let first = name.split('+').next().unwrap_or_default();
    let place = order.iter().position(|known| *known == first);
    (place.unwrap_or(order.len()), name.len())
}

impl PartTimes {
    fn add(&mut self, ns: i64) {
        self.times.record(ns.max(0).unsigned_abs());
        self.sum_ns += i128::from(ns);
    }
}

impl PartRow {
    /// Counts a command with these parts.
    pub fn add(&mut self, parts: &[Part]) {
        self.count += 1;
        if parts.is_empty() {
            self.unmeasured += 1;
            return;
        }
        self.total.add(parts.iter().map(|part| part.ns).sum());
        for Part { name, ns, by_clock } in parts {
            let found = self.parts.iter().position(|known| known.name == *name);
            let at = found.unwrap_or_else(|| {
                let at = self.parts.partition_point(|known| place(&known.name) < place(name));
                let (name, by_clock) = (name.clone(), *by_clock);
                self.parts.insert(at, PartTimes { name, by_clock, ..PartTimes::default() });
                at
            });
            self.parts[at].add(*ns);
        }
    }
}
