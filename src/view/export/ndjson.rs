// SPDX-License-Identifier: MIT OR Apache-2.0
//! One JSON object per command, with the columns that have a value, between a `run` and an `end` for
//! each recording. Changes of the wall clock's offset are lines of type `clock`.

use std::io;
use std::io::Write;
use std::time::Duration;

use serde::ser::{SerializeMap, Serializer as _};
use serde_json::Serializer;

use super::columns::{COLUMNS, Cell};
use super::rows::{RowFormat, Rows};
use crate::model::ledger::Ledger;
use crate::model::text::Text;
use crate::recording::{ClockOffset, RunInfo};
use crate::view::export::rows::Row;
use crate::view::json;

#[derive(serde::Serialize)]
struct RunLine<'a> {
    recording: &'a Text,
    #[serde(flatten)]
    info: &'a RunInfo,
}

/// Writes commands as JSON.
pub struct Ndjson<W>(W);

impl<W: Write> Ndjson<W> {
    #[must_use]
    pub fn new(out: W) -> Rows<Self> {
        Rows::new(Self(out))
    }
}

impl<W: Write> RowFormat for Ndjson<W> {
    fn begin(&mut self, recording: &Text, info: &RunInfo) -> io::Result<()> {
        json::typed_line("run", &RunLine { recording, info }, &mut self.0)
    }

    fn clock(&mut self, wall_ns: i64) -> io::Result<()> {
        json::typed_line("clock", &ClockOffset { wall_ns }, &mut self.0)
    }

    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        let mut to = Serializer::new(&mut self.0);
        let mut object = to.serialize_map(None)?;
        let cells = COLUMNS.iter().map(|column| (column.name, column.get(row)));
        for (name, cell) in cells.filter(|(_, cell)| *cell != Cell::Empty) {
            object.serialize_entry(name, &cell)?;
        }
        SerializeMap::end(object)?;
        self.0.write_all(b"\n")
    }

    fn end(&mut self, ledger: Option<&Ledger>, at: Duration) -> io::Result<()> {
        ledger.map_or(Ok(()), |ledger| json::end(ledger, at, &mut self.0))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
