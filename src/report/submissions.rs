// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions in the order of time, and the commands in flight at each. Pure.
//!
//! A session with an event per submission has them in this order. With one event per command, at its
//! completion, a submission becomes known late. A first pass ([`Longest`]) finds the longest commands
//! of a recording; the others wait until no longer one can follow. So the memory has a limit, even if
//! a command takes a minute.

use std::cmp::Ordering;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;

use crate::model::event::CommandId;
use crate::model::event::Event;
use crate::model::event::EventKind;
use crate::model::event::Submission;
use crate::nvme::decode::Blocks;
use crate::nvme::decode::CommandSet;
use crate::nvme::decode::blocks;
use crate::source::REORDER_NS;

/// Number of longest commands that the first pass keeps.
const LONGEST: usize = 1 << 16;
/// Most changes that wait for earlier ones (54 MB). Only where very many long commands overlap, some
/// are then out of order.
const MOST_WAITING: usize = 400_000;
/// Most commands in flight that are kept: more than any machine has.
const MOST_IN_FLIGHT: usize = 1 << 19;

/// A namespace: controller instance and namespace id.
pub type DiskKey = (u32, u32);

/// What identifies a command in flight: controller instance, queue id, command id.
type FlightKey = (u32, u16, u16);

/// A command at its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The end of its set-up, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// The command.
    pub id: CommandId,
    /// Its logical blocks, if it has some.
    pub blocks: Option<Blocks>,
    /// Bytes of data; `None` if not known.
    pub bytes: Option<u32>,
    /// The process that called the driver, and the name of the thread; `None` if not observed.
    pub submitter: Option<(u32, [u8; 16])>,
}

impl Submitted {
    fn new(at_ns: u64, id: &CommandId, asked: &Submission, set: CommandSet) -> Self {
        Self {
            at_ns,
            id: *id,
            blocks: blocks(id.opcode.queue, set, &asked.sqe),
            bytes: asked.bytes,
            submitter: asked.knows_submitter.then_some((asked.pid, asked.comm)),
        }
    }

    const fn key(&self) -> FlightKey {
        key(&self.id)
    }
}

const fn key(id: &CommandId) -> FlightKey {
    (id.ctrl, id.qid, id.cid)
}

/// Commands in flight at a submission, that command included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// In its namespace.
    pub of_disk: u64,
    /// In all namespaces.
    pub of_all: u64,
}

/// From when to when an event of a whole command lasted.
struct Span {
    begin_ns: u64,
    /// `None`: until after the run.
    end_ns: Option<u64>,
}

impl Span {
    fn of(event: &Event) -> Option<Self> {
        let lasted = match &event.what {
            EventKind::Command(_, _, end) => end.latency_ns?,
            EventKind::Missed { latency_max_ns, .. } => (*latency_max_ns)?,
            EventKind::Unfinished { age_ns, .. } => {
                return Some(Self {
                    begin_ns: event.at_ns.saturating_sub(*age_ns),
                    end_ns: None,
                });
            }
            _ => return None,
        };
        Some(Self {
            begin_ns: event.at_ns.saturating_sub(lasted),
            end_ns: Some(event.at_ns),
        })
    }

    fn length(&self) -> u64 {
        self.end_ns
            .map_or(u64::MAX, |end| end.saturating_sub(self.begin_ns))
    }
}

/// The submission of an event of a whole command.
fn submitted(event: &Event, set: CommandSet) -> Option<(Span, Submitted)> {
    let span = Span::of(event)?;
    let (id, asked) = (event.what.id()?, event.what.submission()?);
    let submitted = Submitted::new(span.begin_ns, id, asked, set);
    Some((span, submitted))
}

#[derive(Clone, Copy, Debug)]
enum What {
    End(FlightKey),
    Begin(Submitted),
}

/// A submission, or the end of a command.
#[derive(Clone, Copy, Debug)]
struct Change {
    at_ns: u64,
    /// Changes of the same time keep the order in which they came.
    number: u64,
    what: What,
}

