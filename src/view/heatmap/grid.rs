// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts in the cells of a grid. The range of the values is not known in advance: the bins become
//! wider as it grows, so the memory has a limit.

use crate::machine::disk::disk_of_path;
use crate::model::event::{CommandId, Event, Finished, Submission};
use crate::model::histogram;
use crate::model::histogram::BUCKETS;
use crate::model::point::Point;
use crate::model::report::disk_names::namespace_name;
use crate::model::report::submissions::{Depth, Submitted};
use crate::model::stage::{StageRun, StageSet};
use crate::nvme::decode::{CommandSet, blocks};
use std::collections::HashMap;
use std::mem::take;

/// Most columns while values are added. Ten times those that are shown, so that the width of a column
/// can be 1, 2 or 5 times a power of ten.
const FINE_COLUMNS: u64 = 2500;
/// Most columns that are shown.
const COLUMNS: u64 = 250;
/// Most rows of equal height while values are added.
const FINE_ROWS: u64 = 256;
/// Most rows that are shown.
const ROWS: u64 = 96;
/// Largest time and value: beyond it, sums of widths would not fit. It is 146 years.
const MOST: u64 = 1 << 62;
/// Width of a column at first, in nanoseconds.
const COLUMN_NS: u64 = 10_000;
/// The row of zeros on a logarithmic scale: the decades between it and the others are left out.
const ZERO: u64 = u64::MAX;

/// Bins of equal width.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bins {
    width: u64,
    /// Factor by which the width grows.
    growth: u64,
    /// Most bins.
    most: u64,
    /// First and last bin in use.
    span: Option<(u64, u64)>,
}

impl Bins {
    const fn new(width: u64, growth: u64, most: u64) -> Self {
        Self { width, growth, most, span: None }
    }

    /// Includes a value. Returns the factor by which the bins had to become wider.
    fn include(&mut self, value: u64) -> u64 {
        let value = value.min(MOST);
        let mut factor = 1;
        loop {
            let bin = value / self.width;
            let (first, last) = self.span.map_or((bin, bin), |(a, b)| (a.min(bin), b.max(bin)));
            if last - first < self.most {
                self.span = Some((first, last));
                return factor;
            }
            self.width *= self.growth;
            factor *= self.growth;
            self.span = self.span.map(|(a, b)| (a / self.growth, b / self.growth));
        }
    }

    const fn bin(&self, value: u64) -> u64 {
        if value < MOST { value / self.width } else { MOST / self.width }
    }

    /// First and last bin, of bins that are this many times as wide.
    fn wider(&self, factor: u64) -> (u64, u64) {
        let (first, last) = self.span.unwrap_or_default();
        (first / factor, last / factor)
    }

    /// The first of these factors that leaves at most this many bins; otherwise the last.
    fn factor(&self, factors: &[u64], most: u64) -> u64 {
        let fits = |factor: &u64| {
            let (first, last) = self.wider(*factor);
            last - first < most
        };
        let found = factors.iter().copied().find(fits);
        found.or(factors.last().copied()).unwrap_or(1)
    }
}

/// How values become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The buckets of a latency histogram: eight in each power of two.
    Log,
    /// Rows of equal height.
    Linear,
}

/// Counts by time and value.
#[derive(Clone, Debug)]
pub struct Grid {
    scale: Scale,
    columns: Bins,
    rows: Bins,
    cells: HashMap<(u64, u64), u64>,
}

impl Grid {
    /// An empty grid.
    #[must_use]
    pub fn new(scale: Scale) -> Self {
        let most = match scale {
            Scale::Log => BUCKETS as u64,
            Scale::Linear => FINE_ROWS,
        };
        Self {
            scale,
            columns: Bins::new(COLUMN_NS, 10, FINE_COLUMNS),
            rows: Bins::new(1, 2, most),
            cells: HashMap::new(),
        }
    }

    /// Makes the time part of the picture, even if there is no value.
    pub fn cover(&mut self, at_ns: u64) {
        let columns = self.columns.include(at_ns);
        self.widen(columns, 1);
    }

    /// Makes the value part of the picture.
    pub fn include(&mut self, value: u64) {
        let rows = self.rows.include(value);
        self.widen(1, rows);
    }

