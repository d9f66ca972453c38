// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events from a vector, written to a file; and the user instructions of a line.
#![allow(clippy::print_stderr, reason = "the counts are printed")]

use std::io::{Read as _, Seek};

use crate::model::event::Event;
use crate::model::stage::StageSet;
use clap::Parser;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::cli::{Args, Command};
use crate::run::args::common::SessionOptions;
use crate::run::drive::live::Feeder;
use crate::run::drive::{Consumer, Names};
use crate::run::fixture::{VecEvents, VecSource, ring_events};
use crate::testing::ring::{produce, read_record, ring_of};
use crate::testing::{EventBuilder, valgrind};

fn options(words: &str) -> TraceOptions {
    let words = ["nvme-deep", "trace"].into_iter().chain(words.split_whitespace());
    let Command::Trace(args) = Args::try_parse_from(words).unwrap().command else {
        panic!("not trace");
    };
    args.checked().unwrap()
}

fn requeue(cid: u16, at_ns: u64) -> Event {
    EventBuilder::read().cid(cid).at(at_ns).requeue()
}

#[test]
fn events_of_a_vector_are_written_in_order_and_counted() {
    let options = options("--json");
    let mut file = tempfile::tempfile().unwrap();
    let out = file.try_clone().unwrap();
    let writer = TraceWriter::new(&options, out, 0);
    let mut feeder = Feeder::new(writer, Names::recorded(), None);
    let mut source = VecSource::new(StageSet::Total);
    let mut events = VecEvents::default();
    events.coming = vec![Some(requeue(1, 10)), None, Some(requeue(2, u64::MAX - 1))];
    source.unfinished = vec![requeue(3, u64::MAX)];
    assert!(!feeder.drain(&mut events, &source).unwrap());
    feeder.consumer.flush();
    let shown = *feeder.consumer.shown().unwrap();
    // the second one is later than now: earlier ones may come
    assert_eq!((shown.events, shown.undecodable), (1, 1));
    feeder.drain_rest(&mut events, &source, 0).unwrap();
    assert_eq!(feeder.consumer.shown().unwrap().events, 3);
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let cids: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| event["cid"].as_u64().unwrap())
        .collect();
    assert_eq!(cids, [1, 2, 3]);
}

/// The most user instructions of a line of a command.
const COSTS: [(&str, u64); 2] = [("--pair --stages", 1800), ("--pair --stages --json", 2300)];
const TEST: &str = "commands::trace::tests::a_live_line_costs_at_most_1800_instructions";

/// Writes the lines of so many records of a ring, read as they come in 20 ms.
fn lines(words: &str, records: u64) {
    let options = options(words);
    let ring = File::options().read(true).write(true).open("ring").unwrap();
    let writer = TraceWriter::new(&options, File::create("lines").unwrap(), 0);
    let mut feeder = Feeder::new(writer, Names::recorded(), None);
    let source = VecSource::new(StageSet::Basic);
    let mut events = ring_events(&ring);
    for step in 1..=records / 2000 {
        produce(&ring, step * 2000 * 192);
        feeder.drain(&mut events, &source).unwrap();
    }
    feeder.drain_rest(&mut events, &source, 0).unwrap();
    assert_eq!(feeder.consumer.shown().unwrap().commands, records);
}

#[test]
#[ignore = "needs valgrind and a release build; a part of make test-all"]
fn a_live_line_costs_at_most_1800_instructions() {
    if let Some(task) = valgrind::task() {
        let (records, words) = task.split_once(' ').unwrap();
        return lines(words, records.parse().unwrap());
    }
    let dir = TempDir::new().unwrap();
    let records: Vec<Vec<u8>> = (0..60_000).map(read_record).collect();
    ring_of(&dir.path().join("ring"), records.iter().map(Vec::as_slice));
    let mut over = false;
    for (words, most) in COSTS {
        let [few, many] = [10_000, 60_000].map(|records| {
            valgrind::instructions_of_test(TEST, &format!("{records} {words}"), dir.path())
        });
        let each = (many - few) / 50_000;
        eprintln!("{each:5} instructions: trace {words}");
        over |= each > most;
    }
    assert!(!over, "a line costs more than it may");
}
