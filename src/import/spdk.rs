// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of the objects of an SPDK trace, from the text of spdk_trace or its JSON.

use std::collections::HashMap;

use super::lines::{Found, Layout, Line, Skipped, each};
use super::report::Report;
use crate::model::histogram::Histogram;
use crate::model::ledger::Ledger;
use crate::model::text::Text;
use crate::target::spdk_trace::Trace;
use crate::target::{Skip, word};
use anyhow::Result;

/// Most objects and states.
const MOST: usize = 1 << 20;

/// The times of all states since the first state of their object, in the order in which they are first seen.
#[derive(Default)]
struct States {
    rows: Vec<(Text, Histogram)>,
    places: HashMap<Text, usize>,
    first: HashMap<String, u64>,
}

impl States {
    fn add(&mut self, object: String, name: Text, begins: bool, ns: u64) -> Result<(), Skip> {
        if self.first.len() + self.rows.len() >= MOST {
            return Err(Skip::Lacks("states beyond those that are kept"));
        }
        let first = self.first.entry(object).or_insert(ns);
        if begins {
            *first = ns;
        }
        let since = ns.saturating_sub(*first);
        let next = self.rows.len();
        let place = *self.places.entry(name.clone()).or_insert(next);
        if place == next {
            self.rows.push((name, Histogram::new()));
        }
        self.rows[place].1.record(since);
        Ok(())
    }

    fn report(self, skipped: Skipped, lack: &str) -> Report {
        let matched = self.rows.iter().map(|(_, since)| since.count()).sum();
        let ledger = Ledger { matched, ..Ledger::of_target(true) };
        Report {
            resolution_ns: 1,
            lacks: vec![lack.to_owned()],
            rows: self.rows,
            ..Report::new("SPDK's trace", "state", ledger, skipped)
        }
    }
}

/// Reads the text of spdk_trace, whose times are microseconds with three digits, or its JSON.
///
/// # Errors
/// If it is other JSON.
pub fn import(text: &str) -> Result<Report> {
    let mut states = States::default();
    if !text.trim_start().starts_with('{') {
        let skipped = each(text, |_, found| {
            let Found::Event(Line { layout, at_ns, name, text, .. }) = found else { return Ok(()) };
            if layout != Layout::Spdk {
                return Err(Skip::Unknown);
            }
            let id = word(text, "id").ok_or(Skip::Other)?;
            states.add(id.to_owned(), name.into(), name.ends_with("_NEW"), at_ns)
        });
        return Ok(states.report(skipped, "commands: a request has states, and no ids"));
    }
    let (trace, mut skipped) = (Trace::parse(text)?, Skipped::default());
    for entry in &trace.entries {
        let object = entry.object.as_ref().and_then(|object| match object.value {
            Some(address) => Some(address.to_string()),
            None => Some(object.id.as_ref()?.to_string()),
        });
        let added = object.zip(trace.tracepoint(entry)).map(|(object, tracepoint)| {
            let (name, ns) = (tracepoint.name.clone(), trace.ns(entry.tsc));
            states.add(object, name, tracepoint.new_object, ns)
        });
        skipped.other += u64::from(!matches!(added, Some(Ok(()))));
    }
    let lack =
        "commands: a request has states, and no ids; `host annotate` adds them from a recording";
    Ok(states.report(skipped, lack))
}
