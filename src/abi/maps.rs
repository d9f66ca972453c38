// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps of the BPF side: sizes, initial values, and the decoding of their values.
//! bpf/include/*abi.h declare them; build.rs makes Rust of them (bpf/abi.bpf.c).

use std::mem::{offset_of, size_of};

use bytemuck::AnyBitPattern;

use super::{DecodeError, read};
use crate::model::counters::{Counters, Failures, TYPES};
pub use crate::model::filter::{MAX_CTRLS, MAX_LIST};
use crate::model::histogram::{BUCKETS, Histogram};
use crate::model::point::{Pattern, Point};
use crate::model::snapshot::Cell;
use crate::model::stage::StageSet;
use crate::model::transport::Transport;

/// Includes the types of the BPF side, generated from its BTF.
macro_rules! skeleton {
    ($module:ident, $file:literal) => {
        #[allow(
            dead_code,
            missing_docs,
            unused_qualifications,
            clippy::absolute_paths,
            clippy::all,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            clippy::expect_used,
            clippy::panic,
            clippy::use_self,
            clippy::wildcard_imports,
            reason = "generated code"
        )]
        pub(crate) mod $module {
            include!(concat!(env!("OUT_DIR"), $file));
        }
    };
}

skeleton!(skel, "/abi.skel.rs");

pub(crate) use skel::types::nd_host;
pub(super) use skel::types::{
    nd_begun, nd_bio, nd_bio_limit, nd_cell, nd_cpu, nd_ctrl, nd_failure, nd_failures, nd_hist,
    nd_key, nd_last_bio, nd_limit, nd_pause, nd_rowless, nd_scratch, nd_size, nd_slot,
    nd_stack_sum, nd_start, nd_state, nd_submitter, nd_submitter_limit,
};
pub use skel::types::{
    nd_by, nd_by_cgroup, nd_config, nd_control, nd_end_of_recovery, nd_host_count, nd_host_flag,
    nd_host_limit, nd_memory_limit, nd_mode, nd_spdk_call, nd_stack_at, nd_trace, nd_usdt_cookie,
    nd_usdt_count, nd_usdt_limit, nd_who,
};

/// Bytes of a cell before its histograms.
pub const CELL_HEAD: usize = nd_size::ND_CELL_HEAD.0 as usize;
/// Bytes of a slot in the total and basic stage sets.
pub const SLOT_BASIC: usize = nd_size::ND_SLOT_BASIC.0 as usize;
/// Bytes of a slot in the fine stage set.
pub const SLOT_FINE: usize = nd_size::ND_SLOT_FINE.0 as usize;
/// Bytes of a slot in a trace, which also contains the submission and the outcome.
pub const SLOT_TRACE: usize = nd_size::ND_SLOT_TRACE.0 as usize;
/// Bytes of a slot in a trace with the full stage set: the waits before the request are the last.
pub const SLOT_FULL: usize = nd_size::ND_SLOT_FULL.0 as usize;
/// Bytes of a slot of a trace that observes who caused each command.
pub const SLOT_ORIGIN: usize = nd_size::ND_SLOT_ORIGIN.0 as usize;
/// Bytes of the submitter of a bio, and of its address.
pub const SUBMITTER_BYTES: usize = size_of::<nd_submitter>() + 8;
/// Bios between their submission and their end.
pub const SUBMITTERS: u32 = nd_submitter_limit::ND_SUBMITTERS.0;

