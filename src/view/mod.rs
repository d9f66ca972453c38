// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as text and as JSON: functions of data and a writer.

pub mod charset;
pub mod diagnosis;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod flamegraph;
mod groups;
mod groups_json;
pub mod heatmap;
pub mod host;
pub mod inflight;
pub mod join;
pub mod json;
pub mod json_text;
pub mod ledger;
mod page;
pub mod pattern;
pub mod picture;
pub mod recording;
pub mod stacks;
pub mod text;
pub mod theme;
pub mod trace;

use std::io;
use std::io::Write;

use crate::report::latency::Report;

/// Writes the reports of `latency`.
pub trait ReportSink {
    /// Writes one report.
    ///
    /// # Errors
    /// Errors of the writer.
    fn report(&self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}
