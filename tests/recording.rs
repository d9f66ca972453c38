// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: what was written is read, whatever the events are; a damaged file is read up to the
//! damage, and never yields wrong events.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod testing;

use self::testing::EventBuilder;
use self::testing::random::what;
use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::model::point::{ALL_POINTS, Pattern, Point};
use nvme_deep::model::timeline::Timeline;
use nvme_deep::recording::{
    Block, BlockWriter, Blocks, Builder, Content, Damage, Decoder, Ending, Error,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Makes latency and points consistent, as those of real events are: the timeline begins and ends
/// with the same times as the latency. `further`: bits of points that this version does not have.
fn consistent(
    at_ns: u64,
    latency: &mut Option<u64>,
    timeline: &mut Option<Timeline>,
    further: Pattern,
) {
    let Some(line) = timeline else {
        *latency = latency.map(|ns| ns.min(at_ns));
        return;
    };
    let mut pattern = line.pattern() | further;
    // recordings without `zone` are from before there was that point
    if [Point::Freeze, Point::Iocost].map(|p| p.seen_in(pattern)) == [true, true] {
        pattern |= Point::Zone.pattern_bit().unwrap();
    }
    let seen = Point::SetupOut.seen_in(pattern);
    *latency = seen.then(|| latency.unwrap_or(1000).min(at_ns));
    *line = Timeline::from_fn(pattern, |point| match point {
        Point::SetupOut => at_ns - latency.unwrap_or(0),
        Point::Complete => at_ns,
        _ => line.ns(point),
    });
}

fn event() -> impl Strategy<Value = Event> {
    // nearly in order, as the reorder window leaves them, with large gaps
    let at_ns = prop_oneof![5 => 1_u64 << 40..(1 << 40) + 100_000, 1 => any::<u64>()];
    let further =
        prop_oneof![3 => Just(0), 1 => any::<Pattern>().prop_map(|bits| bits & !ALL_POINTS)];
    (at_ns, what(), further).prop_map(|(at_ns, mut what, further)| {
        match &mut what {
            EventKind::Complete(_, outcome) | EventKind::Command(_, _, outcome) => {
                consistent(at_ns, &mut outcome.latency_ns, &mut outcome.timeline, further);
            }
            EventKind::Missed { latency_max_ns, timeline, .. } => {
                consistent(at_ns, latency_max_ns, timeline, further)
            }
            _ => {}
        }
        let mut event = Event { at_ns, what };
        forget_unknown(&mut event);
        event
    })
}

/// What is not known of a submitter is zero, as the BPF side leaves it.
fn forget_unknown(event: &mut Event) {
    if let EventKind::Submit(_, submission)
    | EventKind::Command(_, submission, _)
    | EventKind::Unfinished { submission, .. }
    | EventKind::Missed { submission: Some(submission), .. } = &mut event.what
        && !submission.knows_submitter
    {
        (submission.pid, submission.tid, submission.comm, submission.cpu) = (0, 0, [0; 16], 0);
    }
}

fn file(blocks: &[Vec<Event>], compress: bool) -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = BlockWriter::create(&mut bytes, compress).unwrap();
    let mut builder = Builder::new();
    for events in blocks {
        events.iter().for_each(|e| builder.push(e));
        let (rows, at_ns) = (builder.rows() as u32, builder.last_ns());
        let mut payload = vec![];
        let content = builder.take(&mut payload);
        writer.write(&Block { content, payload: &payload, events: rows, at_ns }).unwrap();
    }
    let end = Block { content: Content::End, payload: b"{}", events: 0, at_ns: 0 };
    writer.write(&end).unwrap();
    bytes
}

/// The events of the whole blocks, and how the file ends.
fn read(bytes: &[u8]) -> Result<(Vec<Event>, Ending), Error> {
    let mut blocks = Blocks::open(bytes)?;
    let (mut decoder, mut all) = (Decoder::default(), vec![]);
    while let Some((head, payload)) = blocks.next()? {
        if head.content.is_events() {
            let before = all.len();
            decoder.events(payload, head.events, &mut |e| all.push(*e)).unwrap();
            assert_eq!(all.len() - before, head.events as usize);
        }
    }
    Ok((all, blocks.ending().unwrap()))
}

proptest! {
    #[test]
    fn events_come_back_as_they_were(
        blocks in vec(vec(event(), 1..40), 0..4), compress: bool,
    ) {
        let (all, ending) = read(&file(&blocks, compress)).unwrap();
        prop_assert_eq!(ending, Ending::Complete);
        prop_assert_eq!(all, blocks.concat());
    }

    #[test]
    fn a_truncated_file_is_read_up_to_the_last_whole_block(
        blocks in vec(vec(event(), 1..10), 1..4), compress: bool, cut in any::<prop::sample::Index>(),
    ) {
        let whole = file(&blocks, compress);
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
        blocks in vec(vec(event(), 1..10), 1..4), compress: bool,
        at in any::<prop::sample::Index>(), by in 1_u8..,
    ) {
        let mut bytes = file(&blocks, compress);
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

    #[test]
    fn any_payload_decodes_or_is_refused(payload in vec(any::<u8>(), 0..300)) {
        let _ = Decoder::default().events(&payload, 1, &mut |_| {});
    }
}

/// Bits of points that have no columns.
fn further(event: &Event) -> Pattern {
    let timeline = match &event.what {
        EventKind::Complete(_, end) => end.timeline.as_ref(),
        what => what.timeline(),
    };
    timeline.map_or(0, Timeline::pattern) & !0x1ff
}

proptest! {
    // versions without such points refuse a flag that they do not have
    #[test]
    fn a_block_has_a_flag_only_if_an_event_has_further_points(events in vec(event(), 1..4)) {
        let has_origin = |e: &Event| e.what.submission().is_some_and(|s| s.origin.is_some());
        let has_parts = events.iter().any(|e| further(e) != 0 || has_origin(e));
        let flag = if has_parts { 2 } else { 0 };
        // the flags of the head of the first block
        prop_assert_eq!(file(&[events], false)[16 + 5], flag);
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
    let all = file(&[one.clone(), one.clone(), one], false);
    let block = (all.len() - 16 - 42) / 3;
    let without = [&all[..16 + block], &all[16 + 2 * block..]].concat();
    let (events, ending) = read(&without).unwrap();
    assert_eq!((events.len(), ending), (1, Ending::Damaged(Damage::Gap)));
}
