// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heat maps as pictures: time to the right, the value upwards, the number of commands as colour.

use crate::heatmap::grid::{HeatMap, Quantity};
use crate::units::nanos;
use crate::view::picture::{
    Anchor, Area, Axis, Canvas, LEVELS, Paint, TextStyle, level, level_counts, time_unit,
};

/// Width and height of a picture.
pub const SIZE: (u32, u32) = (1000, 560);

const PLOT: Area = Area { x: 84.0, y: 84.0, width: 892.0, height: 420.0 };

/// The texts of a picture.
#[derive(Clone, Debug)]
pub struct Caption {
    /// Which commands: filters, the recording.
    pub subject: String,
    /// What the vertical axis shows.
    pub quantity: Quantity,
    /// Commands that are not in the picture.
    pub left_out: u64,
}

/// The title of a picture.
#[must_use]
pub fn title(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Latency(interval) => {
            let points = match interval.points() {
                Some((from, to)) => format!("{} to {}", from.name(), to.name()),
                None => "first to last observed point".into(),
            };
            format!("Latency, {}: {points}", interval.name())
        }
        Quantity::Lba => "First logical block (LBA) at submission".into(),
        Quantity::Size => "Bytes of a command at submission".into(),
        Quantity::Depth => "Commands in flight at submission".into(),
    }
}

/// A number with separators: `1,234,567`.
fn commands(n: u64) -> String {
    format!("{} command{}", grouped(n), if n == 1 { "" } else { "s" })
}

fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const fn axis(quantity: &Quantity) -> Axis {
    match quantity {
        Quantity::Latency(_) => Axis::Durations,
        Quantity::Size => Axis::Bytes,
        Quantity::Lba | Quantity::Depth => Axis::Numbers,
    }
}

/// The values of a row.
fn range(quantity: &Quantity, (low, high): (u64, u64)) -> String {
    match quantity {
        Quantity::Latency(_) if high == u64::MAX => format!("{} and more", nanos(low as f64)),
        Quantity::Latency(_) => format!("{} to {}", nanos(low as f64), nanos(high as f64)),
        Quantity::Size => format!("{} to {} bytes", grouped(low), grouped(high.saturating_sub(1))),
        Quantity::Lba if high - low == 1 => format!("LBA {low}"),
        Quantity::Lba => format!("LBA {low} to {}", high - 1),
        Quantity::Depth if high - low == 1 => format!("{low} in flight"),
        Quantity::Depth => format!("{low} to {} in flight", high - 1),
    }
}

/// A drawing in progress.
struct Drawing<'a> {
    map: &'a HeatMap,
    quantity: Quantity,
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
        quantity: caption.quantity,
        cell: (PLOT.width / map.columns.max(1) as f64, PLOT.height / map.rows.len().max(1) as f64),
        canvas,
    };
    drawing.head(caption);
    drawing.values();
    drawing.times();
    drawing.cells();
    drawing.legend();
}

impl Drawing<'_> {
    fn head(&mut self, caption: &Caption) {
        let title = title(&self.quantity);
        let at = (24.0, 30.0);
        self.canvas.text(at, Anchor::Start, TextStyle::Title, &title);
        let mut text = commands(self.map.commands());
        if !caption.subject.is_empty() {
            text += &format!(" {}", caption.subject);
        }
        let at = (24.0, 50.0);
        self.canvas.text(at, Anchor::Start, TextStyle::Dim, &text);
        if caption.left_out > 0 {
            let (count, why) = (commands(caption.left_out), self.quantity.missing());
            let text = format!("not in the picture: {count} {why}");
            let at = (24.0, 66.0);
            self.canvas.text(at, Anchor::Start, TextStyle::Dim, &text);
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
                let middle = high - low == 1 || self.quantity == Quantity::Size;
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
        for tick in axis(&self.quantity).ticks(low.0, high.1, 12) {
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

    /// Lines and labels of the time.
    fn times(&mut self) {
        let map = self.map;
        let end_ns = map.begin_ns + map.columns * map.column_ns;
        let (unit_ns, unit) = time_unit(end_ns - map.begin_ns);
        let (first, last) = (map.begin_ns.div_ceil(unit_ns), end_ns / unit_ns);
        let bottom = PLOT.y + PLOT.height;
        for tick in Axis::Numbers.ticks(first, last, 12) {
            let since = (tick.value * unit_ns - map.begin_ns) as f64;
            let x = PLOT.x + since / map.column_ns as f64 * self.cell.0;
            let line = Area { x: x - 0.5, width: 1.0, ..PLOT };
            self.canvas.area(line, Paint::Grid, None);
            let at = (x, bottom + 18.0);
            let label = tick.value.to_string();
            self.canvas.text(at, Anchor::Middle, TextStyle::Label, &label);
        }
        let text = format!(
            "time since the start of the run ({unit}); a column is {}",
            column_width(map.column_ns)
        );
        let at = (PLOT.x + PLOT.width, bottom + 40.0);
        self.canvas.text(at, Anchor::End, TextStyle::Dim, &text);
    }

    fn cells(&mut self) {
        let map = self.map;
        let most = map.most();
        let (width, height) = self.cell;
        let (unit_ns, unit) = time_unit(map.columns * map.column_ns);
        // as many digits as the width of a column needs
        let digits = (unit_ns / map.column_ns).checked_ilog10().map_or(0, |n| n + 1);
        let time = |column: u64| (map.begin_ns + column * map.column_ns) as f64 / unit_ns as f64;
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
                "{}\n{}\n{from:.*} to {to:.*} {unit}",
                commands(cell.count),
                range(&self.quantity, *row),
                digits as usize,
                digits as usize,
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
                () if first == last => grouped(first),
                () => format!("{} to {}", grouped(first), grouped(last)),
            };
            self.canvas.area(area, Paint::Level(n), Some(&note));
        }
        let title = "commands in a cell";
        let at = (right, 32.0);
        self.canvas.text(at, Anchor::End, TextStyle::Dim, title);
        let middle = (most as f64).sqrt().round() as u64;
        let mut marks = vec![(left, Anchor::Start, 1), (right, Anchor::End, most)];
        if most > 9 {
            marks.push((f64::midpoint(left, right), Anchor::Middle, middle));
        }
        for (x, anchor, count) in marks {
            let at = (x, 66.0);
            self.canvas.text(at, anchor, TextStyle::Label, &grouped(count));
        }
    }
}

/// The width of a column: one digit and a unit.
fn column_width(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (unit, name) = units.into_iter().find(|u| ns >= u.0).unwrap_or((1, "ns"));
    format!("{} {name}", grouped(ns / unit))
}
