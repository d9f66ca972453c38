// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a run. [`Source`] provides its sums and counters, [`EventStream`] its events in time
//! order. A live session provides both; so do vectors in tests.

use crate::error::Result;
use crate::machine::clock::monotonic_ns;
use crate::model::activity::Activity;
use crate::model::counters::Counters;
use crate::model::event::{Event, REORDER_NS, StackId};
use crate::model::host::HostEvent;
use crate::model::ledger::HostLedger;
use crate::model::run::{RunTimes, Scan, StackSum};
use crate::model::snapshot::Snapshot;
use crate::model::target::{HostController, TargetInfo};
use crate::probe::plan::AttachPlan;

/// No event before this time can come any more, once the rings have been read. To be called before
/// that: an event is in its ring at most [`REORDER_NS`] after its time.
pub fn complete_until_ns() -> u64 {
    monotonic_ns().saturating_sub(REORDER_NS)
}

/// The sums and counters of a run.
pub trait Source {
    /// The attach plan: what is attached, and why not more.
    fn plan(&self) -> &AttachPlan;

    /// Reads all counters and histograms since the start of the run.
    ///
    /// # Errors
    /// If they cannot be read.
    fn snapshot(&self) -> Result<Snapshot>;

    /// Reads the counters only.
    ///
    /// # Errors
    /// If they cannot be read.
    fn counters(&self) -> Result<Counters>;

    /// How often the kernel skipped each program, by hook number.
    fn misses(&self) -> Vec<u64>;

    /// Run times of the programs, if they were measured.
    fn run_times(&self) -> Option<RunTimes>;

    /// The addresses of a stack, innermost first; `None` if there is no such stack.
    ///
    /// # Errors
    /// If the stack cannot be read.
    fn stack(&self, id: StackId) -> Result<Option<Vec<u64>>>;

    /// Every stack with the latencies of its commands.
    ///
    /// # Errors
    /// If they cannot be read.
    fn stack_sums(&self) -> Result<Vec<StackSum>>;

    /// What the machine did besides the commands since the begin of the run, and the gaps since the
    /// last reading. `None`: not observed.
    ///
    /// # Errors
    /// If it cannot be read.
    fn activity(&self) -> Result<Option<Activity>> {
        Ok(None)
    }

    /// Ends the run. Data read afterwards is final.
    ///
    /// # Errors
    /// If the commands in flight cannot be read. The run has ended even so.
    fn end(&mut self) -> Result<()>;

    /// Counts the commands that have not completed, or not ended, at the end of the run.
    ///
    /// # Errors
    /// If they cannot be read.
    fn scan(&self) -> Result<Scan>;

    /// The commands that have not completed, as events. `now_ns` is the time at which the run
    /// ended.
    ///
    /// # Errors
    /// If they cannot be read.
    fn unfinished(&self, now_ns: u64) -> Result<Vec<Event>>;
}

/// An event; `None` for a record that cannot be decoded.
pub type Read<'a> = Option<&'a Event>;

/// Events in time order.
pub trait EventStream {
    /// Reads new events, and passes on those before which none can come any more. With `all`, every
    /// one that is left, after the end of a run. Returns true if there may be more.
    ///
    /// # Errors
    /// If they cannot be read.
    fn take(&mut self, all: bool, to: &mut dyn FnMut(Read<'_>)) -> Result<bool>;

    /// The time of the latest event that was passed on.
    fn last_ns(&self) -> u64;

    /// Number of events that were passed on after a later one.
    fn late(&self) -> u64;
}

/// A target that is traced.
pub trait HostSource {
    /// The target.
    fn target(&self) -> &TargetInfo;

    /// The controllers that were seen so far.
    fn controllers(&self) -> &[HostController];

    /// Passes on new events by time, except the latest: earlier ones may still arrive. With `all`,
    /// those too. Returns true if there may be more.
    ///
    /// # Errors
    /// If the ring cannot be read, or data of the target contradict each other.
    fn take(
        &mut self,
        all: bool,
        to: &mut dyn FnMut(&HostEvent, &[HostController]),
    ) -> Result<bool>;

    /// Fails if the target has ended: there will be no more events.
    ///
    /// # Errors
    /// If it has.
    fn alive(&self) -> Result<()>;

    /// Detaches everything, and returns the ledger. Passes on the events that are left, and the
    /// commands in flight.
    ///
    /// # Errors
    /// If the maps cannot be read.
    fn end(&mut self, to: &mut dyn FnMut(&HostEvent, &[HostController])) -> Result<HostLedger>;
}
