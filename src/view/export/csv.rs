// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV: a line with the names of the columns, and a line per command. Quotes follow RFC 4180; lines
//! end with LF.
//!
//! Spreadsheets evaluate a text that begins with `=`, `+`, `-` or `@`, so an apostrophe is put before it. A
//! text that begins with an apostrophe gets one, too, so a reader can remove the first apostrophe of any
//! cell.

use std::fmt::Write as _;
use std::io;
use std::io::Write;
use std::time::Duration;

use csv::{ErrorKind, Terminator, Writer, WriterBuilder};

use super::columns::{COLUMNS, Cell};
use super::row::{Row, Run};
use super::{Entry, Sink};
use crate::model::event::StackId;
use crate::model::ledger::Ledger;
use crate::model::stack::Frame;
use crate::model::text::Text;
use crate::recording::RunInfo;

/// Writes commands as CSV.
pub struct Csv<W: Write> {
    out: Writer<W>,
    run: Run,
    /// The digits of a number.
    digits: String,
    begun: bool,
}

impl<W: Write> Csv<W> {
    /// A writer. The header is written with the first recording.
    #[must_use]
    pub fn new(out: W) -> Self {
        Self {
            out: WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(out),
            run: Run::default(),
            digits: String::new(),
            begun: false,
        }
    }
}

/// Whether an apostrophe is put before a text: a spreadsheet may take it for a formula, or it begins
/// with one itself.
fn is_marked(text: &str) -> bool {
    // the last four are the wide forms, which some programs accept
    text.starts_with('\'')
        || text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
}

/// A text that no spreadsheet takes for a formula.
fn harmless<'t>(text: &'t str, buffer: &'t mut String) -> &'t str {
    if !is_marked(text) {
        return text;
    }
    buffer.clear();
    buffer.push('\'');
    buffer.push_str(text);
    buffer
}

/// The error of the writer, as it came.
fn io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// The text of a value; that of a number is in `digits`.
fn text<'t>(cell: Cell<'t>, digits: &'t mut String) -> &'t str {
    digits.clear();
    match cell {
        Cell::Empty => {}
        Cell::Flag(true) => return "true",
        Cell::Flag(false) => return "false",
        Cell::Text(text) => return harmless(text, digits),
        // writing to a String does not fail
        Cell::Int(n) => {
            let _ = write!(digits, "{n}");
        }
        Cell::Unsigned(n) => {
            let _ = write!(digits, "{n}");
        }
    }
    digits
}

impl<W: Write> Sink for Csv<W> {
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()> {
        self.run = Run::new(name, info);
        if !self.begun {
            self.begun = true;
            self.out.write_record(COLUMNS.iter().map(|c| c.name)).map_err(io)?;
        }
        Ok(())
    }

    fn clock(&mut self, wall_ns: i64) -> io::Result<()> {
        self.run.wall_ns = Some(wall_ns);
        Ok(())
    }

    fn stack(&mut self, id: StackId, frames: &[Frame]) -> io::Result<()> {
        self.run.stacks.join(id, frames, ";");
        Ok(())
    }

    fn event(&mut self, entry: &Entry<'_>) -> io::Result<bool> {
        let Some(row) = Row::new(entry, &self.run) else {
            return Ok(false);
        };
        for column in COLUMNS {
            let field = text(column.get(&row), &mut self.digits);
            self.out.write_field(field).map_err(io)?;
        }
        self.out.write_record(None::<&[u8]>).map_err(io)?;
        Ok(true)
    }

    fn end(&mut self, _: Option<&Ledger>, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
