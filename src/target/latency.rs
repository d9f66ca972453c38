// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of the host side: by controller, namespace, opcode and stage.

use std::collections::BTreeMap;

use crate::model::histogram::Histogram;
use crate::model::host::HostCommand;
use crate::nvme::opcode::Opcode;

/// Controller, CDW1 of the SQE, opcode. The last two are `None` for requests without ids.
pub type HostKey = (u32, Option<u32>, Option<Opcode>);

/// The commands of a row.
#[derive(Clone, Debug, Default)]
pub struct HostRow {
    /// Commands.
    pub count: u64,
    /// Of these, without two points in order.
    pub unmeasured: u64,
    /// Histograms by stage, in the order of a command's life.
    pub stages: Vec<(String, Histogram)>,
    /// From the first to the last observed point.
    pub total: Histogram,
}

/// All rows.
#[derive(Clone, Debug, Default)]
pub struct HostRows {
    /// The rows by key.
    pub rows: BTreeMap<HostKey, HostRow>,
}

/// Where a stage is in a command's life.
fn place(name: &str) -> (usize, usize) {
    let order = ["host_submit", "backend", "host_complete", "interrupt"];
    let first = name.split('+').next().unwrap_or_default();
    let place = order.iter().position(|known| *known == first);
    (place.unwrap_or(order.len()), name.len())
}

impl HostRows {
    /// Counts a finished command.
    pub fn add(&mut self, command: &HostCommand) {
        let key = (command.ctrl, command.nsid, command.opcode());
        let row = self.rows.entry(key).or_default();
        row.count += 1;
        let stages = command.times.stages().filter(|stages| !stages.is_empty());
        let Some(stages) = stages else {
            row.unmeasured += 1;
            return;
        };
        row.total.record(stages.iter().map(|s| s.ns).sum());
        for stage in stages {
            let found = row.stages.iter().position(|(name, _)| *name == stage.name);
            let at = found.unwrap_or_else(|| {
                let at = row.stages.partition_point(|(name, _)| place(name) < place(&stage.name));
                row.stages.insert(at, (stage.name.clone(), Histogram::new()));
                at
            });
            row.stages[at].1.record(stage.ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::host::{HostPoint, HostTimes};

    #[test]
    fn stages_are_in_the_order_of_a_commands_life() {
        let mut rows = HostRows::default();
        let times = HostTimes::default().with(HostPoint::Fetch, 10);
        let mut add = |times| {
            rows.add(&HostCommand { times, ..HostCommand::default() });
        };
        add(times.with(HostPoint::Post, 110));
        add(times.with(HostPoint::BackendSubmit, 30).with(HostPoint::Post, 60));
        add(times);
        let row = &rows.rows[&(0, None, None)];
        let names: Vec<_> = row.stages.iter().map(|(name, _)| name.as_str()).collect();
        let want = ["host_submit", "host_submit+backend+host_complete", "backend+host_complete"];
        assert_eq!(names, want);
        assert_eq!((row.count, row.unmeasured, row.total.sum()), (3, 1, 150));
    }
}
