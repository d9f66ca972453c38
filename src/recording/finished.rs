// SPDX-License-Identifier: MIT OR Apache-2.0
//! The row of a finished command from its record: the same as that of its event.

use std::array;
use std::mem::offset_of;

use super::block::Builder;
use super::distance::{distances, masks};
use super::row::{
    AT, BYTES, LATENCY, OUTCOME_COLUMN, Row, SHAPE_COLUMN, SUBMITTED, SUBMITTER, TASK_COLUMN,
    TIMELINE, VERDICT, column, kind,
};
use super::shape::{Shape, Words, pair};
use crate::abi::{PairRecord, RawOutcome, RawPair, RawSubmission};
use crate::model::point::{Pattern, Point};

/// Number of the kinds of commands that are remembered.
const RECENT: usize = 128;

/// The bits of a record that make the entries of the dictionaries. The others are times, ids, CPUs,
/// blocks and stacks.
const KIND: [u64; 16] = {
    let (outcome, submission) = (offset_of!(RawPair, end.outcome), offset_of!(RawPair, submission));
    let mut bits = [!0_u64; 16];
    bits[offset_of!(RawPair, end.event.ns) / 8] = 0;
    bits[offset_of!(RawPair, end.setup_out_ns) / 8] = 0;
    bits[(outcome + offset_of!(RawOutcome, stack)) / 8] = 0;
    bits[(submission + offset_of!(RawSubmission, stack)) / 8] = 0;
    bits[(submission + offset_of!(RawSubmission, cdw)) / 8] = 0;
    let halves = [
        offset_of!(RawPair, end.event.qid),
        offset_of!(RawPair, end.event.cid),
        outcome + offset_of!(RawOutcome, cpu),
        submission + offset_of!(RawSubmission, cpu),
    ];
    let mut n = 0;
    while n < halves.len() {
        let mut bytes = bits[halves[n] / 8].to_ne_bytes();
        (bytes[halves[n] % 8], bytes[halves[n] % 8 + 1]) = (0, 0);
        bits[halves[n] / 8] = u64::from_ne_bytes(bytes);
        n += 1;
    }
    bits
};

/// A command whose entries are in the dictionaries of the block.
#[derive(Clone)]
struct Known {
    /// `None`: there is none.
    has_times: Option<bool>,
    command: [u64; 16],
    /// Of shape, thread and outcome.
    numbers: [u64; 3],
    /// All bits for a point that was observed.
    points: [u64; 7],
}

/// The last commands of their kinds in a block.
pub struct Recent(Box<[Known; RECENT]>);

impl Default for Recent {
    fn default() -> Self {
        let none = Known { has_times: None, command: [0; 16], numbers: [0; 3], points: [0; 7] };
        Self(Box::new(array::from_fn(|_| none.clone())))
    }
}

impl Recent {
    /// Forgets all: a block has ended, and the numbers were those of its dictionaries.
    pub(super) fn forget(&mut self) {
        self.0.iter_mut().for_each(|known| known.has_times = None);
    }

    /// The place of a command.
    #[inline(always)]
    fn place(command: &[u64; 16]) -> usize {
        // process and thread; namespace and bytes; controller, points and namespace; opcode
        let mixed = command[13]
            ^ command[14].rotate_left(24)
            ^ command[2].rotate_left(8)
            ^ (command[0] as u32 as u64).rotate_left(32);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as usize % RECENT
    }
}

impl Builder {
    /// Adds finished commands, and the times of each or of none. A block has at most
    /// [`MAX_ROWS`](super::MAX_ROWS).
    pub(super) fn push_finished(&mut self, commands: &[[u64; 16]], times: &[[u64; 7]]) {
        match times {
            [] => commands.iter().for_each(|c| self.push_record(c, None)),
            _ => self.push_with_times(commands, times),
        }
    }

    // a function of its own: within a larger one the loop lacks registers
    #[inline(never)]
    fn push_with_times(&mut self, commands: &[[u64; 16]], times: &[[u64; 7]]) {
        for (command, times) in commands.iter().zip(times) {
            self.push_record(command, Some(times));
        }
    }

