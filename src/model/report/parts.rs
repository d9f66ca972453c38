// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times of commands in a target, or on both sides, by controller, namespace and opcode: the tables
//! of `host latency` and `join`.

use std::collections::BTreeMap;

use crate::model::histogram::Histogram;
use crate::model::target::Part;
use crate::nvme::opcode::Opcode;

/// Controller, CDW1 of the SQE, opcode.
pub type PartKey = (u32, u32, Opcode);

/// The commands of a row.
#[derive(Clone, Debug, Default)]
pub struct PartRow {
    /// Commands.
    pub count: u64,
    /// Of these, without two points in order.
    pub unmeasured: u64,
    /// The parts, in the order of a command's life: name, whether the clock's error applies, times.
    pub parts: Vec<(String, bool, Histogram)>,
    /// From the first to the last observed point.
    pub total: Histogram,
}

/// All rows.
pub type PartRows = BTreeMap<PartKey, PartRow>;

impl PartRow {
    /// Counts a command with these parts.
    pub fn add(&mut self, parts: &[Part]) {
        self.count += 1;
        if parts.is_empty() {
            self.unmeasured += 1;
            return;
        }
        self.total.record(parts.iter().map(|part| part.ns).sum());
        let mut next = 0;
        for Part { name, ns, by_clock } in parts {
            let known = self.parts.iter().position(|(known, ..)| known == name);
            // a new one follows the one that is before it in this command
            let at = known.unwrap_or_else(|| {
                self.parts.insert(next, (name.clone(), *by_clock, Histogram::new()));
                next
            });
            self.parts[at].2.record(*ns);
            next = at + 1;
        }
    }
}
