// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that are in flight at the end of a run, far longer than their class takes.

use super::affected::{Affected, blocks_from};
use super::facts::Facts;
use crate::diagnose::verdict::Subject;
use crate::machine::inflight::StuckState;
use crate::machine::inflight::report::InFlight;
use crate::model::ids::NamespaceId;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::opcode::QueueKind;

/// Least age in nanoseconds: beyond what a busy device takes.
pub const STUCK_NS: u64 = 1_000_000_000;
/// Least age of others than reads and writes: the first deallocation of a disk may take seconds.
pub const OTHERS_NS: u64 = 10_000_000_000;
/// Least age, in medians of its class.
const TIMES: u64 = 20;

/// An I/O command in flight, for `STUCK_NS` and more.
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
    pub state: Option<StuckState>,
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
            state: line.verdict,
        });
        stuck.collect()
    }

    const fn affected(&self) -> Affected {
        let (nsid, code) = match self.kind {
            Some((nsid, code)) => (nsid, Some(code)),
            None => (0, None),
        };
        Affected {
            begin_ns: self.at_ns.saturating_sub(self.age_ns),
            end_ns: self.at_ns,
            disk: NamespaceId::new(self.ctrl, nsid),
            qid: self.qid,
            cid: self.cid,
            code,
            blocks: self.blocks,
            issuer: None,
        }
    }
}

impl Facts {
    /// The stuck commands of a controller in a state for which `wanted` holds.
    pub fn stuck(&self, ctrl: u32, wanted: impl Fn(Option<StuckState>) -> bool) -> Vec<Affected> {
        let own = self.in_flight.iter().filter(|s| s.ctrl == ctrl && wanted(s.state));
        let is_old = |stuck: &&Stuck| {
            let classes = self.classes.of_subject(Subject::Controller(ctrl));
            let alike = classes.filter(|c| {
                stuck.kind.is_none_or(|kind| kind == (c.class.nsid, c.class.opcode.code))
            });
            // a device may take seconds for all
            let usual_ns = alike.map(|c| c.begun_p50_ns).max().unwrap_or(0);
            // reads and writes
            let is_usual = matches!(stuck.kind, Some((_, 1 | 2)));
            let least_ns = if is_usual { STUCK_NS } else { OTHERS_NS };
            stuck.age_ns >= least_ns.max(usual_ns.saturating_mul(TIMES))
        };
        own.filter(is_old).map(Stuck::affected).collect()
    }
}
