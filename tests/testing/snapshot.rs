// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells of snapshots.

use nvme_deep::model::ids::RowKey;
use nvme_deep::model::point::Pattern;
use nvme_deep::model::snapshot::Cell;
use nvme_deep::model::stage::StageSet;

use super::READ;

/// Reads of nvme0, namespace 1.
pub const READS: RowKey = RowKey { ctrl: 0, nsid: 1, opcode: READ, class: 0 };

/// A cell of commands with these nanoseconds in the runs of the pattern.
pub fn cell(stage_set: StageSet, pattern: Pattern, commands: &[&[u64]]) -> Cell {
    let mut cell = Cell { bytes: 4096 * commands.len() as u64, ..Cell::empty(stage_set) };
    for stages in commands {
        if stage_set != StageSet::Total {
            for (run, &ns) in stage_set.runs(pattern).iter().zip(*stages) {
                cell.hists[run.first].record(ns);
            }
        }
        cell.hists[stage_set.total_index()].record(stages.iter().sum());
    }
    cell
}