    #[inline(always)]
    fn push_record(&mut self, command: &[u64; 16], times: Option<&[u64; 7]>) {
        let Some(record) = PairRecord::of_words(command, times) else {
            return;
        };
        let rows = self.rows.rows();
        let at = Recent::place(command);
        let known = &self.recent.0[at];
        let (event, a, o) = (&record.end.event, record.submission, &record.end.outcome);
        let differs =
            (0..16).fold(0, |differs, n| differs | ((known.command[n] ^ command[n]) & KIND[n]));
        let (at_ns, setup_out) = (event.ns, record.end.setup_out_ns);
        if known.has_times != Some(times.is_some()) || differs != 0 || at_ns < setup_out {
            return self.learn(command, times, at);
        }
        let [shape, task, outcome] = known.numbers;
        let since = self.clock.next(at_ns, rows);
        let mut row = self.rows.next();
        row.set(AT, since);
        row.set(SHAPE_COLUMN, shape);
        row.set(TASK_COLUMN, task);
        row.set(OUTCOME_COLUMN, outcome);
        row.set(column::QID, event.qid.into());
        row.set(column::CID, event.cid.into());
        row.set(column::SLBA, pair(a.cdw[0], a.cdw[1]));
        row.set(column::CPU, a.cpu.into());
        row.set(column::COMPLETE_CPU, o.cpu.into());
        row.set(column::LATENCY, at_ns - setup_out);
        // the set-up was observed, and its end is what most points are near to
        let [start, setup_in, issue, doorbell, irq, cqe, end] = *times.unwrap_or(&[0; 7]);
        let distances = [
            setup_out.wrapping_sub(start),
            setup_out.wrapping_sub(setup_in),
            issue.wrapping_sub(setup_out),
            doorbell.wrapping_sub(setup_out),
            at_ns.wrapping_sub(irq),
            at_ns.wrapping_sub(cqe),
            end.wrapping_sub(at_ns),
        ];
        for (n, (distance, observed)) in distances.into_iter().zip(known.points).enumerate() {
            row.set(column::POINTS + n, distance & observed);
        }
        row.set(column::STACK, a.stack);
        row.set(column::COMPLETE_STACK, o.stack);
        row.set(column::VALUE, 0);
    }

    /// Adds a command of a new kind.
    #[cold]
    #[inline(never)]
    fn learn(&mut self, command: &[u64; 16], times: Option<&[u64; 7]>, at: usize) {
        let Some(record) = PairRecord::of_words(command, times) else {
            return;
        };
        let row = row(&record);
        let columns = self.add(&row);
        if row.shape.has(LATENCY) {
            self.recent.0[at] = Known {
                has_times: Some(times.is_some()),
                command: *command,
                numbers: [columns[SHAPE_COLUMN], columns[TASK_COLUMN], columns[OUTCOME_COLUMN]],
                points: masks(row.shape.pattern),
            };
        }
    }
}

/// All of it if this is true, else zero.
#[inline(always)]
fn only_if(is: bool, value: u32) -> u32 {
    value & u32::from(is).wrapping_neg()
}

#[inline(always)]
fn shape(record: &PairRecord<'_>) -> Shape {
    let (event, a) = (&record.end.event, record.submission);
    let flag = |set: bool, bit: u8| u8::from(set) * bit;
    let [_, _, twelve, thirteen, fourteen, fifteen] = a.cdw;
    Shape {
        kind: kind::COMMAND,
        known: SUBMITTED
            | flag(a.knows_bytes(), BYTES)
            | flag(a.knows_submitter(), SUBMITTER)
            | flag(record.end.outcome.known != 0, VERDICT)
            | flag(record.latency_ns().is_some(), LATENCY)
            | flag(record.times.is_some(), TIMELINE),
        opcode: event.opcode,
        admin: event.admin != 0,
        flags: a.flags,
        metadata: a.metadata != 0,
        pattern: only_if(record.times.is_some(), event.pattern.into()),
        ctrl: event.ctrl.into(),
        nsid: event.nsid,
        bytes: only_if(a.knows_bytes(), a.bytes),
        cdw: [twelve, thirteen, fourteen, fifteen],
    }
}

/// As `shape::outcome`.
#[inline(always)]
fn outcome(record: &PairRecord<'_>) -> Words<2> {
    let o = &record.end.outcome;
    let rest = u64::from(o.status) | u64::from(o.retries) << 16 | u64::from(o.flags) << 24;
    let known = u64::from(o.known != 0).wrapping_neg();
    [o.result & known, rest & known | u64::from(o.beside) << 32]
}

