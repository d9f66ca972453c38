// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session as a source of data.

use super::EventRing;
use super::Session;
use super::reorder::Reorder;
use crate::abi::event;
use crate::abi::event_time;
use crate::error::Result;
use crate::model::counters::Counters;
use crate::model::event::Event;
use crate::model::event::StackId;
use crate::model::run::RunTimes;
use crate::model::run::Scan;
use crate::model::run::StackSum;
use crate::model::snapshot::Snapshot;
use crate::probe::plan::AttachPlan;
use crate::source::EventStream;
use crate::source::Read;
use crate::source::Source;

impl Source for Session {
    fn plan(&self) -> &AttachPlan {
        Self::plan(self)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Self::snapshot(self)
    }

    fn counters(&self) -> Result<Counters> {
        Self::counters(self)
    }

    fn misses(&self) -> Vec<u64> {
        Self::misses(self)
    }

    fn run_times(&self) -> Option<RunTimes> {
        Self::run_times(self)
    }

    fn stack(&self, id: StackId) -> Result<Option<Vec<u64>>> {
        Self::stack(self, id)
    }

    fn stack_sums(&self) -> Result<Vec<StackSum>> {
        Self::stack_sums(self)
    }

    fn end(&mut self) -> Result<()> {
        Self::end(self)
    }

    fn scan(&self) -> Result<Scan> {
        Self::scan(self)
    }

    fn unfinished(&self, now_ns: u64) -> Result<Vec<Event>> {
        Self::unfinished(self, now_ns)
    }
}

/// The events of a session: read from its ring, sorted by time, and decoded.
pub struct LiveEvents {
    ring: EventRing,
    waiting: Reorder,
}

impl LiveEvents {
    pub(super) fn new(ring: EventRing) -> Self {
        Self {
            ring,
            waiting: Reorder::default(),
        }
    }
}

impl EventStream for LiveEvents {
    fn fetch(&mut self) -> Result<bool> {
        let Self { ring, waiting } = self;
        ring.drain(|bytes| {
            // a record without a time comes first; decoding then rejects it
            let ns = event_time(bytes).unwrap_or(0);
            waiting.push(ns, bytes);
        })
    }

    fn release(&mut self, until_ns: u64, to: &mut dyn FnMut(Read<'_>)) {
        // by reference: an event is large, and would be copied out of the result
        self.waiting
            .release(until_ns, |bytes| to(event(bytes).as_ref().ok()));
    }

    fn last_ns(&self) -> u64 {
        self.waiting.last_ns()
    }

    fn late(&self) -> u64 {
        self.waiting.late()
    }
}
