// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heat maps as pictures: time to the right, the value upwards, the number of commands as colour.

pub(crate) mod grid;

use crate::units::{counted, nanos, rate};
use crate::view::heatmap::grid::{HeatMap, Quantity};
use crate::view::picture::{
    Anchor, Area, Axis, Canvas, LEVELS, Paint, TextStyle, Tick, level, level_counts, short, times,
};
use crate::when::RunClock;

/// Width and height of a picture.
pub const SIZE: (u32, u32) = (1000, 560);

const PLOT: Area = Area { x: 84.0, y: 84.0, width: 892.0, height: 420.0 };

/// The texts of a picture.
#[derive(Clone, Debug)]
pub struct Caption {
    /// The disks.
    pub disks: String,
    /// The recording, the machine, the time.
    pub run: String,
    /// The options that select commands.
    pub filter: String,
    /// What the vertical axis shows.
    pub quantity: Quantity,
    /// Bytes of a block of the disk, if they are known.
    pub block: Option<u32>,
    /// How times of the run become times of day.
    pub clock: RunClock,
    /// Commands that are not in the picture.
    pub left_out: u64,
}

impl Caption {
    /// The title: `nvme0n1: total latency`.
    #[must_use]
    pub fn title(&self) -> String {
        let what = match &self.quantity {
            Quantity::Latency(interval) => match interval.run {
                None => format!("{} latency", interval.name()),
                Some(run) => format!("latency, stage {}", run.name()),
            },
            Quantity::Lba => "place on the disk at submission".into(),
            Quantity::Size => "size of a command at submission".into(),
            Quantity::InFlight => "commands in flight at submission".into(),
        };
        if self.disks.is_empty() { what } else { format!("{}: {what}", self.disks) }
    }

    const fn axis(&self) -> Axis {
        match (&self.quantity, self.block) {
            (Quantity::Latency(_), _) => Axis::Durations,
            (Quantity::Size, _) => Axis::Bytes,
            (Quantity::Lba, Some(bytes)) => Axis::Blocks(bytes as u64),
            _ => Axis::Numbers,
        }
    }
}

/// The values of a row.
fn range(quantity: &Quantity, (low, high): (u64, u64)) -> String {
    match quantity {
        Quantity::Latency(_) if high == u64::MAX => format!("{} and more", nanos(low as f64)),
        Quantity::Latency(_) => format!("{} to {}", nanos(low as f64), nanos(high as f64)),
        Quantity::Size => format!("{low} to {} bytes", high.saturating_sub(1)),
        Quantity::Lba if high - low == 1 => format!("LBA {low}"),
        Quantity::Lba => format!("LBA {low} to {}", high - 1),
        Quantity::InFlight if high - low == 1 => format!("{low} in flight"),
        Quantity::InFlight => format!("{low} to {} in flight", high - 1),
    }
}

/// A drawing in progress.
struct Drawing<'a> {
    map: &'a HeatMap,
    caption: &'a Caption,
    canvas: &'a mut dyn Canvas,
    /// Size of a cell.
    cell: (f64, f64),
}

/// Draws a heat map.
pub fn draw(map: &HeatMap, caption: &Caption, canvas: &mut dyn Canvas) {
    let (width, height) = (f64::from(SIZE.0), f64::from(SIZE.1));
    let page = Area { x: 0.0, y: 0.0, width, height };
    canvas.area(page, Paint::Page, None);
    canvas.area(PLOT, Paint::Plot, None);
    let mut drawing = Drawing {
        map,
        caption,
        cell: (PLOT.width / map.columns.max(1) as f64, PLOT.height / map.rows.len().max(1) as f64),
        canvas,
    };
    drawing.head();
    drawing.values();
    time_axis(map, caption.clock, PLOT, drawing.canvas);
    drawing.cells();
    if matches!(caption.quantity, Quantity::Latency(_)) {
        drawing.percentile(0, "p50", 50, Paint::OtherLine);
        drawing.percentile(1, "p99", 99, Paint::Line);
    }
    drawing.legend();
}