impl Change {
    /// Ends come before submissions of the same time.
    const fn order(&self) -> (u64, bool, u64) {
        (self.at_ns, matches!(self.what, What::Begin(_)), self.number)
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Change {}

impl PartialOrd for Change {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Change {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// The longest commands of a recording with one event per command.
#[derive(Debug, Default)]
pub struct Longest {
    /// Length and number of each; the shortest is on top.
    lengths: BinaryHeap<Reverse<(u64, u64)>>,
    submitted: HashMap<u64, Submitted>,
    /// The length of the longest command that is not among them.
    others_ns: u64,
    events: u64,
}

impl Longest {
    /// Adds an event of the first pass.
    pub fn add(&mut self, event: &Event, set: CommandSet) {
        self.keep(event, set, LONGEST);
    }

    fn keep(&mut self, event: &Event, set: CommandSet, most: usize) {
        let number = self.events;
        self.events += 1;
        let Some(span) = Span::of(event) else {
            return;
        };
        let full = self.lengths.len() >= most;
        if full && self.lengths.peek().is_some_and(|l| span.length() <= l.0.0) {
            self.others_ns = self.others_ns.max(span.length());
            return;
        }
        let Some((span, submitted)) = submitted(event, set) else {
            return;
        };
        self.lengths.push(Reverse((span.length(), number)));
        self.submitted.insert(number, submitted);
        if full && let Some(Reverse((length, number))) = self.lengths.pop() {
            self.others_ns = self.others_ns.max(length);
            self.submitted.remove(&number);
        }
    }
}

/// Puts submissions into the order of time.
#[derive(Debug, Default)]
pub struct Submissions {
    /// One event per command, at its end.
    pairs: bool,
    /// Longer commands are known from the first pass.
    others_ns: u64,
    changes: BinaryHeap<Reverse<Change>>,
    events: u64,
    in_flight: HashMap<FlightKey, DiskKey>,
    of_disk: HashMap<DiskKey, u64>,
    unknown: u64,
    forgotten: u64,
}

impl Submissions {
    /// For events at the submission and at the completion of each command, in the order of time.
    #[must_use]
    pub fn of_events() -> Self {
        Self::default()
    }

    /// For the second pass over a recording with one event per command.
    #[must_use]
    pub fn of_pairs(longest: Longest) -> Self {
        let Longest {
            lengths,
            mut submitted,
            others_ns,
            ..
        } = longest;
        let longer = lengths.into_iter().filter(|l| l.0.0 > others_ns);
        let change = |Reverse((_, number))| {
            let submitted = submitted.remove(&number)?;
            Some(Reverse(Change {
                at_ns: submitted.at_ns,
                number,
                what: What::Begin(submitted),
            }))
        };
        Self {
            pairs: true,
            others_ns,
            changes: longer.filter_map(change).collect(),
            ..Self::default()
        }
    }

    fn push(&mut self, at_ns: u64, what: What) {
        let number = self.events;
        self.changes.push(Reverse(Change {
            at_ns,
            number,
            what,
        }));
    }

    /// Adds an event. Events come in the order of time. `set` is the command set of its namespace.
    pub fn add(&mut self, event: &Event, set: CommandSet) {
        if self.pairs {
            self.add_pair(event, set);
        } else {
            match &event.what {
                EventKind::Submit(id, asked) => {
                    let submitted = Submitted::new(event.at_ns, id, asked, set);
                    self.push(event.at_ns, What::Begin(submitted));
                }
                EventKind::Complete(id, _)
                | EventKind::Missed { id, .. }
                | EventKind::Requeue(id) => self.push(event.at_ns, What::End(key(id))),
                _ => {}
            }
        }
        self.events += 1;
    }

    fn add_pair(&mut self, event: &Event, set: CommandSet) {
        if !matches!(
            event.what,
            EventKind::Command(..) | EventKind::Missed { .. } | EventKind::Unfinished { .. }
        ) {
            return;
        }
        let Some((span, submitted)) = submitted(event, set) else {
            self.unknown += 1;
            return;
        };
        if span.length() <= self.others_ns {
            self.push(span.begin_ns, What::Begin(submitted));
        }
        if let Some(end_ns) = span.end_ns {
            self.push(end_ns, What::End(submitted.key()));
        }
    }

    /// The next submission that none can precede, `now_ns` being the time of the latest event;
    /// `u64::MAX` after the last one.
    pub fn next(&mut self, now_ns: u64) -> Option<(Submitted, Depth)> {
        let wait = if self.pairs {
            self.others_ns.saturating_add(REORDER_NS)
        } else {
            0
        };
        let before = now_ns.saturating_sub(wait);
        loop {
            let next = self.changes.peek()?.0;
            let is_full = self.changes.len() > MOST_WAITING;
            if next.at_ns >= before && now_ns != u64::MAX && !is_full {
                return None;
            }
            self.changes.pop();
            match next.what {
                What::End(key) => self.end(key),
                What::Begin(submitted) => return Some((submitted, self.begin(&submitted))),
            }
        }
    }

    fn end(&mut self, key: FlightKey) {
        if let Some(disk) = self.in_flight.remove(&key)
            && let Some(commands) = self.of_disk.get_mut(&disk)
        {
            *commands = commands.saturating_sub(1);
        }
    }

    fn begin(&mut self, submitted: &Submitted) -> Depth {
        let (key, disk) = (submitted.key(), (submitted.id.ctrl, submitted.id.nsid));
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
        Depth {
            of_disk: *of_disk,
            of_all: self.in_flight.len() as u64,
        }
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

#[cfg(test)]
mod tests;
