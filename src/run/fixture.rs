// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run without a kernel, for tests: its data are vectors.

use std::cell::Cell;
#[cfg(feature = "live")]
use std::fs::File;
use std::mem::take;
#[cfg(feature = "live")]
use std::ops::Range;
#[cfg(feature = "live")]
use std::os::unix::fs::FileExt;

use crate::StageSet;
use crate::error::Result;
use crate::model::counters::Counters;
use crate::model::event::{Event, StackId};
use crate::model::run::{RunTimes, Scan, StackSum};
use crate::model::snapshot::Snapshot;
use crate::probe::facts::KernelFacts;
use crate::probe::plan::{AttachPlan, Policy, plan};
#[cfg(feature = "live")]
use crate::session::LiveEvents;
use crate::source::{EventStream, Read, Source, complete_until_ns};
use serde_json::Value;

/// Reads the records of a file (tests/testing/ring.rs) from one place to another.
#[cfg(feature = "live")]
pub fn read_ring(file: &File, bytes: Range<u64>, to: &mut LiveEvents) {
    let mut all = vec![0; (bytes.end - bytes.start) as usize];
    file.read_exact_at(&mut all, bytes.start).unwrap();
    let mut left = &all[..];
    while let Some((size, rest)) = left.split_first_chunk() {
        let (record, rest) = rest.split_at(u64::from_ne_bytes(*size) as usize);
        to.push(record);
        left = rest;
    }
}

/// The plan of a recorded kernel (tests/kernels).
fn plan_of_6_12(stage_set: StageSet) -> AttachPlan {
    let found = include_str!("../../tests/kernels/6.12.json");
    let mut found: Value = serde_json::from_str(found).unwrap();
    let facts: KernelFacts = serde_json::from_value(found["facts"].take()).unwrap();
    plan(stage_set, &facts, &Policy::default()).unwrap()
}

/// Sums and counters.
pub struct VecSource {
    plan: AttachPlan,
    /// One per call; then the last one again.
    pub snapshots: Vec<Snapshot>,
    calls: Cell<usize>,
    /// Stacks by number, from 1.
    pub stacks: Vec<Vec<u64>>,
    /// Commands in flight at the end.
    pub unfinished: Vec<Event>,
    /// Whether the run has ended.
    pub ended: bool,
}

impl VecSource {
    /// Without data.
    pub fn new(stage_set: StageSet) -> Self {
        Self {
            plan: plan_of_6_12(stage_set),
            snapshots: vec![],
            calls: Cell::new(0),
            stacks: vec![],
            unfinished: vec![],
            ended: false,
        }
    }
}

impl Source for VecSource {
    fn plan(&self) -> &AttachPlan {
        &self.plan
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let n = self.calls.replace(self.calls.get() + 1);
        let last = self.snapshots.len().saturating_sub(1);
        Ok(self.snapshots.get(n.min(last)).cloned().unwrap_or_default())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(self.snapshots.last().cloned().unwrap_or_default().counters)
    }

    fn misses(&self) -> Vec<u64> {
        vec![]
    }

    fn run_times(&self) -> Option<RunTimes> {
        None
    }

    fn stack(&self, id: StackId) -> Result<Option<Vec<u64>>> {
        let n = usize::try_from(id.0).unwrap();
        Ok(self.stacks.get(n.wrapping_sub(1)).cloned())
    }

    fn stack_sums(&self) -> Result<Vec<StackSum>> {
        Ok(vec![])
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        Ok(())
    }

    fn scan(&self) -> Result<Scan> {
        Ok(Scan { in_flight: self.unfinished.len() as u64, ending: 0 })
    }

    fn unfinished(&self, _: u64) -> Result<Vec<Event>> {
        Ok(self.unfinished.clone())
    }
}

/// Events in the order of time.
#[derive(Default)]
pub struct VecEvents {
    /// Events of the next fetch; `None` is a record that can't be decoded.
    pub coming: Vec<Option<Event>>,
    waiting: Vec<Option<Event>>,
    last_ns: u64,
}

impl EventStream for VecEvents {
    fn take(&mut self, all: bool, to: &mut dyn FnMut(Read<'_>)) -> Result<bool> {
        self.waiting.append(&mut self.coming);
        let until_ns = complete_until_ns();
        let (due, later) = take(&mut self.waiting)
            .into_iter()
            .partition(|e| all || e.as_ref().is_none_or(|e| e.at_ns <= until_ns));
        self.waiting = later;
        let due: Vec<Option<Event>> = due;
        for event in &due {
            self.last_ns = event.as_ref().map_or(self.last_ns, |e| e.at_ns);
            to(event.as_ref());
        }
        Ok(false)
    }

    fn last_ns(&self) -> u64 {
        self.last_ns
    }

    fn late(&self) -> u64 {
        0
    }
}