    /// Counts a value. `at_ns` is the time since the start of the run, in nanoseconds.
    pub fn add(&mut self, at_ns: u64, value: u64) {
        self.cover(at_ns);
        let row = match self.scale {
            Scale::Log if value == 0 => ZERO,
            Scale::Log => self.row(histogram::index(value) as u64),
            Scale::Linear => self.row(value),
        };
        *self.cells.entry((self.columns.bin(at_ns), row)).or_default() += 1;
    }

    fn row(&mut self, value: u64) -> u64 {
        self.include(value);
        self.rows.bin(value)
    }

    /// Merges cells, after bins became wider.
    fn widen(&mut self, columns: u64, rows: u64) {
        if columns == 1 && rows == 1 {
            return;
        }
        for ((column, row), count) in take(&mut self.cells) {
            let cell = (column / columns, if row == ZERO { ZERO } else { row / rows });
            *self.cells.entry(cell).or_default() += count;
        }
    }

    /// The range of a row, lower end inclusive, upper end exclusive.
    fn range(&self, row: u64, factor: u64) -> (u64, u64) {
        let (first, last) = (row * factor, row * factor + factor - 1);
        match self.scale {
            Scale::Log => {
                let bounds = |n: u64| histogram::bounds(usize::try_from(n).unwrap_or(usize::MAX));
                (bounds(first).0, bounds(last).1)
            }
            Scale::Linear => {
                (first * self.rows.width, last.saturating_add(1).saturating_mul(self.rows.width))
            }
        }
    }

    /// First and last row that are shown: not only the one row of commands of equal size, and an empty one
    /// above the largest value.
    fn padded(&self, factor: u64) -> (u64, u64) {
        let (first, last) = self.rows.wider(factor);
        let (least, end) = match self.scale {
            Scale::Log => (24, (BUCKETS as u64 - 1) / factor),
            Scale::Linear => (8, u64::MAX),
        };
        let more = u64::saturating_sub(least, last - first + 1);
        (first.saturating_sub(more / 2), last.saturating_add(more.div_ceil(2).max(1)).min(end))
    }

    /// The picture: at most 250 columns and 96 rows.
    #[must_use]
    pub fn finish(mut self) -> HeatMap {
        // 2500 columns that begin within a wider one make 251 of ten
        let across = self.columns.factor(&[1, 2, 5, 10, 20], COLUMNS);
        let up = self.rows.factor(&[1, 2, 4, 8], ROWS - 2);
        self.widen(across, up);
        let (first_column, last_column) = self.columns.wider(across);
        let (mut first_row, last_row) = self.padded(up);
        let zeros = self.cells.keys().any(|(_, row)| *row == ZERO);
        if zeros && up == 1 {
            first_row = first_row.max(1);
        }
        let mut cells: Vec<Cell> = self
            .cells
            .iter()
            .map(|(&(column, row), &count)| Cell {
                column: column - first_column,
                row: if row == ZERO { 0 } else { row - first_row + u64::from(zeros) },
                count,
            })
            .collect();
        cells.sort_unstable_by_key(|cell| (cell.column, cell.row));
        let column_ns = self.columns.width * across;
        let above_zero = |(low, high): (u64, u64)| (low.max(u64::from(zeros)), high);
        let rows = (first_row..=last_row).map(|row| above_zero(self.range(row, up)));
        HeatMap {
            begin_ns: first_column * column_ns,
            column_ns,
            columns: last_column - first_column + 1,
            rows: zeros.then_some((0, 1)).into_iter().chain(rows).collect(),
            cells,
        }
    }
}

/// An interval of a command's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The stage set.
    pub stage_set: StageSet,
    /// Its stages; `None`: the total.
    pub run: Option<StageRun>,
}

/// Why a text is not the name of an interval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a stage: give total, driver, before, queue, submit, device, complete, end; a part \
     (throttle, block, freeze, zone, iocost, wbt, tag, queue.wait, queue.setup, submit.map, \
     submit.ring, device.run, device.irq); or neighbouring stages joined by +, as in submit+device"
)]
pub struct UnknownStage {
    name: String,
}

