// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of `pattern`: as text, as JSON, as a picture.

use crate::model::group::comm_text;
use crate::model::histogram::{Bucket, Histogram};
use crate::model::ledger::Ledger;
use crate::model::report::disk_names::namespace_name;
use crate::model::report::submissions::{TaskKind, forgotten};
use crate::pattern::report::{Counts, PatternRow};
use crate::units;
use crate::units::{counted, nanos, rate, size_text};
use crate::view::header::Header;
use crate::view::json::typed_line;
use crate::view::ledger::write_ledger;
use crate::view::picture::{Anchor, Area, Canvas, Paint, TextStyle};
use crate::view::table::{Cell, Table, WIDE};
use crate::view::theme::Theme;
use serde::Serialize;
use std::borrow::Cow;
use std::io;
use std::io::Write;
use std::ops::Not;
use std::time::Duration;

/// One report.
#[derive(Clone, Debug)]
pub struct PatternReport {
    /// Whether it is the last one.
    pub is_final: bool,
    /// Time since the start of the run.
    pub at: Duration,
    /// The time that the counts cover.
    pub covers: Duration,
    /// The rows.
    pub rows: Vec<PatternRow>,
    /// Commands without logical blocks, in no row, since the start.
    pub without_blocks: u64,
    /// Commands whose setup was not observed, in no row, since the start.
    pub unknown: u64,
    /// Commands without an end that later counts of commands in flight lack, since the start.
    pub forgotten: u64,
    /// The tasks of the rows.
    pub task_kind: TaskKind,
    /// The ledger.
    pub ledger: Ledger,
}

/// The histograms of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistogramKind {
    Size,
    Seek,
    InFlight,
    Gap,
}

impl HistogramKind {
    pub(crate) const ALL: [Self; 4] = [Self::Size, Self::Seek, Self::InFlight, Self::Gap];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Seek => "jump",
            Self::InFlight => "in flight",
            Self::Gap => "interval",
        }
    }

    pub(crate) const fn of(self, counts: &Counts) -> &Histogram {
        match self {
            Self::Size => &counts.size,
            Self::Seek => &counts.seek,
            Self::InFlight => &counts.in_flight,
            Self::Gap => &counts.gap,
        }
    }

    /// A bucket's first value: `4K`, `0`, `16`, `64us`.
    pub(crate) fn label(self, first: u64, lba_bytes: Option<u32>) -> String {
        match (self, lba_bytes) {
            (Self::Size | Self::Seek, _) if first == 0 => "0".into(),
            (Self::Size | Self::Seek, Some(bytes)) => {
                let bytes = first.saturating_mul(bytes.into());
                size_text(bytes)
            }
            (Self::Size | Self::Seek, None) => format!("{first} LB"),
            (Self::InFlight, _) => first.to_string(),
            (Self::Gap, _) => nanos(first as f64),
        }
    }
}

/// The disk of a row, or its controller and namespace.
pub(crate) fn disk(row: &PatternRow) -> String {
    namespace_name(Some(&row.disk.name), row.key.ctrl, row.key.nsid)
}

/// The name of the process's last thread.
pub(crate) fn comm(row: &PatternRow) -> Cow<'_, str> {
    comm_text(&row.comm)
}

/// `fio (412)`, or what the row stands for.
pub(crate) fn process(row: &PatternRow, task_kind: TaskKind) -> String {
    let others = match task_kind {
        TaskKind::Caller => "other processes",
        TaskKind::Submitter => "other or unknown submitters",
    };
    row.key.pid.map_or_else(|| others.into(), |pid| format!("{}[{pid}]", comm(row)))
}

/// Percent of the commands.
pub(crate) fn percent(count: u64, all: u64) -> f64 {
    100.0 * count as f64 / (all as f64).max(1.0)
}

