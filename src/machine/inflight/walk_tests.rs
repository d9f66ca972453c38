// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk through a memory that the tests build.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::NEEDED;
use super::*;
use crate::machine::types::Structure;

/// Every member has 16 bytes, more than most need; `blk_mq_tags` has structs as members.
fn types() -> Types {
    let structure = |name: &str| {
        let (_, needed) = NEEDED.iter().find(|(n, _)| *n == name)?;
        // not needed, but read where it is described
        let more = (name == "nvme_queue").then_some("dbbuf_cq_ei");
        let each = if name == "blk_mq_tags" { 128 } else { 16 };
        let names = needed.iter().copied().chain(more).map(str::to_owned);
        let members: BTreeMap<_, _> = names.zip((0..).step_by(each as usize)).collect();
        Some(Structure { size: members.len() as u32 * each, members })
    };
    Types::new(structure).unwrap()
}

/// Memory by the address of each byte.
#[derive(Clone, Default)]
struct Fake {
    bytes: BTreeMap<u64, u8>,
    reads: usize,
    /// Reads that fail, by number.
    failing: Vec<usize>,
}

impl Memory for Fake {
    fn read(&mut self, at: u64, to: &mut [u8]) -> bool {
        self.reads += 1;
        if self.failing.contains(&self.reads) {
            return false;
        }
        (at..).zip(to).all(|(at, to)| {
            let byte = self.bytes.get(&at);
            *to = byte.copied().unwrap_or_default();
            byte.is_some()
        })
    }
}

impl Fake {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.bytes.extend((at..).zip(bytes.iter().copied()));
    }

    /// A struct with these members; the others are zero.
    fn structure(&mut self, types: &Types, name: &str, at: u64, members: &[(&str, u64)]) {
        self.put(at, &vec![0; types.size(name).unwrap()]);
        for (member, value) in members {
            let offset = types.offset(name, member).unwrap() as u64;
            self.put(at + offset, &value.to_ne_bytes());
        }
    }
}

const HEAD: u64 = 0x100;
const SUBSYSTEM: u64 = 0x1000;
const DEV: u64 = 0x2000;
const SET: u64 = 0x3000;
const TAGS: u64 = 0x4000;
const RQS: u64 = 0x5000;
const REQUEST: u64 = 0x6000;
const SQE: u64 = 0x7000;
const WORDS: u64 = 0x8000;
const QUEUES: u64 = 0x9000;
const SQ: u64 = 0xa000;
const CQ: u64 = 0xb000;
const EVENT_INDEX: u64 = 0xc000;

/// One controller, nvme3, with one I/O queue of four tags. Tag 2 has a command; tag 1 was given
/// back.
fn machine(types: &Types) -> Fake {
    let mut m = Fake::default();
    let of = |name, member| types.offset(name, member).unwrap() as u64;
    let ctrl = DEV + of("nvme_dev", "ctrl");
    m.put(HEAD, &SUBSYSTEM.to_ne_bytes());
    let ctrls = SUBSYSTEM + of("nvme_subsystem", "ctrls");
    let link = ctrl + of("nvme_ctrl", "subsys_entry");
    m.structure(types, "nvme_subsystem", SUBSYSTEM, &[("entry", HEAD), ("ctrls", link)]);
    m.structure(types, "nvme_dev", DEV, &[("queues", QUEUES)]);
    let members = [("instance", 3), ("tagset", SET), ("subsys_entry", ctrls)];
    m.structure(types, "nvme_ctrl", ctrl, &members);
    m.structure(types, "blk_mq_tag_set", SET, &[("tags", SET + 0x100), ("nr_hw_queues", 1)]);
    m.put(SET + 0x100, &TAGS.to_ne_bytes());
    m.structure(types, "blk_mq_tags", TAGS, &[("nr_tags", 4), ("rqs", RQS)]);
    for member in ["bitmap_tags", "breserved_tags"] {
        let at = TAGS + of("blk_mq_tags", member) + of("sbitmap_queue", "sb");
        let depth = if member == "bitmap_tags" { 4 } else { 0 };
        let members = [("depth", depth), ("shift", 2), ("map_nr", 1), ("map", WORDS)];
        for (name, value) in members {
            m.put(at + of("sbitmap", name), &value.to_ne_bytes());
        }
    }
    m.structure(types, "sbitmap_word", WORDS, &[("word", 6), ("cleared", 2)]);
    m.put(RQS, &[0; 32]);
    m.put(RQS + 16, &REQUEST.to_ne_bytes());
    let members = [("state", 1), ("tag", 2), ("deadline", 900), ("timeout", 300)];
    m.structure(types, "request", REQUEST, &members);
    let pdu = REQUEST + types.size("request").unwrap() as u64;
    m.structure(types, "nvme_request", pdu, &[("cmd", SQE)]);
    m.put(SQE, &sqe(0x5002));
    queue(types, &mut m);
    m
}

