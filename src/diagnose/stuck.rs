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
            let age_ns =
                line.age.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
            let found = line.sqe.and_then(|sqe| blocks(QueueKind::Io, CommandSet::Nvm, &sqe));
            let affected = Affected {
                begin_ns: at_ns.saturating_sub(age_ns),
                end_ns: at_ns,
                disk: NamespaceId::new(line.queue.ctrl, line.sqe.map_or(0, |sqe| sqe.nsid())),
                qid: line.queue.qid,
                cid: line.sqe.map(|sqe| sqe.cid()),
                code: line.sqe.map(|sqe| sqe.opcode()),
                blocks: found.and_then(|found| blocks_from(found.slba, found.nlb)),
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
