// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rare events: timeouts, resets, retries, failures, and commands that are stuck at the end of a run. Counts are
//! exact; of the events themselves, some are kept.

use std::collections::{BTreeMap, HashMap};

use super::affected::{Affected, blocks_of};
use super::facts::Facts;
use super::verdict::Subject;
use crate::machine::inflight::StuckState;
use crate::machine::inflight::report::InFlight;
use crate::model::event::{CommandId, Event, EventKind};
use crate::model::ids::{FlightId, NamespaceId};
use crate::model::point::Point;
use crate::nvme::opcode::QueueKind;
use crate::nvme::status::{Status, StatusType};

/// A command that the driver finds completed within this time after its timeout was completed before
/// it: the driver has only polled the completion queue.
const POLL_NS: u64 = 100_000_000;
/// NVME_SC_HOST_ABORTED_CMD: the driver has cancelled the command, as in a reset. It has the type of
/// path errors, and says nothing about a path.
const HOST_ABORTED: u16 = 0x371;
/// Most events that are kept, of each kind on each controller.
const MOST: u64 = 1000;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    /// A command timed out.
    TimedOut,
    /// A command was started again.
    Retried,
    /// The controller was reset.
    Reset,
    /// A command failed, with this code and type of its status.
    Failed(u16),
}

impl Happened {
    /// Whether a command failed with a path-related status.
    pub fn is_path_error(self) -> bool {
        matches!(self, Self::Failed(code) if Status(code).kind() == StatusType::Path && code != HOST_ABORTED)
    }
}

/// A rare event.
#[derive(Clone, Copy, Debug)]
pub struct Incident {
    /// What happened.
    pub what: Happened,
    /// After a timeout, the driver's poll found the CQE, and the command had succeeded.
    pub is_polled: bool,
    /// The command, and its time; of a reset, its time.
    pub affected: Affected,
}

/// What the controllers went through.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    kept: Vec<Incident>,
    counts: BTreeMap<(u32, Happened), u64>,
    /// The last timeout of each command.
    last_timeout: HashMap<FlightId, usize>,
}