/// Commands per second, and megabytes (10^6) per second if the block size is known.
pub(crate) fn rates(row: &PatternRow, covers: Duration) -> (f64, Option<f64>) {
    let seconds = covers.as_secs_f64().max(1e-9);
    let megabytes = |bytes: u32| row.counts.blocks as f64 * f64::from(bytes) / 1e6 / seconds;
    (row.counts.commands as f64 / seconds, row.disk.lba_bytes.map(megabytes))
}

/// Alignments that matter: a flash page, or the block of a drive that emulates smaller ones.
const PAGE_BYTES: u64 = 4096;

/// How a report is written as text.
#[derive(Clone, Copy, Debug)]
pub struct PatternText {
    /// Colours.
    pub theme: Theme,
    /// Columns of the output.
    pub width: usize,
    /// The largest buckets, and the whole ledger.
    pub detail: bool,
}

/// The order of the commands of a row in a word. The first one can follow none.
fn verdict(counts: &Counts) -> &'static str {
    match percent(counts.sequential, counts.commands.saturating_sub(1).max(1)) {
        90.0.. => "sequential",
        10.0.. => "mixed",
        _ => "random",
    }
}

/// The sizes of the commands of a row: `4K`, `4K-128K`. Rare ones are left out.
fn sizes(row: &PatternRow) -> String {
    let hist = &row.counts.size;
    let usual = hist.iter().filter(|b| percent(b.count, hist.count()) >= 5.0);
    let usual: Vec<u64> = usual.map(|b| b.first).collect();
    let label = |first: &u64| HistogramKind::Size.label(*first, row.disk.lba_bytes);
    match usual.as_slice() {
        [] => "-".into(),
        [one] => label(one),
        [first, .., last] => format!("{}-{}", label(first), label(last)),
    }
}

impl PatternText {
    /// Writes a report below its heading.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn report(&self, report: &PatternReport, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::default();
        report.rows.iter().for_each(|row| table.row(self.cells(row, report)));
        table.write(self.theme, self.width, out)?;
        if report.rows.is_empty() {
            writeln!(out, "no command with logical blocks")?;
        }
        for row in report.rows.iter().filter(|_| self.detail) {
            writeln!(out)?;
            self.row(row, report, out)?;
        }
        writeln!(out)?;
        let left_out = [
            (report.without_blocks, "without logical blocks"),
            (report.unknown, "with an unknown setup"),
        ];
        for (count, why) in left_out.into_iter().filter(|l| l.0 > 0) {
            let text = format!("in no row: {} {why}", counted(count, "command"));
            writeln!(out, "{}", self.theme.dim(&text))?;
        }
        if report.forgotten > 0 {
            writeln!(out, "{}", self.theme.dim(&forgotten(report.forgotten)))?;
        }
        write_ledger(&report.ledger, self.theme, self.detail, out)
    }

    fn cells(&self, row: &PatternRow, report: &PatternReport) -> Vec<Cell<'static>> {
        let (counts, (iops, megabytes)) = (&row.counts, rates(row, report.covers));
        let all = counts.commands as f64;
        let in_flight = counts.in_flight.mean().unwrap_or(0.0);
        let wide = self.width >= WIDE;
        let mut cells = vec![
            ("<DISK", disk(row)),
            ("<OP", row.key.opcode.name_or_code()),
            ("<PROCESS", process(row, report.task_kind)),
            ("CMDS", counts.commands.to_string()),
            ("IOPS", rate(iops)),
        ];
        cells.extend(wide.then(|| ("MB/s", megabytes.map_or_else(|| "-".into(), rate))));
        cells.push(("SEQ", units::percent(counts.sequential as f64 / all.max(1.0))));
        cells.extend(wide.then(|| ("STREAMS", counts.streams.to_string())));
        let most = counts.in_flight.max().unwrap_or(0);
        cells.push(("INFLIGHT", format!("{}/{most}", rate(in_flight))));
        cells.push(("<VERDICT", format!("{} {}", verdict(counts), sizes(row))));
        cells
    }

    /// Writes what the buckets of a row have.
    fn row(&self, row: &PatternRow, report: &PatternReport, out: &mut dyn Write) -> io::Result<()> {
        let (disk, op) = (disk(row), row.key.opcode.name_or_code());
        let name = format!("{disk} {op} {}", process(row, report.task_kind));
        let streams = counted(row.counts.streams, "stream");
        writeln!(out, "{}  {streams}, {}", self.theme.head(&name), alignment(row))?;
        for kind in HistogramKind::ALL {
            hist_line(kind, kind.of(&row.counts), row.disk.lba_bytes, self.width, out)?;
        }
        Ok(())
    }
}

