// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of spdk_trace, and the states of the objects of any SPDK trace.

use std::collections::HashMap;

use super::lines::{Unreads, time};
use crate::model::histogram::Histogram;
use crate::model::text::Text;
use crate::target::spdk_trace::{Entry, Object, Trace, Tracepoint};
use crate::target::{MOST_EVENTS, word};

/// Most tracepoints and objects that are kept from any text.
const MOST: usize = 1 << 18;

/// `28:   6026.658 ( 12656064)     RDMA_REQ_NEW    id:    r3622    time:  0.036`
fn line(text: &str) -> Option<(u64, u64, &str, &str)> {
    let (core, rest) = text.trim_start_matches(['>', ' ']).split_once(':')?;
    let rest = rest.trim_start();
    let (stamp, mut rest) = rest.split_once(char::is_whitespace)?;
    let ns = time(stamp, 1000)?.0;
    if let Some(after) = rest.trim_start().strip_prefix('(') {
        rest = after.split_once(')')?.1;
    }
    let rest = rest.trim();
    // the name of a thread may be before the tracepoint
    let name = rest.split_whitespace().find(|word| {
        let fits = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        word.contains('_') && word.bytes().all(fits)
    })?;
    Some((core.trim().parse().ok()?, ns, name, rest.split_once(name)?.1))
}

/// Whether a line is of the text of spdk_trace.
pub fn is_line(text: &str) -> bool {
    line(text).is_some()
}

/// Reads the text. Its times are microseconds with three digits.
pub fn parse(text: &str) -> (Trace, Unreads) {
    let mut trace = Trace::default();
    // a tick of a nanosecond
    trace.tsc_rate = 1_000_000_000;
    let mut unreads = Unreads::default();
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    for (number, text) in (1..).zip(text.lines()) {
        let Some((lcore, tsc, name, rest)) = line(text) else {
            if !text.trim().is_empty() {
                unreads.add("no event", number, text);
            }
            continue;
        };
        let is_full = numbers.len() >= MOST && !numbers.contains_key(name);
        if is_full || trace.entries.len() >= MOST_EVENTS {
            unreads.add("beyond those that are kept", number, text);
            trace.lost += 1;
            continue;
        }
        let next = numbers.len() as u64;
        let tpoint = *numbers.entry(name).or_insert(next);
        if tpoint == next {
            let new_object = name.ends_with("_NEW");
            let name = name.into();
            trace.tpoints.push(Tracepoint {
                name,
                id: tpoint,
                new_object,
                ..Tracepoint::default()
            });
        }
        let object = word(rest, "id").map(|id| Object { id: Some(id.into()), ..Object::default() });
        trace.entries.push(Entry { lcore, tpoint, tsc, object, ..Entry::default() });
    }
    trace.index();
    (trace, unreads)
}

/// The times of a state since the first state of its object.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub name: Text,
    pub since: Histogram,
}

/// The states of all objects, in the order in which they are first seen.
pub fn states(trace: &Trace) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut first: HashMap<_, u64> = HashMap::new();
    for entry in &trace.entries {
        let (Some(object), Some(tracepoint)) = (entry.object_key(), trace.tracepoint(entry)) else {
            continue;
        };
        if tracepoint.new_object || first.len() < MOST && !first.contains_key(&object) {
            first.insert(object.clone(), entry.tsc);
        }
        let Some(begin) = first.get(&object) else { continue };
        let place = *places.entry(entry.tpoint).or_insert_with(|| {
            states.push(State { name: tracepoint.name.clone(), ..State::default() });
            states.len() - 1
        });
        states[place].since.record(trace.ns(entry.tsc.saturating_sub(*begin)));
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::spdk_trace::import;

    #[test]
    fn lines_without_room_are_lost_events_of_the_ledger() {
        let lines = (0..MOST + 3).map(|n| format!("1: {n}.000 A_{n} id: r1\n"));
        let (trace, unreads) = parse(&lines.collect::<String>());
        assert_eq!(trace.entries.len(), MOST);
        assert_eq!(unreads.0[&"beyond those that are kept".into()].count, 3);
        assert_eq!(import(&trace).ledger.lost, 3);
    }
}
