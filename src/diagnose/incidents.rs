// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rare events: timeouts, resets, retries, failures, and commands that were completed by the driver's
//! poll.

use std::collections::{BTreeMap, HashMap};

use crate::model::event::{CommandId, Event, EventKind};
use crate::model::ids::FlightId;
use crate::model::point::Point;
use crate::nvme::opcode::QueueKind;
use crate::nvme::status::{Status, StatusType};

use super::affected::{Affected, MOST};

/// A command that the driver finds completed within this time after its timeout was completed before
/// it: the driver has only polled the completion queue.
const POLL_NS: u64 = 100_000_000;
/// NVME_SC_HOST_ABORTED_CMD: the driver has cancelled the command, as in a reset. It has the type of
/// path errors, and says nothing about a path.
const HOST_ABORTED: u16 = 0x371;

/// Whether the driver has cancelled a command with this status.
pub fn is_host_abort(status: Status) -> bool {
    status.code_and_type() == HOST_ABORTED
}

/// A timeout.
#[derive(Clone, Copy, Debug)]
pub struct TimedOut {
    /// The command.
    pub id: CommandId,
    /// CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Its age then.
    pub age_ns: u64,
    /// The driver's poll found its CQE; the command had succeeded.
    pub polled: bool,
    /// What is known of the command.
    pub affected: Affected,
}

/// What a controller went through.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    /// Timeouts by controller, in order.
    timeouts: BTreeMap<u32, Vec<TimedOut>>,
    /// The number of the last one of each command, among those of its controller.
    last_timeout: HashMap<FlightId, usize>,
    /// Resets, by controller.
    pub resets: BTreeMap<u32, u64>,
    /// Retries of I/O commands, by controller.
    pub retries: BTreeMap<u32, u64>,
    /// I/O commands that failed, by controller and status.
    pub failures: BTreeMap<(u32, u16), u64>,
    /// I/O commands that failed with a path-related status, by controller.
    pub path_errors: BTreeMap<u32, u64>,
    /// When controllers were reset, in order, and as above at most some.
    pub reset_times: BTreeMap<u32, Vec<u64>>,
    /// The failed commands with their status, at most some.
    pub failed: Vec<(Status, Affected)>,
    /// The commands that were retried, likewise.
    pub retried: Vec<Affected>,
    /// Commands in flight at the end: age in nanoseconds.
    pub unfinished: Vec<(CommandId, u64)>,
}

impl Incidents {
    /// Takes in an event.
    pub fn add(&mut self, event: &Event) {
        let ctrl = event.what.ctrl();
        let mut count = |of: fn(&mut Self) -> &mut BTreeMap<u32, u64>| {
            *of(self).entry(ctrl).or_default() += 1;
        };
        match &event.what {
            EventKind::Timeout { id, age_ns } => {
                let timeouts = self.timeouts.entry(ctrl).or_default();
                self.last_timeout.insert(id.in_flight(), timeouts.len());
                timeouts.push(TimedOut {
                    id: *id,
                    at_ns: event.at_ns,
                    age_ns: *age_ns,
                    polled: false,
                    affected: Affected::of_event(
                        id,
                        None,
                        (event.at_ns.saturating_sub(*age_ns), event.at_ns),
                    ),
                });
            }
            EventKind::Retry { id, .. } => {
                count(|i| &mut i.retries);
                if self.retried.len() < MOST {
                    self.retried.push(Affected::of_event(id, None, (event.at_ns, event.at_ns)));
                }
            }
            EventKind::State { state, .. } if state.name() == Some("resetting") => {
                count(|i| &mut i.resets);
                let times = self.reset_times.entry(ctrl).or_default();
                if times.len() < MOST {
                    times.push(event.at_ns);
                }
            }
            EventKind::Unfinished { id, age_ns, .. } => self.unfinished.push((*id, *age_ns)),
            EventKind::Command(id, submission, end) if id.opcode.queue == QueueKind::Io => {
                let status = end.verdict.map(|v| v.status);
                let line = end.timeline.as_ref();
                let begin_ns = line.and_then(|line| line.at(Point::SetupOut));
                let span = (begin_ns.unwrap_or(event.at_ns), event.at_ns);
                if !self.timeouts.is_empty() {
                    self.resolve(id, Affected::of_event(id, Some(submission), span), status);
                }
                if let Some(status) = status.filter(|s| !s.is_success()) {
                    let code = status.code_and_type();
                    if self.failed.len() < MOST {
                        let affected = Affected::of_event(id, Some(submission), span);
                        self.failed.push((status, affected));
                    }
                    *self.failures.entry((ctrl, code)).or_default() += 1;
                    if status.kind() == StatusType::Path && !is_host_abort(status) {
                        *self.path_errors.entry(ctrl).or_default() += 1;
                    }
                }
            }
            _ => {}
        }
    }

