// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events from a vector, written to a file.

use std::io::Read as _;
use std::io::Seek;

use clap::Parser;
use nvme_deep::model::event::Event;
use nvme_deep::model::stage::StageSet;
use serde_json::Value;

use super::*;
use crate::cli::args::Args;
use crate::cli::args::Command;
use crate::cli::session::SessionOptions;
use crate::commands::drive::Consumer;
use crate::commands::drive::Names;
use crate::commands::drive::live::Feeder;
use crate::commands::fixture::VecEvents;
use crate::commands::fixture::VecSource;
use crate::testing::EventBuilder;

fn options(words: &str) -> TraceOptions {
    let words = ["nvme-deep", "trace"]
        .into_iter()
        .chain(words.split_whitespace());
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
