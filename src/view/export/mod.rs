// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports: the events of recordings in the formats of other programs. Each format is a [`Sink`]
//! that writes to a [`Write`](std::io::Write). Memory does not grow with the number of events.
//!
//! [`csv`], [`ndjson`] and [`parquet`] have a row per command, with the columns of [`columns`].
//! [`perfetto`] is a timeline, with these columns as details. [`hlog`] has histograms per interval.

pub mod columns;
pub mod csv;
pub mod hlog;
pub mod ndjson;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod perfetto;
mod rows;

use std::io;
use std::time::Duration;

use crate::model::event::{Event, StackId};
use crate::model::ledger::Ledger;
use crate::model::origin::Cgroups;
use crate::model::stack::Frame;
use crate::model::text::Text;
use crate::nvme::decode::CommandSet;
use crate::recording::RunInfo;

pub use self::rows::{RowFormat, Rows};
pub use crate::view::export::rows::Row;

/// An event, and the names that belong to it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The event.
    pub event: &'a Event,
    /// The name of the block device; empty if there is none, as for admin commands.
    pub disk: &'a str,
    /// The command set of the namespace.
    pub set: CommandSet,
    /// Paths of cgroups.
    pub cgroups: &'a Cgroups,
}

/// A destination of the events of one or more recordings, one after the other.
pub trait Sink {
    /// A recording begins. `name` distinguishes it from the others.
    ///
    /// # Errors
    /// Errors of the writer.
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()>;

    /// Sets the offset of the wall clock (wall clock minus CLOCK_MONOTONIC, nanoseconds) from here
    /// on.
    ///
    /// # Errors
    /// Errors of the writer.
    fn clock(&mut self, wall_ns: i64) -> io::Result<()>;

    /// Adds a stack, before the first event with it.
    ///
    /// # Errors
    /// Errors of the writer.
    fn stack(&mut self, id: StackId, frames: &[Frame]) -> io::Result<()>;

    /// Adds an event. Returns false if the format has no place for it.
    ///
    /// # Errors
    /// Errors of the writer.
    fn event(&mut self, entry: &Entry<'_>) -> io::Result<bool>;

    /// The recording ends, `at` after its start. `ledger` is its last one, if it has one.
    ///
    /// # Errors
    /// Errors of the writer.
    fn end(&mut self, ledger: Option<&Ledger>, at: Duration) -> io::Result<()>;

    /// Writes the rest. Nothing may be added after that.
    ///
    /// # Errors
    /// Errors of the writer.
    fn finish(&mut self) -> io::Result<()>;
}
