// SPDX-License-Identifier: MIT OR Apache-2.0
//! The join of a guest's recording with one of the host side: which records are of one command, and
//! where its time went on both sides. The sum of the parts is the guest's total to the nanosecond,
//! whatever the clocks are.

mod clock;
mod matching;
mod readings;
mod waterfall;

use std::collections::BTreeMap;

pub use self::clock::Offset;
pub use self::matching::Matches;
pub use self::readings::by_readings;
use self::waterfall::waterfall;
use crate::model::event::{CommandId, Event, EventKind};
use crate::model::machine::ControllerInfo;
use crate::model::point::Point;
use crate::model::report::parts::PartRows;
use crate::model::target::{HostController, Part, Served, TargetKind};
use crate::nvme::decode::{Blocks, CommandSet, blocks};

/// A command in the guest's recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Controller instance in the guest.
    pub ctrl: u32,
    /// The command. `ctrl` is the controller's number on the host side.
    pub id: CommandId,
    /// Its blocks, if it has some.
    pub blocks: Option<Blocks>,
    /// The first observed point.
    pub begin_ns: u64,
    /// Whether that is not `issue_ns`: a point before it was observed, too.
    pub has_begin: bool,
    /// The last point before the target can see the command: issue, or the end of the setup.
    pub issue_ns: u64,
    /// The first point after the target has answered: the CQE, or the completion.
    pub end_ns: u64,
    /// Whether `end_ns` is the time of the CQE.
    pub has_cqe: bool,
    /// The last observed point.
    pub last_ns: u64,
}

/// Points; one of them makes `guest_submit` an interval. Setup_out is always known: it alone is the
/// issue.
const BEFORE_ISSUE: [Point; 3] = [Point::Start, Point::SetupIn, Point::Issue];

/// A finished command of the guest. `None`: another event, or its times are not known. Its
/// controller on the host side is not set.
pub fn guest_command(event: &Event, set: CommandSet) -> Option<Guest> {
    let EventKind::Command(id, asked, outcome) = &event.what else {
        return None;
    };
    let latency = outcome.latency_ns?;
    let setup_out = event.at_ns.checked_sub(latency)?;
    let line = outcome.timeline.as_ref();
    let at = |point| line.and_then(|line| line.at(point));
    let cqe = at(Point::Cqe);
    // not the waits before the request
    let of_request = Point::ALL.into_iter().filter(|point| *point >= Point::Start);
    let seen = || of_request.clone().filter_map(at);
    let last_ns = seen().max().unwrap_or(event.at_ns).max(event.at_ns);
    if last_ns >= NO_TIME {
        return None;
    }
    Some(Guest {
        ctrl: id.ctrl,
        id: *id,
        blocks: blocks(id.opcode.queue, set, &asked.sqe),
        has_begin: BEFORE_ISSUE.into_iter().any(|point| at(point).is_some()),
        begin_ns: seen().min().unwrap_or(setup_out).min(setup_out),
        issue_ns: at(Point::Issue).unwrap_or(setup_out).max(setup_out),
        end_ns: cqe.unwrap_or(event.at_ns),
        has_cqe: cqe.is_some(),
        last_ns,
    })
}

/// Times from here on (146 years) are treated as corrupt: sums of two would not fit.
const NO_TIME: u64 = 1 << 62;

/// A finished command of the host side. `None`: another event, or its times are not known or out of order.
pub fn served(event: &Event) -> Option<Served> {
    let EventKind::Command(id, asked, outcome) = &event.what else {
        return None;
    };
    let times = outcome.timeline?;
    let (first_ns, last_ns) = times.ends().filter(|(_, last)| *last < NO_TIME)?;
    Part::of(&times)?;
    Some(Served {
        id: *id,
        blocks: blocks(id.opcode.queue, CommandSet::Nvm, &asked.sqe),
        status: outcome.verdict.map(|verdict| verdict.status),
        times,
        first_ns,
        last_ns,
    })
}

