// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns as a picture: for each row the share of sequential commands, and its histograms.

use crate::pattern::report::{Log2, PatternRow};
use crate::pattern::view::{Kind, PatternReport, disk, percent, process};
use crate::units::{counted, rate};
use crate::view::picture::{Anchor, Area, Canvas, Paint, TextStyle};

/// Most rows that are drawn.
const ROWS: usize = 12;
const WIDTH: f64 = 1000.0;
const HEAD: f64 = 84.0;
/// Height of a row.
const ROW: f64 = 138.0;
/// Height of a histogram.
const PLOT: f64 = 62.0;
const LEFT: f64 = 24.0;

/// Width and height of the picture of a report.
#[must_use]
pub fn size(report: &PatternReport) -> (u32, u32) {
    let rows = report.rows.len().clamp(1, ROWS);
    (WIDTH as u32, (HEAD + ROW * rows as f64) as u32 + 8)
}

fn area(x: f64, y: f64, width: f64, height: f64) -> Area {
    Area { x, y, width, height }
}

/// Draws a report.
pub fn draw(report: &PatternReport, canvas: &mut dyn Canvas) {
    let (width, height) = size(report);
    let page = area(0.0, 0.0, width.into(), height.into());
    canvas.area(page, Paint::Page, None);
    let title = "Access patterns at submission";
    canvas.text((LEFT, 30.0), Anchor::Start, TextStyle::Title, title);
    let all: u64 = report.rows.iter().map(|r| r.counts.commands()).sum();
    let mut text = format!("{} in {:.1} s", counted(all, "command"), report.covers.as_secs_f64());
    if report.rows.len() > ROWS {
        text += &format!("; {ROWS} of {} rows are drawn", report.rows.len());
    }
    canvas.text((LEFT, 50.0), Anchor::Start, TextStyle::Dim, &text);
    for (x, paint, name) in [(740.0, Paint::Bar, "sequential"), (852.0, Paint::OtherBar, "random")]
    {
        canvas.area(area(x, 41.0, 10.0, 10.0), paint, None);
        canvas.text((x + 16.0, 50.0), Anchor::Start, TextStyle::Label, name);
    }
    for (n, row) in report.rows.iter().take(ROWS).enumerate() {
        draw_row(row, report, HEAD + ROW * n as f64, canvas);
    }
}

fn draw_row(row: &PatternRow, report: &PatternReport, top: f64, canvas: &mut dyn Canvas) {
    let counts = &row.counts;
    let all = counts.commands();
    let iops = all as f64 / report.covers.as_secs_f64().max(1e-9);
    let rule = area(LEFT, top - 8.0, WIDTH - 2.0 * LEFT, 1.0);
    canvas.area(rule, Paint::Grid, None);
    let name = format!(
        "{} {}, {}",
        disk(row),
        row.key.opcode.name_or_code(),
        process(row, report.task_kind)
    );
    canvas.text((LEFT, top + 14.0), Anchor::Start, TextStyle::Label, &name);
    let numbers = format!("{}, {} a second", counted(all, "command"), rate(iops));
    let at = (WIDTH - LEFT, top + 14.0);
    canvas.text(at, Anchor::End, TextStyle::Dim, &numbers);
    shares(row, top + 26.0, canvas);
    let width = 176.0;
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let left = 226.0 + n as f64 * (width + 14.0);
        let plot = area(left, top + 26.0, width, PLOT);
        histogram(kind, kind.of(counts), row.disk.lba_bytes, plot, canvas);
    }
}

/// The shares of sequential and random commands, above each other.
fn shares(row: &PatternRow, top: f64, canvas: &mut dyn Canvas) {
    const WIDE: f64 = 176.0;
    let counts = &row.counts;
    let all = counts.commands();
    let sequential = percent(counts.sequential, all);
    let part = WIDE * sequential / 100.0;
    let bars = [
        (LEFT, part, Paint::Bar, counts.sequential, "sequential"),
        (LEFT + part, WIDE - part, Paint::OtherBar, counts.random, "random"),
    ];
    for (x, width, paint, count, name) in bars {
        if width > 0.0 {
            let note = counted(count, &format!("{name} command"));
            canvas.area(area(x, top, width, 22.0), paint, Some(&note));
        }
    }
    let text = format!("{sequential:.1}% sequential");
    canvas.text((LEFT, top + 40.0), Anchor::Start, TextStyle::Label, &text);
    let streams = match counts.streams {
        1 => "1 stream".into(),
        n => format!("{n} streams"),
    };
    canvas.text((LEFT, top + 57.0), Anchor::Start, TextStyle::Dim, &streams);
}

fn histogram(kind: Kind, hist: &Log2, lba_bytes: Option<u32>, plot: Area, canvas: &mut dyn Canvas) {
    canvas.area(plot, Paint::Plot, None);
    let bottom = plot.y + plot.height;
    let title = match kind {
        Kind::Seek => "distance from the end before",
        Kind::Gap => "time between submissions",
        Kind::Size => "size",
        Kind::Depth => "commands in flight",
    };
    let at = (plot.x, bottom + 31.0);
    canvas.text(at, Anchor::Start, TextStyle::Dim, title);
    let buckets: Vec<(u64, u64, u64)> = hist.iter().collect();
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return;
    };
    // the number of a bucket: zero, or one more than its power of two
    let number = |first: u64| u64::BITS - first.leading_zeros();
    let (low, high) = (number(first.0), number(last.0));
    let wide = (plot.width / f64::from(high - low + 1)).min(28.0);
    let most = buckets.iter().map(|b| b.2).max().unwrap_or(1) as f64;
    for (from, to, count) in &buckets {
        // one command can be seen
        let height = (*count as f64 / most * (plot.height - 4.0)).max(1.5);
        let x = plot.x + f64::from(number(*from) - low) * wide;
        let bar = area(x + 1.0, bottom - height, wide - 2.0, height);
        let label = |value| kind.label(value, lba_bytes);
        let range = if from == to { label(*from) } else { format!("from {}", label(*from)) };
        let note = format!("{range}\n{}", counted(*count, "command"));
        canvas.area(bar, Paint::Bar, Some(&note));
    }
    let at = (plot.x, bottom + 15.0);
    let text = kind.label(first.0, lba_bytes);
    canvas.text(at, Anchor::Start, TextStyle::Label, &text);
    let end = plot.x + wide * f64::from(high - low + 1);
    if high > low {
        let at = (end.max(plot.x + 90.0), bottom + 15.0);
        let text = kind.label(last.0, lba_bytes);
        canvas.text(at, Anchor::End, TextStyle::Label, &text);
    }
}
