// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::testing::EventBuilder;
use proptest::collection::vec;
use proptest::prelude::*;
use std::iter::from_fn;

const UNIT: u64 = 10_000_000;

/// A command whose block is its number.
fn command(number: u32) -> EventBuilder {
    EventBuilder::read().cid(number as u16).blocks(number.into(), 8)
}

/// Commands with begin, length and namespace: each has its own command id.
type Load = Vec<(u64, u64, u32)>;

/// Commands in the order of their ends.
fn pairs(load: &Load) -> Vec<Event> {
    let mut events: Vec<Event> = made(load).map(|(_, end)| end.command()).collect();
    events.sort_by_key(|e| e.at_ns);
    events
}

/// Each command at its begin and at its end.
fn made(load: &Load) -> impl Iterator<Item = (EventBuilder, EventBuilder)> {
    (0..).zip(load).map(|(n, (begin, length, nsid))| {
        let made = command(n).nsid(*nsid).latency(*length);
        (made.at(*begin), made.at(begin + length))
    })
}

/// Two events per command.
fn events(load: &Load) -> Vec<Event> {
    let mut events: Vec<Event> =
        made(load).flat_map(|(begin, end)| [begin.submit(), end.complete()]).collect();
    // ends before begins of the same time
    events.sort_by_key(|e| (e.at_ns, matches!(e.what, EventKind::Submit(..))));
    events
}

fn drain(order: &mut Submissions, events: &[Event]) -> Vec<(u64, u64, Depth)> {
    let mut found = vec![];
    let mut take = |order: &mut Submissions, now| {
        let all = from_fn(|| order.next(now));
        found.extend(all.map(|(s, depth)| (s.at_ns, s.blocks.unwrap().slba, depth)));
    };
    for event in events {
        order.add(event, CommandSet::Nvm);
        take(order, event.at_ns);
    }
    take(order, u64::MAX);
    found
}

proptest! {
    #[test]
    fn submissions_come_in_the_order_of_time_with_the_commands_in_flight(
        load in vec((1_u64..100, 1_u64..60, 1_u32..3), 1..60), most in 1_usize..20,
    ) {
        // all at different times, and further apart than events may be out of order
        let load: Load = (0..)
            .zip(load)
            .map(|(n, (begin, length, nsid))| {
                ((100 + begin) * UNIT + 2 * n, length * UNIT + 1, nsid)
            })
            .collect();
        let ended = pairs(&load);
        let mut longest = Longest {
            longest: begins::Longest::at_most(most),
            ..Longest::default()
        };
        ended.iter().for_each(|e| longest.add(e, CommandSet::Nvm));
        let of_pairs = drain(&mut Submissions::of_pairs(longest), &ended);
        let of_events = drain(&mut Submissions::of_events(TaskKind::Caller), &events(&load));
        let mut want: Vec<(u64, u64, Depth)> = (0..)
            .zip(&load)
            .map(|(n, (begin, _, nsid))| {
                let at = |other: &&(u64, u64, u32)| other.0 <= *begin && *begin < other.0 + other.1;
                let here = load.iter().filter(at);
                let depth = Depth {
                    of_disk: here.clone().filter(|other| other.2 == *nsid).count() as u64,
                    of_all: here.count() as u64,
                };
                (*begin, n, depth)
            })
            .collect();
        want.sort_by_key(|(at, ..)| *at);
        prop_assert_eq!(&of_pairs, &want);
        prop_assert_eq!(&of_events, &want);
    }
}

#[test]
fn a_command_id_that_comes_again_ends_the_earlier_command() {
    let submit = |at_ns| command(0).at(at_ns).submit();
    let found = drain(&mut Submissions::of_events(TaskKind::Caller), &[submit(1), submit(2)]);
    assert!(found.iter().all(|(_, _, depth)| depth.of_all == 1), "{found:?}");
}

#[test]
fn a_command_without_a_set_up_is_counted() {
    let event = command(0).latency(None).command();
    let mut order = Submissions::of_pairs(Longest::default());
    assert!(drain(&mut order, &[event]).is_empty());
    assert_eq!(order.unknown(), 1);
}
