// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session as a source of data.

use super::sorted::SortedRings;
use super::{EventRing, Session};
use crate::abi::{event, event_time};
use crate::error::Result;
use crate::model::activity::Activity;
use crate::model::counters::Counters;
use crate::model::event::{Event, StackId};
use crate::model::run::{RunTimes, Scan, StackSum};
use crate::model::snapshot::Snapshot;
use crate::model::transport::Transports;
use crate::probe::plan::AttachPlan;
use crate::source::{EventStream, Read, RecordSink, Source};

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

    fn activity(&self) -> Result<Option<Activity>> {
        Self::activity(self)
    }

    fn unfinished(&self, now_ns: u64) -> Result<Vec<Event>> {
        Self::unfinished(self, now_ns)
    }
}

/// The events of a session: read from its rings, sorted by time, and decoded.
pub struct LiveEvents {
    pub(super) rings: SortedRings,
    pub(super) transports: Transports,
}

impl LiveEvents {
    /// The events in these rings.
    pub fn of(rings: Vec<EventRing>, transports: Transports) -> Self {
        Self { rings: SortedRings::new(rings), transports }
    }
}

impl EventStream for LiveEvents {
    fn take(&mut self, all: bool, to: &mut dyn FnMut(Read<'_>)) -> Result<bool> {
        // by reference: an event is large, and would be copied out of the result
        let transports = &self.transports;
        let to = |bytes: &[u8]| to(event(bytes, transports).as_ref().ok());
        self.rings.take(all, event_time, to)
    }

    fn take_records(&mut self, all: bool, to: &mut dyn RecordSink) -> Result<bool> {
        let transports = &self.transports;
        self.rings.take(all, event_time, |bytes| {
            if !to.record(bytes, transports) {
                to.event(event(bytes, transports).as_ref().ok());
            }
        })
    }

    fn last_ns(&self) -> u64 {
        self.rings.last_ns()
    }

    fn late(&self) -> u64 {
        self.rings.late()
    }
}