/// The controller of the host side that each of the guest's is, as far as only one is possible.
pub fn pair_controllers(
    guest: &[ControllerInfo],
    kind: TargetKind,
    host: &[HostController],
) -> Result<BTreeMap<u32, u32>, String> {
    let may = |g: &ControllerInfo, h: &HostController| {
        let is_pci = g.transport == "pcie";
        let reachable = match kind {
            TargetKind::Nvmet => !is_pci,
            TargetKind::Qemu => is_pci,
            TargetKind::Spdk => true,
        };
        let cntlid = g.cntlid.zip(h.cntlid).is_none_or(|(a, b)| a == b);
        let nqn = g.nqn.as_ref().zip(h.nqn.as_ref()).is_none_or(|(a, b)| a == b);
        reachable && cntlid && nqn
    };
    let mut pairs = BTreeMap::new();
    for h in host {
        let partners: Vec<u32> = guest.iter().filter(|g| may(g, h)).map(|g| g.instance).collect();
        let names: Vec<String> = partners.iter().map(|g| format!("nvme{g}")).collect();
        let why = match partners[..] {
            [] => continue,
            [g] if pairs.insert(g, h.number).is_none() => continue,
            [_] => format!("{} may be several controllers of the host side", names[0]),
            _ => format!("{} of the host side may be {}", h.name, names.join(" or ")),
        };
        return Err(format!("{why}: name the pair with --ctrl {}={}", names[0], h.name));
    }
    Ok(pairs)
}

/// Two recordings, joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Join {
    /// The guest's commands on the joined controllers, by issue.
    pub guest: Vec<Guest>,
    /// The host's commands on them, by their first point.
    pub host: Vec<Served>,
    /// The pairs.
    pub matches: Matches,
    /// Resolution of the host's times.
    pub slack_ns: u64,
}

impl Join {
    /// Joins commands. `resolution_ns`: of the host's times, which are rounded down. `known`: the
    /// offset of the clocks, if it is known. `is_whole`: no record of either side is lost.
    pub fn new(
        mut guest: Vec<Guest>,
        mut host: Vec<Served>,
        resolution_ns: u64,
        known: Option<Offset>,
        is_whole: bool,
    ) -> Self {
        guest.sort_by_key(|c| (c.issue_ns, c.id.qid, c.id.cid));
        host.sort_by_key(|c| (c.first_ns, c.id.qid, c.id.cid));
        let slack_ns = resolution_ns.saturating_sub(1);
        let matches = matching::pair(&guest, &host, slack_ns, known, is_whole);
        Self { guest, host, matches, slack_ns }
    }

    /// Commands of the guest without a partner and without several possible ones.
    pub fn unmatched_guest(&self) -> u64 {
        let paired = self.matches.pairs.len() as u64;
        self.guest.len() as u64 - paired - self.matches.ambiguous_guest
    }

    /// The same for the host.
    pub fn unmatched_host(&self) -> u64 {
        let paired = self.matches.pairs.len() as u64;
        self.host.len() as u64 - paired - self.matches.ambiguous_host
    }

    /// The pairs' commands of the guest, with the parts of their times. Without an offset there are none.
    pub fn commands(&self) -> impl Iterator<Item = (&Guest, Vec<Part>)> {
        self.matches.pairs.iter().filter_map(|&(g, h)| {
            let (guest, offset) = (&self.guest[g], self.matches.offset.as_ref()?);
            Some((guest, waterfall(guest, &self.host[h], offset)))
        })
    }

    /// The pairs by controller, namespace and opcode.
    pub fn rows(&self) -> PartRows {
        let mut rows = PartRows::new();
        for (guest, parts) in self.commands() {
            let key = (guest.ctrl, guest.id.nsid, guest.id.opcode);
            rows.entry(key).or_default().add(&parts);
        }
        rows
    }

    /// How far the split between the two directions may be wrong, in nanoseconds.
    pub fn error_ns(&self) -> Option<u64> {
        Some(self.matches.offset.as_ref()?.error_ns + self.slack_ns)
    }
}

#[cfg(test)]
mod tests;
