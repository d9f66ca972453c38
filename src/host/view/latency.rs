// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of the host side as text and as JSON.

use std::io;
use std::io::Write;

use serde::Serialize;

use crate::model::histogram::Histogram;
use crate::model::text::{Text, word};
use crate::nvme::subject::{fctype, namespace, subject as with_namespace};
use crate::target::latency::{HostKey, HostRow, HostRows};
use crate::units::{counted, nanos};
use crate::view::json::{Dist, dist, typed_line};
use crate::view::theme::Theme;

/// Width of the column of names.
const NAME: usize = 26;

/// `nvmet:1 ns 1 read`
fn subject(key: &HostKey, name: &str) -> String {
    let (_, cdw1, opcode) = *key;
    opcode.map_or_else(|| format!("{name} requests"), |opcode| with_namespace(name, cdw1, opcode))
}

/// A name that fits the column: the first and the last part of a long one.
fn short(name: &str) -> String {
    match (name.split_once('+'), name.rsplit_once('+')) {
        (Some((first, _)), Some((_, last))) if name.len() >= NAME => format!("{first}..{last}"),
        _ => name.to_owned(),
    }
}

fn line(name: &str, h: &Histogram, total: u128, out: &mut dyn Write) -> io::Result<()> {
    let share = 100.0 * h.sum() as f64 / (total as f64).max(1.0);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), nanos);
    write!(out, "  {:<NAME$}{:>7}{share:>6.1}%", short(name), h.count())?;
    write!(out, "{:>8}", time(h.mean()))?;
    for p in [50.0, 99.0] {
        write!(out, "{:>8}", time(h.percentile(p).map(|ns| ns as f64)))?;
    }
    writeln!(out, "{:>8}", time(h.max().map(|ns| ns as f64)))
}

/// Writes a table per row. `name_of`: names of controllers.
///
/// # Errors
/// Errors of the writer.
pub fn latency_text(
    rows: &HostRows,
    name_of: &dyn Fn(u32) -> Text,
    theme: Theme,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.rows.is_empty() {
        writeln!(out, "no command has completed")?;
    }
    for (key, row) in &rows.rows {
        let HostRow { count, unmeasured, stages, total } = row;
        let head = subject(key, &word(&name_of(key.0)));
        let unmeasured = match unmeasured {
            0 => String::new(),
            n => format!("  unmeasured {n}"),
        };
        writeln!(out, "{}  {}{unmeasured}", theme.head(&head), counted(*count, "cmd"))?;
        let columns = format!(
            "  {:<NAME$}{:>7}{:>7}{:>8}{:>8}{:>8}{:>8}",
            "stage", "n", "share", "mean", "p50", "p99", "max"
        );
        writeln!(out, "{}", theme.dim(&columns))?;
        for (name, histogram) in stages {
            line(name, histogram, total.sum(), out)?;
        }
        line("total", total, total.sum(), out)?;
        writeln!(out)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct StageLine<'a> {
    name: &'a str,
    #[serde(flatten)]
    dist: Dist,
}

#[derive(Serialize)]
struct RowLine<'a> {
    ctrl: Text,
    nsid: Option<u32>,
    queue: Option<&'static str>,
    opcode: Option<String>,
    opcode_value: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fctype: Option<String>,
    count: u64,
    unmeasured: u64,
    stages: Vec<StageLine<'a>>,
    total: Dist,
}

/// Writes an object per row.
///
/// # Errors
/// Errors of the writer.
pub fn latency_json(
    rows: &HostRows,
    name_of: &dyn Fn(u32) -> Text,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (key, row) in &rows.rows {
        let (ctrl, cdw1, opcode) = *key;
        let ids = opcode.zip(cdw1);
        let stages = row.stages.iter().map(|(name, h)| StageLine { name, dist: dist(h, false) });
        let line = RowLine {
            ctrl: name_of(ctrl),
            nsid: ids.and_then(|(opcode, cdw1)| namespace(opcode, cdw1)),
            fctype: ids.and_then(|(opcode, cdw1)| fctype(opcode, cdw1)),
            queue: opcode.map(|o| o.queue.name()),
            opcode: opcode.map(|o| o.name_or_code()),
            opcode_value: opcode.map(|o| o.code),
            count: row.count,
            unmeasured: row.unmeasured,
            stages: stages.collect(),
            total: dist(&row.total, false),
        };
        typed_line("host_row", &line, out)?;
    }
    Ok(())
}
