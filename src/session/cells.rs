// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histograms of the BPF side: rows, and their cells (bpf/include/rows.bpf.h).

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};

use super::Session;
use super::mapping::Values;
use crate::abi::{CELL_ROW, DecodeError, add_cell, add_zero_waits, words};
use crate::error::{Error, Result};
use crate::model::point::Point;
use crate::model::snapshot::{Cell, Snapshot};

impl Session {
    /// The rows in use: number and key.
    fn rows(&self) -> Result<BTreeMap<u32, u64>> {
        let map = &self.maps.rows;
        let mut all = BTreeMap::new();
        for key in map.keys() {
            let Some(row) = map.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let key = words(&key).first().copied();
            let row = row.try_into().ok().map(u32::from_ne_bytes);
            let row = row.ok_or(Error::Mismatch("a row number of the wrong size".into()))?;
            all.insert(row, key.ok_or(Error::Mismatch("a row key of the wrong size".into()))?);
        }
        Ok(all)
    }

    /// The cells that may have commands: number and row.
    fn used_cells(&self, values: &Values) -> Vec<(usize, u32)> {
        let cells = &self.layout.cells;
        let own_row = |at: usize| u32::try_from(values.word(at, CELL_ROW)).ok()?.checked_sub(1);
        match cells.sparse {
            Some(_) => (0..values.len()).filter_map(|at| Some((at, own_row(at)?))).collect(),
            None => (0..cells.count).map(|at| (at as usize, at % cells.rows)).collect(),
        }
    }

    /// Adds the histograms of all rows.
    pub(super) fn add_cells(&self, snapshot: &mut Snapshot) -> Result<()> {
        let rows = self.rows()?;
        let values = Values::of(&self.maps.cells)?;
        let mut value = Vec::new();
        for (at, row) in self.used_cells(&values) {
            let Some(key) = rows.get(&row) else {
                continue;
            };
            let (row_key, pattern) = self.unpack(*key);
            let cell = snapshot
                .cells
                .entry((row_key, pattern))
                .or_insert_with(|| Cell::empty(self.plan.stage_set));
            values.copy(at, &mut value);
            add_cell(cell, self.plan.stage_set, &value, self.is_shared(at, pattern))
                .map_err(|DecodeError| Error::Mismatch("a cell of the wrong size".into()))?;
        }
        for ((_, pattern), cell) in &mut snapshot.cells {
            if Point::Bio.seen_in(*pattern) {
                add_zero_waits(cell, *pattern);
            }
        }
        // a new row may still be empty
        snapshot.cells.retain(|_, cell| cell.commands() > 0);
        Ok(())
    }
}
