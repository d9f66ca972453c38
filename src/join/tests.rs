// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins of made records: no wrong pair, whatever is lost, reused or shifted.

use super::*;
use crate::join::possible;
use crate::model::machine::ControllerInfo;
use crate::model::target::{HostController, TargetKind};
use crate::nvme::opcode::{Opcode, QueueKind};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A command of both sides, with the truth.
#[derive(Clone, Copy, Debug)]
struct Made {
    guest: Guest,
    host: Served,
}

/// How a made load looks.
#[derive(Clone, Copy, Debug)]
struct Load {
    commands: u32,
    /// Command ids, and blocks: few mean that identities occur again.
    cids: u16,
    blocks: u64,
    /// Commands in flight per queue.
    depth: usize,
    ppm: f64,
    offset: i64,
}

/// A load whose target takes 20 to 220 us, and each direction 2 to 30 us.
fn made(load: Load, mut random: impl FnMut(u64) -> u64) -> Vec<Made> {
    let clock = |ns: u64| {
        let drift = (ns as f64 * load.ppm / 1e6) as i64;
        (ns.cast_signed() + drift + load.offset).cast_unsigned()
    };
    let mut free = vec![vec![1_000_000_u64; load.depth]; 2];
    (0..load.commands)
        .map(|n| {
            let queue = (n % 2) as usize;
            let slot = (0..load.depth).min_by_key(|s| free[queue][*s]).unwrap();
            let issue = free[queue][slot] + 500 + random(3000);
            let fetch = issue + 2000 + random(28_000);
            let submit = fetch + 5000;
            let done = submit + 15_000 + random(200_000);
            let cqe = done + 2000 + random(28_000);
            let complete = cqe + random(2000);
            free[queue][slot] = complete;
            // an id belongs to its slot, as a tag does
            let uses = u64::from(load.cids);
            let cid = slot as u16 * load.cids + random(uses) as u16;
            let slba = random(load.blocks);
            let guest = Guest {
                ctrl: 3,
                id: CommandId {
                    ctrl: 0,
                    qid: queue as u16 + 1,
                    cid,
                    nsid: 1,
                    opcode: Opcode { queue: QueueKind::Io, code: 2 },
                },
                blocks: Some(Blocks { slba, nlb: 8 }),
                begin_ns: issue - 400,
                has_begin: true,
                issue_ns: issue,
                end_ns: cqe,
                has_cqe: true,
                last_ns: complete,
            };
            let mut times = Timeline::new([], 0);
            times.add(Point::Start, clock(fetch));
            times.add(Point::Issue, clock(submit));
            times.add(Point::Cqe, clock(done));
            let host = Served {
                id: guest.id,
                blocks: guest.blocks,
                status: None,
                times,
                first_ns: clock(fetch),
                last_ns: clock(done),
            };
            Made { guest, host }
        })
        .collect()
}

/// A generator of numbers below a limit.
fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    seed |= 1;
    move |limit| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit.max(1)
    }
}

/// The join, without 5 % of each side, in another order; the pairs, and which of them are right.
fn joined(all: &[Made], loss: u64, seed: u64) -> (Join, u64) {
    let mut random = numbers(seed);
    let mut guest: Vec<Guest> = vec![];
    let mut host: Vec<Served> = vec![];
    for made in all {
        if random(100) >= loss {
            guest.push(made.guest);
        }
        if random(100) >= loss {
            host.push(made.host);
        }
    }
    for n in (1..guest.len()).rev() {
        guest.swap(n, random(n as u64 + 1) as usize);
    }
    for n in (1..host.len()).rev() {
        host.swap(n, random(n as u64 + 1) as usize);
    }
    let join = Join::new(guest, host, 1, None, loss == 0);
    let is_right = |(g, h): &(usize, usize)| {
        let guest = &join.guest[*g];
        let truth = all.iter().find(|m| m.guest == *guest);
        truth.is_some_and(|m| m.host == join.host[*h])
    };
    let right = join.pairs.iter().filter(|p| is_right(p)).count() as u64;
    (join, right)
}

