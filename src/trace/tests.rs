// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events from a vector, written to a file; and the user instructions of a line.
#![allow(clippy::print_stderr, reason = "the counts are printed")]

use std::io::{Read as _, Seek};

use crate::abi::NO_EVENT;
use crate::model::event::{CtrlState, Event, EventKind};
use crate::model::ledger::Shown;
use crate::model::stage::StageSet;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::cli::Command;
use crate::cli::tests::parsed;
use crate::run::args::common::SessionOptions;
use crate::run::drive::Names;
use crate::run::fixture::{LiveEvents, read_ring};
use crate::testing::ring::{read_record, ring_of};
use crate::testing::{EventBuilder, valgrind};

fn options(words: &str) -> TraceOptions {
    let Command::Trace(args) = parsed(&format!("trace {words}")).unwrap() else { panic!() };
    args.checked().unwrap()
}

fn requeue(cid: u16, at_ns: u64) -> Event {
    EventBuilder::read().cid(cid).at(at_ns).requeue()
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

/// A line in a few letters: of an event its name and its command id, and the second line of a command.
fn brief(text: &str) -> String {
    let line = |line: &str| match line.trim() {
        second if line.starts_with(' ') => second.replace(' ', "_"),
        line if line.starts_with("--") => format!("--{}", line.split(' ').nth(3).unwrap()),
        line => {
            let (_, cid) = line.split_once("cid=").unwrap();
            let cid = cid.split(',').next().unwrap();
            format!("{}{cid}", line.split(' ').nth(2).unwrap())
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_retry_is_the_second_line_of_its_command_and_only_events_have_what_is_no_command() {
    let read = |cid: u16| EventBuilder::read().cid(cid).at(u64::from(cid) * 10);
    let failed = |cid| read(cid).status(0x281).command();
    let event = |at_ns, what| Event { at_ns, what };
    let retry = |cid, retries| {
        event(45, EventKind::Retry { id: read(cid).command().what.id().copied().unwrap(), retries })
    };
    let missed = EventKind::Missed {
        id: read(5).id,
        submission: None,
        latency_max_ns: Some(1),
        timeline: None,
    };
    let state = EventKind::State { ctrl: 0, state: CtrlState(2), requested: false };
    let mut events = vec![failed(1), failed(2), read(3).latency(9_000_000).command()];
    events.extend([retry(2, Some(3)), retry(1, None), event(46, missed), requeue(6, 47)]);
    events.extend([event(48, state), retry(9, Some(1)), read(4).unfinished(5_000_000)]);
    let end = "--State Retry9 Unfinished4";
    let without = format!(
        "Command1 will_be_tried_again Command2 will_be_tried_again:_retry_3 Command3 {end}"
    );
    let with = format!("Command1 Command2 Command3 Retry2 Retry1 Missed5 Requeue6 {end}");
    for (words, lines, commands, others, hidden) in [
        ("", &*without, 3, 5, 1),
        ("--events", &*with, 4, 6, 0),
        // the kernel side does not send those that are fast; their retries come
        ("--slow 1us", &*without.replace(" Retry9", ""), 3, 4, 1),
        ("--slow 6ms", &*without.replace(" Retry9", "").replace(" Unfinished4", ""), 3, 3, 1),
    ] {
        let (text, shown) = written(&format!("--long {words}"), &events);
        assert_eq!(brief(&text), lines, "{words}");
        assert_eq!((shown.commands, shown.events, shown.hidden), (commands, others, hidden));
    }
    let (json, shown) = written("--json --slow 1us", &events);
    let names = json.lines().map(|line| {
        let object: Value = serde_json::from_str(line).unwrap();
        format!("{}{}", object["type"].as_str().unwrap(), object["cid"])
    });
    let names: Vec<String> = names.collect();
    let want = "command1 command2 command3 retry2 retry1 statenull unfinished4";
    assert_eq!(names.join(" "), want);
    assert_eq!((shown.commands, shown.events, shown.hidden), (3, 4, 1));
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

/// The most user instructions of a line of a command.
const COSTS: [(&str, u64); 2] = [("--stages", 5900), ("--stages --json", 6100)];
const TEST: &str = "trace::tests::a_live_line_costs_no_more_than_was_measured";

/// Writes the lines of so many records of a ring, read as they come in 20 ms.
fn lines(words: &str, records: u64) {
    let options = options(words);
    let ring = File::open("ring").unwrap();
    let clock = clock(&options, 0, Some(0));
    let out = File::create("lines").unwrap();
    let mut writer = TraceWriter::new(&options, out, clock, options.settings.stage_set);
    let (mut names, mut events) = (Names::default(), LiveEvents::of_none());
    let mut event = NO_EVENT;
    for step in 0..records / 2000 {
        read_ring(&ring, step * 2000 * 192..(step + 1) * 2000 * 192, &mut events);
        events.fetch(step + 1 == records / 2000).unwrap();
        while let Some(decoded) = events.next_event(&mut event) {
            decoded.unwrap();
            writer.event(&event, &mut names);
        }
        writer.flush();
    }
    assert_eq!(writer.shown.commands, records);
}

#[test]
#[ignore = "needs valgrind and a release build; a part of make test-all"]
fn a_live_line_costs_no_more_than_was_measured() {
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
