// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heat maps: how many commands had which latency, LBA, size or depth at which time. Pure.

use crate::machine::disk::disk_of_path;
use crate::model::event::{CommandId, Event};
use crate::model::finished::Finished;
use crate::model::untrusted::Untrusted;
use crate::nvme::decode::CommandSet;

pub use crate::heatmap::grid::{Grid, Scale};
pub use crate::heatmap::quantity::{Interval, Quantity};
use crate::model::report::disk_names::namespace_name;
use crate::model::report::submissions::{Depth, Submitted};

/// A cell with commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Number of its column, from the left.
    pub column: u64,
    /// Index of its row in [`HeatMap::rows`].
    pub row: u64,
    /// Number of commands.
    pub count: u64,
}

/// A picture in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatMap {
    /// Where the first column begins: nanoseconds since the start of the run.
    pub begin_ns: u64,
    /// Width of a column in nanoseconds.
    pub column_ns: u64,
    /// Number of columns.
    pub columns: u64,
    /// The range of each row, lowest first: lower end inclusive, upper end exclusive.
    pub rows: Vec<(u64, u64)>,
    /// The scale of the rows.
    pub scale: Scale,
    /// The cells with commands, by column and row.
    pub cells: Vec<Cell>,
}

impl HeatMap {
    /// Number of commands in the picture.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.cells.iter().map(|cell| cell.count).sum()
    }

    /// The largest count of a cell.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.cells.iter().map(|cell| cell.count).max().unwrap_or(0)
    }
}

/// Adds the commands of a run to a grid.
#[derive(Debug)]
pub struct Plot {
    quantity: Quantity,
    /// Start of the run, CLOCK_MONOTONIC nanoseconds.
    begin_ns: u64,
    grid: Grid,
    left_out: u64,
    /// For LBAs: the disks of the commands in the picture.
    disks: Disks,
}

/// Names of disks, each once.
#[derive(Debug, Default)]
struct Disks {
    names: Vec<String>,
    /// The namespace of the last command.
    last: Option<(u32, u32)>,
}

impl Disks {
    /// Notes the disk of a command. Paths of one disk have the same LBAs.
    fn note(&mut self, id: Option<&CommandId>, disk: &Untrusted) {
        let key = id.map(|id| (id.ctrl, id.nsid));
        let Some((ctrl, nsid)) = key.filter(|_| self.last != key) else {
            return;
        };
        self.last = key;
        let name = namespace_name(Some(&disk_of_path(disk)), ctrl, nsid);
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }
}

impl Plot {
    /// An empty plot of a run that began at this time (CLOCK_MONOTONIC nanoseconds).
    #[must_use]
    pub fn new(quantity: Quantity, begin_ns: u64) -> Self {
        let mut grid = Grid::new(quantity.scale());
        if quantity == Quantity::Depth {
            grid.include(0);
        }
        Self { quantity, begin_ns, grid, left_out: 0, disks: Disks::default() }
    }

    /// Sets the start of the run, before the first event.
    pub const fn begin(&mut self, begin_ns: u64) {
        self.begin_ns = begin_ns;
    }

    /// Makes a time part of the picture (CLOCK_MONOTONIC nanoseconds).
    pub fn cover(&mut self, at_ns: u64) {
        self.grid.cover(at_ns.saturating_sub(self.begin_ns));
    }

    fn put(&mut self, at_ns: u64, value: u64) {
        self.grid.add(at_ns.saturating_sub(self.begin_ns), value);
    }

    /// Adds a finished command of this disk; ignores other events. Not for [`Quantity::Depth`].
    pub fn event(&mut self, event: &Event, disk: &Untrusted, set: CommandSet) {
        let Some(command) = Finished::of(event) else {
            return;
        };
        match self.quantity.of(event, &command, set) {
            Some((at_ns, value)) => {
                self.put(at_ns, value);
                if self.quantity == Quantity::Lba {
                    self.disks.note(event.what.id(), disk);
                }
            }
            None => self.left_out += 1,
        }
    }

    /// Adds a submission. For [`Quantity::Depth`].
    pub fn submission(&mut self, submitted: &Submitted, depth: Depth) {
        self.put(submitted.at_ns, depth.of_all);
    }

    /// For [`Quantity::Lba`]: the disks of the commands in the picture. An LBA is one of a disk: with
    /// several, the picture means nothing.
    #[must_use]
    pub fn disks(&self) -> &[String] {
        &self.disks.names
    }

    /// Commands that are not in the picture, because their value is not known.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The picture.
    #[must_use]
    pub fn finish(self) -> HeatMap {
        self.grid.finish()
    }
}