fn load() -> impl Strategy<Value = Load> {
    let counts = (200..600_u32, 1..200_u16, 1..10_000_u64, 1..16_usize);
    (counts, -300.0..300.0_f64, -1_i64 << 40..1 << 40).prop_map(
        |((commands, cids, blocks, depth), ppm, offset)| Load {
            commands,
            cids,
            blocks,
            depth,
            ppm,
            offset: offset + (1 << 41),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn no_pair_is_wrong(load in load(), seed: u64) {
        let all = made(load, numbers(seed));
        let (join, right) = joined(&all, 5, seed ^ 0x5555);
        prop_assert_eq!(right, join.pairs.len() as u64, "{:?}", join.ambiguous);
        prop_assert_eq!(
            join.unmatched()[0] + join.ambiguous[0] + right,
            join.guest.len() as u64
        );
    }
}

fn one() -> Made {
    let load = Load { commands: 1, cids: 5, blocks: 5, depth: 1, ppm: 0.0, offset: 0 };
    made(load, numbers(7))[0]
}

#[test]
fn identities_that_all_repeat_are_ambiguous_without_a_clock() {
    let all: Vec<Made> = (0..3_u64)
        .map(|n| {
            let mut made = one();
            made.guest.begin_ns += n * 1_000_000;
            made.guest.issue_ns += n * 1_000_000;
            made.guest.end_ns += n * 1_000_000;
            made.guest.last_ns += n * 1_000_000;
            made.host.first_ns += n * 1_000_000;
            made.host.last_ns += n * 1_000_000;
            made
        })
        .collect();
    let guest: Vec<Guest> = all.iter().map(|m| m.guest).collect();
    let host: Vec<Served> = all.iter().map(|m| m.host).collect();
    let join = Join::new(guest.clone(), host.clone(), 1, None, true);
    assert_eq!(join.pairs, []);
    assert_eq!(join.ambiguous, [3, 3]);
    let join = Join::new(guest, host, 1, Some(Offset::same()), true);
    assert_eq!(join.pairs, [(0, 0), (1, 1), (2, 2)]);
    assert_eq!(join.unmatched(), [0, 0]);
}

#[test]
fn parts_without_a_point_are_merged_and_a_fabric_has_no_cqe() {
    let names = |made: &Made, offset| {
        let stages = made.guest.joined(&made.host, offset).segments(StageSet::Join).unwrap();
        let sum: u64 = stages.iter().map(|s| s.ns).sum();
        assert_eq!(sum, made.guest.last_ns - made.guest.begin_ns);
        stages.into_iter().map(|s| s.run.name()).collect::<Vec<_>>()
    };
    let same = Offset::same();
    let mut made = one();
    let want = ["guest_submit", "to_host", "host_submit", "backend"];
    let found = names(&made, &same);
    assert_eq!(found[..4], want);
    assert_eq!(found[4..], ["host_complete+to_guest", "guest_complete"]);
    made.guest.has_begin = false;
    made.guest.begin_ns = made.guest.issue_ns;
    assert_eq!(names(&made, &same)[0], "to_host");
    made = one();
    made.guest.has_cqe = false;
    made.host.times.add(Point::End, made.host.last_ns + 1);
    made.host.last_ns += 1;
    let found = names(&made, &same);
    assert_eq!(found[4..], ["host_complete", "to_guest+guest_complete"]);
}

#[test]
fn controllers_are_paired_where_only_one_is_possible() {
    let guest = |instance, transport: &str, cntlid| ControllerInfo {
        instance,
        transport: transport.into(),
        cntlid: Some(cntlid),
        nqn: (transport != "pcie").then(|| "lab".into()),
        ..ControllerInfo::default()
    };
    let host = |number, cntlid| HostController {
        number,
        name: format!("nvmet:{cntlid}").into(),
        cntlid: Some(cntlid),
        nqn: Some("lab".into()),
        ..HostController::default()
    };
    let machine = [guest(0, "pcie", 1), guest(2, "tcp", 1), guest(3, "tcp", 2)];
    let pair = |hosts: &[HostController]| possible(&machine, TargetKind::Nvmet, hosts);
    let found = pair(&[host(0, 2), host(1, 1)]).unwrap();
    assert_eq!(found, BTreeMap::from([(3, 0), (2, 1)]));
    assert_eq!(pair(&[host(0, 9)]), Ok(BTreeMap::new()));
    let nameless = HostController::named("nvmet:x");
    let why = pair(&[nameless]).unwrap_err();
    assert!(why.contains("nvme2 or nvme3") && why.contains("--ctrl nvme2=nvmet:x"), "{why}");
}

/// A target cannot work longer on a command than the guest waited for it: such records are of two commands.
#[test]
fn a_record_that_took_longer_than_the_command_is_no_partner() {
    let load = Load { commands: 50, cids: 50, blocks: 1 << 30, depth: 4, ppm: 20.0, offset: 5 };
    for wrong in [0, 7, 49] {
        let mut all = made(load, numbers(9));
        let Made { guest, host } = &mut all[wrong];
        host.last_ns = host.first_ns + (guest.end_ns - guest.issue_ns) + 1;
        let (join, right) = joined(&all, 0, 3);
        assert_eq!((join.pairs.len(), right, join.unmatched()), (49, 49, [1, 1]), "{wrong}");
    }
}
