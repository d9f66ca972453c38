// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that are in flight at the end of a run, far longer than their kind takes.

use std::collections::BTreeMap;

use crate::machine::inflight::StuckState;
use crate::machine::inflight::report::InFlight;
use crate::units::nanos;

use crate::diagnose::affected::blocks_from;
use crate::diagnose::report::{Affected, Cause, Facts, Subject};
use crate::model::ids::NamespaceId;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::opcode::QueueKind;

/// Least age in nanoseconds: beyond what a busy device takes.
pub const STUCK_NS: u64 = 1_000_000_000;
/// Least age of others than reads and writes: the first deallocation of a disk may take seconds.
pub const OTHERS_NS: u64 = 10_000_000_000;
/// Least age, in medians of its kind.
const TIMES: u64 = 20;

/// An I/O command in flight, of [`STUCK_NS`] and more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stuck {
    /// Controller instance.
    pub ctrl: u32,
    /// Queue id.
    pub qid: u16,
    /// Command id, if its SQE was found.
    pub cid: Option<u16>,
    /// Its first and its last block, likewise.
    pub blocks: Option<(u64, u64)>,
    /// When it was looked at, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Namespace id and opcode, if its SQE was found.
    pub kind: Option<(u32, u8)>,
    /// The time since the driver started it.
    pub age_ns: u64,
    /// What became of it; `None`: its queue could not be read.
    pub verdict: Option<StuckState>,
}

impl Stuck {
    /// The old commands of I/O queues. Admin queues have commands that wait for events.
    pub fn of(found: &InFlight, at_ns: u64) -> Vec<Self> {
        let lines = found.commands.iter().filter(|c| c.is_old && !c.queue.is_admin());
        let stuck = lines.map(|line| Self {
            ctrl: line.queue.ctrl,
            qid: line.queue.qid,
            cid: line.sqe.map(|sqe| sqe.cid()),
            blocks: line.sqe.and_then(|sqe| {
                let found = blocks(QueueKind::Io, CommandSet::Nvm, &sqe)?;
                blocks_from(found.slba, found.nlb)
            }),
            at_ns,
            kind: line.sqe.map(|sqe| (sqe.nsid(), sqe.opcode())),
            age_ns: line.age.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)),
            verdict: line.verdict,
        });
        stuck.collect()
    }

    fn affected(&self) -> Affected {
        Affected {
            begin_ns: self.at_ns.saturating_sub(self.age_ns),
            end_ns: self.at_ns,
            disk: NamespaceId::new(self.ctrl, self.kind.map_or(0, |(nsid, _)| nsid)),
            qid: self.qid,
            cid: self.cid,
            blocks: self.blocks,
            issuer: None,
        }
    }

    const fn least_ns(&self) -> u64 {
        match self.kind {
            // write, read
            Some((_, 1 | 2)) => STUCK_NS,
            _ => OTHERS_NS,
        }
    }
}

/// Stuck commands of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// How many.
    pub commands: u64,
    /// Age of the oldest in nanoseconds.
    pub oldest_ns: u64,
    /// Which they are.
    pub affected: Vec<Affected>,
}

impl Group {
    /// Adds it to the evidence.
    pub fn shown_in(&self, cause: Cause) -> Cause {
        if self.commands == 0 {
            return cause;
        }
        cause
            .shown_by("commands stuck now", self.commands)
            .shown_by("age of the oldest", nanos(self.oldest_ns as f64))
    }
}

impl Facts {
    /// Stuck commands with a verdict for which `wanted` holds, by controller.
    pub fn stuck(&self, wanted: impl Fn(Option<StuckState>) -> bool) -> BTreeMap<u32, Group> {
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        for stuck in self.in_flight.iter().filter(|s| wanted(s.verdict)) {
            let own = self.strata_of(Subject::Controller(stuck.ctrl));
            let alike = own.filter(|s| {
                let of = (s.stratum.nsid, s.stratum.opcode.code);
                stuck.kind.is_none_or(|kind| kind == of)
            });
            // a device may take seconds for all
            let usual_ns = alike.map(|s| s.begun_p50_ns).max().unwrap_or(0);
            let least_ns = stuck.least_ns().max(usual_ns.saturating_mul(TIMES));
            if stuck.age_ns >= least_ns {
                let group = groups.entry(stuck.ctrl).or_default();
                group.commands += 1;
                group.affected.push(stuck.affected());
                group.oldest_ns = group.oldest_ns.max(stuck.age_ns);
            }
        }
        groups
    }
}