impl Interval {
    /// From the first to the last observed point.
    pub const TOTAL: Self = Self { stage_set: StageSet::Basic, run: None };
    /// From the end of the setup to the completion.
    pub const DRIVER: Self = Self { stage_set: StageSet::Total, run: None };

    /// By name: `total`, `driver`, a stage, or neighbouring stages joined by `+`.
    ///
    /// # Errors
    /// If there is no such stage.
    pub fn parse(name: &str) -> Result<Self, UnknownStage> {
        let named = |stage_set: StageSet| {
            let run = Some(stage_set.run_named(name)?);
            Some(Self { stage_set, run })
        };
        let found = match name {
            "total" => Some(Self::TOTAL),
            "driver" => Some(Self::DRIVER),
            _ => [StageSet::Basic, StageSet::Fine, StageSet::Full].into_iter().find_map(named),
        };
        found.ok_or_else(|| UnknownStage { name: name.into() })
    }

    /// The name, as in reports.
    #[must_use]
    pub fn name(&self) -> String {
        self.run.map_or_else(|| self.stage_set.whole().into(), StageRun::name)
    }

    /// The points at which it begins and ends; `None`: the first and the last observed one.
    #[must_use]
    pub fn points(&self) -> Option<(Point, Point)> {
        match self.run {
            Some(run) => Some((run.from, run.to)),
            None if self.stage_set == StageSet::Total => Some((Point::SetupOut, Point::Complete)),
            None => None,
        }
    }

    /// The least stage set that observes it.
    #[must_use]
    pub fn needs(&self) -> StageSet {
        let observes = |set: &StageSet| {
            let ends = self.run.map(|run| set.has_point(run.from) && set.has_point(run.to));
            *set >= self.stage_set && ends.unwrap_or(true)
        };
        let sets = [StageSet::Total, StageSet::Basic, StageSet::Fine];
        sets.into_iter().find(observes).unwrap_or(StageSet::Full)
    }

    /// Its duration in a finished command, in nanoseconds; `None` if it was not observed as such.
    #[must_use]
    pub fn of(&self, command: &Finished<'_>) -> Option<u64> {
        let intervals = command.intervals(self.stage_set);
        let Some(run) = self.run else {
            return intervals.total.map(|total| total.ns);
        };
        let inside = |stage: StageRun| run.first <= stage.first && stage.last <= run.last;
        let parts: Vec<_> = intervals.stages.iter().filter(|stage| inside(stage.run)).collect();
        let (first, last) = (parts.first()?.run, parts.last()?.run);
        let is_it = (first.first, last.last) == (run.first, run.last)
            // reports call the queue of a command without a start queue.setup
            && (first.from != Point::SetupIn || run.from == Point::SetupIn);
        is_it.then(|| parts.iter().map(|part| part.ns).sum())
    }
}

/// What the vertical axis of a heat map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The duration of an interval, at the completion.
    Latency(Interval),
    /// The first logical block, at the submission.
    Lba,
    /// Bytes of data, at the submission.
    Size,
    /// Commands in flight, at the submission of one more, which counts.
    InFlight,
}

/// The logical block that a command begins with.
#[must_use]
pub fn first_block(id: &CommandId, set: CommandSet, submission: &Submission) -> Option<u64> {
    blocks(id.opcode.queue, set, &submission.sqe).map(|blocks| blocks.slba)
}

impl Quantity {
    /// The scale of the axis.
    #[must_use]
    pub const fn scale(&self) -> Scale {
        match self {
            Self::Latency(_) | Self::Size => Scale::Log,
            Self::Lba | Self::InFlight => Scale::Linear,
        }
    }

    /// Time (CLOCK_MONOTONIC, nanoseconds) and value of a finished command. `None`: the value is not
    /// known, or the command has none. [`Quantity::InFlight`] needs more than one command, and is
    /// always `None`.
    #[must_use]
    pub fn of(&self, event: &Event, command: &Finished<'_>, set: CommandSet) -> Option<(u64, u64)> {
        let submitted = || Some(event.at_ns.saturating_sub(command.latency_ns?));
        let submission = command.submission;
        match self {
            Self::Latency(interval) => Some((event.at_ns, interval.of(command)?)),
            Self::Lba => Some((submitted()?, first_block(command.id, set, submission?)?)),
            Self::Size => {
                let bytes = submission?.bytes.filter(|bytes| *bytes > 0)?;
                Some((submitted()?, bytes.into()))
            }
            Self::InFlight => None,
        }
    }

