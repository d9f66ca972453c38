// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a run: which commands, what to measure, how to attach.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::event::{Event, EventKind};
use crate::model::filter::Filter;
use crate::model::group::By;
use crate::model::nvme_latency::LatBuckets;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::probe::catalog::Method;

/// How to attach, and how verbose to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attaching {
    /// Attach by this method only.
    pub only: Option<Method>,
    /// BTF of the driver's modules.
    pub btf: Option<PathBuf>,
    /// Verbosity on stderr.
    pub verbose: u8,
    /// Tests only: programs that ignore every 97th of their events.
    pub ignore: Vec<String>,
    /// Tests only: do not recover commands whose set-up or completion was not observed.
    pub no_recovery: bool,
}

/// Stacks of single commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSample {
    /// Where they are taken.
    pub at: StackAt,
    /// Of one command in this many.
    pub period: u32,
}

/// A choice of commands by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Only commands that took at least this long.
    pub slow: Option<Duration>,
    /// Only commands that failed.
    pub errors: bool,
}

/// Histograms, and what is counted or reported beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// nvme_latency's buckets.
    pub lat: Option<LatBuckets>,
    /// A row per size class.
    pub split_size: bool,
    /// A row per group with these properties, instead of rows per controller, namespace and opcode.
    pub by: Vec<By>,
    /// What else.
    pub also: Also,
    /// The slowest commands that it reports have their submitters.
    pub submitters: bool,
}

/// What a run with histograms does besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Also {
    /// Nothing.
    #[default]
    Nothing,
    /// It counts timeouts and cancellations (the hooks' hits are the counts), and failed and retried
    /// commands.
    CountErrors,
    /// It counts these, and the commands of each queue, and reports the slowest as events. Only where
    /// the driver's types are known, and commands are not identified by tag.
    TopCounters,
    /// It reports each command as an event at its completion.
    Commands,
}

/// Who caused each command: what is observed of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Nothing.
    #[default]
    Nobody,
    /// Cgroups.
    Cgroups,
    /// Cgroups, and the submitter of the bio.
    Submitters,
}

/// Events of single commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// One event of each command, at its completion. Otherwise also one at its set-up.
    pub pairs: bool,
    /// Kernel stacks, if they are taken.
    pub stack: Option<StackSample>,
    /// Which commands, by their outcome.
    pub outcome: Outcome,
    /// The submission queue's head and tail at each completion.
    pub sq: bool,
    /// Asynchronous events of the controllers.
    pub aen: bool,
    /// The conditions of each command, and what the machine does besides.
    pub context: bool,
    /// Who caused each command.
    pub who: Who,
    /// Size of the rings, a power of two; `None`: depends on the memory budget.
    pub ring_bytes: Option<u32>,
}

/// What a run measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Histograms.
    Histograms(Histograms),
    /// Events of single commands.
    Events(Events),
    /// Commands by kernel stack: their number, and the sum of their latencies.
    Stacks(StackSample, Outcome),
    /// Histograms by size class. The submission of a command can be read while it is in flight, with its
    /// stack if one is taken.
    Flight(Option<StackSample>),
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which stages to measure.
    pub stage_set: StageSet,
    /// Which commands.
    pub filter: Filter,
    /// What to measure.
    pub mode: Mode,
    /// How to attach.
    pub attaching: Attaching,
}

impl StackSample {
    /// The stack of every command.
    pub const fn every(at: StackAt) -> Self {
        Self { at, period: 1 }
    }
}

impl Outcome {
    /// Whether an event is chosen. One without an outcome is.
    fn selects(self, event: &Event) -> bool {
        let outcome = event.what.outcome();
        let latency = outcome.and_then(|o| o.latency_ns);
        let too_fast =
            self.slow.zip(latency).is_some_and(|(slow, ns)| u128::from(ns) < slow.as_nanos());
        let verdict = outcome.and_then(|o| o.verdict.as_ref());
        let no_error = self.errors && verdict.is_some_and(|v| v.status.is_success());
        !too_fast && !no_error
    }
}

impl Events {
    /// One event of each command.
    pub fn pairs() -> Self {
        Self { pairs: true, ..Self::default() }
    }
}

impl Mode {
    /// A run with this stage set, and nothing else chosen.
    pub fn with(self, stage_set: StageSet) -> Settings {
        Settings {
            stage_set,
            filter: Filter::default(),
            mode: self,
            attaching: Attaching::default(),
        }
    }
}

impl Settings {
    /// A run with histograms of this stage set, and nothing else chosen.
    pub fn of(stage_set: StageSet) -> Self {
        Mode::Histograms(Histograms::default()).with(stage_set)
    }

