// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events from a vector, written to a file.

use std::io::{Read as _, Seek};

use crate::model::event::{Event, EventKind};
use crate::model::ledger::Shown;
use crate::model::stage::StageSet;

use super::*;
use crate::cli::Command;
use crate::cli::tests::parsed;
use crate::run::args::common::SessionOptions;
use crate::run::drive::Names;
use crate::testing::EventBuilder;

fn options(words: &str) -> TraceOptions {
    let Command::Trace(args) = parsed(&format!("trace {words}")).unwrap() else { panic!() };
    args.checked().unwrap()
}

/// What is written of these events, and counted.
fn written(words: &str, events: &[Event]) -> (String, Shown) {
    let options = options(words);
    let mut file = tempfile::tempfile().unwrap();
    let clock = clock(&options, 0, None);
    let mut writer = TraceWriter::new(&options, file.try_clone().unwrap(), clock, StageSet::Total);
    let mut names = Names::default();
    events.iter().for_each(|event| writer.event(event, &mut names));
    writer.flush();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    (text, writer.shown)
}

#[test]
fn a_retry_after_its_command_was_written_has_a_line_of_its_own() {
    let read = |cid: u16| EventBuilder::read().cid(cid).at(1).status(0x281);
    let retry = EventKind::Retry { id: read(1).id, retries: Some(1) };
    let mut events = vec![read(1).command()];
    // more than is rendered before it is written
    events.extend((2..1000).map(|cid| read(cid).command()));
    events.push(Event { at_ns: 2, what: retry });
    let (text, shown) = written("--long", &events);
    let last = text.lines().last().unwrap();
    assert!(last.contains(" Retry nvme0: qid=1, cid=1,"), "{last}");
    assert_eq!((shown.commands, shown.events), (999, 1));
}