/// How many commands are aligned to 4 KiB.
fn alignment(row: &PatternRow) -> String {
    let counts = &row.counts;
    let all = counts.commands;
    let (blocks, size) = match row.disk.lba_bytes {
        Some(bytes) => {
            let blocks = (PAGE_BYTES / u64::from(bytes.max(1))).max(1);
            (blocks, size_text(blocks.saturating_mul(bytes.into())))
        }
        None => (8, "8 LB".into()),
    };
    let share = counts.aligned_to(blocks) as f64 / (all as f64).max(1.0);
    format!("{} aligned to {size}", units::percent(share))
}

/// The buckets with most commands, in the order of their values, in one line.
fn hist_line(
    kind: HistogramKind,
    hist: &Histogram,
    lba_bytes: Option<u32>,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = hist.count();
    if all == 0 {
        return Ok(());
    }
    let mut buckets: Vec<Bucket> = hist.iter().collect();
    let item = |bucket: &Bucket| {
        let share = percent(bucket.count, all);
        let share = if share < 0.95 { "<1".into() } else { format!("{share:.0}") };
        format!("  {} {share}%", kind.label(bucket.first, lba_bytes))
    };
    let text = |buckets: &[Bucket], left_out: bool| {
        let items: String = buckets.iter().map(item).collect();
        let more = if left_out { "  ..." } else { "" };
        format!("  {:<10}{items}{more}", kind.title())
    };
    let mut left_out = false;
    while text(&buckets, left_out).chars().count() > width {
        let least = buckets.iter().map(|b| b.count).min();
        let Some(place) = buckets.iter().rposition(|b| Some(b.count) == least) else {
            break;
        };
        buckets.remove(place);
        left_out = true;
    }
    writeln!(out, "{}", text(&buckets, left_out))
}

#[derive(Serialize)]
struct ReportLine<'a> {
    r#final: bool,
    at_s: f64,
    covers_s: f64,
    rows: Vec<RowLine<'a>>,
    without_blocks: u64,
    unknown: u64,
    forgotten: u64,
    #[serde(skip_serializing_if = "Not::not")]
    submitters: bool,
    ledger: &'a Ledger,
}

#[derive(Serialize)]
struct RowLine<'a> {
    ctrl: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    disk: &'a str,
    nsid: u32,
    queue: String,
    opcode: String,
    opcode_value: u8,
    pid: Option<u32>,
    comm: Option<Cow<'a, str>>,
    lba_bytes: Option<u32>,
    count: u64,
    iops: f64,
    mb_per_s: Option<f64>,
    sequential: u64,
    random: u64,
    verdict: &'static str,
    streams: u64,
    sequential_blocks: u64,
    random_blocks: u64,
    size_blocks: Hist,
    alignment_blocks: Hist,
    distance_blocks: Hist,
    in_flight: Hist,
    interval_ns: Hist,
}

#[derive(Serialize)]
struct Hist {
    count: u64,
    mean: Option<f64>,
    buckets: Vec<Bucket>,
}

impl From<&Histogram> for Hist {
    fn from(hist: &Histogram) -> Self {
        Self { count: hist.count(), mean: hist.mean(), buckets: hist.iter().collect() }
    }
}

