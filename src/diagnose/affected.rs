// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single commands that a verdict is about: when they were in flight, and which they were.

use std::collections::BTreeSet;

use serde::Serialize;

use super::command::Command;
use super::facts::Facts;
use super::issuers::Issuer;
use crate::model::event::{CommandId, Submission};
use crate::model::ids::NamespaceId;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::opcode::QueueKind;
use crate::nvme::sqe::Sqe;
use crate::when::RunClock;

/// Times in texts have tenths of a second.
const APART_NS: u64 = 100_000_000;
/// Most of a list that a text has.
const SHOWN: usize = 3;
/// Most of a list in JSON.
const MOST: usize = 100;

/// A command that a verdict is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Opcode, likewise.
    pub code: Option<u8>,
    /// Its first and its last block.
    pub blocks: Option<(u64, u64)>,
    /// Who issued it.
    pub issuer: Option<Issuer>,
}

/// Which commands a verdict is about, in JSON: at most some of each list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Where {
    count: usize,
    times: Vec<During>,
    commands: Vec<Ids>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct During {
    begin_s: f64,
    end_s: f64,
    /// RFC 3339, if the time of day is known.
    begin: Option<String>,
    end: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Ids {
    ctrl: String,
    disk: String,
    qid: u16,
    cid: Option<u16>,
    first_lba: Option<u64>,
    last_lba: Option<u64>,
}

/// The first of a list, and how many more there are.
pub fn first_of(all: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = all.into_iter().collect();
    let more = all.len().saturating_sub(SHOWN);
    let text = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// Times in order; those that are at most so far apart are one.
pub fn joined(times: impl Iterator<Item = (u64, u64)>, apart_ns: u64) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> = times.collect();
    times.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (from, to) in times {
        match all.last_mut() {
            Some((_, end)) if from.saturating_sub(*end) <= apart_ns => *end = to.max(*end),
            _ => all.push((from, to)),
        }
    }
    all
}

/// Times as text: the first, and how many more there are.
pub fn times_text(clock: RunClock, times: impl Iterator<Item = (u64, u64)>) -> String {
    first_of(joined(times, APART_NS).into_iter().map(|span| clock.span(span)))
}

/// The first and the last block of an I/O command; `None`: it has none.
pub fn blocks_of(sqe: &Sqe) -> Option<(u64, u64)> {
    let found = blocks(QueueKind::Io, CommandSet::Nvm, sqe)?;
    Some((found.slba, found.slba.saturating_add(u64::from(found.nlb.checked_sub(1)?))))
}

impl Affected {
    /// A command of an event, which ended then after this time.
    pub fn of_event(
        id: &CommandId,
        submission: Option<&Submission>,
        (begin_ns, end_ns): (u64, u64),
    ) -> Self {
        Self {
            begin_ns,
            end_ns,
            disk: id.namespace(),
            qid: id.qid,
            cid: Some(id.cid),
            code: Some(id.opcode.code),
            blocks: submission.and_then(|s| blocks_of(&s.sqe)),
            issuer: submission.and_then(Issuer::of),
        }
    }

    /// A finished command.
    pub fn of_command(command: &Command) -> Self {
        let Command { class, qid, cid, begin_ns, end_ns, issuer, blocks, .. } = *command;
        Self {
            begin_ns,
            end_ns,
            disk: NamespaceId::new(class.ctrl, class.nsid),
            qid,
            cid: Some(cid),
            code: Some(class.opcode.code),
            blocks,
            issuer,
        }
    }

    /// How long it took, in nanoseconds.
    pub const fn time_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

impl Facts {
    fn disk_of(&self, affected: &Affected) -> String {
        self.disk_name(affected.disk.ctrl, affected.disk.nsid)
    }

    /// Their blocks by disk, as text: `nvme0n1 8-15, nvme0n1 64-71`; empty: they have none.
    pub fn blocks_of(&self, affected: &[Affected]) -> String {
        let all = affected.iter().filter_map(|a| Some((self.disk_of(a), a.blocks?)));
        let all: BTreeSet<(String, (u64, u64))> = all.collect();
        first_of(all.iter().map(|(disk, (first, last))| format!("{disk} {first}-{last}")))
    }

    /// Which commands these are, for programs.
    pub fn where_of(&self, affected: &[Affected]) -> Option<Where> {
        let clock = self.clock;
        let since = |at_ns: u64| at_ns.saturating_sub(clock.begin_ns) as f64 / 1e9;
        let during = |(begin, end)| During {
            begin_s: since(begin),
            end_s: since(end),
            begin: clock.rfc3339(begin),
            end: clock.rfc3339(end),
        };
        let ids = |a: &Affected| Ids {
            ctrl: format!("nvme{}", a.disk.ctrl),
            disk: self.disk_of(a),
            qid: a.qid,
            cid: a.cid,
            first_lba: a.blocks.map(|(first, _)| first),
            last_lba: a.blocks.map(|(_, last)| last),
        };
        let times = joined(affected.iter().map(|a| (a.begin_ns, a.end_ns)), APART_NS);
        (!affected.is_empty()).then(|| Where {
            count: affected.len(),
            times: times.into_iter().take(MOST).map(during).collect(),
            commands: affected.iter().take(MOST).map(ids).collect(),
        })
    }
}

/// Their queues, as text: `1, 3 and 2 more`.
pub fn queues_of(affected: &[Affected]) -> String {
    let all: BTreeSet<u16> = affected.iter().map(|a| a.qid).collect();
    first_of(all.iter().map(ToString::to_string))
}

/// Their ids, as text: `qid 1 cid 12, qid 3 cid 7`.
pub fn ids_of(affected: &[Affected]) -> String {
    let all: BTreeSet<(u16, u16)> = affected.iter().filter_map(|a| Some((a.qid, a.cid?))).collect();
    first_of(all.iter().map(|(qid, cid)| format!("qid {qid} cid {cid}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_overlap_are_one_and_a_text_has_the_first_three() {
        const S: u64 = 1_000_000_000;
        let times = [(5, 6), (1, 3), (2, 4), (8, 9), (11, 12), (15, 16)];
        let times = times.into_iter().map(|(from, to)| (from * S, to * S));
        assert_eq!(joined(times.clone(), APART_NS).first(), Some(&(S, 4 * S)));
        let text = times_text(RunClock::default(), times);
        assert_eq!(text, "1.0-4.0 s, 5.0-6.0 s, 8.0-9.0 s and 2 more");
        assert_eq!(times_text(RunClock::default(), [].into_iter()), "");
    }
}
