// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of `pattern`: as text, as JSON, as a picture.

use std::time::Duration;

use crate::model::group::comm_of;
use crate::model::ledger::Ledger;
use crate::model::report::disk_names::namespace_name;
use crate::model::report::submissions::TaskKind;
use crate::model::untrusted::Escaped;
use crate::pattern::report::{Counts, Log2, PatternRow};
pub use crate::pattern::svg::{draw, size};
use crate::units::{nanos, size_text};

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
    /// Commands whose set-up was not observed, in no row, since the start.
    pub unknown: u64,
    /// Commands without an end that later depths lack, since the start.
    pub forgotten: u64,
    /// The tasks of the rows.
    pub task_kind: TaskKind,
    /// The ledger.
    pub ledger: Ledger,
}

/// The histograms of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Size,
    Seek,
    Depth,
    Gap,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Size, Self::Seek, Self::Depth, Self::Gap];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Seek => "distance",
            Self::Depth => "depth",
            Self::Gap => "interval",
        }
    }

    pub(crate) const fn of(self, counts: &Counts) -> &Log2 {
        match self {
            Self::Size => &counts.size,
            Self::Seek => &counts.seek,
            Self::Depth => &counts.depth,
            Self::Gap => &counts.gap,
        }
    }

    /// A bucket's first value: `4KiB`, `0`, `16`, `64us`.
    pub(crate) fn label(self, first: u64, lba_bytes: Option<u32>) -> String {
        match (self, lba_bytes) {
            (Self::Size | Self::Seek, _) if first == 0 => "0".into(),
            (Self::Size | Self::Seek, Some(bytes)) => {
                let bytes = first.saturating_mul(bytes.into());
                bytes_label(bytes)
            }
            (Self::Size | Self::Seek, None) => format!("{first} LB"),
            (Self::Depth, _) => first.to_string(),
            (Self::Gap, _) => nanos(first as f64),
        }
    }
}

/// A power of two as a size: `512`, `4KiB`.
pub(crate) fn bytes_label(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        _ => size_text(bytes).replace(".0 ", "").replace(' ', ""),
    }
}

/// The disk of a row, or its controller and namespace.
pub(crate) fn disk(row: &PatternRow) -> String {
    namespace_name(Some(&row.disk.name), row.key.ctrl, row.key.nsid)
}

/// The name of the process's last thread.
pub(crate) fn comm(row: &PatternRow) -> &[u8] {
    comm_of(&row.comm)
}

/// `fio (412)`, or what the row stands for.
pub(crate) fn process(row: &PatternRow, task_kind: TaskKind) -> String {
    let others = match task_kind {
        TaskKind::Caller => "other processes",
        TaskKind::Submitter => "other or unknown submitters",
    };
    row.key.pid.map_or_else(|| others.into(), |pid| format!("{} ({pid})", Escaped(comm(row))))
}

/// Percent of the commands.
pub(crate) fn percent(count: u64, all: u64) -> f64 {
    100.0 * count as f64 / (all as f64).max(1.0)
}

/// Commands per second, and megabytes (10^6) per second if the block size is known.
pub(crate) fn rates(row: &PatternRow, covers: Duration) -> (f64, Option<f64>) {
    let seconds = covers.as_secs_f64().max(1e-9);
    let megabytes = |bytes: u32| row.counts.blocks() as f64 * f64::from(bytes) / 1e6 / seconds;
    (row.counts.commands() as f64 / seconds, row.disk.lba_bytes.map(megabytes))
}

#[cfg(test)]
mod tests;
