// SPDX-License-Identifier: MIT OR Apache-2.0
//! The join of a guest's recording with one of the host side: which records are of one command, and where
//! its time went. The sum of the parts is the guest's total to the nanosecond, whatever the clocks are.
//!
//! Records with equal identities are of one command if no other record of that identity fits the clocks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::clock::{Bounds, Offset, fit};
use crate::model::event::{CommandId, Event, EventKind, Outcome, Submission};
use crate::model::point::{NO_COMPLETE, NO_SETUP, Point};
use crate::model::report::latency::{RowReport, rows};
use crate::model::report::recount::{Recount, TooManyRows};
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::model::target::Served;
use crate::model::timeline::Timeline;
use crate::nvme::decode::{Blocks, CommandSet, blocks};
use crate::nvme::sqe::Parts;

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
/// Times from here on (146 years) are treated as corrupt: sums of two would not fit.
pub const NO_TIME: u64 = 1 << 62;
/// Most records of the host that are compared with one of the guest. A device has at most one of an id
/// at a time; if many are possible, all of the identity are ambiguous.
const MOST_CANDIDATES: usize = 64;
/// If records are lost, two of different commands may be the only ones of their identity. So many that
/// agree on the clocks are not.
const AGREE: usize = 10;
/// The tag of a command id. Linux has a generation above it (5.14 and later, PCI).
const TAG: u16 = 0xfff;

