// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a run: which commands, what to measure, how to attach.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::event::Event;
use crate::model::event::EventKind;
use crate::model::filter::Filter;
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

/// What to record of each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// An event at its set-up, and one at its completion.
    Events,
    /// One event at its completion.
    Pairs,
    /// No event: commands are counted by stack.
    Stacks,
    /// One event at its completion, and the histograms count it.
    Commands,
    /// No event: the histograms count it. While it is in flight, its submission can be read.
    Flight,
}

/// What a run with single commands records of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// What to record.
    pub kind: TraceKind,
    /// Where to take the stack, if at all.
    pub stack: Option<StackAt>,
    /// Take the stack of one command in this many.
    pub sample_period: u32,
    /// Only commands that took at least this long.
    pub slow: Option<Duration>,
    /// Only commands that failed.
    pub errors: bool,
    /// The submission queue's head and tail at each completion.
    pub sq: bool,
    /// Asynchronous events of the controllers.
    pub aen: bool,
    /// Size of the ring, a power of two; `None`: depends on the memory budget.
    pub ring_bytes: Option<u32>,
}

impl Tracing {
    /// Every command, without options.
    pub const fn of(kind: TraceKind) -> Self {
        Self {
            kind,
            stack: None,
            sample_period: 1,
            slow: None,
            errors: false,
            sq: false,
            aen: false,
            ring_bytes: None,
        }
    }

    /// Whether the run has events.
    pub fn has_events(&self) -> bool {
        !matches!(self.kind, TraceKind::Stacks | TraceKind::Flight)
    }

    /// Whether the run has histograms, too.
    pub fn counts(&self) -> bool {
        matches!(self.kind, TraceKind::Commands | TraceKind::Flight)
    }
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which stages to measure.
    pub stage_set: StageSet,
    /// Which commands.
    pub filter: Filter,
    /// nvme_latency's buckets.
    pub lat: Option<LatBuckets>,
    /// A row per size class.
    pub split_size: bool,
    /// Single commands, with or instead of histograms.
    pub trace: Option<Tracing>,
    /// Without a trace: count timeouts and cancellations, too (the hooks' hits are the counts), and
    /// failed and retried commands.
    pub count_trouble: bool,
    /// Without a trace: count the commands of each queue, and report the slowest as events. Only where
    /// the driver's types are known, and commands are not identified by tag.
    pub details: bool,
    /// With a trace: observe the conditions of each command, and what the machine does besides.
    pub context: bool,
    /// How to attach.
    pub attaching: Attaching,
}

impl Settings {
    /// Whether an event of a recording is one that these settings select.
    pub fn selects(&self, event: &Event) -> bool {
        let outcome = event.what.outcome();
        let tracing = self.trace.as_ref();
        let fast = |slow: Duration| {
            let latency = outcome.and_then(|o| o.latency_ns);
            latency.is_some_and(|ns| u128::from(ns) < slow.as_nanos())
        };
        let succeeded = || {
            let verdict = outcome.and_then(|o| o.verdict.as_ref());
            verdict.is_some_and(|v| v.status.is_success())
        };
        let too_fast = tracing.and_then(|t| t.slow).is_some_and(fast);
        let no_error = tracing.is_some_and(|t| t.errors) && succeeded();
        let asked_for = match event.what {
            EventKind::Sq { .. } => tracing.is_some_and(|t| t.sq),
            EventKind::AsyncEvent { .. } => tracing.is_some_and(|t| t.aen),
            _ => true,
        };
        asked_for && !too_fast && !no_error && self.filter.matches(event)
    }

    /// Whether the run has histograms.
    pub fn counts(&self) -> bool {
        self.trace.as_ref().is_none_or(Tracing::counts)
    }

    /// A run with this stage set and no options.
    pub fn of(stage_set: StageSet) -> Self {
        Self {
            stage_set,
            filter: Filter::default(),
            lat: None,
            split_size: false,
            trace: None,
            count_trouble: false,
            details: false,
            context: false,
            attaching: Attaching::default(),
        }
    }

    /// A run with single commands and no options.
    pub fn of_trace(kind: TraceKind, stack: Option<StackAt>) -> Self {
        Self {
            trace: Some(Tracing {
                stack,
                ..Tracing::of(kind)
            }),
            ..Self::of(StageSet::Total)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::CtrlState;

    #[test]
    fn heads_and_tails_are_selected_by_their_option() {
        let sq = Event {
            at_ns: 1,
            what: EventKind::Sq {
                ctrl: 1,
                qid: 1,
                id: None,
                head: 2,
                tail: 3,
            },
        };
        let state = Event {
            at_ns: 1,
            what: EventKind::State {
                ctrl: 1,
                state: CtrlState(1),
                requested: false,
            },
        };
        let mut settings = Settings::of_trace(TraceKind::Pairs, None);
        assert!(!settings.selects(&sq) && settings.selects(&state));
        settings.trace.as_mut().unwrap().sq = true;
        assert!(settings.selects(&sq) && settings.selects(&state));
    }
}
