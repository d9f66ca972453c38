// SPDX-License-Identifier: MIT OR Apache-2.0
//! Apache Parquet: a row per command, compressed by zstd. The footer has, as `nvme_deep.recordings`,
//! what JSON has of each recording and its ledger.

use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as SchemaType};
use serde_json::{Value, json, to_value};

use super::columns::{COLUMNS, Cell, Column, Group, Type};
use super::rows::{RowFormat, Rows};
use crate::model::ledger::{Accuracy, Ledger};
use crate::model::text::Text;
use crate::recording::RunInfo;
use crate::view::export::rows::Row;

/// Rows of a row group, which is kept in memory. Readers divide their work by row groups.
const GROUP_ROWS: usize = 1 << 16;

/// The values of a column in the row group.
enum Values {
    Bool(Vec<bool>),
    Int64(Vec<i64>),
    Text(Vec<ByteArray>),
}

struct Buffer {
    /// 1 for each row with a value, 0 for each without.
    levels: Vec<i16>,
    values: Values,
    /// Texts of the row group: most repeat, and are stored once.
    texts: HashMap<String, ByteArray>,
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            Type::Bool => Values::Bool(vec![]),
            Type::Int64 | Type::Uint64 | Type::Timestamp => Values::Int64(vec![]),
            Type::Text => Values::Text(vec![]),
        };
        Self { levels: vec![], values, texts: HashMap::new() }
    }

    fn push(&mut self, cell: Cell<'_>) {
        self.levels.push(i16::from(cell != Cell::Empty));
        match (&mut self.values, cell) {
            (Values::Bool(all), Cell::Flag(flag)) => all.push(flag),
            (Values::Int64(all), Cell::Int(n) | Cell::Time(n)) => all.push(n),
            (Values::Int64(all), Cell::Unsigned(n)) => all.push(n.cast_signed()),
            (Values::Text(all), Cell::Text(text)) => {
                if !self.texts.contains_key(text) {
                    self.texts.insert(text.to_owned(), text.into());
                }
                all.extend(self.texts.get(text).cloned());
            }
            (_, cell) => debug_assert_eq!(cell, Cell::Empty, "a column has values of its type"),
        }
    }

    fn write(&self, to: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(self.levels.as_slice());
        let written = match (&self.values, to) {
            (Values::Bool(all), ColumnWriter::BoolColumnWriter(to)) => {
                to.write_batch(all, levels, None)
            }
            (Values::Int64(all), ColumnWriter::Int64ColumnWriter(to)) => {
                to.write_batch(all, levels, None)
            }
            (Values::Text(all), ColumnWriter::ByteArrayColumnWriter(to)) => {
                to.write_batch(all, levels, None)
            }
            _ => Err(ParquetError::General("a column of another type".into())),
        };
        written.map(|_| ())
    }

    fn clear(&mut self) {
        self.levels.clear();
        self.texts.clear();
        match &mut self.values {
            Values::Bool(all) => all.clear(),
            Values::Int64(all) => all.clear(),
            Values::Text(all) => all.clear(),
        }
    }
}

/// Writes commands as Parquet.
pub struct Parquet<W: Write + Send> {
    out: SerializedFileWriter<W>,
    /// The recording that is read.
    run: Value,
    buffers: Vec<Buffer>,
    rows: usize,
    recordings: Vec<Value>,
}

/// The error of the writer, if it is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

fn schema() -> Result<SchemaType, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Type::Bool => (Physical::BOOLEAN, None),
            Type::Int64 => (Physical::INT64, None),
            Type::Uint64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Type::Timestamp => {
                (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS)))
            }
        };
        SchemaType::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<_, _>>()?;
    SchemaType::group_type_builder("command").with_fields(fields).build()
}

fn properties() -> WriterProperties {
    let compression = Compression::ZSTD(ZstdLevel::default());
    let mut builder = WriterProperties::builder()
        .set_compression(compression)
        .set_created_by(format!("nvme-deep {}", env!("CARGO_PKG_VERSION")))
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    // times grow from row to row, and durations have few digits: no two need be equal
    let times = |c: &&Column| {
        matches!(c.group, Group::Time | Group::Latency)
            && matches!(c.kind, Type::Int64 | Type::Timestamp)
    };
    for column in COLUMNS.iter().filter(times) {
        let path = ColumnPath::from(column.name);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

impl<W: Write + Send> Parquet<W> {
    /// A writer.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(out: W) -> io::Result<Rows<Self>> {
        let schema = schema().map_err(io_error)?;
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties()));
        Ok(Rows::new(Self {
            out: out.map_err(io_error)?,
            run: Value::Null,
            buffers: COLUMNS.iter().map(Buffer::new).collect(),
            rows: 0,
            recordings: vec![],
        }))
    }

    /// Writes the row group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for buffer in &mut self.buffers {
            let Some(mut column) = group.next_column()? else {
                return Err(ParquetError::General("a column is missing".into()));
            };
            buffer.write(column.untyped())?;
            column.close()?;
            buffer.clear();
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> RowFormat for Parquet<W> {
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()> {
        self.run = json!({"recording": name, "run": to_value(info)?});
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        for (column, buffer) in COLUMNS.iter().zip(&mut self.buffers) {
            buffer.push(column.get(row));
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS {
            self.flush().map_err(io_error)?;
        }
        Ok(())
    }

    fn end(&mut self, ledger: Option<&Ledger>, at: Duration) -> io::Result<()> {
        let mut run = take(&mut self.run);
        run["at_s"] = json!(at.as_secs_f64());
        run["exact"] = json!(ledger.is_some_and(|l| l.accuracy() == Accuracy::Exact));
        run["degraded"] = json!(ledger.map(Ledger::degraded));
        run["ledger"] = to_value(ledger)?;
        self.recordings.push(run);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush().map_err(io_error)?;
        let recordings = serde_json::to_string(&take(&mut self.recordings))?;
        let entry = KeyValue::new("nvme_deep.recordings".into(), recordings);
        self.out.append_key_value_metadata(entry);
        self.out.finish().map_err(io_error)?;
        self.out.flush()
    }
}