impl Guest {
    /// A finished command. `None`: another event, or its times are not known. Its controller on the host
    /// side is not set.
    pub fn of(event: &Event, set: CommandSet) -> Option<Self> {
        let EventKind::Command(id, asked, outcome) = &event.what else {
            return None;
        };
        let setup_out = event.at_ns.checked_sub(outcome.latency_ns?)?;
        let at = |point| outcome.timeline.as_ref().and_then(|line| line.at(point));
        let cqe = at(Point::Cqe);
        // not the waits before the request
        let of_request = Point::ALL.into_iter().filter(|point| *point >= Point::Start);
        let seen = || of_request.clone().filter_map(at);
        let last_ns = seen().max().unwrap_or(event.at_ns).max(event.at_ns);
        (last_ns < NO_TIME).then(|| Self {
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

    /// What a record of the host says of the offset if it is of this command. `slack_ns`: how much later
    /// than recorded the host's times can be. `None`: the host took longer than the guest, so it is not.
    fn bounds(&self, host: &Served, slack_ns: u64) -> Option<Bounds> {
        self.around(host)?;
        let difference =
            |host: u64, guest: u64| host.cast_signed().wrapping_sub(guest.cast_signed());
        Some(Bounds {
            at_ns: self.issue_ns.cast_signed(),
            low: difference(host.last_ns, self.end_ns),
            up: difference(host.first_ns.saturating_add(slack_ns), self.issue_ns),
        })
    }

    /// The time of both directions.
    fn around(&self, host: &Served) -> Option<u64> {
        let served = host.last_ns.checked_sub(host.first_ns)?;
        self.end_ns.checked_sub(self.issue_ns)?.checked_sub(served)
    }

    /// The points of the command on both sides, by the guest's clock. The offset may be wrong by its error, but
    /// neither direction is negative.
    pub fn joined(&self, host: &Served, offset: &Offset) -> Timeline {
        let no_cqe = if self.has_cqe { 0 } else { NO_COMPLETE };
        let mut line = Timeline::new([], NO_SETUP | no_cqe);
        if self.has_begin {
            line.add(Point::Start, self.begin_ns);
        }
        line.add(Point::SetupIn, self.issue_ns);
        let around = self.around(host).unwrap_or_default();
        let apart = host.first_ns.cast_signed() - self.issue_ns.cast_signed();
        let to_host = apart.saturating_sub(offset.at(self.issue_ns.cast_signed()));
        let fetch_ns = self.issue_ns + to_host.max(0).unsigned_abs().min(around);
        for (from, to) in [
            (Point::Start, Point::Issue),
            (Point::Issue, Point::Doorbell),
            (Point::Cqe, Point::Irq),
            (Point::End, Point::Cqe),
        ] {
            if let Some(ns) = host.times.at(from) {
                line.add(to, fetch_ns + (ns - host.first_ns));
            }
        }
        line.add(Point::Complete, self.end_ns);
        line.add(Point::End, self.last_ns);
        line
    }
}

/// A finished command of the host side. `None`: another event, or its times are not known or out of order.
pub fn served(event: &Event) -> Option<Served> {
    let EventKind::Command(id, asked, outcome) = &event.what else {
        return None;
    };
    let times = outcome.timeline?;
    let (first_ns, last_ns) = times.ends().filter(|(_, last)| *last < NO_TIME)?;
    times.segments(StageSet::Host)?;
    Some(Served {
        id: *id,
        blocks: blocks(id.opcode.queue, CommandSet::Nvm, &asked.sqe),
        status: outcome.verdict.map(|verdict| verdict.status),
        times,
        first_ns,
        last_ns,
    })
}

/// What makes commands equal: controller, queue, command id, opcode, namespace, blocks. Admin commands have
/// no namespace in QEMU's log; blocks that the host's record lacks are left out on both sides.
type Key = (u32, u16, u16, u8, u32, Option<Blocks>);
/// The records of the guest and of the host with an identity, by their numbers, in the order of time.
type Group = [Vec<usize>; 2];

/// The identities that both sides have.
fn groups(guest: &[Guest], host: &[Served]) -> Vec<Group> {
    // queues and opcodes with a record of the host that lacks the blocks
    let lacks = host.iter().filter(|served| served.blocks.is_none());
    let lacks: HashSet<_> =
        lacks.map(|served| (served.id.ctrl, served.id.qid, served.id.opcode.code)).collect();
    let has_generation = |id: &CommandId| id.qid > 0 && id.cid > TAG;
    let of_guest = guest.iter().any(|c| has_generation(&c.id));
    let of_host = host.iter().any(|s| has_generation(&s.id));
    // one side may have been recorded without them
    let ids = if of_guest == of_host { u16::MAX } else { TAG };
    let key = |id: &CommandId, blocks: Option<Blocks>| {
        let code = id.opcode.code;
        let blocks = blocks.filter(|_| !lacks.contains(&(id.ctrl, id.qid, code)));
        let nsid = if id.qid == 0 { 0 } else { id.nsid };
        (id.ctrl, id.qid, id.cid & ids, code, nsid, blocks)
    };
    let mut groups: HashMap<Key, Group> = HashMap::new();
    for (n, command) in guest.iter().enumerate() {
        groups.entry(key(&command.id, command.blocks)).or_default()[0].push(n);
    }
    for (n, served) in host.iter().enumerate() {
        groups.entry(key(&served.id, served.blocks)).or_default()[1].push(n);
    }
    groups.into_values().filter(|sides| sides.iter().all(|side| !side.is_empty())).collect()
}

/// Two recordings, joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Join {
    /// The guest's commands on the joined controllers, by issue.
    pub guest: Vec<Guest>,
    /// The host's commands on them, by their first point.
    pub host: Vec<Served>,
    /// The pairs: numbers of the guest's and of the host's record.
    pub pairs: Vec<(usize, usize)>,
    /// The offset of the clocks; `None` if it is not known.
    pub offset: Option<Offset>,
    /// Records of the guest and of the host with several possible partners.
    pub ambiguous: [u64; 2],
    /// How much later than recorded the host's times can be.
    slack_ns: u64,
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
        let groups = groups(&guest, &host);
        let slack_ns = resolution_ns.saturating_sub(1);
        let mut join = Self { guest, host, slack_ns, ..Self::default() };
        let singles = groups.iter().filter_map(|group| match group.each_ref().map(Vec::as_slice) {
            [[g], [h]] => join.guest[*g].bounds(&join.host[*h], slack_ns),
            _ => None,
        });
        let times = || join.guest.iter().map(|c| c.issue_ns.cast_signed());
        let range = times().min().zip(times().max()).unwrap_or_default();
        let least = if is_whole { 1 } else { AGREE };
        let offset = known.or_else(|| fit(&singles.collect::<Vec<_>>(), range, least));
        for group in &groups {
            match &offset {
                Some(offset) => join.pair(group, offset),
                None => join.add_ambiguous(group.each_ref().map(Vec::len)),
            }
        }
        join.offset = offset;
        join.pairs.sort_unstable();
        join
    }

    fn add_ambiguous(&mut self, sides: [usize; 2]) {
        self.ambiguous.iter_mut().zip(sides).for_each(|(sum, n)| *sum += n as u64);
    }

    /// Pairs the records of an identity: two that fit each other and no other. If the identity occurs more
    /// than once, they must fit wherever the offset is in its range.
    fn pair(&mut self, [guests, hosts]: &Group, offset: &Offset) {
        let (guest, host) = (&self.guest, &self.host);
        // rounded times may be a little early
        let margin = 2000;
        // the records of the host, which are sorted, that begin while a command of the guest is at the device
        let during = |g: &usize| {
            let issue_ns = guest[*g].issue_ns.cast_signed();
            let (low, high) = offset.range(issue_ns);
            let from = issue_ns.saturating_add(low).saturating_sub(margin);
            let to = guest[*g].end_ns.cast_signed().saturating_add(high);
            let first_ns = |h: &usize| host[*h].first_ns.cast_signed();
            let begin = hosts.partition_point(|h| first_ns(h) < from);
            begin..hosts.partition_point(|h| first_ns(h) <= to).max(begin)
        };
        let ranges: Vec<_> = guests.iter().map(during).collect();
        if ranges.iter().any(|range| range.len() > MOST_CANDIDATES) {
            return self.add_ambiguous([guests.len(), hosts.len()]);
        }
        let is_single = guests.len() == 1 && hosts.len() == 1;
        let bounds = |g: usize, n: usize| guest[g].bounds(&host[hosts[n]], self.slack_ns);
        let may_fit = |g, n: &usize| bounds(g, *n).is_some_and(|b| offset.may_fit(&b));
        let is_sure = |g, n| is_single || bounds(g, n).is_some_and(|b| offset.surely_fits(&b));
        // how many of the guest's may be each of the host's
        let mut claims = vec![0_u32; hosts.len()];
        let (mut sure, mut ambiguous) = (Vec::new(), 0);
        for (&g, range) in guests.iter().zip(ranges) {
            let fits: Vec<usize> = range.filter(|n| may_fit(g, n)).collect();
            fits.iter().for_each(|n| claims[*n] += 1);
            match fits[..] {
                [] => {}
                [n] if is_sure(g, n) => sure.push((g, n)),
                _ => ambiguous += 1,
            }
        }
        for (g, n) in sure {
            if claims[n] == 1 {
                self.pairs.push((g, hosts[n]));
                claims[n] = 0;
            } else {
                ambiguous += 1;
            }
        }
        self.add_ambiguous([ambiguous, claims.iter().filter(|number| **number > 0).count()]);
    }

    /// Commands of the guest and of the host without a partner and without several possible ones.
    pub fn unmatched(&self) -> [u64; 2] {
        let paired = self.pairs.len() as u64;
        let [guest, host] = self.ambiguous;
        [self.guest.len() as u64 - paired - guest, self.host.len() as u64 - paired - host]
    }

    /// The pairs' commands of the guest, with their points on both sides. Without an offset there are none.
    pub fn commands(&self) -> impl Iterator<Item = (&Guest, Timeline)> {
        self.pairs.iter().filter_map(|&(g, h)| {
            let guest = &self.guest[g];
            Some((guest, guest.joined(&self.host[h], self.offset.as_ref()?)))
        })
    }

    /// The pairs by controller, namespace and opcode.
    ///
    /// # Errors
    /// If there are too many rows.
    pub fn rows(&self) -> Result<Vec<RowReport>, TooManyRows> {
        let (recount, mut snapshot) = (Recount::of(StageSet::Join), Snapshot::default());
        for (guest, line) in self.commands() {
            let id = CommandId { ctrl: guest.ctrl, ..guest.id };
            let (submission, outcome) =
                (Submission::of(Parts::default().into()), Outcome::of(None, Some(line)));
            let what = EventKind::Command(id, submission, outcome);
            recount.add(&Event { at_ns: guest.last_ns, what }, &mut snapshot)?;
        }
        let times = |of: fn(&Guest) -> u64| self.guest.iter().map(of);
        let begin_ns = times(|guest| guest.begin_ns).min().unwrap_or_default();
        let end_ns = times(|guest| guest.last_ns).max().unwrap_or_default();
        let covers = Duration::from_nanos(end_ns - begin_ns);
        Ok(rows(&snapshot, StageSet::Join, None, covers))
    }

    /// How far the split between the two directions may be wrong, in nanoseconds.
    pub fn error_ns(&self) -> Option<u64> {
        Some(self.offset.as_ref()?.error_ns + self.slack_ns)
    }

    /// Whether each command of the guest has the time of its CQE.
    pub fn has_cqes(&self) -> bool {
        self.guest.iter().all(|g| g.has_cqe)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