    /// The end of a command that may have timed out.
    fn resolve(&mut self, id: &CommandId, command: Affected, status: Option<Status>) {
        let at_ns = command.end_ns;
        let succeeded = status.is_none_or(|s| s.is_success());
        let last = self.last_timeout.get(&id.in_flight());
        let last = last.and_then(|at| self.timeouts.get_mut(&id.ctrl)?.get_mut(*at));
        let Some(found) = last else { return };
        // a reset cancels it later
        (found.affected.blocks, found.affected.issuer) = (command.blocks, command.issuer);
        if at_ns >= found.at_ns && at_ns - found.at_ns < POLL_NS {
            found.polled = succeeded;
        }
    }

    /// Timeouts of a controller whose CQE the driver's poll found.
    pub fn polled(&self, ctrl: u32) -> impl Iterator<Item = &TimedOut> {
        self.of_ctrl(ctrl).filter(|t| t.polled)
    }

    fn of_ctrl(&self, ctrl: u32) -> impl Iterator<Item = &TimedOut> {
        self.timeouts.get(&ctrl).into_iter().flatten()
    }

    /// Controllers with an incident of any kind.
    pub fn all_controllers(&self) -> Vec<u32> {
        let mut all = self.controllers();
        all.extend(self.resets.keys());
        all.extend(self.retries.keys());
        all.extend(self.path_errors.keys());
        all.extend(self.failures.keys().map(|(ctrl, _)| *ctrl));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Timeouts of a controller that no poll of the driver ended.
    pub fn unpolled(&self, ctrl: u32) -> impl Iterator<Item = &TimedOut> {
        self.of_ctrl(ctrl).filter(|t| !t.polled)
    }

    /// Controllers with a timeout.
    pub fn controllers(&self) -> Vec<u32> {
        self.timeouts.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::CtrlState;
    use crate::testing::EventBuilder;

    const TIMEOUT_NS: u64 = 30_000_000_000;

    fn after(events: &[Event]) -> Incidents {
        let mut incidents = Incidents::default();
        events.iter().for_each(|e| incidents.add(e));
        incidents
    }

    #[test]
    fn a_command_that_ends_well_right_after_its_timeout_was_polled() {
        let made = EventBuilder::read();
        let polled = |before_ns: u64, status: u16, cid: u16| {
            let timeout = made.at(made.at_ns - before_ns).timeout(TIMEOUT_NS);
            let ended = made.status(status).cid(cid);
            let found = after(&[timeout, ended.command()]);
            assert_eq!(found.controllers(), [0]);
            found.polled(0).count()
        };
        assert_eq!(polled(10_000, 0, 1), 1);
        // cancelled, another command, too late
        assert_eq!(polled(10_000, 0x371, 1), 0);
        assert_eq!(polled(10_000, 0, 2), 0);
        assert_eq!(polled(POLL_NS, 0, 1), 0);
        assert_eq!(polled(POLL_NS - 1, 0, 1), 1);
    }

    #[test]
    fn failures_are_counted_by_status_and_those_of_paths_apart() {
        let failed = |status| EventBuilder::read().status(status).command();
        // do not retry, more: the same failure
        let found = after(&[failed(0x281), failed(0x4281), failed(0x303), failed(0)]);
        let cancelled = after(&[failed(0x371), failed(0x4371)]);
        assert!(cancelled.path_errors.is_empty());
        assert_eq!(found.failures[&(0, 0x281)], 2);
        assert_eq!(found.failures[&(0, 0x303)], 1);
        assert_eq!(found.failures.len(), 2);
        assert_eq!(found.path_errors[&0], 1);
    }

    #[test]
    fn resets_and_retries_are_counted_by_controller() {
        let id = EventBuilder::read().id;
        let state = |state| EventKind::State { ctrl: 3, state: CtrlState(state), requested: false };
        let all = [state(2), state(1), state(2), EventKind::Retry { id, retries: None }];
        let events = all.map(|what| Event { at_ns: 1, what });
        let found = after(&events);
        assert_eq!(found.resets, BTreeMap::from([(3, 2)]));
        assert_eq!(found.retries, BTreeMap::from([(0, 1)]));
        assert!(found.controllers().is_empty());
    }
}
