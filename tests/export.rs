// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports of random events: the tables have every command, and agree. Readers of other projects check all
//! formats of real recordings (tests/exports).

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::testing::random::what;
use csv::{Reader, StringRecord};
use jiff::Timestamp;
use nvme_deep::model::origin::Cgroups;
use nvme_deep::model::timeline::Span;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::recording::RunInfo;
use nvme_deep::view::export::columns::{COLUMNS, Column, Type};
use nvme_deep::view::export::csv::Csv;
use nvme_deep::view::export::ndjson::Ndjson;
use nvme_deep::view::export::{Entry, Sink};
use nvme_deep::{Event, EventKind, StageSet};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

fn all_events() -> impl Strategy<Value = Vec<Event>> {
    let event = (1_u64 << 40..(1 << 40) + 5_000_000_000, what());
    let event = event.prop_map(|(at_ns, what)| Event { at_ns, what });
    vec(event, 0..60).prop_map(|mut all| {
        // two events per command are for `trace` only
        all.retain(|e| !matches!(e.what, EventKind::Submit(..) | EventKind::Complete(..)));
        all.sort_by_key(|e| e.at_ns);
        all
    })
}

fn run_of(stage_set: StageSet) -> RunInfo {
    RunInfo {
        program: "test".into(),
        host: Some("a \"host\", here".into()),
        begin_ns: 1 << 40,
        pairs: true,
        stage_set,
        ..RunInfo::default()
    }
}

/// Passes the events to a sink. Returns the number that it has a place for.
fn feed(sink: &mut dyn Sink, stage_set: StageSet, events: &[Event]) -> usize {
    sink.begin(&"file".into(), &run_of(stage_set)).unwrap();
    sink.clock(1_000_000_000).unwrap();
    let taken = events.iter().filter(|event| {
        let entry = Entry { event, disk: "", set: CommandSet::Nvm, cgroups: &Cgroups::new() };
        sink.event(&entry).unwrap()
    });
    let taken = taken.count();
    sink.end(None, Duration::from_secs(5)).unwrap();
    sink.finish().unwrap();
    taken
}

fn commands(events: &[Event]) -> Vec<&Event> {
    events.iter().filter(|e| Span::of(e).is_some()).collect()
}

fn csv_of(stage_set: StageSet, events: &[Event]) -> Vec<StringRecord> {
    let mut out = vec![];
    let taken = feed(&mut Csv::new(&mut out), stage_set, events);
    let mut reader = Reader::from_reader(out.as_slice());
    let header: Vec<String> = reader.headers().unwrap().iter().map(Into::into).collect();
    assert!(header.iter().eq(COLUMNS.iter().map(|c| c.name)));
    let rows: Vec<StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), taken);
    rows
}

/// A text without the apostrophe that CSV puts before a formula.
fn bare(text: &str) -> &str {
    text.strip_prefix('\'').unwrap_or(text)
}

fn column(name: &str) -> usize {
    COLUMNS.iter().position(|c| c.name == name).unwrap()
}