fn row_line<'a>(row: &'a PatternRow, report: &PatternReport) -> RowLine<'a> {
    let (iops, mb_per_s) = rates(row, report.covers);
    let key = &row.key;
    let Counts {
        sequential,
        streams,
        sequential_blocks,
        size,
        alignment,
        seek,
        in_flight,
        gap,
        ..
    } = &row.counts;
    RowLine {
        ctrl: format!("nvme{}", key.ctrl),
        disk: &row.disk.name,
        nsid: key.nsid,
        queue: key.opcode.queue.to_string(),
        opcode: key.opcode.name_or_code(),
        opcode_value: key.opcode.code,
        pid: key.pid,
        comm: key.pid.map(|_| comm(row)),
        lba_bytes: row.disk.lba_bytes,
        count: row.counts.commands,
        iops,
        mb_per_s,
        sequential: *sequential,
        random: row.counts.random(),
        verdict: verdict(&row.counts),
        streams: *streams,
        sequential_blocks: *sequential_blocks,
        random_blocks: row.counts.random_blocks(),
        size_blocks: size.into(),
        alignment_blocks: alignment.into(),
        distance_blocks: seek.into(),
        in_flight: in_flight.into(),
        interval_ns: gap.into(),
    }
}

/// Writes a report.
///
/// # Errors
/// Errors of the writer.
pub fn json(report: &PatternReport, out: &mut dyn Write) -> io::Result<()> {
    let report_line = ReportLine {
        r#final: report.is_final,
        at_s: report.at.as_secs_f64(),
        covers_s: report.covers.as_secs_f64(),
        rows: report.rows.iter().map(|row| row_line(row, report)).collect(),
        without_blocks: report.without_blocks,
        unknown: report.unknown,
        forgotten: report.forgotten,
        submitters: report.task_kind == TaskKind::Submitter,
        ledger: &report.ledger,
    };
    typed_line("pattern", &report_line, out)
}

/// Most rows that are drawn.
const ROWS: usize = 12;
const SVG_WIDTH: f64 = 1000.0;
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
    (SVG_WIDTH as u32, (HEAD + ROW * rows as f64) as u32 + 8)
}

fn area(x: f64, y: f64, width: f64, height: f64) -> Area {
    Area { x, y, width, height }
}

/// Draws a report below its header.
pub fn draw(report: &PatternReport, header: &Header, canvas: &mut dyn Canvas) {
    let (width, height) = size(report);
    let page = area(0.0, 0.0, width.into(), height.into());
    canvas.area(page, Paint::Page, None);
    let title = "Access patterns at submission";
    canvas.text((LEFT, 30.0), Anchor::Start, TextStyle::Title, title);
    let mut text = header.text(Theme { color: false }, usize::MAX).trim_end().to_owned();
    if report.rows.len() > ROWS {
        text += &format!("  {ROWS} of {} rows are drawn", report.rows.len());
    }
    canvas.text((LEFT, 50.0), Anchor::Start, TextStyle::Dim, &text);
    for (x, paint, name) in [(804.0, Paint::Bar, "sequential"), (904.0, Paint::OtherBar, "random")]
    {
        canvas.area(area(x, 21.0, 10.0, 10.0), paint, None);
        canvas.text((x + 16.0, 30.0), Anchor::Start, TextStyle::Label, name);
    }
    for (n, row) in report.rows.iter().take(ROWS).enumerate() {
        draw_row(row, report, HEAD + ROW * n as f64, canvas);
    }
}

