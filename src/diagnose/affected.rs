// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single commands that a cause is about: when they were in flight, and which they were.

use std::collections::BTreeSet;

use crate::model::event::{CommandId, Submission};
use crate::model::ids::NamespaceId;
use crate::nvme::decode::{CommandSet, blocks};
use crate::when::RunClock;

use super::command::Command;
use super::facts::Facts;
use super::issuers::{Issuer, Issuers};
use super::report::Cause;

/// Times in texts have tenths of a second.
const APART_NS: u64 = 100_000_000;
/// Most of a list that a text has.
const SHOWN: usize = 3;
/// Most commands of a kind of incident that are kept.
pub const MOST: usize = 1000;

/// A command that a cause is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Its time, CLOCK_MONOTONIC nanoseconds.
    pub begin_ns: u64,
    /// The end of it.
    pub end_ns: u64,
    /// Controller and namespace.
    pub disk: NamespaceId,
    /// Queue id.
    pub qid: u16,
    /// Command id; `None`: not known.
    pub cid: Option<u16>,
    /// Its first and its last block.
    pub blocks: Option<(u64, u64)>,
    /// Who issued it.
    pub issuer: Option<Issuer>,
}

/// The first of a list, and how many more there are.
fn first(all: Vec<String>) -> String {
    let more = all.len().saturating_sub(SHOWN);
    let text = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// Times in order; those that are less than a tenth of a second apart are one.
pub fn joined(times: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> = times.collect();
    times.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (from, to) in times {
        match all.last_mut() {
            Some((_, end)) if from.saturating_sub(*end) < APART_NS => *end = to.max(*end),
            _ => all.push((from, to)),
        }
    }
    all
}

/// Times as text: the first, and how many more there are.
pub fn times_text(clock: RunClock, times: impl Iterator<Item = (u64, u64)>) -> String {
    first(joined(times).into_iter().map(|span| clock.span(span)).collect())
}

/// The first and the last of some blocks; `None`: there are none.
pub fn blocks_from(first: u64, count: u32) -> Option<(u64, u64)> {
    Some((first, first.saturating_add(u64::from(count.checked_sub(1)?))))
}

impl Affected {
    /// A command of an event, which ended then after this time.
    pub fn of_event(
        id: &CommandId,
        submission: Option<&Submission>,
        (begin_ns, end_ns): (u64, u64),
    ) -> Self {
        let found = submission.and_then(|s| blocks(id.opcode.queue, CommandSet::Nvm, &s.sqe));
        let mut issuers = Issuers::default();
        let number = issuers.number(submission);
        Self {
            begin_ns,
            end_ns,
            disk: id.namespace(),
            qid: id.qid,
            cid: Some(id.cid),
            blocks: found.and_then(|b| blocks_from(b.slba, b.nlb)),
            issuer: issuers.get(number).copied(),
        }
    }

    /// A finished command.
    pub fn of_command(facts: &Facts, command: &Command) -> Self {
        let Command { stratum, qid, cid, begin_ns, end_ns, .. } = *command;
        Self {
            begin_ns,
            end_ns,
            disk: NamespaceId::new(stratum.ctrl, stratum.nsid),
            qid,
            cid: Some(cid),
            blocks: blocks_from(command.slba, command.blocks),
            issuer: facts.commands.issuers.get(command.issuer).copied(),
        }
    }

    /// How long it took, in nanoseconds.
    pub const fn time_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

impl Facts {
    /// When commands were in flight, as text.
    pub fn times_of(&self, affected: &[Affected]) -> String {
        times_text(self.clock_of_day, affected.iter().map(|a| (a.begin_ns, a.end_ns)))
    }

    /// Their blocks by disk, as text: `nvme0n1 8-15, 64-71`; empty: they have none.
    pub fn blocks_of(&self, affected: &[Affected]) -> String {
        let all = affected.iter().filter_map(|a| Some((a.disk, a.blocks?)));
        let all: BTreeSet<(NamespaceId, (u64, u64))> = all.collect();
        let text = |(disk, (from, to)): (NamespaceId, (u64, u64))| {
            format!("{} {from}-{to}", self.disk_name(disk.ctrl, disk.nsid))
        };
        first(all.into_iter().map(text).collect())
    }

    /// Their disks, as text.
    pub fn disks_of(&self, affected: &[Affected]) -> String {
        let all: BTreeSet<NamespaceId> = affected.iter().map(|a| a.disk).collect();
        first(all.into_iter().map(|disk| self.disk_name(disk.ctrl, disk.nsid)).collect())
    }
}

/// Their queues, as text: `1, 3 and 2 more`.
pub fn queues_of(affected: &[Affected]) -> String {
    let all: BTreeSet<u16> = affected.iter().map(|a| a.qid).collect();
    first(all.iter().map(ToString::to_string).collect())
}

/// Their ids, as text: `qid 1 cid 12, qid 3 cid 7`.
fn ids_of(affected: &[Affected]) -> String {
    let all: BTreeSet<(u16, u16)> = affected.iter().filter_map(|a| Some((a.qid, a.cid?))).collect();
    first(all.iter().map(|(qid, cid)| format!("qid {qid} cid {cid}")).collect())
}

impl Cause {
    /// It is about these commands: adds when and which they were to the evidence.
    #[must_use]
    pub fn about(mut self, facts: &Facts, affected: Vec<Affected>) -> Self {
        for (name, text) in [
            ("when", facts.times_of(&affected)),
            ("commands", ids_of(&affected)),
            ("blocks", facts.blocks_of(&affected)),
        ] {
            if !text.is_empty() {
                self = self.shown_by(name, text);
            }
        }
        Self { affected, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_overlap_are_one_and_a_text_has_the_first_three() {
        const S: u64 = 1_000_000_000;
        let times = [(5, 6), (1, 3), (2, 4), (8, 9), (11, 12), (15, 16)];
        let times = times.into_iter().map(|(from, to)| (from * S, to * S));
        assert_eq!(joined(times.clone()).first(), Some(&(S, 4 * S)));
        let text = times_text(RunClock::default(), times);
        assert_eq!(text, "1.0-4.0 s, 5.0-6.0 s, 8.0-9.0 s and 2 more");
        assert_eq!(times_text(RunClock::default(), [].into_iter()), "");
    }
}
