// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns as text, at most 80 columns wide.

use std::io;
use std::io::Write;

use crate::model::report::submissions::forgotten;
use crate::pattern::report::{Log2, PatternRow};
use crate::pattern::view::{Kind, PatternReport, bytes_label, disk, percent, process, rates};
use crate::units::{counted, rate};
use crate::view::ledger::ledger;
use crate::view::theme::Theme;

/// Width of the lines.
const WIDTH: usize = 80;
/// Length of the longest bar.
const BAR: usize = 40;
/// Alignments that matter: a flash page, or the block of a drive that emulates smaller ones.
const PAGE_BYTES: u64 = 4096;

/// Writes a report. `hist`: all buckets, with bars; `detail`: the whole ledger.
///
/// # Errors
/// Errors of the writer.
pub fn text(
    report: &PatternReport,
    theme: Theme,
    (hist, detail): (bool, bool),
    out: &mut dyn Write,
) -> io::Result<()> {
    let kind = if report.is_final { "final, " } else { "" };
    let (covers, at) = (report.covers.as_secs_f64(), report.at.as_secs_f64());
    let title = if report.covers == report.at {
        format!("=== {kind}{at:.1} s ")
    } else {
        format!("=== {kind}{covers:.1} s up to {at:.1} s ")
    };
    let rule = "=".repeat((WIDTH - 2).saturating_sub(title.chars().count()));
    writeln!(out, "{}", theme.head(&format!("{title}{rule}")))?;
    if report.rows.is_empty() {
        writeln!(out, "no command with logical blocks")?;
    }
    for row in &report.rows {
        row_text(row, report, theme, hist, out)?;
        writeln!(out)?;
    }
    let left_out = [
        (report.without_blocks, "without logical blocks"),
        (report.unknown, "with an unknown set-up"),
    ];
    for (count, why) in left_out.into_iter().filter(|l| l.0 > 0) {
        let text = format!("in no row: {} {why}", counted(count, "command"));
        writeln!(out, "{}", theme.dim(&text))?;
    }
    if report.forgotten > 0 {
        let text = forgotten(report.forgotten);
        writeln!(out, "{}", theme.dim(&text))?;
    }
    ledger(&report.ledger, theme, detail, out)
}

fn row_text(
    row: &PatternRow,
    report: &PatternReport,
    theme: Theme,
    hist: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let counts = &row.counts;
    let (iops, megabytes) = rates(row, report.covers);
    let name = format!(
        "{} {}  {}",
        disk(row),
        row.key.opcode.name_or_code(),
        process(row, report.task_kind)
    );
    let megabytes = megabytes.map_or_else(String::new, |mb| format!("  {} MB/s", rate(mb)));
    let all = counts.commands();
    let numbers = format!("  {}  {} IOPS{megabytes}", counted(all, "cmd"), rate(iops));
    writeln!(out, "{}{numbers}", theme.head(&name))?;
    let share = |count| percent(count, all);
    let streams = match counts.streams {
        0 => String::new(),
        1 => "  1 stream".into(),
        n => format!("  {n} streams"),
    };
    writeln!(
        out,
        "  sequential {:5.1}%  random {:5.1}%{streams}{}",
        share(counts.sequential),
        share(counts.random),
        alignment(row),
    )?;
    for kind in Kind::ALL {
        let hist_of = kind.of(counts);
        if hist {
            bars(kind, hist_of, row.disk.lba_bytes, theme, out)?;
        } else {
            line(kind, hist_of, row.disk.lba_bytes, out)?;
        }
    }
    Ok(())
}

/// How many commands are aligned to 4 KiB.
fn alignment(row: &PatternRow) -> String {
    let counts = &row.counts;
    let all = counts.commands();
    let (blocks, size) = match row.disk.lba_bytes {
        Some(bytes) => {
            let blocks = (PAGE_BYTES / u64::from(bytes.max(1))).max(1);
            (blocks, bytes_label(blocks.saturating_mul(bytes.into())))
        }
        None => (8, "8 LB".into()),
    };
    let share = percent(counts.aligned_to(blocks), all);
    format!("  aligned to {size} {share:.1}%")
}

/// The buckets with most commands, in the order of their values, in one line.
fn line(kind: Kind, hist: &Log2, lba_bytes: Option<u32>, out: &mut dyn Write) -> io::Result<()> {
    let all = hist.count();
    if all == 0 {
        return Ok(());
    }
    let mut buckets: Vec<(u64, u64, u64)> = hist.iter().collect();
    let item = |(first, _, count): &(u64, u64, u64)| {
        let share = percent(*count, all);
        let share = if share < 0.95 { "<1".into() } else { format!("{share:.0}") };
        format!("  {} {share}%", kind.label(*first, lba_bytes))
    };
    let text = |buckets: &[(u64, u64, u64)], left_out: bool| {
        let items: String = buckets.iter().map(item).collect();
        let more = if left_out { "  ..." } else { "" };
        format!("  {:<10}{items}{more}", kind.title())
    };
    let mut left_out = false;
    while text(&buckets, left_out).chars().count() > WIDTH {
        let least = buckets.iter().map(|b| b.2).min();
        let Some(place) = buckets.iter().rposition(|b| Some(b.2) == least) else {
            break;
        };
        buckets.remove(place);
        left_out = true;
    }
    writeln!(out, "{}", text(&buckets, left_out))
}

/// All buckets, with bars.
fn bars(
    kind: Kind,
    hist: &Log2,
    lba_bytes: Option<u32>,
    theme: Theme,
    out: &mut dyn Write,
) -> io::Result<()> {
    let most = hist.iter().map(|b| b.2).max().unwrap_or(0);
    writeln!(out, "  {}", theme.dim(kind.title()))?;
    for (first, last, count) in hist.iter() {
        let label = kind.label(first, lba_bytes);
        let range = if first == last { label } else { format!("from {label}") };
        let filled = (count as f64 / most.max(1) as f64 * BAR as f64).ceil() as usize;
        let bar = theme.bar(&"#".repeat(filled));
        writeln!(out, "    {range:<16} {count:>10}  {bar}")?;
    }
    Ok(())
}
