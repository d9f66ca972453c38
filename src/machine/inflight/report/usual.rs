// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run adds to a reading: the submissions that it has observed, and the usual latency of each
//! kind of command. From these, or from jiffies, the age of each command.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::machine::inflight::{CommandReading, Ticks};
use crate::model::event::{OpenCommand, StackId, Submission};
use crate::model::ids::{QueueId, RowKey};
use crate::model::report::latency::rows;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::units::{DurationError, parse_latency};

/// Minimum number of completed commands for a p99.
pub const MIN_COMMANDS: u64 = 100;

/// Limit of a command without a p99, and the default limit.
pub const DEFAULT_LIMIT: Duration = Duration::from_millis(100);

/// The largest number before `x`.
const MOST_TIMES: u32 = 1_000_000;

/// The age from which on a command is old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgeLimit {
    /// This age.
    Time(Duration),
    /// This many times the p99 of its kind; [`DEFAULT_LIMIT`] if it has none.
    TimesP99(u32),
}

/// Why a text is not a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgeError {
    /// It is not a time.
    #[error(transparent)]
    Time(#[from] DurationError),
    /// The number before `x` is not in range.
    #[error("`{text}` is not a multiple of p99: give a whole number from 1, as in `10x`")]
    Times {
        /// The text.
        text: String,
    },
}

impl AgeLimit {
    /// Parses `100ms` or `10x`.
    ///
    /// # Errors
    /// If the text is neither.
    pub fn parse(text: &str) -> Result<Self, AgeError> {
        let Some(number) = text.strip_suffix('x') else {
            return Ok(Self::Time(parse_latency(text)?));
        };
        let times = number.parse().ok().filter(|n| (1..=MOST_TIMES).contains(n));
        let times = times.ok_or_else(|| AgeError::Times { text: text.into() })?;
        Ok(Self::TimesP99(times))
    }

    fn of(self, usual: Option<Usual>) -> Duration {
        match self {
            Self::Time(limit) => limit,
            Self::TimesP99(times) => match usual.and_then(Usual::p99) {
                Some(p99) => p99.saturating_mul(times),
                None => DEFAULT_LIMIT,
            },
        }
    }
}

/// The usual latency of commands with the same controller, namespace, opcode and size class, from
/// their setup to their completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usual {
    /// Completed commands.
    pub commands: u64,
    /// Their 99th percentile in nanoseconds.
    pub p99_ns: u64,
}

impl Usual {
    /// The p99, if there were enough commands.
    pub fn p99(self) -> Option<Duration> {
        (self.commands >= MIN_COMMANDS).then(|| Duration::from_nanos(self.p99_ns))
    }
}

/// What a run has observed of a command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its submission.
    pub submission: Submission,
    /// The usual latency of its kind.
    pub usual: Usual,
}

/// What a run has observed until now.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The commands in flight, by queue and tag.
    open: BTreeMap<(QueueId, u16), OpenCommand>,
    usual: BTreeMap<RowKey, Usual>,
    at_ns: u64,
}

impl Observed {
    /// The commands in flight, and the histograms of a run with a row per size class. `at_ns`: the
    /// time of the reading of memory that they are for, which came before (CLOCK_MONOTONIC).
    pub fn new(open: Vec<OpenCommand>, now: &Snapshot, at_ns: u64) -> Self {
        let rows = rows(now, StageSet::Total, None, Duration::ZERO);
        let usual = rows.iter().map(|row| {
            let usual = Usual {
                commands: row.total.count(),
                p99_ns: row.total.percentile(99.0).unwrap_or(0),
            };
            (row.key, usual)
        });
        let key = |c: &OpenCommand| (c.id.queue(), c.id.cid & 0xfff);
        Self {
            usual: usual.collect(),
            open: open.into_iter().map(|c| (key(&c), c)).collect(),
            at_ns,
        }
    }

    /// A command of the reading. A command that was set up since then may have its tag.
    fn find(&self, queue: QueueId, command: &CommandReading) -> Option<&OpenCommand> {
        let tag = command.tag.try_into().ok()?;
        let found = self.open.get(&(queue, tag))?;
        let same = found.request.is_none_or(|at| at == command.request)
            && command.has(found.id.cid)
            && (1..=self.at_ns).contains(&found.setup_ns);
        same.then_some(found)
    }

    /// The stacks of the commands in flight.
    pub fn stacks(&self) -> impl Iterator<Item = StackId> {
        let stacks = self.open.values().map(|c| c.submission.stack);
        stacks.filter(|stack| stack.is_some())
    }
}

/// How old commands are at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Ages<'a> {
    /// The moment in jiffies; `None` if the length of a jiffy is not known.
    pub ticks: Option<Ticks>,
    /// The moment in CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// From which age on a command is old.
    pub limit: AgeLimit,
    /// What a run has observed, if there is one.
    pub run: Option<&'a Observed>,
}

/// The age of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aged {
    /// Its age: since its setup if a run has observed that, else since the driver started it.
    pub age: Option<Duration>,
    /// What a run has observed of it.
    pub seen: Option<Seen>,
    /// Whether it is old.
    pub is_old: bool,
}

impl Ages<'_> {
    /// The age of a command.
    pub fn of(&self, queue: QueueId, command: &CommandReading) -> Aged {
        let found = self.run.and_then(|run| Some((run, run.find(queue, command)?)));
        let age = match found {
            Some((_, open)) => {
                let age = self.at_ns.saturating_sub(open.setup_ns);
                Some(Duration::from_nanos(age))
            }
            None => self.ticks.and_then(|ticks| command.age(ticks)),
        };
        let seen = found.map(|(run, open)| Seen {
            submission: open.submission,
            usual: run.usual.get(&open.row).copied().unwrap_or_default(),
        });
        let limit = self.limit.of(seen.map(|seen| seen.usual));
        Aged { age, seen, is_old: age >= Some(limit) }
    }
}

#[cfg(test)]
#[path = "usual_tests.rs"]
mod tests;