    /// Why a command is not in the picture.
    #[must_use]
    pub fn missing(&self) -> String {
        match self {
            Self::Latency(interval) => match interval.run {
                None => "without a known latency".into(),
                Some(run) => format!("whose {} stage was not observed separately", run.name()),
            },
            Self::Lba => "without a start LBA, or with an unknown setup".into(),
            Self::Size => "without data, or with an unknown setup".into(),
            Self::InFlight => "with an unknown setup".into(),
        }
    }
}

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
    /// The cells with commands, by column and row.
    pub cells: Vec<Cell>,
}

impl HeatMap {
    /// Number of commands in the picture.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.cells.iter().map(|cell| cell.count).sum()
    }

    /// In each column with commands, the row of this percentile.
    pub fn percentile(&self, percent: u64) -> impl Iterator<Item = (u64, usize)> {
        self.cells.chunk_by(|a, b| a.column == b.column).map(move |cells| {
            let all: u64 = cells.iter().map(|cell| cell.count).sum();
            let (rank, mut seen) = ((all * percent).div_ceil(100), 0);
            let found = cells.iter().find(|cell| {
                seen += cell.count;
                seen >= rank
            });
            (cells[0].column, found.map_or(0, |cell| cell.row as usize))
        })
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
    /// What the vertical axis shows.
    pub quantity: Quantity,
    /// Start of the run, CLOCK_MONOTONIC nanoseconds.
    begin_ns: u64,
    grid: Grid,
    /// Commands that are not in the picture, because their value is not known.
    pub left_out: u64,
    /// The disks of the commands in the picture.
    pub disks: Disks,
}

/// Names of disks, each once.
#[derive(Debug, Default)]
pub struct Disks {
    names: Vec<String>,
    /// The namespace of the last command.
    last: Option<(u32, u32)>,
}

