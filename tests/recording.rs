// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: what was written is read, whatever the events are; a damaged file is read up to the
//! damage, and never yields wrong events.

use crate::testing::EventBuilder;
use crate::testing::random::what;
use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::model::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};
use nvme_deep::model::timeline::Timeline;
use nvme_deep::recording::{
    Batch, Block, BlockWriter, Blocks, Content, Damage, Ending, Error, Item, Reader, RunInfo,
    Summary, Unpacked,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Makes latency and points consistent, as the BPF side reports them: the timeline has the times of the
/// setup and of the completion, too.
fn consistent(
    at_ns: u64,
    is_complete: bool,
    latency: &mut Option<u64>,
    timeline: &mut Option<Timeline>,
) {
    *latency = latency.map(|ns| ns.min(at_ns));
    let Some(line) = timeline else {
        return;
    };
    let bit = |is: bool, bit: Pattern| if is { bit } else { 0 };
    let observed = line.pattern() & !NO_SETUP & !NO_COMPLETE;
    let pattern = observed | bit(latency.is_none(), NO_SETUP) | bit(!is_complete, NO_COMPLETE);
    *line = Timeline::from_fn(pattern, |point| line.ns(point));
    line.set(Point::SetupOut, latency.map_or(0, |ns| at_ns - ns));
    line.set(Point::Complete, at_ns);
}

fn event() -> impl Strategy<Value = Event> {
    // nearly in order, as the reorder window leaves them, with large gaps
    let at_ns = prop_oneof![5 => 1_u64 << 40..(1 << 40) + 100_000, 1 => any::<u64>()];
    (at_ns, what()).prop_map(|(at_ns, mut what)| {
        match &mut what {
            EventKind::Complete(_, outcome) | EventKind::Command(_, _, outcome) => {
                consistent(at_ns, true, &mut outcome.latency_ns, &mut outcome.timeline);
            }
            EventKind::Missed { latency_max_ns, timeline, .. } => {
                consistent(at_ns, false, latency_max_ns, timeline);
            }
            EventKind::Unfinished { age_ns, .. }
            | EventKind::Timeout { age_ns, .. }
            | EventKind::Cancel { age_ns, .. } => *age_ns = at_ns.min(*age_ns),
            _ => {}
        }
        Event { at_ns, what }
    })
}

fn file(blocks: &[Vec<Event>]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = BlockWriter::create(&mut bytes).unwrap();
    for events in blocks {
        let mut batch = Batch::new();
        events.iter().for_each(|event| batch.push(event));
        writer.write(&Block::new(batch.summary(), &batch.pack()).unwrap()).unwrap();
    }
    let end = Block::new(Summary::at(Content::End, 0), b"{}").unwrap();
    writer.write(&end).unwrap();
    bytes
}

/// The events of the whole blocks, and how the file ends.
fn read(bytes: &[u8]) -> Result<(Vec<Event>, Ending), Error> {
    let mut blocks = Blocks::open(bytes)?;
    let (mut unpacked, mut all) = (Unpacked::default(), vec![]);
    while let Some(head) = blocks.next()? {
        if head.summary.content == Content::Events {
            let (before, count) = (all.len(), head.summary.events.into());
            let payload = blocks.payload(&head).unwrap();
            unpacked.events(payload, count).unwrap();
            while !unpacked.is_empty() {
                unpacked.next_event().unwrap();
                all.push(*unpacked.event());
            }
            assert_eq!(all.len() - before, count);
        }
    }
    Ok((all, blocks.ending().unwrap()))
}

proptest! {
    #[test]
    fn events_come_back_as_they_were(
        blocks in vec(vec(event(), 1..40), 0..4),
    ) {
        let (all, ending) = read(&file(&blocks)).unwrap();
        prop_assert_eq!(ending, Ending::Complete);
        prop_assert_eq!(all, blocks.concat());
    }

    #[test]
    fn a_truncated_file_is_read_up_to_the_last_whole_block(
        blocks in vec(vec(event(), 1..10), 1..4), cut in any::<prop::sample::Index>(),
    ) {
        let whole = file(&blocks);
        let cut = cut.index(whole.len());
        match read(&whole[..cut]) {
            Err(error) => prop_assert!(matches!(error, Error::Foreign) && cut < 16),
            Ok((all, ending)) => {
                prop_assert!(blocks.concat().starts_with(&all));
                let edge = matches!(ending, Ending::Cut | Ending::Damaged(Damage::Short));
                prop_assert!(edge, "{ending:?}");
            }
        }
    }

    #[test]
    fn a_changed_byte_never_yields_wrong_events(
        blocks in vec(vec(event(), 1..10), 1..4),
        at in any::<prop::sample::Index>(), by in 1_u8..,
    ) {
        let mut bytes = file(&blocks);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        match read(&bytes) {
            Err(_) => prop_assert!(at < 16),
            Ok((all, ending)) => {
                prop_assert!(blocks.concat().starts_with(&all));
                prop_assert!(matches!(ending, Ending::Damaged(_)), "{ending:?}");
            }
        }
    }
}

#[test]
fn an_empty_file_and_another_one_are_foreign() {
    for bytes in [&b""[..], b"short", &[0; 100]] {
        assert!(matches!(read(bytes), Err(Error::Foreign)));
    }
}

#[test]
fn a_missing_block_is_a_gap() {
    let one = vec![EventBuilder::read().requeue()];
    let lengths = [0, 1, 3].map(|n| file(&vec![one.clone(); n]).len());
    let (header, block) = (16, lengths[1] - lengths[0]);
    let all = file(&vec![one; 3]);
    assert_eq!(all.len(), lengths[0] + 3 * block);
    let without = [&all[..header + block], &all[header + 2 * block..]].concat();
    let (events, ending) = read(&without).unwrap();
    assert_eq!((events.len(), ending), (1, Ending::Damaged(Damage::Gap)));
}

#[test]
fn blocks_before_a_time_are_skipped_and_counted() {
    let event = |ns| EventBuilder::read().at(ns).latency(5).command();
    let mut bytes = vec![];
    let mut writer = BlockWriter::create(&mut bytes).unwrap();
    let info = serde_json::to_vec(&RunInfo::default()).unwrap();
    writer.write(&Block::new(Summary::at(Content::Run, 0), &info).unwrap()).unwrap();
    for times in [[30, 10], [20, 40], [50, 45]] {
        let mut batch = Batch::new();
        times.iter().for_each(|ns| batch.push(&event(*ns)));
        writer.write(&Block::new(batch.summary(), &batch.pack()).unwrap()).unwrap();
    }
    for (since, skipped, read) in [(0, 0, 6), (30, 0, 6), (31, 2, 4), (41, 4, 2), (51, 6, 0)] {
        let mut reader = Reader::open(bytes.as_slice()).unwrap();
        reader.skip_to(since);
        let (mut events, mut commands) = (0, 0);
        while let Some(item) = reader.next().unwrap() {
            match item {
                Item::Event(_) => events += 1,
                Item::Skipped(block) => commands += block.commands,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((commands, events, reader.events()), (skipped, read, 6), "{since}");
    }
}

#[test]
fn stacks_are_bounded() {
    let mut bytes = vec![];
    let mut writer = BlockWriter::create(&mut bytes).unwrap();
    let mut block = |content, payload: &[u8]| {
        writer.write(&Block::new(Summary::at(content, 0), payload).unwrap()).unwrap();
    };
    block(Content::Run, &serde_json::to_vec(&RunInfo::default()).unwrap());
    let stacks = [b"[".as_slice(), &[b' '; 12 << 20], b"]"].concat();
    (0..4).for_each(|_| block(Content::Stacks, &stacks));
    let mut reader = Reader::open(bytes.as_slice()).unwrap();
    let mut blocks = 0;
    while reader.next().unwrap().is_some() {
        blocks += 1;
    }
    assert_eq!((blocks, reader.ending()), (2, Some(Ending::Damaged(Damage::Length))));
}