/// The word of a slot that contains its state.
pub const SLOT_STATE: usize = offset_of!(nd_slot, state) / 8;
/// Bytes of a cache line.
pub const LINE: usize = nd_limit::ND_LINE.0 as usize;
/// The first slot of a controller that the filter leaves out.
pub const NO_SLOT: u32 = nd_limit::ND_NO_SLOT.0;
/// More queues than any controller has.
pub const ALL_QUEUES: u32 = 1 << 16;
/// Bytes of a scratch entry, in which a program builds a stack.
pub const SCRATCH_BYTES: usize = size_of::<nd_scratch>();
/// Number of scratch entries per CPU.
pub const SCRATCHES: u32 = nd_limit::ND_SCRATCHES.0;
/// Number of CPUs that share a ring of events.
pub const RING_CPUS: u32 = nd_limit::ND_RING_CPUS.0;
/// Bytes of a tag's start entry.
pub const START_BYTES: usize = nd_size::ND_START.0 as usize;
/// The same with the full stage set.
pub const START_FULL_BYTES: usize = nd_size::ND_START_FULL.0 as usize;
/// The same with submitters.
pub const START_BY_BYTES: usize = nd_size::ND_START_BY.0 as usize;
/// Bios of NVMe disks that have no request yet, with the full stage set.
pub const BIOS: usize = nd_bio_limit::ND_BIOS.0 as usize;
/// Bytes of such a bio, and of its address.
pub const BIO_BYTES: usize = size_of::<nd_bio>() + 8;
/// Bytes of a bio that got its request, and of its address.
pub const BEGUN_BYTES: usize = size_of::<nd_begun>() + 8;
/// Bytes of the tasks that wait before a request, and of their last bios.
pub const PAUSE_BYTES: usize =
    nd_bio_limit::ND_PAUSES.0 as usize * (size_of::<nd_pause>() + size_of::<nd_last_bio>());
/// Bytes of a CPU's counters.
pub const CPU_BYTES: usize = size_of::<nd_cpu>();
/// Number of rows that fit into a word of the row cache.
pub const MAX_ROWS: u32 = nd_key::ND_MAX_ROWS.0;
/// Bits below the row key in a slot's word.
pub(super) const ROW_BITS: u32 = nd_key::ND_ROW_BITS.0;

/// State of a slot with a command in flight.
pub(super) const STATE_OPEN: u8 = nd_state::ND_OPEN.0 as u8;
/// State of a slot with a completed command that has not ended.
pub(super) const STATE_COMPLETED: u8 = nd_state::ND_COMPLETED.0 as u8;

/// Adds the counters of one CPU, from their value in the map.
pub fn add_counters(sum: &mut Counters, bytes: &[u8]) -> Result<(), DecodeError> {
    let cpu: nd_cpu = read(bytes)?;
    sum.add(&cpu.hits, &cpu.count);
    Ok(())
}

/// Adds a cell to the one of its row, from its value in the map. `shared`: several programs may have
/// added to it at the same time.
///
/// # Errors
/// If the value is too short.
pub fn add_cell(
    sum: &mut Cell,
    stage_set: StageSet,
    bytes: &[u8],
    shared: bool,
) -> Result<(), DecodeError> {
    let words = words(bytes);
    let (head, hists) = words.split_at_checked(CELL_HEAD / 8).ok_or(DecodeError)?;
    let [bytes, unmeasured] = head else {
        return Err(DecodeError);
    };
    sum.bytes += bytes;
    sum.unmeasured += unmeasured;
    let hists = hists.chunks_exact(2 + BUCKETS);
    if hists.len() < stage_set.measured() || sum.hists.len() < stage_set.histograms() {
        return Err(DecodeError);
    }
    for (n, words) in hists.take(stage_set.measured()).enumerate() {
        let one = Histogram::from_parts(&words[2..], words[0], words[1]).ok_or(DecodeError)?;
        let one = if shared { one.with_shared_max() } else { one };
        sum.hists[stage_set.place(n)].merge(&one);
    }
    Ok(())
}

/// Adds the waits of no length, which the BPF side does not add, to a cell of the full stage set with
/// these points: each command has all of its stages.
pub fn add_zero_waits(sum: &mut Cell, pattern: Pattern) {
    let stages = StageSet::Full.stages();
    let count = sum.hists.last().map_or(0, Histogram::count);
    for n in (0..StageSet::Full.before()).filter(|n| stages[*n].from != Point::Bio) {
        if stages[n].from.seen_in(pattern) {
            let missing = count.saturating_sub(sum.hists[n].count());
            sum.hists[n].record_n(0, missing);
        }
    }
}

/// Adds commands that found no free row, from their value in the map.
///
/// # Errors
/// If the value is too short.
pub fn add_rowless(sum: &mut Cell, bytes: &[u8]) -> Result<(), DecodeError> {
    let nd_rowless { commands, bytes } = read(bytes)?;
    sum.unmeasured += commands;
    sum.bytes += bytes;
    Ok(())
}