impl Disks {
    /// Notes the disk of a command. Paths of one disk have the same LBAs.
    pub fn note(&mut self, id: Option<&CommandId>, disk: &str) {
        let key = id.map(|id| (id.ctrl, id.nsid)).filter(|_| !disk.is_empty());
        let Some((ctrl, nsid)) = key.filter(|_| self.last != key) else {
            return;
        };
        self.last = key;
        let name = namespace_name(Some(&disk_of_path(disk)), ctrl, nsid);
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Plot {
    /// An empty plot of a run that began at this time (CLOCK_MONOTONIC nanoseconds).
    #[must_use]
    pub fn new(quantity: Quantity, begin_ns: u64) -> Self {
        let mut grid = Grid::new(quantity.scale());
        if quantity == Quantity::InFlight {
            grid.include(0);
        }
        Self { quantity, begin_ns, grid, left_out: 0, disks: Disks::default() }
    }

    /// Makes a time part of the picture (CLOCK_MONOTONIC nanoseconds).
    pub fn cover(&mut self, at_ns: u64) {
        self.grid.cover(at_ns.saturating_sub(self.begin_ns));
    }

    fn put(&mut self, at_ns: u64, value: u64) {
        self.grid.add(at_ns.saturating_sub(self.begin_ns), value);
    }

    /// Adds a finished command of this disk; ignores other events. Not for [`Quantity::InFlight`].
    pub fn event(&mut self, event: &Event, disk: &str, set: CommandSet) {
        let Some(command) = Finished::of(event) else {
            return;
        };
        match self.quantity.of(event, &command, set) {
            Some((at_ns, value)) => {
                self.put(at_ns, value);
                self.disks.note(event.what.id(), disk);
            }
            None => self.left_out += 1,
        }
    }

    /// Adds a submission. For [`Quantity::InFlight`].
    pub fn submission(&mut self, submitted: &Submitted, depth: Depth) {
        self.put(submitted.at_ns, depth.of_all);
    }

    /// The picture.
    #[must_use]
    pub fn finish(self) -> HeatMap {
        self.grid.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scale: Scale, values: &[(u64, u64)]) -> HeatMap {
        let mut grid = Grid::new(scale);
        values.iter().for_each(|(at, value)| grid.add(*at, *value));
        grid.finish()
    }

    #[test]
    fn columns_have_a_round_width() {
        for (seconds, column_ns) in [(1, 5_000_000), (30, 200_000_000), (7200, 50_000_000_000)] {
            let mut grid = Grid::new(Scale::Log);
            grid.cover(0);
            grid.add(seconds * 1_000_000_000 - 1, 100);
            let map = grid.finish();
            assert_eq!(map.column_ns, column_ns, "{seconds} s");
            assert!((100..=250).contains(&map.columns), "{seconds} s: {map:?}");
        }
        // columns that begin within a wider one fit
        let map = of(Scale::Log, &[(1_612_000_000_000, 0), (4_110_000_000_000, 0)]);
        assert!(map.columns <= COLUMNS, "{}", map.columns);
        assert_eq!(Grid::new(Scale::Log).finish().cells, []);
    }

    #[test]
    fn a_small_part_of_a_large_disk_fills_the_picture() {
        let far = 1 << 40;
        let map = of(Scale::Linear, &[(0, far), (1, far + 40), (2, far + 60)]);
        assert_eq!(map.rows.len(), 62, "an empty row above");
        assert_eq!(map.rows[0], (far, far + 1));
        assert_eq!(map.cells.len(), 3);
    }

    #[test]
    fn values_that_are_all_equal_have_room_around_them() {
        let map = of(Scale::Log, &[(0, 4096)]);
        assert_eq!((map.rows.len(), map.cells[0].row), (24, 11));
        let map = of(Scale::Linear, &[(0, 0), (0, 1)]);
        assert_eq!((map.rows.len(), map.rows[0].0), (5, 0));
    }

    #[test]
    fn zeros_have_a_row_of_their_own_below_the_other_values() {
        let map = of(Scale::Log, &[(0, 0), (0, 0), (0, 100_000)]);
        assert_eq!((map.rows[0], map.rows.len()), ((0, 1), 25));
        assert!(map.rows[1].0 > 10_000, "no decades between them: {:?}", map.rows[1]);
        let cells: Vec<_> = map.cells.iter().map(|c| (c.row, c.count)).collect();
        assert_eq!(cells, [(0, 2), (12, 1)]);
    }

    #[test]
    fn stages_have_the_names_of_reports() {
        use StageSet::{Basic, Fine, Full, Total};
        for (name, stage_set, needs, from, to) in [
            ("driver", Total, Total, "setup_out", "complete"),
            ("device", Basic, Basic, "doorbell", "cqe"),
            ("before", Basic, Full, "bio_submit", "start"),
            ("end", Basic, Fine, "complete", "end"),
            ("device.run", Fine, Fine, "doorbell", "irq"),
            ("throttle", Full, Full, "bio_submit", "bio_queue"),
            ("tag", Full, Full, "tag", "start"),
            ("wbt+tag+queue", Full, Full, "wbt", "setup_out"),
            ("submit+device+complete", Basic, Basic, "setup_out", "complete"),
        ] {
            let found = Interval::parse(name).unwrap();
            assert_eq!((found.stage_set, found.needs()), (stage_set, needs), "{name}");
            assert_eq!(found.points().map(|(a, b)| (a.name(), b.name())), Some((from, to)));
        }
        assert_eq!((Interval::TOTAL.needs(), Interval::TOTAL.points()), (Basic, None));
        for wrong in ["", "devic", "fine:device", "irq", "queue+device"] {
            assert!(Interval::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentiles_are_of_each_column() {
        let values: Vec<_> = (1..=100).map(|n| (0, 8 * n)).chain([(1 << 40, 9)]).collect();
        let map = of(Scale::Linear, &values);
        let value = |(column, row): (u64, usize)| (column, map.rows[row].0..map.rows[row].1);
        for (percent, of_first) in [(50, 400), (99, 792)] {
            let found: Vec<_> = map.percentile(percent).map(value).collect();
            assert_eq!((found.len(), found[0].0), (2, 0));
            assert!(found[0].1.contains(&of_first) && found[1].1.contains(&9), "{found:?}");
        }
    }
}
