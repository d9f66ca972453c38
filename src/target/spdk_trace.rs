// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON of `spdk_trace -j`: an object with `tsc_rate`, `tpoints` and `entries`. Its entries have
//! exact TSC values, the address of their object, and no command ids.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::model::event::CommandId;
use crate::model::text::Text;
use crate::nvme::decode::Blocks;

/// An argument of a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Argument {
    /// Its name.
    pub name: Text,
    /// 0: a number, 1: a pointer, 2: a text.
    #[serde(rename = "type")]
    pub kind: u32,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ArgumentValue {
    /// A number or a pointer.
    Number(Number),
    /// A text.
    Text(Text),
}

/// A tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Tracepoint {
    /// Its name, such as `TCP_REQ_NEW`.
    pub name: Text,
    /// The number that entries have.
    pub id: u64,
    /// Whether an object begins here.
    pub new_object: bool,
    /// Its arguments.
    pub args: Vec<Argument>,
}

/// The object of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Object {
    /// Its short name: `r12`.
    pub id: Option<Text>,
    /// Its address.
    pub value: Option<u64>,
    /// TSC since it began.
    pub time: Option<u64>,
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// The core.
    pub lcore: u64,
    /// Number of the tracepoint.
    pub tpoint: u64,
    /// TSC.
    pub tsc: u64,
    /// Size, for tracepoints that have one.
    pub size: Option<u64>,
    /// Object.
    pub object: Option<Object>,
    /// Values of the arguments.
    pub args: Vec<ArgumentValue>,
}

/// A trace. Entries are in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Ticks per second.
    pub tsc_rate: u64,
    /// The tracepoints.
    pub tpoints: Vec<Tracepoint>,
    /// The entries.
    pub entries: Vec<Entry>,
    /// The place of each tracepoint, by its number.
    #[serde(skip)]
    places: BTreeMap<u64, usize>,
}

impl Trace {
    /// Reads the text of a trace.
    ///
    /// # Errors
    /// If it is no JSON, or lacks its rate or its tracepoints.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why| anyhow!("it is not what `spdk_trace -j` writes ({why}): give its output");
        let mut trace: Self = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        if trace.tsc_rate == 0 {
            return Err(wrong("it has no tsc_rate".into()));
        }
        if trace.tpoints.is_empty() {
            return Err(wrong("it has no tpoints".into()));
        }
        trace.entries.sort_by_key(|entry| entry.tsc);
        for (place, tracepoint) in trace.tpoints.iter().enumerate() {
            // the first of several with a number
            trace.places.entry(tracepoint.id).or_insert(place);
        }
        Ok(trace)
    }

    /// Nanoseconds of a number of ticks, rounded down.
    pub fn ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.tsc_rate.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Nanoseconds from the first entry to this one.
    pub fn since_ns(&self, entry: &Entry) -> u64 {
        let first = self.entries.first().map_or(0, |first| first.tsc);
        self.ns(entry.tsc - first)
    }

    /// The tracepoint of an entry; `None` if the trace does not describe it.
    pub fn tracepoint(&self, entry: &Entry) -> Option<&Tracepoint> {
        self.tpoints.get(*self.places.get(&entry.tpoint)?)
    }

    /// The name of an entry's tracepoint; empty if the trace does not describe it.
    fn name(&self, entry: &Entry) -> &str {
        self.tracepoint(entry).map_or("", |t| t.name.as_str())
    }
}

/// A command of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Address of its request; 0: not known.
    pub request: u64,
    /// Its time, in nanoseconds.
    pub at_ns: u64,
    /// The command.
    pub id: CommandId,
    /// Its blocks, if it has some.
    pub blocks: Option<Blocks>,
}

/// The command of each entry, from a recording of the same requests by their addresses. The n-th use
/// of an address in the trace is its n-th in the recording, if both have the same number of uses;
/// other entries get none. Returns the commands by the number of the entry, and the number of uses
/// without one.
pub fn label(trace: &Trace, commands: &[Known]) -> (BTreeMap<usize, Known>, u64) {
    let mut recorded: BTreeMap<u64, Vec<&Known>> = BTreeMap::new();
    for command in commands.iter().filter(|command| command.request != 0) {
        recorded.entry(command.request).or_default().push(command);
    }
    recorded.values_mut().for_each(|uses| uses.sort_by_key(|known| known.at_ns));
    // the entries of each address, with the number of the use: from one NEW to the next
    let mut traced: BTreeMap<u64, (usize, Vec<(usize, usize)>)> = BTreeMap::new();
    for (n, entry) in trace.entries.iter().enumerate() {
        let Some(address) = entry.object.as_ref().and_then(|o| o.value) else { continue };
        let (uses, entries) = traced.entry(address).or_default();
        *uses += usize::from(["TCP_REQ_NEW", "RDMA_REQ_NEW"].contains(&trace.name(entry)));
        entries.extend(uses.checked_sub(1).map(|number| (n, number)));
    }
    let (mut labels, mut without) = (BTreeMap::new(), 0);
    for (address, (uses, entries)) in traced {
        match recorded.get(&address).filter(|found| found.len() == uses) {
            Some(found) => labels.extend(entries.into_iter().map(|(n, use_)| (n, *found[use_]))),
            None => without += uses as u64,
        }
    }
    (labels, without)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::opcode::{Opcode, QueueKind};

    const TRACE: &str = include_str!("../../tests/host/spdk_trace.json");

    fn labelled() -> Known {
        let opcode = Opcode { queue: QueueKind::Io, code: 2 };
        let id = CommandId { ctrl: 0, qid: 1, cid: 77, nsid: 1, opcode };
        Known { request: 0x2000_0001_0a80, at_ns: 0, id, blocks: None }
    }

    #[test]
    fn the_first_tracepoint_of_a_number_is_meant() {
        let trace = r#"{"tsc_rate": 1, "tpoints": [{"name": "A", "id": 7}, {"name": "B", "id": 7}],
            "entries": [{"tpoint": 7}, {"tpoint": 8}]}"#;
        let trace = Trace::parse(trace).unwrap();
        let names = trace.entries.iter().map(|entry| trace.name(entry));
        assert_eq!(names.collect::<Vec<_>>(), ["A", ""]);
    }

    #[test]
    fn an_address_that_was_used_as_often_labels_its_entries() {
        let trace = Trace::parse(TRACE).unwrap();
        let (labels, without) = label(&trace, &[labelled()]);
        // the trace uses the address twice, the recording has it once
        assert!(labels.is_empty());
        assert_eq!(without, 3);
        let (labels, without) = label(&trace, &[labelled(), labelled()]);
        assert_eq!((labels.len(), without), (10, 1));
        assert!(labels.values().all(|known| known.id.cid == 77));
    }
}
