// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns as JSON: one object per report.

use std::io;
use std::io::Write;
use std::ops::Not;

use serde::Serialize;

use crate::model::ledger::Ledger;
use crate::model::report::submissions::TaskKind;
use crate::model::untrusted::Untrusted;
use crate::pattern::report::{Counts, Log2, PatternRow};
use crate::pattern::view::{PatternReport, comm, rates};
use crate::view::json::{SCHEMA_VERSION, line};

#[derive(Serialize)]
struct ReportLine<'a> {
    r#type: &'static str,
    schema_version: u32,
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
    #[serde(skip_serializing_if = "Untrusted::is_empty")]
    disk: &'a Untrusted,
    nsid: u32,
    queue: String,
    opcode: String,
    opcode_value: u8,
    pid: Option<u32>,
    comm: Option<Untrusted>,
    lba_bytes: Option<u32>,
    count: u64,
    iops: f64,
    mb_per_s: Option<f64>,
    sequential: u64,
    random: u64,
    streams: u64,
    sequential_blocks: u64,
    random_blocks: u64,
    size_blocks: Hist,
    alignment_blocks: Hist,
    distance_blocks: Hist,
    depth: Hist,
    interval_ns: Hist,
}

#[derive(Serialize)]
struct Hist {
    count: u64,
    mean: Option<f64>,
    buckets: Vec<Bucket>,
}

#[derive(Serialize)]
struct Bucket {
    first: u64,
    last: u64,
    count: u64,
}

impl From<&Log2> for Hist {
    fn from(hist: &Log2) -> Self {
        let bucket = |(first, last, count)| Bucket { first, last, count };
        Self { count: hist.count(), mean: hist.mean(), buckets: hist.iter().map(bucket).collect() }
    }
}

fn row_line<'a>(row: &'a PatternRow, report: &PatternReport) -> RowLine<'a> {
    let (iops, mb_per_s) = rates(row, report.covers);
    let key = &row.key;
    let Counts {
        sequential,
        random,
        streams,
        sequential_blocks,
        random_blocks,
        size,
        alignment,
        seek,
        depth,
        gap,
    } = &row.counts;
    RowLine {
        ctrl: format!("nvme{}", key.ctrl),
        disk: &row.disk.name,
        nsid: key.nsid,
        queue: key.opcode.queue.to_string(),
        opcode: key.opcode.name_or_code(),
        opcode_value: key.opcode.code,
        pid: key.pid,
        comm: key.pid.map(|_| Untrusted::lossy(comm(row))),
        lba_bytes: row.disk.lba_bytes,
        count: row.counts.commands(),
        iops,
        mb_per_s,
        sequential: *sequential,
        random: *random,
        streams: *streams,
        sequential_blocks: *sequential_blocks,
        random_blocks: *random_blocks,
        size_blocks: size.into(),
        alignment_blocks: alignment.into(),
        distance_blocks: seek.into(),
        depth: depth.into(),
        interval_ns: gap.into(),
    }
}

/// Writes a report.
///
/// # Errors
/// Errors of the writer.
pub fn json(report: &PatternReport, out: &mut dyn Write) -> io::Result<()> {
    let report_line = ReportLine {
        r#type: "pattern",
        schema_version: SCHEMA_VERSION,
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
    line(&report_line, out)
}