fn draw_row(row: &PatternRow, report: &PatternReport, top: f64, canvas: &mut dyn Canvas) {
    let counts = &row.counts;
    let all = counts.commands;
    let iops = all as f64 / report.covers.as_secs_f64().max(1e-9);
    let rule = area(LEFT, top - 8.0, SVG_WIDTH - 2.0 * LEFT, 1.0);
    canvas.area(rule, Paint::Grid, None);
    let name = format!(
        "{} {}, {}",
        disk(row),
        row.key.opcode.name_or_code(),
        process(row, report.task_kind)
    );
    canvas.text((LEFT, top + 14.0), Anchor::Start, TextStyle::Label, &name);
    let numbers = format!("{}, {} IOPS, {}", counted(all, "command"), rate(iops), verdict(counts));
    let at = (SVG_WIDTH - LEFT, top + 14.0);
    canvas.text(at, Anchor::End, TextStyle::Dim, &numbers);
    shares(row, top + 26.0, canvas);
    let width = 176.0;
    for (n, kind) in HistogramKind::ALL.into_iter().enumerate() {
        let left = 226.0 + n as f64 * (width + 14.0);
        let plot = area(left, top + 26.0, width, PLOT);
        histogram(kind, kind.of(counts), row.disk.lba_bytes, plot, canvas);
    }
}

/// The shares of sequential and random commands, above each other.
fn shares(row: &PatternRow, top: f64, canvas: &mut dyn Canvas) {
    const WIDE: f64 = 176.0;
    let counts = &row.counts;
    let all = counts.commands;
    let sequential = percent(counts.sequential, all);
    let part = WIDE * sequential / 100.0;
    let bars = [
        (LEFT, part, Paint::Bar, counts.sequential, "sequential"),
        (LEFT + part, WIDE - part, Paint::OtherBar, counts.random(), "random"),
    ];
    for (x, width, paint, count, name) in bars {
        if width > 0.0 {
            let note = counted(count, &format!("{name} command"));
            canvas.area(area(x, top, width, 22.0), paint, Some(&note));
        }
    }
    let text = format!("{} sequential", units::percent(sequential / 100.0));
    canvas.text((LEFT, top + 40.0), Anchor::Start, TextStyle::Label, &text);
    let streams = counted(counts.streams, "stream");
    canvas.text((LEFT, top + 57.0), Anchor::Start, TextStyle::Dim, &streams);
}

fn histogram(
    kind: HistogramKind,
    hist: &Histogram,
    lba_bytes: Option<u32>,
    plot: Area,
    canvas: &mut dyn Canvas,
) {
    canvas.area(plot, Paint::Plot, None);
    let bottom = plot.y + plot.height;
    let title = match kind {
        HistogramKind::Seek => "jump from previous",
        HistogramKind::Gap => "time between submissions",
        HistogramKind::Size => "size",
        HistogramKind::InFlight => "commands in flight",
    };
    let at = (plot.x, bottom + 31.0);
    canvas.text(at, Anchor::Start, TextStyle::Dim, title);
    let buckets: Vec<Bucket> = hist.iter().collect();
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return;
    };
    let (first, last) = (first.first, last.first);
    // the number of a bucket: zero, or one more than its power of two
    let number = |first: u64| u64::BITS - first.leading_zeros();
    let (low, high) = (number(first), number(last));
    let wide = (plot.width / f64::from(high - low + 1)).min(28.0);
    let most = buckets.iter().map(|b| b.count).max().unwrap_or(1) as f64;
    for Bucket { first: from, last: to, count } in &buckets {
        // one command can be seen
        let height = (*count as f64 / most * (plot.height - 4.0)).max(1.5);
        let x = plot.x + f64::from(number(*from) - low) * wide;
        let bar = area(x + 1.0, bottom - height, wide - 2.0, height);
        let label = |value| kind.label(value, lba_bytes);
        let range = if from == to { label(*from) } else { format!("from {}", label(*from)) };
        let note = format!("{range}\n{}", counted(*count, "command"));
        canvas.area(bar, Paint::Dim, Some(&note));
    }
    let at = (plot.x, bottom + 15.0);
    let text = kind.label(first, lba_bytes);
    canvas.text(at, Anchor::Start, TextStyle::Label, &text);
    let end = plot.x + wide * f64::from(high - low + 1);
    if high > low {
        let at = (end.max(plot.x + 90.0), bottom + 15.0);
        let text = kind.label(last, lba_bytes);
        canvas.text(at, Anchor::End, TextStyle::Label, &text);
    }
}

#[cfg(test)]
mod tests;
