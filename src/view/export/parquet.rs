// SPDX-License-Identifier: MIT OR Apache-2.0
//! Apache Parquet: a row per command, compressed by zstd. The footer has, as `nvme_deep.recordings`,
//! what JSON has of each recording and its ledger.

use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as SchemaType};
use serde_json::{Value, json, to_value};

use super::columns::{COLUMNS, Cell, Column, Group, Type};
use super::row::{Row, Run};
use super::{Entry, Sink};
use crate::model::event::StackId;
use crate::model::ledger::{Accuracy, Ledger};
use crate::model::stack::Frame;
use crate::model::text::Text;
use crate::recording::RunInfo;

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
    /// Texts of the row group: most repeat.
    texts: HashMap<String, ByteArray>,
}

/// A text that is stored once.
fn intern(texts: &mut HashMap<String, ByteArray>, text: &str) -> ByteArray {
    let known = texts.get(text).cloned();
    known.unwrap_or_else(|| {
        let bytes = ByteArray::from(text);
        texts.insert(text.to_owned(), bytes.clone());
        bytes
    })
}

impl Buffer {
    fn new(column: &Column) -> Self {
        Self {
            levels: vec![],
            values: match column.kind {
                Type::Bool => Values::Bool(vec![]),
                Type::Int64 | Type::Uint64 => Values::Int64(vec![]),
                Type::Text => Values::Text(vec![]),
            },
            texts: HashMap::new(),
        }
    }

    fn push(&mut self, kind: Type, cell: Cell<'_>) {
        let known = match (&mut self.values, cell) {
            (Values::Bool(all), Cell::Flag(flag)) => {
                all.push(flag);
                true
            }
            (Values::Int64(all), Cell::Int(n)) => {
                all.push(n);
                true
            }
            (Values::Int64(all), Cell::Unsigned(n)) => {
                all.push(match kind {
                    Type::Uint64 => n.cast_signed(),
                    _ => i64::try_from(n).unwrap_or(i64::MAX),
                });
                true
            }
            (Values::Text(all), Cell::Text(text)) => {
                all.push(intern(&mut self.texts, text));
                true
            }
            _ => false,
        };
        self.levels.push(i16::from(known));
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
    run: Run,
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
    let times = |c: &&Column| c.group == Group::Time && c.kind == Type::Int64;
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
    pub fn new(out: W) -> io::Result<Self> {
        let schema = schema().map_err(io_error)?;
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties()));
        Ok(Self {
            out: out.map_err(io_error)?,
            run: Run::default(),
            buffers: COLUMNS.iter().map(Buffer::new).collect(),
            rows: 0,
            recordings: vec![],
        })
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

impl<W: Write + Send> Sink for Parquet<W> {
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()> {
        self.run = Run::new(name, info);
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
        for (column, buffer) in COLUMNS.iter().zip(&mut self.buffers) {
            buffer.push(column.kind, column.get(&row));
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS {
            self.flush().map_err(io_error)?;
        }
        Ok(true)
    }

    fn end(&mut self, ledger: Option<&Ledger>, at: Duration) -> io::Result<()> {
        self.recordings.push(json!({
            "recording": self.run.name,
            "run": to_value(&self.run.info)?,
            "at_s": at.as_secs_f64(),
            "exact": ledger.is_some_and(|l| l.accuracy() == Accuracy::Exact),
            "degraded": ledger.map(Ledger::degraded),
            "ledger": to_value(ledger)?,
        }));
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
