// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histograms of the BPF side: rows, and their cells (bpf/include/rows.bpf.h).

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};

use super::Session;
use super::mapping::Values;
use crate::abi::{DecodeError, add_cell, add_zero_waits, unused_words, words};
use crate::model::point::Point;
use crate::model::snapshot::{Cell, Snapshot};
use anyhow::{Context, Result, anyhow};

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
            let row = row.context("a row number of the wrong size")?;
            all.insert(row, key.context("a row key of the wrong size")?);
        }
        Ok(all)
    }

    /// Adds the histograms of all rows.
    pub(super) fn add_cells(&self, snapshot: &mut Snapshot) -> Result<()> {
        let rows = self.rows()?;
        let values = Values::of(&self.maps.cells)?;
        let mut value = Vec::new();
        let cells = &self.layout.cells;
        let places = (0..cells.groups).flat_map(|group| rows.iter().map(move |row| (group, row)));
        for (group, (row, key)) in places {
            let at = (group * cells.rows + row) as usize;
            let unused = unused_words(self.plan.stage_set);
            if unused.into_iter().all(|word| values.word(at, word) == 0) {
                continue;
            }
            let (row_key, pattern) = self.unpack(*key);
            let cell = snapshot
                .cells
                .entry((row_key, pattern))
                .or_insert_with(|| Cell::empty(self.plan.stage_set));
            values.copy(at, &mut value);
            add_cell(cell, self.plan.stage_set, &value, self.is_shared(group, pattern))
                .map_err(|DecodeError| anyhow!("a cell of the wrong size"))?;
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
