// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats with a row per command. They differ in how they write a [`Row`].

use std::io;
use std::time::Duration;

use super::row::{Row, Run};
use super::{Entry, Sink};
use crate::model::event::StackId;
use crate::model::ledger::Ledger;
use crate::model::stack::Frame;
use crate::model::text::Text;
use crate::recording::RunInfo;

/// A format with rows.
pub trait RowFormat {
    /// A recording begins.
    ///
    /// # Errors
    /// Errors of the writer, like all below.
    fn begin(&mut self, _name: &Text, _info: &RunInfo) -> io::Result<()> {
        Ok(())
    }

    fn clock(&mut self, _wall_ns: i64) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> io::Result<()>;

    /// A recording ends.
    fn end(&mut self, _ledger: Option<&Ledger>, _at: Duration) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()>;
}

/// Writes commands in a format with rows.
pub struct Rows<F> {
    run: Run,
    format: F,
}

impl<F: RowFormat> Rows<F> {
    pub(super) fn new(format: F) -> Self {
        Self { run: Run::default(), format }
    }
}

impl<F: RowFormat> Sink for Rows<F> {
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()> {
        self.run = Run::new(name, info);
        self.format.begin(name, info)
    }

    fn clock(&mut self, wall_ns: i64) -> io::Result<()> {
        self.run.wall_ns = Some(wall_ns);
        self.format.clock(wall_ns)
    }

    fn stack(&mut self, id: StackId, frames: &[Frame]) -> io::Result<()> {
        self.run.stacks.join(id, frames, ";");
        Ok(())
    }

    fn event(&mut self, entry: &Entry<'_>) -> io::Result<bool> {
        let Some(row) = Row::new(entry, &self.run) else {
            return Ok(false);
        };
        self.format.row(&row)?;
        Ok(true)
    }

    fn end(&mut self, ledger: Option<&Ledger>, at: Duration) -> io::Result<()> {
        self.format.end(ledger, at)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.format.finish()
    }
}
