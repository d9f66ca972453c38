// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbell writes as text and as JSON.

use std::io;
use std::io::Write;

use serde::Serialize;

use crate::target::kvm::KvmTrace;
use crate::units::nanos;
use crate::view::json::{Dist, dist, typed_line};

/// Writes a line per doorbell.
///
/// # Errors
/// Errors of the writer.
pub fn kvm_text(trace: &KvmTrace, out: &mut dyn Write) -> io::Result<()> {
    if trace.events == 0 {
        writeln!(out, "no VM exit")?;
    } else if trace.doorbells.is_empty() {
        writeln!(out, "no write to a doorbell")?;
    } else {
        writeln!(
            out,
            "{:>5} {:<8}{:>9}{:>9}{:>8}{:>8}{:>8}{:>8}",
            "QID", "DOORBELL", "WRITES", "IN_USER", "mean", "p50", "p99", "max"
        )?;
    }
    for ((qid, of_cq), writes) in &trace.doorbells {
        let times = &writes.times;
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), nanos);
        let percentile = |p| time(times.percentile(p).map(|ns| ns as f64));
        writeln!(
            out,
            "{qid:>5} {:<8}{:>9}{:>9}{:>8}{:>8}{:>8}{:>8}",
            if *of_cq { "CQ head" } else { "SQ tail" },
            times.count(),
            writes.in_user,
            time(times.mean()),
            percentile(50.0),
            percentile(99.0),
            time(times.max().map(|ns| ns as f64))
        )?;
    }
    if trace.incomplete + trace.malformed > 0 {
        writeln!(
            out,
            "writes without their exit or entry: {}; lines that can't be read: {}",
            trace.incomplete, trace.malformed
        )?;
    }
    if trace.lost > 0 {
        writeln!(out, "events lost: {} or more; their writes are not counted", trace.lost)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct DoorbellLine {
    qid: u16,
    doorbell: &'static str,
    in_user: u64,
    #[serde(flatten)]
    times: Dist,
}

#[derive(Serialize)]
struct EndLine {
    incomplete: u64,
    malformed: u64,
    other: u64,
    events: u64,
    lost: u64,
}

/// Writes an object per doorbell, and one with what was not counted.
///
/// # Errors
/// Errors of the writer.
pub fn kvm_json(trace: &KvmTrace, out: &mut dyn Write) -> io::Result<()> {
    for ((qid, of_cq), writes) in &trace.doorbells {
        let line = DoorbellLine {
            qid: *qid,
            doorbell: if *of_cq { "cq_head" } else { "sq_tail" },
            in_user: writes.in_user,
            times: dist(&writes.times, false),
        };
        typed_line("kvm_doorbell", &line, out)?;
    }
    let end = EndLine {
        incomplete: trace.incomplete,
        malformed: trace.malformed,
        other: trace.other,
        events: trace.events,
        lost: trace.lost,
    };
    typed_line("kvm_end", &end, out)
}
