// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions in the order of time, and the commands in flight at each. Pure.
//!
//! A session with an event per submission has them in this order. With one event per command, at its
//! completion, a submission becomes known late: [`begins`] puts them in order.

use std::collections::HashMap;

use crate::model::event::{CommandId, Event, EventKind, Submission};
use crate::model::ids::{FlightId, NamespaceId};
use crate::model::report::begins;
use crate::model::report::begins::{Change, Changes};
use crate::model::timeline::Span;
use crate::nvme::decode::{Blocks, CommandSet, blocks};

/// Most changes that wait for earlier ones (54 MB).
const MOST_WAITING: usize = 400_000;
/// Most commands in flight that are kept: more than any machine has.
const MOST_IN_FLIGHT: usize = 1 << 19;

/// A command at its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The end of its setup, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// The command.
    pub id: CommandId,
    /// Its logical blocks, if it has some.
    pub blocks: Option<Blocks>,
    /// Bytes of data; `None` if not known.
    pub bytes: Option<u32>,
    /// The process, and the name of its thread; `None` if not observed.
    pub task: Option<(u32, [u8; 16])>,
}

/// The task of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskKind {
    /// The one that called the driver.
    #[default]
    Caller,
    /// The one that submitted the bio.
    Submitter,
}

impl TaskKind {
    fn task_of(self, submission: &Submission) -> Option<(u32, [u8; 16])> {
        let by = &submission.origin.submitter;
        match self {
            Self::Caller => submission.knows_submitter.then_some((submission.pid, submission.comm)),
            Self::Submitter => by.is_known().then_some((by.pid, by.comm)),
        }
    }
}

impl Submitted {
    fn new(
        at_ns: u64,
        id: &CommandId,
        submission: &Submission,
        set: CommandSet,
        task_kind: TaskKind,
    ) -> Self {
        Self {
            at_ns,
            id: *id,
            blocks: blocks(id.opcode.queue, set, &submission.sqe),
            bytes: submission.bytes,
            task: task_kind.task_of(submission),
        }
    }

    const fn key(&self) -> FlightId {
        self.id.in_flight()
    }
}

/// Commands in flight at a submission, that command included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// In its namespace.
    pub of_disk: u64,
    /// In all namespaces.
    pub of_all: u64,
}

/// The submission of an event of a whole command.
fn submitted(event: &Event, set: CommandSet, task_kind: TaskKind) -> Option<(Span, Submitted)> {
    let span = Span::of_latency(event)?;
    let (id, submission) = (event.what.id()?, event.what.submission()?);
    let submitted = Submitted::new(span.begin_ns, id, submission, set, task_kind);
    Some((span, submitted))
}

/// The longest commands of a recording with one event per command.
#[derive(Debug, Default)]
pub struct Longest {
    longest: begins::Longest<Submitted>,
    events: u64,
    task_kind: TaskKind,
}

impl Longest {
    /// Of no events yet.
    #[must_use]
    pub fn new(task_kind: TaskKind) -> Self {
        Self { task_kind, ..Self::default() }
    }

    /// Adds an event of the first pass.
    pub fn add(&mut self, event: &Event, set: CommandSet) {
        let number = self.events;
        self.events += 1;
        if let Some(span) = Span::of_latency(event) {
            let begin = || submitted(event, set, self.task_kind).map(|(_, submitted)| submitted);
            self.longest.add(&span, number, begin);
        }
    }
}

/// Puts submissions into the order of time.
#[derive(Debug)]
pub struct Submissions {
    /// One event per command, at its end.
    pairs: bool,
    task_kind: TaskKind,
    changes: Changes<Submitted, FlightId>,
    events: u64,
    in_flight: HashMap<FlightId, NamespaceId>,
    of_disk: HashMap<NamespaceId, u64>,
    unknown: u64,
    forgotten: u64,
}

impl Submissions {
    fn new(pairs: bool, task_kind: TaskKind, changes: Changes<Submitted, FlightId>) -> Self {
        Self {
            pairs,
            task_kind,
            changes,
            events: 0,
            in_flight: HashMap::new(),
            of_disk: HashMap::new(),
            unknown: 0,
            forgotten: 0,
        }
    }

    /// For events at the submission and at the completion of each command, in the order of time.
    #[must_use]
    pub fn of_events(task_kind: TaskKind) -> Self {
        Self::new(false, task_kind, Changes::in_order(MOST_WAITING))
    }

    /// For the second pass over a recording with one event per command.
    #[must_use]
    pub fn of_pairs(longest: Longest) -> Self {
        Self::new(true, longest.task_kind, Changes::after(longest.longest, MOST_WAITING))
    }

    /// Adds an event. Events come in the order of time. `set` is the command set of its namespace.
    pub fn add(&mut self, event: &Event, set: CommandSet) {
        let number = self.events;
        self.events += 1;
        if self.pairs {
            self.add_pair(event, set, number);
            return;
        }
        let change = match &event.what {
            EventKind::Submit(id, submission) => {
                Change::Begin(Submitted::new(event.at_ns, id, submission, set, self.task_kind))
            }
            EventKind::Complete(id, _) | EventKind::Missed { id, .. } | EventKind::Requeue(id) => {
                Change::End(id.in_flight())
            }
            _ => return,
        };
        self.changes.push(event.at_ns, number, change);
    }

    fn add_pair(&mut self, event: &Event, set: CommandSet, number: u64) {
        if !matches!(
            event.what,
            EventKind::Command(..) | EventKind::Missed { .. } | EventKind::Unfinished { .. }
        ) {
            return;
        }
        let Some((span, submitted)) = submitted(event, set, self.task_kind) else {
            self.unknown += 1;
            return;
        };
        let key = submitted.key();
        self.changes.add(&span, number, submitted, key);
    }

    /// The next submission that none can precede, `now_ns` being the time of the latest event;
    /// `u64::MAX` after the last one.
    pub fn next(&mut self, now_ns: u64) -> Option<(Submitted, Depth)> {
        loop {
            match self.changes.next(now_ns)?.1 {
                Change::End(key) => self.end(key),
                Change::Begin(submitted) => return Some((submitted, self.begin(&submitted))),
            }
        }
    }

    fn end(&mut self, key: FlightId) {
        if let Some(disk) = self.in_flight.remove(&key)
            && let Some(commands) = self.of_disk.get_mut(&disk)
        {
            *commands = commands.saturating_sub(1);
        }
    }

    fn begin(&mut self, submitted: &Submitted) -> Depth {
        let (key, disk) = (submitted.key(), submitted.id.namespace());
        // the end of an earlier command with this id was not observed
        self.end(key);
        if self.in_flight.len() >= MOST_IN_FLIGHT {
            // the recording lacks the ends of these commands: forget them
            self.forgotten += self.in_flight.len() as u64;
            self.in_flight.clear();
            self.of_disk.clear();
        }
        self.in_flight.insert(key, disk);
        let of_disk = self.of_disk.entry(disk).or_default();
        *of_disk += 1;
        Depth { of_disk: *of_disk, of_all: self.in_flight.len() as u64 }
    }

    /// Number of commands whose submission was not observed.
    #[must_use]
    pub const fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Number of commands without an end that are no longer counted as in flight: there were too many.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// That depths are too small.
#[must_use]
pub fn forgotten(count: u64) -> String {
    format!("too small depths: {count} commands without an end were forgotten")
}

#[cfg(test)]
mod tests;
