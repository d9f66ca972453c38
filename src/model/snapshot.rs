// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of the maps at one instant. A source reads them; [`crate::report`] turns them into
//! rows.

use std::collections::BTreeMap;

use crate::model::counters::Counters;
use crate::model::failures::Failures;
use crate::model::histogram::Histogram;
use crate::model::nvme_latency::SLOTS;
use crate::model::point::Pattern;
use crate::model::row::RowKey;
use crate::model::stage::StageSet;

/// The counts of one row and pattern, over all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Bytes transferred.
    pub bytes: u64,
    /// Commands without any observed interval. They are in no histogram.
    pub unmeasured: u64,
    /// nvme_latency's buckets of the total.
    pub lat: [u64; SLOTS],
    /// Histograms of the stages and of the total, in the order of the cell.
    pub hists: Vec<Histogram>,
}

impl Cell {
    /// A cell of this stage set without commands.
    pub fn empty(stage_set: StageSet) -> Self {
        Self {
            bytes: 0,
            unmeasured: 0,
            lat: [0; SLOTS],
            hists: vec![Histogram::new(); stage_set.histograms()],
        }
    }

    /// Number of commands.
    pub fn commands(&self) -> u64 {
        self.unmeasured + self.hists.last().map_or(0, Histogram::count)
    }

    /// The difference to `earlier`, a cell of the same row.
    pub fn minus(&self, earlier: &Self) -> Self {
        let mut lat = self.lat;
        lat.iter_mut()
            .zip(earlier.lat)
            .for_each(|(n, was)| *n = n.saturating_sub(was));
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            unmeasured: self.unmeasured.saturating_sub(earlier.unmeasured),
            lat,
            hists: self
                .hists
                .iter()
                .zip(&earlier.hists)
                .map(|(a, b)| a.minus(b))
                .collect(),
        }
    }
}

/// The contents of all maps, since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By row and pattern of points.
    pub cells: BTreeMap<(RowKey, Pattern), Cell>,
    /// Hits of hooks, and exceptions.
    pub counters: Counters,
    /// Recursion misses by hook number.
    pub misses: Vec<u64>,
    /// By controller instance; empty if the run does not count them.
    pub failures: BTreeMap<u32, Failures>,
}

impl Snapshot {
    /// Number of commands in all rows.
    pub fn commands(&self) -> u64 {
        self.cells.values().map(Cell::commands).sum()
    }

    /// Of these, commands that are in no histogram.
    pub fn unmeasured(&self) -> u64 {
        self.cells.values().map(|c| c.unmeasured).sum()
    }

    /// The difference to `earlier`. Counters and failures remain those of the whole run.
    pub fn minus(&self, earlier: &Self) -> Self {
        let cells = self
            .cells
            .iter()
            .map(|(key, cell)| {
                let cell = earlier
                    .cells
                    .get(key)
                    .map_or_else(|| cell.clone(), |e| cell.minus(e));
                (*key, cell)
            })
            .collect();
        Self {
            cells,
            counters: self.counters.clone(),
            misses: self.misses.clone(),
            failures: self.failures.clone(),
        }
    }
}
