// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs that were made by hand: times with gaps of years, more rows than a machine has, blocks that
//! describe more than they contain.

use nvme_deep::StageSet;
use nvme_deep::model::event::Event;
use nvme_deep::model::ledger::{Ledger, TraceLedger};
use nvme_deep::model::point::ALL_POINTS;
use nvme_deep::model::stack::StackAt;
use nvme_deep::model::target::TargetInfo;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::recording::{Batch, LedgerInfo, RunInfo};

use crate::blocks::{EQUAL, NEXT, Part, input_of};
use crate::targets::ALL;
use crate::testing::EventBuilder;

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 31_536_000 * SECOND;

/// A read on this controller that ends at this time.
fn read(ctrl: u32, at_ns: u64) -> Event {
    let points = [8, 7, 6, 5, 4, 3, 2, 1, 0].map(|n| at_ns.saturating_sub(n * 10_000));
    EventBuilder::read()
        .at(at_ns)
        .ctrl(ctrl)
        .qid(ctrl as u16)
        .cid(ctrl as u16)
        .nsid(ctrl + 1)
        .blocks(ctrl.into(), 8)
        .submitter(ctrl, ctrl, &[b'x'; 16])
        .cpus(ctrl as u16, 0)
        .stack(ctrl.into())
        .latency(60_000)
        .timeline(Timeline::new(points, ALL_POINTS))
        .command()
}

fn json(kind: u8, data: &impl serde::Serialize) -> Part {
    text(kind, serde_json::to_vec(data).unwrap())
}

fn text(kind: u8, payload: Vec<u8>) -> Part {
    Part { kind, payload, ..Part::default() }
}

/// A list of this many texts.
fn list(kind: u8, text_of_one: &str, count: usize) -> Part {
    text(kind, format!("[{}]", vec![text_of_one; count].join(",")).into_bytes())
}

fn info() -> RunInfo {
    RunInfo {
        begin_ns: SECOND,
        pairs: true,
        stage_set: StageSet::Fine,
        stack: Some(StackAt::Submit),
        sample_period: 1,
        sq: Some(true),
        aen: Some(true),
        ..RunInfo::default()
    }
}

fn ledger(kind: u8) -> Part {
    let ledger = Ledger { trace: Some(TraceLedger::default()), ..Ledger::default() };
    let info = LedgerInfo { at_ns: SECOND, evicted: 0, ledger: Some(ledger) };
    json(kind, &info)
}

/// A block of events.
fn block(events: impl Iterator<Item = Event>) -> Part {
    let mut batch = Batch::new();
    events.for_each(|event| batch.push(&event));
    let events = batch.summary().events.into();
    Part { events, ..text(2, batch.pack()) }
}

/// A recording with these parts between its begin and its end.
fn recording(parts: impl IntoIterator<Item = Part>) -> Vec<Part> {
    let mut all = vec![json(1, &info()), ledger(6)];
    all.extend(parts);
    all.push(ledger(7));
    all
}

/// Bytes that are all the same.
fn equal(kind: u8, byte: u8, count: u32) -> Part {
    let mut payload = vec![kind, byte];
    payload.extend(count.to_le_bytes());
    text(EQUAL, payload)
}

/// Records of `words` words that are all the same, and have no planes.
fn nothing(kind: u8, count: u32, words: usize) -> Part {
    // the time before, a record, a byte for each word
    let mut payload = vec![0; 8 + 9 * words];
    // the kind of the event
    payload[8] = if kind == 2 { 8 } else { 3 };
    Part { events: count, ..text(kind, payload) }
}

fn of_driver() -> Vec<(&'static str, Vec<Part>)> {
    let times = |times: Vec<u64>| recording([block(times.into_iter().map(|at| read(0, at)))]);
    let each = |at: &dyn Fn(u64) -> u64| times((0..80).map(at).collect());
    vec![
        ("years", times(vec![0, SECOND, 2 * SECOND, YEAR, 30 * YEAR, u64::MAX])),
        ("backwards", times(vec![u64::MAX, YEAR, SECOND, 0, u64::MAX, 5])),
        ("a gap after each", each(&|n| n * 62 * SECOND)),
        ("an idle minute after each", each(&|n| n * 60 * SECOND)),
        ("ever longer", each(&|n| n.pow(6))),
        ("rows", recording([block((0..650).map(|n| read(n, SECOND + u64::from(n))))])),
        (
            "a row in each second",
            recording([block((0..100).map(|n| read(n, u64::from(n) * SECOND)))]),
        ),
        ("stacks", recording([list(3, "{}", 30_000), list(3, "{\"frames\":[{},{}]}", 10_000)])),
        ("objects", recording([list(3, "{}", 100_000)])),
        ("controllers", recording([list(5, "{}", 30_000), list(5, "{\"disks\":[{}]}", 15_000)])),
        ("texts", recording([text(9, br#"{"controllers":[{"disks":[{},{},{}]}]}"#.to_vec())])),
        ("open", recording([equal(6, b'[', 1 << 20)])),
        ("values", recording([equal(6, b',', 1 << 20)])),
        ("no planes", recording([nothing(2, 4096, 37)])),
        ("too many events", recording([nothing(2, 65_535, 37)])),
        ("zeroes", recording([equal(2, 0, 1 << 20)])),
    ]
}

fn of_both() -> Vec<(&'static str, Vec<Part>)> {
    let info = RunInfo { target: Some(TargetInfo::default()), ..RunInfo::default() };
    let with = |parts: Vec<Part>| {
        let mut all = recording([block((0..1000).map(|n| read(0, n * SECOND)))]);
        all.push(Part { kind: NEXT, ..Part::default() });
        all.push(json(1, &info));
        all.extend(parts);
        all
    };
    let many = vec![nothing(32, 29, 17); 3000];
    // the time of the first event comes first
    let mut late = nothing(32, 29, 17);
    late.payload[..8].fill(0xff);
    // a command with an id and a status, and all its points at distances of up to 2^63
    let mut ids = nothing(32, 29, 17);
    ids.payload[8..16].copy_from_slice(&0xc01_u64.to_le_bytes());
    ids.payload[8 + 10 * 8] = 0x1f;
    ids.payload[8 + 12 * 8..8 + 17 * 8].fill(0x7f);
    vec![
        ("no planes", with(vec![nothing(32, 4096, 17)])),
        ("few planes", with(many)),
        ("late", with(vec![list(33, "{}", 1), late, ids])),
        ("readings", with(vec![list(10, "{}", 30_000)])),
        ("controllers", with(vec![list(33, "{}", 30_000)])),
    ]
}

/// The inputs of a target, each with its name.
pub fn crafted(target: &str) -> Vec<(String, Vec<u8>)> {
    let all = match target {
        "recordings" => of_driver(),
        "join" => of_both(),
        _ => vec![],
    };
    let input = |(name, parts): (&str, Vec<Part>)| {
        (name.to_owned(), [&[ALL], input_of(&parts).as_slice()].concat())
    };
    all.into_iter().map(input).collect()
}
