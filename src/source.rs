// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a command gets its data. [`Source`] has the sums and the counters of a run, [`EventStream`] its
//! events in the order of time. A live session offers both; so does a vector in a test.

use anyhow::Result;

use crate::model::counters::Counters;
use crate::model::event::Event;
use crate::model::event::StackId;
use crate::model::run::RunTimes;
use crate::model::run::Scan;
use crate::model::run::StackSum;
use crate::model::snapshot::Snapshot;
use crate::probe::plan::AttachPlan;

/// The sums and counters of a run.
pub trait Source {
    /// What is attached, and why not more.
    fn plan(&self) -> &AttachPlan;

    /// Everything since the start of the run.
    ///
    /// # Errors
    /// Where it can't be read.
    fn snapshot(&self) -> Result<Snapshot>;

    /// The counters alone.
    ///
    /// # Errors
    /// Where they can't be read.
    fn counters(&self) -> Result<Counters>;

    /// How often the kernel skipped a program, by hook number.
    fn misses(&self) -> Vec<u64>;

    /// Run times of the programs, if they were measured.
    fn run_times(&self) -> Option<RunTimes>;

    /// The addresses of a stack, innermost first; `None`: there is no such stack.
    ///
    /// # Errors
    /// Where it can't be read.
    fn stack(&self, id: StackId) -> Result<Option<Vec<u64>>>;

    /// Every stack with its commands.
    ///
    /// # Errors
    /// Where they can't be read.
    fn stack_sums(&self) -> Result<Vec<StackSum>>;

    /// Ends the run. What is read afterwards is final.
    ///
    /// # Errors
    /// Where commands in flight can't be read. The run has ended all the same.
    fn end(&mut self) -> Result<()>;

    /// Commands that have not completed, or not ended. After the end of the run.
    ///
    /// # Errors
    /// Where they can't be read.
    fn scan(&self) -> Result<Scan>;

    /// The same, as events. `now_ns` is when the run ended.
    ///
    /// # Errors
    /// Where they can't be read.
    fn unfinished(&self, now_ns: u64) -> Result<Vec<Event>>;
}

/// An event, or a record that can't be decoded.
pub type Read<'a> = Option<&'a Event>;

/// Events in the order of time.
pub trait EventStream {
    /// Takes in what has come.
    ///
    /// # Errors
    /// Where it can't be read. True: there may be more.
    fn fetch(&mut self) -> Result<bool>;

    /// Hands over what is not later than `until_ns` (CLOCK_MONOTONIC).
    fn release(&mut self, until_ns: u64, to: &mut dyn FnMut(Read<'_>));

    /// The time of the latest event that was handed over.
    fn last_ns(&self) -> u64;

    /// Events that were handed over after a later one.
    fn late(&self) -> u64;
}
