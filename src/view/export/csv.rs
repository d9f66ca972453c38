// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV: a line with the names of the columns, and a line per command. Quotes follow RFC 4180; lines
//! end with LF.
//!
//! Spreadsheets evaluate a text that begins with `=`, `+`, `-` or `@`, so an apostrophe is put before it. A
//! text that begins with an apostrophe gets one, too, so a reader can remove the first apostrophe of any
//! cell.

use std::borrow::Cow;
use std::io;
use std::io::Write;

use csv::{ErrorKind, Terminator, Writer, WriterBuilder};

use super::columns::{COLUMNS, Cell, rfc3339};
use super::rows::{RowFormat, Rows};
use crate::model::text::Text;
use crate::recording::RunInfo;
use crate::view::export::rows::Row;

/// Writes commands as CSV.
pub struct Csv<W: Write> {
    out: Writer<W>,
    begun: bool,
}

impl<W: Write> Csv<W> {
    /// A writer. The header is written with the first recording.
    #[must_use]
    pub fn new(out: W) -> Rows<Self> {
        let out = WriterBuilder::new().terminator(Terminator::Any(b'\n')).from_writer(out);
        Rows::new(Self { out, begun: false })
    }
}

/// Whether an apostrophe is put before a text: a spreadsheet may take it for a formula, or it begins
/// with one itself.
fn is_marked(text: &str) -> bool {
    // the last four are the wide forms, which some programs accept
    text.starts_with('\'')
        || text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
}

/// The error of the writer, as it came.
fn io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn text(cell: Cell<'_>) -> Cow<'_, str> {
    match cell {
        Cell::Empty => "".into(),
        Cell::Flag(flag) => (if flag { "true" } else { "false" }).into(),
        Cell::Int(n) => n.to_string().into(),
        Cell::Unsigned(n) => n.to_string().into(),
        Cell::Text(text) if is_marked(text) => format!("'{text}").into(),
        Cell::Text(text) => text.into(),
        Cell::Time(ns) => rfc3339(ns).into(),
    }
}

impl<W: Write> RowFormat for Csv<W> {
    fn begin(&mut self, _: &Text, _: &RunInfo) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        self.out.write_record(COLUMNS.iter().map(|c| c.name)).map_err(io)
    }

    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        for column in COLUMNS {
            self.out.write_field(text(column.get(row)).as_bytes()).map_err(io)?;
        }
        self.out.write_record(None::<&[u8]>).map_err(io)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
