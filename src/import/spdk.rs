// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of spdk_trace, and the states of the objects of any SPDK trace.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::lines::{Found, Layout, Line, OTHER, Unreads, each};
use super::report::Report;
use crate::model::histogram::Histogram;
use crate::model::ledger::Ledger;
use crate::model::text::Text;
use crate::target::spdk_trace::{Entry, Object, Trace, Tracepoint};
use crate::target::word;
use crate::view::json::dist;

/// Reads the text, and keeps this many entries. Its times are microseconds with three digits.
pub fn parse(text: &str, most: usize) -> (Trace, Unreads) {
    let mut trace = Trace::default();
    // a tick of a nanosecond
    trace.tsc_rate = 1_000_000_000;
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    let unreads = each(text, |_, found| {
        let Found::Event(event) = found else { return Err(OTHER) };
        let Line { layout: Layout::Spdk, at_ns, cpu: Some(cpu), name, text, .. } = event else {
            return Err(event.name.into());
        };
        if trace.entries.len() >= most {
            trace.lost += 1;
            return Err("entries beyond those that are kept".into());
        }
        let next = numbers.len() as u64;
        let tpoint = *numbers.entry(name).or_insert(next);
        if tpoint == next {
            let new_object = name.ends_with("_NEW");
            let (name, id) = (name.into(), tpoint);
            trace.tpoints.push(Tracepoint { name, id, new_object, ..Tracepoint::default() });
        }
        let object = word(text, "id").map(|id| Object { id: Some(id.into()), ..Object::default() });
        let (lcore, tsc) = (cpu.into(), at_ns);
        trace.entries.push(Entry { lcore, tpoint, tsc, object, ..Entry::default() });
        Ok(())
    });
    trace.index();
    (trace, unreads)
}

/// The report on a trace.
pub fn import(trace: &Trace, unread: Unreads, lack: &str) -> Report {
    let states = states(trace);
    let matched = states.iter().map(|state| state.since.count()).sum();
    let mut ledger = Ledger { matched, ..Ledger::of_target(true) };
    ledger.lose(trace.lost);
    Report {
        format: "SPDK's trace",
        what: "state",
        other: (trace.entries.len() as u64).saturating_sub(matched),
        ledger,
        resolution_ns: 1,
        lacks: vec![lack.to_owned()],
        unread,
        states,
    }
}

/// The times of a state since the first state of its object.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    #[serde(rename = "state")]
    pub name: Text,
    #[serde(flatten, serialize_with = "distribution")]
    pub since: Histogram,
}

fn distribution<S: Serializer>(since: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    dist(since, false).serialize(to)
}

/// The states of all objects, in the order in which they are first seen.
fn states(trace: &Trace) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut first: HashMap<_, u64> = HashMap::new();
    for entry in &trace.entries {
        let (Some(object), Some(tracepoint)) = (entry.object_key(), trace.tracepoint(entry)) else {
            continue;
        };
        if tracepoint.new_object || !first.contains_key(&object) {
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

    #[test]
    fn lines_without_room_are_lost_events_of_the_ledger() {
        let lines: String = (0..9).map(|n| format!("1: {n}.000 A_{n} id: r1\n")).collect();
        let (trace, unreads) = parse(&lines, 6);
        assert_eq!((trace.entries.len(), unreads.0[0].count), (6, 3));
        assert_eq!(import(&trace, unreads, "").ledger.trace.unwrap().lost(), 3);
    }
}