/// Lines and labels of the time.
fn time_axis(map: &HeatMap, clock: RunClock, plot: Area, canvas: &mut dyn Canvas) {
    let (end_ns, bottom) = (map.begin_ns + map.columns * map.column_ns, plot.y + plot.height);
    let column = plot.width / map.columns.max(1) as f64;
    for tick in times(clock, map.begin_ns, end_ns, 8) {
        let since = (tick.value - map.begin_ns) as f64;
        let x = plot.x + since / map.column_ns as f64 * column;
        let line = Area { x: x - 0.5, width: 1.0, ..plot };
        canvas.area(line, Paint::Grid, None);
        canvas.text((x, bottom + 18.0), Anchor::Middle, TextStyle::Label, &tick.label);
    }
    let zone = if clock.wall_ns.is_some() { "UTC" } else { "since the start of the run" };
    let text = format!("{zone}; a column is {}", short(map.column_ns));
    canvas.text((plot.x + plot.width, bottom + 40.0), Anchor::End, TextStyle::Dim, &text);
}

/// Width and height of a picture of rates.
pub const RATES_SIZE: (u32, u32) = (1000, 250);

/// Draws how many commands per second a map has, below or above the map itself: both have the same times.
pub fn draw_rates(map: &HeatMap, clock: RunClock, canvas: &mut dyn Canvas) {
    let plot = Area { y: 44.0, height: 150.0, ..PLOT };
    canvas.area(plot, Paint::Plot, None);
    let title = "commands completed per second";
    canvas.text((24.0, 30.0), Anchor::Start, TextStyle::Title, title);
    let per_second = |count: u64| count as f64 * 1e9 / map.column_ns as f64;
    let columns = map.cells.chunk_by(|a, b| a.column == b.column);
    let sums = columns.map(|cells| (cells[0].column, cells.iter().map(|c| c.count).sum::<u64>()));
    let sums: Vec<(u64, u64)> = sums.collect();
    let most = sums.iter().map(|(_, sum)| per_second(*sum)).fold(1.0, f64::max);
    let height = |rate: f64| rate / most * plot.height;
    for tick in Axis::Numbers.ticks(0, most as u64, 5) {
        let y = plot.y + plot.height - height(tick.value as f64);
        canvas.area(Area { y: y - 0.5, height: 1.0, ..plot }, Paint::Grid, None);
        let at = (plot.x - 8.0, y + 4.0);
        canvas.text(at, Anchor::End, TextStyle::Label, &tick.label);
    }
    time_axis(map, clock, plot, canvas);
    let width = plot.width / map.columns.max(1) as f64;
    for (column, sum) in sums {
        let (x, height) = (plot.x + column as f64 * width, height(per_second(sum)));
        let area = Area { x, y: plot.y + plot.height - height, width, height };
        canvas.area(area, Paint::Bar, Some(&format!("{} per second", rate(per_second(sum)))));
    }
}