fn stage_sets() -> impl Strategy<Value = StageSet> {
    prop::sample::select(&[StageSet::Total, StageSet::Basic, StageSet::Fine][..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn csv_has_a_row_per_command_whatever_its_name(
        stage_set in stage_sets(), events in all_events(),
    ) {
        let rows = csv_of(stage_set, &events);
        let commands = commands(&events);
        prop_assert_eq!(rows.len(), commands.len());
        for (row, event) in rows.iter().zip(commands) {
            let at = |name| &row[column(name)];
            prop_assert_eq!(at("type"), event.what.name());
            prop_assert_eq!(at("host"), "a \"host\", here");
            prop_assert_eq!(at("time_ns"), event.at_ns.to_string());
            let wall_ns = i128::from(event.at_ns) + 1_000_000_000;
            prop_assert_eq!(at("time").parse::<Timestamp>().unwrap().as_nanosecond(), wall_ns);
            prop_assert_eq!(at("cid"), event.what.id().unwrap().cid.to_string());
            let total: u64 = at("total_ns").parse().unwrap_or(0);
            let parts = ["before_ns", "queue_ns", "submit_ns", "device_ns", "complete_ns", "end_ns",
                "merged_ns"];
            let parts: Vec<u64> = parts.iter().filter_map(|name| at(name).parse().ok()).collect();
            prop_assert!(parts.is_empty() || parts.iter().sum::<u64>() == total);
        }
    }

    #[test]
    fn ndjson_has_the_values_of_csv(stage_set in stage_sets(), events in all_events()) {
        let mut out = vec![];
        let taken = feed(&mut Ndjson::new(&mut out), stage_set, &events);
        let lines = String::from_utf8(out).unwrap();
        let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        prop_assert_eq!(&lines[0]["type"], "run");
        prop_assert_eq!(&lines[1]["type"], "clock");
        let rows = csv_of(stage_set, &events);
        prop_assert_eq!((lines.len() - 2, rows.len()), (taken, taken));
        for (line, row) in lines[2..].iter().zip(rows) {
            for (column, want) in COLUMNS.iter().zip(row.iter()) {
                let got = match &line[column.name] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let is_text = matches!(column.kind, Type::Text | Type::Timestamp);
                let value = &line[column.name];
                prop_assert!(value.is_null() || value.is_string() == is_text, "{}", column.name);
                prop_assert_eq!(got, bare(want), "{}", column.name);
            }
        }
    }
}

#[cfg(feature = "parquet")]
mod parquet_file {
    use super::*;
    use nvme_deep::view::export::parquet::Parquet;
    use parquet::basic::Compression;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field as Cell;

    fn text(column: &Column, field: &Cell) -> String {
        match field {
            Cell::Null => String::new(),
            Cell::Bool(flag) => flag.to_string(),
            // this reader makes a plain number of nanoseconds; tests/exports checks the type
            Cell::Long(ns) if column.kind == Type::Timestamp => {
                format!("{:.9}", Timestamp::from_nanosecond((*ns).into()).unwrap())
            }
            Cell::Long(n) => n.to_string(),
            Cell::ULong(n) => n.to_string(),
            Cell::Str(text) => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn read(bytes: Vec<u8>) -> Vec<Vec<String>> {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        for group in reader.metadata().row_groups() {
            let zstd = |c: Compression| matches!(c, Compression::ZSTD(_));
            assert!(group.columns().iter().all(|c| zstd(c.compression())));
        }
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        let texts =
            |fields: Vec<&Cell>| COLUMNS.iter().zip(fields).map(|(c, f)| text(c, f)).collect();
        rows.map(|row| texts(row.get_column_iter().map(|(_, field)| field).collect())).collect()
    }

    proptest! {
        // a debug build of the Parquet writer takes 0.3 s per case
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn parquet_has_the_values_of_csv(stage_set in stage_sets(), events in all_events()) {
            let mut out = vec![];
            let mut sink = Parquet::new(&mut out).unwrap();
            let taken = feed(&mut sink, stage_set, &events);
            drop(sink);
            let rows = read(out);
            prop_assert_eq!(rows.len(), taken);
            for (row, csv) in rows.iter().zip(csv_of(stage_set, &events)) {
                for (column, (got, want)) in COLUMNS.iter().zip(row.iter().zip(csv.iter())) {
                    prop_assert_eq!(got, bare(want), "{}", column.name);
                }
            }
        }
    }
}

/// Neighbours with the same type and meaning share a row.
#[test]
fn the_docs_list_every_column() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/export.md");
    let docs = fs::read_to_string(path).unwrap();
    let row = |columns: &[Column]| {
        let names: Vec<_> = columns.iter().map(|c| format!("`{}`", c.name)).collect();
        format!("| {} | {} | {} |", names.join(", "), columns[0].kind.name(), columns[0].meaning)
    };
    let rows = COLUMNS.chunk_by(|a, b| (a.kind, a.meaning) == (b.kind, b.meaning));
    let want: Vec<String> = rows.map(row).collect();
    let table = docs.lines().skip_while(|l| !l.starts_with("| `recording`"));
    let table: Vec<&str> = table.take_while(|l| l.starts_with('|')).collect();
    assert_eq!(table, want, "copy this:\n{}", want.join("\n"));
}