impl Incidents {
    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        let at_ns = event.at_ns;
        match &event.what {
            EventKind::Timeout { id, age_ns } => {
                let span = (at_ns.saturating_sub(*age_ns), at_ns);
                let place = self.kept.len();
                self.push(Happened::TimedOut, Affected::of_event(id, None, span));
                if self.kept.len() > place {
                    self.last_timeout.insert(id.in_flight(), place);
                }
            }
            EventKind::Retry { id, .. } => {
                self.push(Happened::Retried, Affected::of_event(id, None, (at_ns, at_ns)));
            }
            EventKind::State { ctrl, state, .. } if state.name() == Some("resetting") => {
                let disk = NamespaceId::new(*ctrl, 0);
                let reset =
                    Affected { begin_ns: at_ns, end_ns: at_ns, disk, ..Affected::default() };
                self.push(Happened::Reset, reset);
            }
            EventKind::Command(id, submission, end) if id.opcode.queue == QueueKind::Io => {
                let status = end.verdict.map(|v| v.status);
                let failed = status.filter(|s| !s.is_success());
                if failed.is_none() && self.last_timeout.is_empty() {
                    return;
                }
                let begin_ns = end.timeline.as_ref().and_then(|line| line.at(Point::SetupOut));
                let span = (begin_ns.unwrap_or(at_ns), at_ns);
                let command = Affected::of_event(id, Some(submission), span);
                self.resolve(id, command, failed.is_none());
                if let Some(status) = failed {
                    self.push(Happened::Failed(status.code_and_type()), command);
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, what: Happened, affected: Affected) {
        let count = self.counts.entry((affected.disk.ctrl, what)).or_default();
        *count += 1;
        if *count <= MOST {
            self.kept.push(Incident { what, is_polled: false, affected });
        }
    }

    /// The end of a command that may have timed out.
    fn resolve(&mut self, id: &CommandId, command: Affected, succeeded: bool) {
        let last = self.last_timeout.get(&id.in_flight()).and_then(|at| self.kept.get_mut(*at));
        let Some(found) = last.filter(|found| found.what == Happened::TimedOut) else { return };
        // a reset cancels it later
        (found.affected.blocks, found.affected.issuer) = (command.blocks, command.issuer);
        let after_ns = command.end_ns.checked_sub(found.affected.end_ns);
        if after_ns.is_some_and(|after_ns| after_ns < POLL_NS) {
            found.is_polled = succeeded;
        }
    }

    /// The events of a controller that are kept.
    pub fn of(&self, ctrl: u32) -> impl Iterator<Item = &Incident> + Clone {
        self.kept.iter().filter(move |i| i.affected.disk.ctrl == ctrl)
    }

    /// The timeouts of a controller.
    pub fn timeouts(&self, ctrl: u32) -> impl Iterator<Item = &Incident> + Clone {
        self.of(ctrl).filter(|i| i.what == Happened::TimedOut)
    }

    /// How often each thing happened to a controller.
    pub fn counts(&self, ctrl: u32) -> impl Iterator<Item = (Happened, u64)> {
        let own = self.counts.iter().filter(move |((of, _), _)| *of == ctrl);
        own.map(|((_, what), count)| (*what, *count))
    }

    /// How often something happened to a controller.
    pub fn count(&self, ctrl: u32, holds: impl Fn(Happened) -> bool) -> u64 {
        self.counts(ctrl).filter(|(what, _)| holds(*what)).map(|(_, count)| count).sum()
    }

    /// Controllers with an incident.
    pub fn ctrls(&self) -> impl Iterator<Item = u32> {
        self.counts.keys().map(|(ctrl, _)| *ctrl)
    }
}

/// Least age in nanoseconds: beyond what a busy device takes.
pub const STUCK_NS: u64 = 1_000_000_000;
/// Least age of others than reads and writes: the first deallocation of a disk may take seconds.
pub const OTHERS_NS: u64 = 10_000_000_000;
/// Least age, in medians of its class.
const TIMES: u64 = 20;

/// An I/O command in flight, for `STUCK_NS` and more. Its time begins when the driver started it, and ends when it was
/// looked at. Without its SQE, namespace and opcode are not known.
#[derive(Clone, Copy, Debug)]
pub struct Stuck {
    /// The command.
    pub affected: Affected,
    /// What became of it; `None`: its queue could not be read.
    pub state: Option<StuckState>,
}

impl Stuck {
    /// The old commands of I/O queues. Admin queues have commands that wait for events.
    pub fn of(found: &InFlight, at_ns: u64) -> Vec<Self> {
        let lines = found.commands.iter().filter(|c| c.is_old && !c.queue.is_admin());
        let stuck = lines.map(|line| {
            let sqe = line.sqe;
            let age_ns = line.age.map_or(0, |age| age.as_nanos() as u64);
            let affected = Affected {
                begin_ns: at_ns.saturating_sub(age_ns),
                end_ns: at_ns,
                disk: NamespaceId::new(line.queue.ctrl, sqe.map_or(0, |sqe| sqe.nsid())),
                qid: line.queue.qid,
                cid: sqe.map(|sqe| sqe.cid()),
                code: sqe.map(|sqe| sqe.opcode()),
                blocks: sqe.and_then(|sqe| blocks_of(&sqe)),
                issuer: None,
            };
            Self { affected, state: line.verdict }
        });
        stuck.collect()
    }
}

impl Facts {
    /// The stuck commands of a controller in a state for which `wanted` holds.
    pub fn stuck(&self, ctrl: u32, wanted: impl Fn(Option<StuckState>) -> bool) -> Vec<Affected> {
        let own = self.in_flight.iter().filter(|s| wanted(s.state)).map(|s| s.affected);
        let is_old = |stuck: &Affected| {
            let classes = self.classes.of_subject(Subject::Controller(ctrl));
            let alike = classes.filter(|c| {
                let of_class = (c.class.nsid, c.class.opcode.code);
                stuck.code.is_none_or(|code| (stuck.disk.nsid, code) == of_class)
            });
            // a device may take seconds for all
            let usual_ns = alike.map(|c| c.begun_p50_ns).max().unwrap_or(0);
            // reads and writes
            let least_ns = if matches!(stuck.code, Some(1 | 2)) { STUCK_NS } else { OTHERS_NS };
            stuck.time_ns() >= least_ns.max(usual_ns.saturating_mul(TIMES))
        };
        own.filter(|stuck| stuck.disk.ctrl == ctrl && is_old(stuck)).collect()
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
            found.timeouts(0).filter(|t| t.is_polled).count()
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
        let all: Vec<_> = found.counts(0).collect();
        assert_eq!(all, [(Happened::Failed(0x281), 2), (Happened::Failed(0x303), 1)]);
        assert_eq!(found.count(0, Happened::is_path_error), 1);
        let cancelled = after(&[failed(0x371), failed(0x4371)]);
        assert_eq!(cancelled.count(0, Happened::is_path_error), 0);
    }

    #[test]
    fn resets_and_retries_are_counted_by_controller() {
        let id = EventBuilder::read().id;
        let state = |state| EventKind::State { ctrl: 3, state: CtrlState(state), requested: false };
        let all = [state(2), state(1), state(2), EventKind::Retry { id, retries: None }];
        let events = all.map(|what| Event { at_ns: 1, what });
        let found = after(&events);
        assert_eq!(found.counts(3).collect::<Vec<_>>(), [(Happened::Reset, 2)]);
        assert_eq!(found.counts(0).collect::<Vec<_>>(), [(Happened::Retried, 1)]);
    }
}