impl Drawing<'_> {
    fn head(&mut self) {
        let Caption { run, filter, quantity, left_out, .. } = self.caption;
        let missing = || {
            format!("not in the picture: {} {}", counted(*left_out, "command"), quantity.missing())
        };
        let missing = if *left_out > 0 { missing() } else { String::new() };
        let choice = [filter.clone(), missing].into_iter().filter(|text| !text.is_empty());
        let choice = choice.collect::<Vec<_>>().join("; ");
        let title = self.caption.title();
        let texts = [
            (30.0, TextStyle::Title, &title),
            (50.0, TextStyle::Dim, run),
            (66.0, TextStyle::Dim, &choice),
        ];
        for (y, style, text) in texts {
            self.canvas.text((24.0, y), Anchor::Start, style, text);
        }
    }

    /// The height of a value in the plot; `None` if it is outside.
    fn height(&self, value: u64) -> Option<f64> {
        let rows = &self.map.rows;
        let row = rows.iter().position(|r| (r.0..r.1).contains(&value));
        let row = match row {
            Some(row) => {
                let (low, high) = rows[row];
                // most values of these rows are equal to the lower end
                let middle = high - low == 1 || self.caption.quantity == Quantity::Size;
                let part = (value - low) as f64 / (high - low) as f64;
                row as f64 + if middle { 0.5 } else { part }
            }
            None if rows.last().is_some_and(|r| r.1 == value && r.1 - r.0 > 1) => rows.len() as f64,
            None => return None,
        };
        Some(PLOT.y + PLOT.height - row * self.cell.1)
    }

    /// Lines and labels of the vertical axis.
    fn values(&mut self) {
        let Some((low, high)) = self.map.rows.first().zip(self.map.rows.last()) else {
            return;
        };
        let axis = self.caption.axis();
        let mut ticks = axis.ticks(low.0, high.1, 12);
        if axis == Axis::Durations && low.0 == 0 {
            ticks.push(Tick { value: 0, label: "0".into() });
        }
        for tick in ticks {
            let Some(y) = self.height(tick.value) else {
                continue;
            };
            let line = Area { y: y - 0.5, height: 1.0, ..PLOT };
            self.canvas.area(line, Paint::Grid, None);
            if !tick.label.is_empty() {
                let at = (PLOT.x - 8.0, y + 4.0);
                self.canvas.text(at, Anchor::End, TextStyle::Label, &tick.label);
            }
        }
    }

    /// A line through this percentile of each column, and its entry in the legend.
    fn percentile(&mut self, number: u32, name: &str, percent: u64, paint: Paint) {
        const WIDTH: f64 = 2.0;
        let (width, height) = self.cell;
        let mut last: Option<(u64, f64)> = None;
        for (column, row) in self.map.percentile(percent) {
            let x = PLOT.x + column as f64 * width;
            let y = PLOT.y + PLOT.height - (row as f64 + 0.5) * height - WIDTH / 2.0;
            self.canvas.area(Area { x, y, width, height: WIDTH }, paint, None);
            if let Some((_, from)) = last.filter(|(before, _)| before + 1 == column) {
                let (top, height) = (from.min(y), (from - y).abs() + WIDTH);
                self.canvas.area(Area { x, y: top, width: 1.5, height }, paint, None);
            }
            last = Some((column, y));
        }
        let (x, y) = (PLOT.x + 60.0 * f64::from(number), PLOT.y + PLOT.height + 40.0);
        self.canvas.area(Area { x, y: y - 5.0, width: 16.0, height: WIDTH }, paint, None);
        self.canvas.text((x + 20.0, y), Anchor::Start, TextStyle::Dim, name);
    }

    fn cells(&mut self) {
        let map = self.map;
        let most = map.most();
        let (width, height) = self.cell;
        // as many digits as the width of a column needs
        let digits = 9_u32.saturating_sub(map.column_ns.ilog10()) as usize;
        let time = |column: u64| (map.begin_ns + column * map.column_ns) as f64 / 1e9;
        for cell in &map.cells {
            let Some(row) = map.rows.get(cell.row as usize) else {
                continue;
            };
            let area = Area {
                x: PLOT.x + cell.column as f64 * width,
                y: PLOT.y + PLOT.height - (cell.row + 1) as f64 * height,
                width,
                height,
            };
            let (from, to) = (time(cell.column), time(cell.column + 1));
            let note = format!(
                "{}\n{}\n{from:.digits$} to {to:.digits$} s",
                counted(cell.count, "command"),
                range(&self.caption.quantity, *row),
            );
            let paint = Paint::Level(level(cell.count, most));
            self.canvas.area(area, paint, Some(&note));
        }
    }

    /// The colours and their counts.
    fn legend(&mut self) {
        const WIDTH: f64 = 14.0;
        let most = self.map.most().max(1);
        let left = PLOT.x + PLOT.width - WIDTH * f64::from(LEVELS);
        let right = left + WIDTH * f64::from(LEVELS);
        for n in 0..LEVELS {
            let (first, last) = level_counts(n, most);
            let area = Area { x: left + WIDTH * f64::from(n), y: 40.0, width: WIDTH, height: 10.0 };
            let note = match () {
                () if first > last => "no count".into(),
                () if first == last => first.to_string(),
                () => format!("{first} to {last}"),
            };
            self.canvas.area(area, Paint::Level(n), Some(&note));
        }
        let title = "commands in a cell (logarithmic)";
        let at = (right, 32.0);
        self.canvas.text(at, Anchor::End, TextStyle::Dim, title);
        let middle = (most as f64).sqrt().round() as u64;
        let mut marks = vec![(left, Anchor::Start, 1), (right, Anchor::End, most)];
        if most > 9 {
            marks.push((f64::midpoint(left, right), Anchor::Middle, middle));
        }
        for (x, anchor, count) in marks {
            let at = (x, 66.0);
            self.canvas.text(at, anchor, TextStyle::Label, &count.to_string());
        }
    }
}