/// The distances of the points. The times of a record have the numbers of their bits in its pattern.
#[inline(always)]
fn points(record: &PairRecord<'_>, latency: u64) -> [u64; 7] {
    let at_ns = record.at_ns();
    let setup_out = at_ns.wrapping_sub(latency);
    let pattern = Pattern::from(record.end.event.pattern);
    record.times.map_or([0; 7], |times| {
        let time = |point: Point| {
            let bit = point.pattern_bit().map_or(0, Pattern::trailing_zeros);
            times.get(bit as usize).copied().unwrap_or(0)
        };
        distances(time, pattern, at_ns, setup_out)
    })
}

#[inline(always)]
fn row(record: &PairRecord<'_>) -> Row {
    let (event, a, o) = (&record.end.event, record.submission, &record.end.outcome);
    let latency = record.latency_ns().unwrap_or(0);
    let [start, setup_in, issue, doorbell, irq, cqe, ended] = points(record, latency);
    let name = u128::from_le_bytes(a.comm);
    Row {
        shape: shape(record),
        task: [pair(a.tgid, a.tid), name as u64, (name >> 64) as u64],
        outcome: outcome(record),
        columns: [
            event.ns,
            0,
            0,
            0,
            event.qid.into(),
            event.cid.into(),
            pair(a.cdw[0], a.cdw[1]),
            a.cpu.into(),
            o.cpu.into(),
            latency,
            start,
            setup_in,
            issue,
            doorbell,
            irq,
            cqe,
            ended,
            a.stack,
            o.stack,
            0,
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::abi::event;

    /// The size of a record with times.
    const TIMES_END: usize = size_of::<RawPair>() + 7 * 8;
    /// Words that are not part of the kind of a command, and two that are.
    const OFTEN: [usize; 13] = [0, 1, 3, 6, 7, 8, 15, 16, 17, 18, 20, 22, 4];

    /// Records of blocks, of a few kinds that differ in some words, with and without times. A kind may be in several
    /// blocks, which number it anew.
    fn blocks() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
        let kinds = vec((vec(any::<u64>(), TIMES_END / 8), 0..0x220_u16), 1..4);
        let changes = vec((any::<Index>(), any::<u64>()), 0..4);
        let each = (any::<Index>(), changes, prop::bool::weighted(0.8), 0..60_u8);
        (kinds, vec(vec(each, 1..300), 1..4)).prop_map(|(kinds, blocks)| {
            let one = |(kind, changes, has_times, rare): (Index, Vec<(Index, u64)>, bool, u8)| {
                let (mut words, pattern) = kind.get(&kinds).clone();
                for (at, value) in changes {
                    words[OFTEN[at.index(OFTEN.len())]] = value;
                }
                let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
                // rarely another kind of event
                bytes[0] = if rare == 0 { 3 } else { 4 };
                bytes[18..20].copy_from_slice(&pattern.to_ne_bytes());
                // not with who caused the command
                bytes[offset_of!(RawPair, submission.known)] &= !4;
                if !has_times {
                    bytes.truncate(size_of::<RawPair>());
                }
                bytes
            };
            let block = |all: Vec<_>| all.into_iter().map(one).collect();
            blocks.into_iter().map(block).collect()
        })
    }

    proptest! {
        #[test]
        fn a_record_makes_the_same_block_as_its_event(blocks in blocks()) {
            let (mut of_records, mut of_events) = (Builder::new(), Builder::new());
            for records in blocks {
                let mut taken = 0;
                for bytes in &records {
                    let event = event(bytes, 0).unwrap();
                    of_events.push(&event);
                    match PairRecord::of(bytes) {
                        Some(record) => {
                            taken += 1;
                            let times = record.times.map_or(&[][..], from_ref);
                            of_records.push_finished(from_ref(record.command), times);
                        }
                        None => of_records.push(&event),
                    }
                }
                let plain = |r: &&Vec<u8>| r[0] == 4 && u16::from_ne_bytes([r[18], r[19]]) < 0x100;
                prop_assert!(taken >= records.iter().filter(plain).count());
                prop_assert_eq!(of_records.last_ns(), of_events.last_ns());
                let (mut got, mut want) = (vec![], vec![]);
                let contents = (of_records.take(&mut got), of_events.take(&mut want));
                prop_assert_eq!(contents.0, contents.1);
                prop_assert_eq!(got, want);
            }
        }
    }
}