/// A controller's failures, from their value in the map.
pub fn failures(bytes: &[u8]) -> Result<Failures, DecodeError> {
    let nd_failures { count } = read(bytes)?;
    let (by_type, rest) = count.split_at(TYPES);
    Ok(Failures {
        by_type: by_type.try_into().map_err(|_| DecodeError)?,
        retried: rest[nd_failure::ND_FAIL_RETRIED.0 as usize - TYPES],
    })
}

// SAFETY: all are `repr(C)` structs of fixed-width integers, and arrays of them, without padding
// (asserted above and in abi.h): any bit pattern is valid.
unsafe impl AnyBitPattern for nd_cpu {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_slot {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_failures {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_rowless {}
// SAFETY: as above, and without padding.
unsafe impl bytemuck::NoUninit for nd_config {}
// SAFETY: zero bits are a valid value of each of its integers.
unsafe impl bytemuck::Zeroable for nd_config {}

// bytemuck requires Zeroable for AnyBitPattern; zero bits are a valid value of these too.
// SAFETY: as above.
unsafe impl bytemuck::Zeroable for nd_cpu {}
// SAFETY: as above.
unsafe impl bytemuck::Zeroable for nd_slot {}
// SAFETY: as above.
unsafe impl bytemuck::Zeroable for nd_failures {}
// SAFETY: as above.
unsafe impl bytemuck::Zeroable for nd_rowless {}

/// The whole 64-bit words of a map value, in native byte order.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |b: &[u8]| b.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word).collect()
}

/// The value of the `ctrls` map for a controller: its first slot, slots per queue, queues, and
/// the points of its transport.
pub fn ctrl_value(base: u32, stride: u32, queues: u32, transport: Transport) -> Vec<u8> {
    [base, stride, queues, transport.points()].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// The initial value of the `cpus` map: the first cell of the CPU's group, and whether programs add to
/// these cells at the same time.
pub fn fresh_cpu(first_cell: u32, shares: bool) -> Vec<u8> {
    let mut value = vec![0; CPU_BYTES];
    let mut put = |at: usize, n: u32| value[at..at + 4].copy_from_slice(&n.to_ne_bytes());
    put(offset_of!(nd_cpu, first_cell), first_cell);
    put(offset_of!(nd_cpu, shares), shares.into());
    value
}

/// Words of a cell that are all zero if it has no command: bytes, unmeasured commands, and of the total
/// the sum and the bucket of the shortest.
pub fn unused_words(stage_set: StageSet) -> [usize; 4] {
    let mut places = 0..stage_set.measured();
    let total = places.find(|n| stage_set.place(*n) == stage_set.total_index()).unwrap_or(0);
    let total = CELL_HEAD / 8 + total * (2 + BUCKETS);
    [0, 1, total, total + 2]
}

/// Key and value of the `namespaces` map. The value is the number of bytes per block.
pub fn namespace_entry(ctrl: u32, nsid: u32, lba_bytes: u32) -> ([u8; 8], [u8; 4]) {
    let key = u64::from(ctrl) << 32 | u64::from(nsid);
    (key.to_ne_bytes(), lba_bytes.to_ne_bytes())
}

/// Bytes of a cell in this stage set.
pub const fn cell_bytes(stage_set: StageSet) -> usize {
    CELL_HEAD + stage_set.measured() * size_of::<nd_hist>()
}

#[cfg(test)]
mod tests {
    use super::skel::types::nd_beside;
    use super::*;
    use crate::model::conditions::{Announcement, Conditions};
    use crate::model::counters::Count;
    use crate::model::histogram::index;
    use crate::model::ids::{NSID_MASK, PATTERN_BITS, RowKey, row_nsid};
    use crate::nvme::opcode::{Opcode, QueueKind};
    use crate::probe::catalog::CATALOG;
    use proptest::prelude::*;

    #[test]
    fn counters_of_several_cpus_add_up() {
        let mut bytes = vec![0; CPU_BYTES];
        bytes[0] = 5;
        bytes[8 * CATALOG.len()] = 2;
        let mut sum = Counters::default();
        add_counters(&mut sum, &bytes).unwrap();
        add_counters(&mut sum, &bytes).unwrap();
        assert_eq!((sum.hits[0], sum.get(Count::Filtered)), (10, 4));
        assert_eq!(add_counters(&mut sum, &bytes[1..]), Err(DecodeError));
    }

    #[test]
    fn conditions_have_the_bits_of_the_programs() {
        let conditions = |bits: &[nd_beside]| {
            Conditions::from_bits(bits.iter().map(|bit| bit.0 as u8).fold(0, |all, bit| all | bit))
        };
        let (irq, idle) = (nd_beside::ND_BESIDE_IRQ, nd_beside::ND_BESIDE_IDLE);
        assert_eq!(conditions(&[irq]).cpu_idle(), Some(false));
        assert_eq!(conditions(&[irq, idle]).cpu_idle(), Some(true));
        let known = nd_beside::ND_BESIDE_KNOWS_SOFTIRQ;
        let soft = nd_beside::ND_BESIDE_SOFTIRQ;
        assert_eq!(conditions(&[known]).in_softirq(), Some(false));
        assert_eq!(conditions(&[known, soft]).in_softirq(), Some(true));
        let rung = conditions(&[nd_beside::ND_BESIDE_RUNG]);
        assert_eq!(rung.announcement(), Some(Announcement::Rung));
        let elided = conditions(&[nd_beside::ND_BESIDE_ELIDED]);
        assert_eq!(elided.announcement(), Some(Announcement::Elided));
    }

    #[test]
    fn retried_commands_are_counted_after_the_types() {
        let value: Vec<u8> = (1_u64..=16).flat_map(u64::to_ne_bytes).collect();
        let failures = failures(&value).unwrap();
        assert_eq!(failures.by_type, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(failures.retried, 9);
        assert!(super::failures(&value[1..]).is_err());
    }

    #[test]
    fn commands_without_a_row_are_counted_without_times() {
        let value: Vec<u8> = [3_u64, 4096].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let mut cell = Cell::empty(StageSet::Fine);
        add_rowless(&mut cell, &value).unwrap();
        add_rowless(&mut cell, &value).unwrap();
        assert_eq!((cell.commands(), cell.unmeasured, cell.bytes), (6, 6, 8192));
        assert_eq!(add_rowless(&mut cell, &value[1..]), Err(DecodeError));
    }

    #[test]
    fn the_maximum_of_a_shared_cell_is_an_estimate() {
        let mut words = vec![0_u64; cell_bytes(StageSet::Total) / 8];
        let hist = CELL_HEAD / 8;
        (words[hist], words[hist + 1]) = (1800, 1000);
        (words[hist + 2 + index(800)], words[hist + 2 + index(1000)]) = (1, 1);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        for shared in [false, true] {
            let mut cell = Cell::empty(StageSet::Total);
            add_cell(&mut cell, StageSet::Total, &bytes, shared).unwrap();
            assert_eq!(cell.hists[0].max(), Some(1000));
            assert_eq!(cell.hists[0].max_exact(), !shared);
        }
    }

    proptest! {
        #[test]
        fn a_key_packed_as_the_c_side_does_comes_apart(
            ctrl in 0_u32..256, nsid in 0_u32..=NSID_MASK, code: u8, admin: bool, class in 0_u8..4,
            pattern in 0_u16..1 << PATTERN_BITS,
        ) {
            let key = 1 << nd_key::ND_KEY_VALID_SHIFT.0
                | u64::from(ctrl) << nd_key::ND_KEY_CTRL_SHIFT.0
                | u64::from(nsid) << nd_key::ND_KEY_NSID_SHIFT.0
                | u64::from(code) << nd_key::ND_KEY_OPCODE_SHIFT.0
                | u64::from(admin) << nd_key::ND_KEY_ADMIN_SHIFT.0
                | u64::from(class) << nd_key::ND_KEY_CLASS_SHIFT.0
                | u64::from(pattern);
            let (row, seen) = RowKey::unpack(key);
            let queue = if admin { QueueKind::Admin } else { QueueKind::Io };
            prop_assert_eq!(row, RowKey { ctrl, nsid: row_nsid(nsid), opcode: Opcode { queue, code }, class });
            prop_assert_eq!(seen, pattern);
        }
    }
}
