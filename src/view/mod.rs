// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as text and as JSON: functions of data and a writer.

pub mod export;
mod groups;
pub mod header;
pub mod json;
pub mod ledger;
pub(crate) mod page;
pub mod picture;
pub mod text;
pub mod theme;
pub mod trace;

use std::io;
use std::io::Write;

use crate::model::report::latency::Report;

/// Writes the reports of `latency`.
pub trait ReportSink {
    /// Writes one report.
    ///
    /// # Errors
    /// Errors of the writer.
    fn report(&self, report: &Report, out: &mut dyn Write) -> io::Result<()>;
}
