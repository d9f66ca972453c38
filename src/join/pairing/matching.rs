// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which record of the guest and which of the host are of one command. Records with equal
//! identities pair if the identity occurs once on each side, and the times agree with the times of the
//! other pairs; an identity that occurs more often pairs where the clock leaves one possibility.

use std::collections::{HashMap, HashSet};

use super::Guest;
use super::clock::{Bounds, Offset, Stands, fit};
use crate::model::event::CommandId;
use crate::model::target::Served;
use crate::nvme::decode::Blocks;

/// What makes commands equal: controller, queue, command id, opcode, namespace, blocks. Admin commands have
/// no namespace in QEMU's log; blocks that the host's record lacks are left out on both sides.
type Key = (u32, u16, u16, u8, u32, Option<Blocks>);

/// Records with equal identities, by their numbers, in the order of time.
#[derive(Default)]
struct Group {
    guest: Vec<usize>,
    host: Vec<usize>,
}

impl Group {
    /// The only record of each side.
    const fn single(&self) -> Option<(usize, usize)> {
        match (self.guest.as_slice(), self.host.as_slice()) {
            ([g], [h]) => Some((*g, *h)),
            _ => None,
        }
    }

    const fn is_on_both_sides(&self) -> bool {
        !self.guest.is_empty() && !self.host.is_empty()
    }
}

/// Pairs, and what has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matches {
    /// Numbers of the guest's and the host's record.
    pub pairs: Vec<(usize, usize)>,
    /// The offset of the clocks; `None` if it is not known.
    pub offset: Option<Offset>,
    /// Records of the guest with several possible partners.
    pub ambiguous_guest: u64,
    /// Records of the host with several possible partners.
    pub ambiguous_host: u64,
    /// Records of each side with a partner by identity that the times exclude.
    pub contradictory: u64,
}

/// What a pair says of the offset. `slack_ns`: how much later than recorded the host's times can be.
fn bounds(guest: &Guest, host: &Served, slack_ns: u64) -> Bounds {
    let difference = |host: u64, guest: u64| host.cast_signed().wrapping_sub(guest.cast_signed());
    Bounds {
        at_ns: guest.issue_ns.cast_signed(),
        low: difference(host.last_ns, guest.end_ns),
        up: difference(host.first_ns.saturating_add(slack_ns), guest.issue_ns),
        work_ns: host.last_ns.saturating_sub(host.first_ns).cast_signed(),
    }
}

/// The tag of a command id. Linux has a generation above it (5.14 and later, PCI).
const TAG: u16 = 0xfff;

fn groups(guest: &[Guest], host: &[Served]) -> HashMap<Key, Group> {
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
        groups.entry(key(&command.id, command.blocks)).or_default().guest.push(n);
    }
    for (n, served) in host.iter().enumerate() {
        groups.entry(key(&served.id, served.blocks)).or_default().host.push(n);
    }
    groups
}

/// Pairs the records. `known`: the offset, if another method gives it. `is_whole`: no record is lost,
/// so an identity that occurs once on each side is of one command.
pub fn pair(
    guest: &[Guest],
    host: &[Served],
    slack_ns: u64,
    known: Option<Offset>,
    is_whole: bool,
) -> Matches {
    let groups = groups(guest, host);
    let bounds_of = |g: usize, h: usize| bounds(&guest[g], &host[h], slack_ns);
    let singles: Vec<(usize, usize)> = groups.values().filter_map(Group::single).collect();
    let anchors: Vec<Bounds> = singles.iter().map(|&(g, h)| bounds_of(g, h)).collect();
    let times = || guest.iter().map(|c| c.issue_ns.cast_signed());
    let range = times().min().zip(times().max()).unwrap_or_default();
    let found = match known {
        Some(offset) => {
            let stands = offset.judge(&anchors, is_whole);
            Some((offset, stands))
        }
        None => fit(&anchors, range, is_whole),
    };
    let mut matches = Matches::default();
    let Some((offset, stands)) = found else {
        for group in groups.values().filter(|group| group.is_on_both_sides()) {
            matches.ambiguous_guest += group.guest.len() as u64;
            matches.ambiguous_host += group.host.len() as u64;
        }
        return matches;
    };
    for (pair, stands) in singles.into_iter().zip(stands) {
        match stands {
            Stands::Fits => matches.pairs.push(pair),
            Stands::Unsure => {
                matches.ambiguous_guest += 1;
                matches.ambiguous_host += 1;
            }
            Stands::Contradicts => matches.contradictory += 1,
        }
    }
    let repeated = groups.values().filter(|group| group.single().is_none());
    for group in repeated.filter(|group| group.is_on_both_sides()) {
        several(group, &mut matches, (guest, host), &offset, &bounds_of);
    }
    matches.offset = Some(offset);
    matches.pairs.sort_unstable();
    matches
}

/// Most records of the host that are compared with one of the guest. A device has at most one of an id
/// at a time; if many are possible, all of the identity are ambiguous.
const MOST_CANDIDATES: usize = 64;

/// Pairs the records of an identity that occurs more than once: those that surely fit, where
/// neither may fit another.
fn several(
    group: &Group,
    matches: &mut Matches,
    (guest, host): (&[Guest], &[Served]),
    offset: &Offset,
    bounds_of: &dyn Fn(usize, usize) -> Bounds,
) {
    let first_ns = |h: usize| host[h].first_ns.cast_signed();
    // rounded times may be a little early
    let margin = 2000;
    // the records of the host, which are sorted, that begin while a command of the guest is at the device
    let during = |g: &usize| {
        let issue_ns = guest[*g].issue_ns.cast_signed();
        let (low, high) = offset.range(issue_ns);
        let from = issue_ns.saturating_add(low).saturating_sub(margin);
        let to = guest[*g].end_ns.cast_signed().saturating_add(high);
        let begin = group.host.partition_point(|&h| first_ns(h) < from);
        begin..group.host.partition_point(|&h| first_ns(h) <= to).max(begin)
    };
    let ranges: Vec<_> = group.guest.iter().map(during).collect();
    if ranges.iter().any(|range| range.len() > MOST_CANDIDATES) {
        matches.ambiguous_guest += group.guest.len() as u64;
        matches.ambiguous_host += group.host.len() as u64;
        return;
    }
    // how many of the guest's may be each of the host's
    let mut claims = vec![0_u32; group.host.len()];
    let mut sure = Vec::new();
    for (&g, range) in group.guest.iter().zip(ranges) {
        let fits: Vec<usize> =
            range.filter(|n| offset.may_fit(&bounds_of(g, group.host[*n]))).collect();
        fits.iter().for_each(|n| claims[*n] += 1);
        match fits[..] {
            [] => {}
            [n] if offset.surely_fits(&bounds_of(g, group.host[n])) => sure.push((g, n)),
            _ => matches.ambiguous_guest += 1,
        }
    }
    for (g, n) in sure {
        if claims[n] == 1 {
            matches.pairs.push((g, group.host[n]));
            claims[n] = 0;
        } else {
            matches.ambiguous_guest += 1;
        }
    }
    matches.ambiguous_host += claims.iter().filter(|number| **number > 0).count() as u64;
}
