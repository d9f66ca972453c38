// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands whose points come one by one: in a target, or in the text of another program.

use std::collections::BTreeMap;

use super::event::{CommandId, CompletionStatus, Event, EventKind, Outcome, StackId, Submission};
use super::ledger::Ledger;
use super::point::{NO_COMPLETE, NO_SETUP, Point};
use super::timeline::Timeline;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;

/// Most commands in flight that are kept.
const MOST_OPEN: usize = 1 << 18;

/// A command while its points are collected.
#[derive(Clone, Copy, Debug)]
pub struct PartialCommand {
    /// The command.
    pub id: CommandId,
    /// Its entry in the submission queue, and who submitted it.
    pub submission: Submission,
    /// Its status, if it is known.
    pub verdict: Option<CompletionStatus>,
    /// The observed points.
    pub times: Timeline,
    /// The CPU of the completion.
    pub end_cpu: u16,
}

impl PartialCommand {
    /// A command of the driver, set up at this time.
    pub fn of_driver(id: CommandId, submission: Submission, setup_ns: u64) -> Self {
        let mut times = Timeline::new([], 0);
        times.add(Point::SetupOut, setup_ns);
        Self { id, submission, verdict: None, times, end_cpu: 0 }
    }

    /// A command of this queue in a target, before any of its points was observed. The controller is a
    /// number of the recording's list. `request`: the address of the target's request; 0: not known.
    pub fn of_target(ctrl: u32, qid: u16, sqe: Sqe, request: u64) -> Self {
        let queue = if qid == 0 { QueueKind::Admin } else { QueueKind::Io };
        let opcode = Opcode { queue, code: sqe.opcode() };
        let id = CommandId { ctrl, qid, cid: sqe.cid(), nsid: sqe.nsid(), opcode };
        let submission = Submission { stack: StackId(request), ..Submission::of(sqe) };
        let times = Timeline::new([], NO_SETUP | NO_COMPLETE);
        Self { id, submission, verdict: None, times, end_cpu: 0 }
    }

    /// Sets the status of its CQE, without the phase bit.
    pub fn set_status(&mut self, status: Status) {
        self.verdict = Some(CompletionStatus { result: 0, status, retries: 0, flags: 0 });
    }

    /// The driver completes it, on this CPU if it is known.
    pub fn complete(&mut self, ns: u64, cpu: Option<u16>) {
        self.times.add(Point::Complete, ns);
        self.end_cpu = cpu.unwrap_or(0);
    }

    /// The event of its end: at the driver's completion, or at the target's last point.
    pub fn finished(&self) -> Event {
        let at = |point| self.times.at(point);
        let last_ns = || self.times.ends().map_or(0, |(_, last)| last);
        let at_ns = at(Point::Complete).unwrap_or_else(last_ns);
        let begin_ns = at(Point::SetupOut).or(at(Point::Start));
        let latency_ns = begin_ns.and_then(|begin_ns| at_ns.checked_sub(begin_ns));
        // not of an end before the start
        let times = Some(self.times).filter(|_| latency_ns.is_some() || begin_ns.is_none());
        let (verdict, cpu) = (self.verdict, self.end_cpu);
        let outcome = Outcome { verdict, cpu, ..Outcome::of(latency_ns, times) };
        Event { at_ns, what: EventKind::Command(self.id, self.submission, outcome) }
    }

    /// The event of a command that the run, or its connection, ends before: at this time, but not before
    /// its last point.
    pub fn unfinished(&self, end_ns: u64) -> Event {
        let (first, last) = self.times.ends().unwrap_or_default();
        let (id, submission, at_ns) = (self.id, self.submission, end_ns.max(last));
        let what = EventKind::Unfinished { id, submission, age_ns: at_ns.saturating_sub(first) };
        Event { at_ns, what }
    }
}

/// The commands of a source, by what tells those in flight apart.
pub struct Collector<K> {
    /// The commands in flight.
    pub open: BTreeMap<K, PartialCommand>,
    /// The events that nobody has taken yet.
    pub events: Vec<Event>,
    /// What was read, and what was not.
    pub ledger: Ledger,
    /// Times of the first and of the latest event of the source.
    pub span: Option<(u64, u64)>,
}

impl<K: Ord> Collector<K> {
    /// Nothing yet. `imported`: from a text.
    pub fn new(imported: bool) -> Self {
        let (open, events) = <_>::default();
        Self { open, events, ledger: Ledger::of_target(imported), span: None }
    }

    /// Notes the time of an event of the source. Returns whether an earlier one was later.
    pub fn at(&mut self, ns: u64) -> bool {
        let (first, last) = self.span.unwrap_or((ns, ns));
        self.span = Some((first.min(ns), last.max(ns)));
        ns < last
    }

    /// Begins a command.
    pub fn begin(&mut self, key: K, command: PartialCommand) {
        if self.open.len() >= MOST_OPEN {
            self.ledger.untracked += 1;
            return;
        }
        let before = self.open.insert(key, command);
        self.ledger.overwritten += u64::from(before.is_some());
    }

    /// Takes out a command that ends. `None`: its start was not seen.
    pub fn end(&mut self, key: Option<&K>) -> Option<PartialCommand> {
        let found = key.and_then(|key| self.open.remove(key));
        if found.is_none() {
            self.ledger.completions += 1;
            self.ledger.orphan_completions += 1;
        }
        found
    }

    /// Adds an event, and counts it.
    pub fn push(&mut self, event: Event) {
        self.ledger.count(&event);
        self.events.push(event);
    }

    /// Ends: what is in flight has no end.
    pub fn finish(&mut self) {
        let last_ns = self.span.map_or(0, |(_, last)| last);
        let mut left: Vec<_> = std::mem::take(&mut self.open).into_values().collect();
        left.sort_by_key(|command| (command.times.ends(), command.id.qid, command.id.cid));
        left.iter().for_each(|command| self.push(command.unfinished(last_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stage::StageSet;
    use crate::nvme::sqe::Parts;

    fn command(points: &[(Point, u64)]) -> PartialCommand {
        let mut command = PartialCommand::of_target(0, 1, Sqe::from(Parts::default()), 0);
        points.iter().for_each(|(point, ns)| command.times.add(*point, *ns));
        command
    }

    fn named(points: &[(Point, u64)]) -> Option<Vec<(String, u64)>> {
        let stages = command(points).times.segments(StageSet::Host)?.into_iter();
        Some(stages.map(|s| (s.run.name(), s.ns)).collect())
    }

    #[test]
    fn a_point_that_was_not_observed_merges_its_stages() {
        let (fetch, post) = ((Point::Start, 100), (Point::End, 170));
        let all = vec![("host_submit+backend+host_complete".into(), 70)];
        assert_eq!(named(&[fetch, post]), Some(all));
        let want = vec![("host_submit+backend".into(), 60), ("host_complete".into(), 10)];
        assert_eq!(named(&[fetch, (Point::Cqe, 160), post]), Some(want));
        let event = command(&[fetch, post]).finished();
        let latency_ns = event.what.outcome().and_then(|outcome| outcome.latency_ns);
        assert_eq!((event.at_ns, latency_ns), (170, Some(70)));
    }

    #[test]
    fn points_out_of_order_give_no_stage() {
        assert_eq!(named(&[(Point::Start, 100), (Point::Cqe, 99)]), None);
    }

    #[test]
    fn a_command_without_an_end_is_as_old_as_its_connection() {
        let event = command(&[(Point::Start, 100)]).unfinished(150);
        assert!(matches!(event.what, EventKind::Unfinished { age_ns: 50, .. }), "{event:?}");
    }
}