fn sqe(cid: u16) -> [u8; 64] {
    let mut sqe = [0; 64];
    sqe[0] = 2;
    sqe[2..4].copy_from_slice(&cid.to_le_bytes());
    sqe[4] = 1;
    sqe
}

fn queue(types: &Types, m: &mut Fake) {
    let at = QUEUES + types.size("nvme_queue").unwrap() as u64;
    let members = [
        ("sq_cmds", SQ),
        ("cqes", CQ),
        ("q_depth", 4),
        ("sq_tail", 2),
        ("last_sq_tail", 2),
        ("cq_phase", 1),
        ("flags", 1),
        ("dbbuf_sq_ei", EVENT_INDEX),
        ("dbbuf_cq_ei", EVENT_INDEX + 4),
    ];
    m.structure(types, "nvme_queue", at, &members);
    m.put(SQ, &[0; 256]);
    m.put(SQ + 64, &sqe(0x5002));
    m.put(CQ, &[0; 64]);
    m.put(EVENT_INDEX, &[1, 0, 0, 0, 3, 0, 0, 0]);
}

#[test]
fn a_command_is_found_with_its_queue() {
    let types = types();
    let mut memory = machine(&types);
    let mut walker = Walker::new(&mut memory, &types);
    let [ctrl] = walker.controllers(HEAD).unwrap()[..] else { panic!() };
    let [tags] = walker.queues(&ctrl)[..] else { panic!() };
    assert_eq!((ctrl.instance, tags.qid), (3, 1));
    let reading = walker.commands(&tags).unwrap();
    assert_eq!((reading.total, reading.used), (4, 1));
    let [command] = reading.commands[..] else { panic!("{reading:?}") };
    assert_eq!((command.request, command.tag), (REQUEST, 2));
    assert_eq!(command.sqe.unwrap().cid(), 0x5002);
    let ticks = Ticks { now: 850, hz: 100 };
    assert_eq!(command.age(ticks), Some(Duration::from_millis(2500)));
    let queue = walker.queue(&ctrl, 1, &mut []).unwrap();
    assert_eq!(queue.cids, [0, 0x5002, 0, 0]);
    assert_eq!((queue.event_index, queue.cq_event_index), (Some(1), Some(3)));
}

#[test]
fn a_list_that_changes_is_read_again() {
    let types = types();
    let mut memory = machine(&types);
    memory.failing = vec![2, 3];
    let mut walker = Walker::new(&mut memory, &types);
    assert_eq!(walker.controllers(HEAD).unwrap().len(), 1);

    let mut memory = machine(&types);
    memory.bytes.remove(&HEAD);
    assert_eq!(Walker::new(&mut memory, &types).controllers(HEAD), None);
}

#[test]
fn a_request_without_an_sqe_has_the_one_in_the_sq() {
    let types = types();
    let mut memory = machine(&types);
    let pdu = REQUEST + types.size("request").unwrap() as u64;
    memory.structure(&types, "nvme_request", pdu, &[]);
    let mut walker = Walker::new(&mut memory, &types);
    let ctrl = walker.controllers(HEAD).unwrap()[0];
    let tags = walker.queues(&ctrl)[0];
    let mut reading = walker.commands(&tags).unwrap();
    assert_eq!(reading.commands[0].sqe, None);
    walker.queue(&ctrl, 1, &mut reading.commands).unwrap();
    assert_eq!(reading.commands[0].sqe.unwrap().cid(), 0x5002);
}

#[test]
fn an_sq_in_a_controller_memory_buffer_is_not_read() {
    let types = types();
    let mut memory = machine(&types);
    let at = QUEUES + types.size("nvme_queue").unwrap() as u64;
    let flags = types.offset("nvme_queue", "flags").unwrap() as u64;
    memory.put(at + flags, &[1 | 1 << 1]);
    let mut walker = Walker::new(&mut memory, &types);
    let ctrl = walker.controllers(HEAD).unwrap()[0];
    let queue = walker.queue(&ctrl, 1, &mut []).unwrap();
    assert_eq!((queue.sq, queue.cids.len()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever the memory has, the walk ends, within bounds.
    #[test]
    fn memory_that_makes_no_sense_ends_the_walk(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let types = types();
        let mut memory = machine(&types);
        let addresses: Vec<u64> = memory.bytes.keys().copied().collect();
        for (at, byte) in damage {
            memory.bytes.insert(*at.get(&addresses), byte);
        }
        for at in gone {
            memory.bytes.remove(at.get(&addresses));
        }
        let mut walker = Walker::new(&mut memory, &types);
        for ctrl in walker.controllers(HEAD).unwrap_or_default().iter().take(4) {
            for tags in walker.queues(ctrl).iter().take(4) {
                let mut reading = walker.commands(tags).unwrap_or_default();
                prop_assert!(reading.used <= reading.total);
                walker.queue(ctrl, tags.qid, &mut reading.commands);
            }
        }
        prop_assert!(memory.reads < 100_000);
    }
}