    /// Whether an event of a recording is one that these settings select.
    pub fn selects(&self, event: &Event) -> bool {
        let has = |is_on: fn(&Events) -> bool| self.events().is_some_and(is_on);
        let is_shown = match event.what {
            EventKind::Sq { .. } => has(|events| events.sq),
            EventKind::AsyncEvent { .. } => has(|events| events.aen),
            _ => true,
        };
        is_shown && self.outcome().selects(event) && self.filter.matches(event)
    }

    /// Events instead of histograms.
    pub const fn events(&self) -> Option<&Events> {
        match &self.mode {
            Mode::Events(events) => Some(events),
            _ => None,
        }
    }

    /// What is counted or reported beside histograms.
    pub const fn also(&self) -> Also {
        match &self.mode {
            Mode::Histograms(histograms) => histograms.also,
            _ => Also::Nothing,
        }
    }

    /// Whether the run has histograms.
    pub const fn counts(&self) -> bool {
        matches!(self.mode, Mode::Histograms(_) | Mode::Flight(_))
    }

    /// Whether each command has an event.
    pub const fn has_events(&self) -> bool {
        matches!(self.mode, Mode::Events(_)) || matches!(self.also(), Also::Commands)
    }

    /// Whether commands are looked at singly, with or instead of histograms.
    pub const fn is_trace(&self) -> bool {
        !matches!(self.mode, Mode::Histograms(_)) || matches!(self.also(), Also::Commands)
    }

    /// Whether commands are counted by stack.
    pub const fn sums_stacks(&self) -> bool {
        matches!(self.mode, Mode::Stacks(..))
    }

    /// nvme_latency's buckets.
    pub const fn lat(&self) -> Option<LatBuckets> {
        match &self.mode {
            Mode::Histograms(histograms) => histograms.lat,
            _ => None,
        }
    }

    /// Whether there is a row per size class.
    pub const fn split_size(&self) -> bool {
        match &self.mode {
            Mode::Histograms(histograms) => histograms.split_size,
            Mode::Flight(_) => true,
            _ => false,
        }
    }

    /// The properties by which commands are grouped, if they are.
    pub fn by(&self) -> &[By] {
        match &self.mode {
            Mode::Histograms(histograms) => &histograms.by,
            _ => &[],
        }
    }

    /// The stacks that are taken.
    pub const fn stack(&self) -> Option<StackSample> {
        match &self.mode {
            Mode::Histograms(_) => None,
            Mode::Events(events) => events.stack,
            Mode::Stacks(stack, _) => Some(*stack),
            Mode::Flight(stack) => *stack,
        }
    }

    /// Which commands, by their outcome.
    pub fn outcome(&self) -> Outcome {
        match &self.mode {
            Mode::Events(events) => events.outcome,
            Mode::Stacks(_, outcome) => *outcome,
            _ => Outcome::default(),
        }
    }

    /// Whether the conditions of each command are observed, and what the machine does besides.
    pub fn context(&self) -> bool {
        self.events().is_some_and(|events| events.context)
    }

    /// Who caused each command: what its event has.
    pub fn origin(&self) -> Who {
        self.events().map_or(Who::Nobody, |events| events.who)
    }

    /// What is observed of who caused commands, for events, groups or filters.
    pub fn who(&self) -> Who {
        let by_submitter = self.by().iter().any(|by| by.is_submitter());
        if by_submitter || self.reports_submitters() || self.filter.selects_submitters() {
            Who::Submitters
        } else {
            self.origin()
        }
    }

    /// Whether the slowest commands that a run with histograms reports have their submitters.
    pub fn reports_submitters(&self) -> bool {
        matches!(&self.mode, Mode::Histograms(histograms) if histograms.submitters)
    }

    /// The size of the rings, if one was chosen.
    pub fn ring_bytes(&self) -> Option<u32> {
        self.events().and_then(|events| events.ring_bytes)
    }
}

/// How to trace the process of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// Measure the run times of the programs, and the cost of their traps.
    pub measure: bool,
    /// Only the begin and the end of each command, with fewer traps.
    pub ends_only: bool,
    /// For tests: an error of the layout in bytes.
    pub shift: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::CtrlState;

    #[test]
    fn heads_and_tails_are_selected_by_their_option() {
        let sq =
            Event { at_ns: 1, what: EventKind::Sq { ctrl: 1, qid: 1, id: None, head: 2, tail: 3 } };
        let state = Event {
            at_ns: 1,
            what: EventKind::State { ctrl: 1, state: CtrlState(1), requested: false },
        };
        let mut events = Events::pairs();
        for wanted in [false, true] {
            events.sq = wanted;
            let settings = Mode::Events(events.clone()).with(StageSet::Total);
            assert_eq!(settings.selects(&sq), wanted);
            assert!(settings.selects(&state));
        }
    }
}
