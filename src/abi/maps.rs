// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps of the BPF side: sizes, initial values, and the decoding of their values.
//! bpf/include/*abi.h declare them; build.rs makes Rust of them (bpf/abi.bpf.c).

use super::events::submission;
use super::skel::types::{nd_activity, nd_disk, nd_group, nd_group_row, nd_stack};
use super::{DecodeError, read};
use crate::abi::events::name_of;
use crate::abi::record::{RawOrigin, RawSubmission};
use crate::model::activity::{Activity, Gap, Splits, TagWaits, UpperBios, Volume};
use crate::model::counters::{Counters, Failures, TYPES};
use crate::model::event::{CommandId, Event, EventKind, OpenCommand, StackId};
pub use crate::model::filter::{MAX_CTRLS, MAX_LIST};
use crate::model::group::{By, KeyPart, SizeLimits};
use crate::model::histogram::{BUCKETS, Histogram};
use crate::model::ids::{RowKey, row_nsid};
use crate::model::machine::Transport;
use crate::model::point::{Pattern, Point};
use crate::model::snapshot::Cell;
use crate::model::stage::StageSet;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::subject::ALL_NAMESPACES;
use bytemuck::{AnyBitPattern, Zeroable};
pub(super) use skel::types::{
    nd_begun, nd_bio, nd_cell, nd_cpu, nd_ctrl, nd_failure, nd_failures, nd_hist, nd_key,
    nd_last_bio, nd_pause, nd_rowless, nd_scratch, nd_slot, nd_stack_sum, nd_start, nd_state,
    nd_submitter,
};
pub use skel::types::{
    nd_by, nd_by_cgroup, nd_config, nd_control, nd_end_of_recovery, nd_host_count, nd_host_flag,
    nd_host_limit, nd_limit, nd_mode, nd_spdk_call, nd_stack_at, nd_trace, nd_usdt_count,
    nd_usdt_limit, nd_who,
};
pub(crate) use skel::types::{nd_host, nd_host_point};
use std::array;
use std::mem::{offset_of, size_of};

/// The types of the BPF side, generated from its BTF.
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
pub(crate) mod skel {
    include!(concat!(env!("OUT_DIR"), "/abi.skel.rs"));
}

macro_rules! any_bits {
    ($($kind:ident)*) => {$(
        // SAFETY: a `repr(C)` struct of fixed-width integers, and arrays of them: any bit pattern is valid.
        unsafe impl AnyBitPattern for $kind {}
        // SAFETY: so are zero bits.
        unsafe impl Zeroable for $kind {}
    )*};
}

any_bits! { nd_activity nd_cpu nd_disk nd_failures nd_group nd_group_row nd_rowless nd_slot }

// SAFETY: as above, and without padding.
unsafe impl bytemuck::NoUninit for nd_config {}
// SAFETY: as above.
unsafe impl Zeroable for nd_config {}

/// Bytes of a cell before its histograms.
pub const CELL_HEAD: usize = offset_of!(nd_cell, hist);
/// Bytes of a slot in the total and basic stage sets.
pub const SLOT_BASIC: usize = offset_of!(nd_slot, setup_in_ns);
/// Bytes of a slot in the fine stage set.
pub const SLOT_FINE: usize = offset_of!(nd_slot, submission);
/// Bytes of a slot in a trace, which also contains the submission and the outcome.
pub const SLOT_TRACE: usize = offset_of!(nd_slot, waits);
/// Bytes of a slot in a trace with the full stage set: the waits before the request are the last.
pub const SLOT_FULL: usize = offset_of!(nd_slot, origin);
/// Bytes of a slot of a trace that observes who caused each command.
pub const SLOT_ORIGIN: usize = size_of::<nd_slot>();
/// Bytes of the submitter of a bio, and of its address.
pub const SUBMITTER_BYTES: usize = size_of::<nd_submitter>() + 8;
/// Bios between their submission and their end.
pub const SUBMITTERS: u32 = nd_limit::ND_SUBMITTERS.0;

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
/// Number of CPUs that share a ring of events.
pub const RING_CPUS: u32 = nd_limit::ND_RING_CPUS.0;
/// Bytes of a tag's start entry.
pub const START_BYTES: usize = offset_of!(nd_start, begun);
/// The same with the full stage set.
pub const START_FULL_BYTES: usize = offset_of!(nd_start, begun) + offset_of!(nd_begun, by);
/// The same with submitters.
pub const START_BY_BYTES: usize = size_of::<nd_start>();
/// Bios of NVMe disks that have no request yet, with the full stage set.
pub const BIOS: usize = nd_limit::ND_BIOS.0 as usize;
/// Bytes of such a bio, and of its address.
pub const BIO_BYTES: usize = size_of::<nd_bio>() + 8;
/// Bytes of a bio that got its request, and of its address.
pub const BEGUN_BYTES: usize = size_of::<nd_begun>() + 8;
/// Bytes of the tasks that wait before a request, and of their last bios.
pub const PAUSE_BYTES: usize =
    nd_limit::ND_PAUSES.0 as usize * (size_of::<nd_pause>() + size_of::<nd_last_bio>());
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

/// The state of a slot, as found by the final scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Free, or the command was rejected by a filter.
    Idle,
    /// Set up, not completed.
    InFlight,
    /// Completed, but not ended by blk-mq.
    Ending,
}

/// The owner of a slot (request and command id) and its state. If two readings are equal, they are
/// of the same command.
pub fn slot_owner(bytes: &[u8]) -> Result<(u64, u16, SlotState), DecodeError> {
    let at = offset_of!(nd_slot, cid);
    let rq = bytes.get(..8).and_then(|b| b.try_into().ok());
    let cid = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    Ok((
        rq.map(u64::from_ne_bytes).ok_or(DecodeError)?,
        cid.map(u16::from_ne_bytes).ok_or(DecodeError)?,
        slot_state(bytes)?,
    ))
}

/// Whether a slot is idle, from the word that contains its state.
pub fn slot_is_idle(word: u64) -> bool {
    let state = word.to_ne_bytes()[offset_of!(nd_slot, state) % 8];
    state_of(state) == SlotState::Idle
}

const fn state_of(state: u8) -> SlotState {
    match state {
        STATE_OPEN => SlotState::InFlight,
        STATE_COMPLETED => SlotState::Ending,
        _ => SlotState::Idle,
    }
}

/// Reads the state of a slot of any size.
pub fn slot_state(bytes: &[u8]) -> Result<SlotState, DecodeError> {
    let state = bytes.get(offset_of!(nd_slot, state));
    state.copied().map(state_of).ok_or(DecodeError)
}

/// The event for a slot of a detached session: a command that has not completed. `None` if the slot
/// has no such command.
pub fn unfinished(slot: &[u8], now_ns: u64) -> Result<Option<Event>, DecodeError> {
    let open = open_command(slot)?;
    Ok(open.map(|open| Event {
        at_ns: now_ns,
        what: EventKind::Unfinished {
            id: open.id,
            submission: open.submission,
            age_ns: now_ns.saturating_sub(open.setup_ns),
        },
    }))
}

/// The command in flight of a slot of a trace. `None` if the slot has none.
pub fn open_command(slot: &[u8]) -> Result<Option<OpenCommand>, DecodeError> {
    // only some runs have the last parts
    let mut whole = [0; SLOT_ORIGIN];
    let size = slot.len().min(SLOT_ORIGIN);
    if size < SLOT_TRACE {
        return Err(DecodeError);
    }
    whole[..size].copy_from_slice(&slot[..size]);
    let s: nd_slot = read(&whole)?;
    if s.state != STATE_OPEN {
        return Ok(None);
    }
    let submitted: RawSubmission = read(&whole[offset_of!(nd_slot, submission)..])?;
    let origin: RawOrigin = read(&whole[offset_of!(nd_slot, origin)..])?;
    let (row, _) = RowKey::unpack(s.key >> ROW_BITS);
    let id = CommandId {
        ctrl: row.ctrl,
        qid: s.qid,
        cid: s.cid,
        nsid: if row.nsid == ALL_NAMESPACES { submitted.nsid } else { row.nsid },
        opcode: row.opcode,
    };
    Ok(Some(OpenCommand {
        // classic tracepoints provide none
        request: (s.rq > 1).then_some(s.rq),
        id,
        row,
        setup_ns: s.setup_out_ns,
        submission: submission(&id, &submitted, origin.origin()),
    }))
}

/// Numbers of groups, including the one for groups without a row.
pub const MAX_GROUPS: u32 = nd_limit::ND_MAX_GROUPS.0;

/// Bytes of a group in the maps.
pub const GROUP_BYTES: usize = size_of::<nd_group>();

/// Most candidates.
pub const MAX_CANDIDATES: u32 = nd_limit::ND_MAX_CANDIDATES.0;

/// The value of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// Its number.
    pub number: u32,
    /// The thread of its first command, padded with zeroes.
    pub comm: [u8; 16],
}

const fn bit(by: By) -> u32 {
    match by {
        By::Process => nd_by::ND_BY_PROCESS.0,
        By::Comm => nd_by::ND_BY_COMM.0,
        By::Cgroup | By::Container => nd_by::ND_BY_CGROUP.0,
        By::Cpu => nd_by::ND_BY_CPU.0,
        By::Queue => nd_by::ND_BY_QUEUE.0,
        By::Size(_) => nd_by::ND_BY_SIZE.0,
        By::Priority => nd_by::ND_BY_PRIORITY.0,
        By::Disk => nd_by::ND_BY_DISK.0,
        By::Opcode => nd_by::ND_BY_OPCODE.0,
        By::Flags => 0,
    }
}

/// Set in the size of a group if it is above the limit.
const ABOVE: u8 = 0x80;

const fn size_of_byte(byte: u8) -> KeyPart {
    match (byte & ABOVE, (byte & !ABOVE).checked_sub(1)) {
        (ABOVE, Some(exponent)) => KeyPart::SizeAbove(exponent),
        (_, exponent) => KeyPart::Size(exponent),
    }
}

/// The setting `by_size`.
pub fn by_size(limits: SizeLimits) -> [u8; 64] {
    array::from_fn(|at| {
        let largest = at.checked_sub(1).map_or(0, |exponent| 1_u64 << exponent);
        match limits.class(u32::try_from(largest).unwrap_or(u32::MAX)) {
            KeyPart::Size(Some(exponent)) => 1 + exponent,
            KeyPart::SizeAbove(exponent) => ABOVE | (1 + exponent),
            _ => 0,
        }
    })
}

/// The bits of the setting `by`.
pub fn by_bits(by: &[By]) -> u32 {
    by.iter().map(|by| bit(*by)).fold(0, |all, bit| all | bit)
}

/// What a group has in common, from its key in the map.
///
/// # Errors
/// If the key is too short.
pub fn group_of(bytes: &[u8], by: &[By]) -> Result<Vec<KeyPart>, DecodeError> {
    let g: nd_group = read(bytes)?;
    let known = |unknown: u8, part| if unknown == 0 { part } else { KeyPart::Unknown };
    let who = |part| known(g.unknown, part);
    let queue = match g.admin {
        0 => QueueKind::Io,
        _ => QueueKind::Admin,
    };
    let part = |by: &By| match by {
        By::Process => who(KeyPart::Process(g.tgid)),
        By::Comm => who(KeyPart::Comm(name_of(g.comm))),
        By::Cgroup | By::Container => who(KeyPart::Cgroup(g.cgroup)),
        By::Cpu => known(g.unseen, KeyPart::Cpu(g.cpu)),
        By::Queue => KeyPart::Queue(g.ctrl.into(), g.qid),
        By::Size(_) => size_of_byte(g.size),
        By::Priority => KeyPart::Priority(g.priority),
        By::Disk => KeyPart::Disk(g.ctrl.into(), row_nsid(g.nsid)),
        By::Opcode => KeyPart::Opcode(Opcode { queue, code: g.opcode }),
        By::Flags => KeyPart::Unknown,
    };
    Ok(by.iter().map(part).collect())
}

/// The number of a group, from its value in the map.
///
/// # Errors
/// If the value is too short.
pub fn group_row(bytes: &[u8]) -> Result<GroupRow, DecodeError> {
    let row: nd_group_row = read(bytes)?;
    Ok(GroupRow { number: row.number, comm: name_of(row.comm) })
}

/// The value of a group that gets this number.
pub fn group_row_bytes(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<nd_group_row>()];
    let at = offset_of!(nd_group_row, number);
    bytes[at..at + size_of::<u32>()].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// The number of the group of a slot's command.
///
/// # Errors
/// If the value is too short.
pub fn slot_group(bytes: &[u8]) -> Result<u32, DecodeError> {
    let words = words(bytes);
    let key = words.get(offset_of!(nd_slot, key) / 8).ok_or(DecodeError)?;
    Ok(RowKey::unpack(key >> ROW_BITS).0.nsid)
}

/// Gaps that each CPU keeps.
pub const GAPS: u64 = nd_limit::ND_GAPS.0 as u64;
/// Distance of two ticks above which there is a gap.
pub const GAP_NS: u64 = nd_limit::ND_GAP_NS.0 as u64;
/// Period of the timer of a CPU, in nanoseconds.
pub const TICK_NS: u64 = nd_limit::ND_TICK_NS.0 as u64;
/// Bytes of the counters of a CPU.
pub const ACTIVITY_BYTES: usize = size_of::<nd_activity>();

const _: () = assert!(ACTIVITY_BYTES == 88 + 16 * GAPS as usize);

/// The counters of all CPUs, summed, besides those by disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// Bounce buffers used.
    pub bounced: Volume,
    /// Mappings of the IOMMU.
    pub mapped: Volume,
    /// Mappings removed.
    pub unmapped: Volume,
    /// Interrupts of the driver that found no CQE.
    pub early_interrupts: u64,
}

/// The timer of a CPU, and its gaps since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapSum {
    /// When the timer fired first; 0: the CPU has never had one.
    pub timed_ns: u64,
    /// When it fired last.
    pub tick_ns: u64,
    /// How many.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub ns: u64,
}

fn add(sum: &mut Volume, count: u64, bytes: u64) {
    sum.count += count;
    sum.bytes += bytes;
}

/// Adds the counters of a CPU, from their value in the map, and takes the gaps from number `from`
/// on. Gaps that are no longer there are counted in [`Activity::gaps_lost`].
///
/// # Errors
/// If the value is too short.
pub fn add_activity(
    cpu: u32,
    bytes: &[u8],
    from: u64,
    sum: &mut Volumes,
    to: &mut Activity,
) -> Result<GapSum, DecodeError> {
    let a: nd_activity = read(bytes)?;
    add(&mut sum.bounced, a.bounced.count, a.bounced.bytes);
    add(&mut sum.mapped, a.mapped.count, a.mapped.bytes);
    add(&mut sum.unmapped, a.unmapped.count, a.unmapped.bytes);
    sum.early_interrupts += a.early_interrupts;
    let first = from.max(a.gaps.saturating_sub(GAPS));
    to.gaps_lost += first.saturating_sub(from);
    to.gaps.extend((first..a.gaps).map(|number| {
        let gap = &a.gap[(number % GAPS) as usize];
        Gap { cpu, begin_ns: gap.begin_ns, end_ns: gap.end_ns }
    }));
    Ok(GapSum { timed_ns: a.timed_ns, tick_ns: a.tick_ns, count: a.gaps, ns: a.gap_ns })
}

/// The name of a disk, from its key in the map.
pub fn disk_name(key: &[u8]) -> String {
    let end = key.iter().position(|b| *b == 0).unwrap_or(key.len());
    String::from_utf8_lossy(&key[..end]).into_owned()
}

/// Adds the counters on one CPU of a disk that is above NVMe, from their value in the map.
///
/// # Errors
/// If the value is too short.
pub fn add_upper(upper: &mut UpperBios, bytes: &[u8]) -> Result<(), DecodeError> {
    let disk: nd_disk = read(bytes)?;
    upper.bios += disk.requests;
    upper.sum_ns += disk.sum_ns;
    upper.max_ns = upper.max_ns.max(disk.max_ns);
    Ok(())
}

/// Adds the counters of a disk on one CPU, from their value in the map.
///
/// # Errors
/// If the value is too short.
pub fn add_disk(
    waits: &mut TagWaits,
    splits: &mut Splits,
    bytes: &[u8],
) -> Result<(), DecodeError> {
    let disk: nd_disk = read(bytes)?;
    waits.requests += disk.requests;
    waits.waited += disk.waited;
    waits.sum_ns += disk.sum_ns;
    waits.max_ns = waits.max_ns.max(disk.max_ns);
    splits.count += disk.splits;
    Ok(())
}

/// Bytes of a stack.
pub const STACK_BYTES: usize = size_of::<nd_stack>();
/// Bytes of the sums of a stack's commands.
pub const STACK_SUM_BYTES: usize = size_of::<nd_stack_sum>();
/// Maximum number of distinct stacks.
pub const MAX_STACKS: u32 = 4096;
/// The sum of all commands whose stack was not observed has this number.
pub const STACK_UNSEEN: StackId = StackId(nd_limit::ND_STACK_UNSEEN.0 as u64);

/// The addresses of a stack, from its value in the map.
pub fn stack_frames(value: &[u8]) -> Result<Vec<u64>, DecodeError> {
    let mut words = words(value);
    let depth = usize::try_from(*words.first().ok_or(DecodeError)?).map_err(|_| DecodeError)?;
    words.remove(0);
    words.truncate(depth);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::counters::Count;
    use crate::model::group::{ByWord, size_exponent};
    use crate::model::histogram::index;
    use crate::probe::catalog::CATALOG;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn counters_of_several_cpus_add_up() {
        let mut cpu = vec![0; CPU_BYTES];
        cpu[0] = 5;
        cpu[8 * CATALOG.len()] = 2;
        let mut sum = Counters::default();
        add_counters(&mut sum, &cpu).unwrap();
        add_counters(&mut sum, &cpu).unwrap();
        assert_eq!((sum.hits[0], sum.get(Count::Filtered)), (10, 4));
        assert_eq!(add_counters(&mut sum, &cpu[1..]), Err(DecodeError));
        // retried commands come after the types
        let value = bytes(&Vec::from_iter(1..=16));
        let found = failures(&value).unwrap();
        assert_eq!((found.by_type, found.retried), ([1, 2, 3, 4, 5, 6, 7, 8], 9));
        assert!(failures(&value[1..]).is_err());
        // commands without a row have no times
        let (value, mut cell) = (bytes(&[3, 4096]), Cell::empty(StageSet::Fine));
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
        for shared in [false, true] {
            let mut cell = Cell::empty(StageSet::Total);
            add_cell(&mut cell, StageSet::Total, &bytes(&words), shared).unwrap();
            assert_eq!(cell.hists[0].max(), Some(1000));
            assert_eq!(cell.hists[0].max_exact(), !shared);
        }
    }

    #[test]
    fn the_programs_find_the_class_of_a_size_in_a_table() {
        for words in ["size", "size=512,64K"] {
            let words: Result<Vec<ByWord>, String> = words.split(',').map(str::parse).collect();
            let keys = ByWord::keys(&words.unwrap()).unwrap();
            let [By::Size(limits)] = keys[..] else { panic!("{keys:?}") };
            let table = by_size(limits);
            for bytes in [0, 1, 512, 513, 65_536, 65_537, 1 << 31, u32::MAX] {
                let at = size_exponent(bytes).map_or(0, |exponent| 1 + usize::from(exponent));
                assert_eq!(size_of_byte(table[at]), limits.class(bytes), "{bytes} {limits:?}");
            }
        }
    }

    /// A CPU with this many gaps; gap n begins at 10 n and ends at 10 n + 4.
    fn cpu(gaps: u64) -> Vec<u8> {
        let mut words = vec![0; ACTIVITY_BYTES / 8];
        words[..11].copy_from_slice(&[2000, 5, gaps, 4 * gaps, 1, 100, 2, 200, 3, 300, 7]);
        for n in 0..gaps {
            let at = 11 + 2 * (n % GAPS) as usize;
            words[at..at + 2].copy_from_slice(&[10 * n, 10 * n + 4]);
        }
        bytes(&words)
    }

    #[test]
    fn each_gap_is_taken_once_and_those_without_room_are_counted() {
        let (mut sum, mut to) = (Volumes::default(), Activity::default());
        let gaps = add_activity(3, &cpu(2), 0, &mut sum, &mut to).unwrap();
        assert_eq!((gaps.timed_ns, gaps.tick_ns), (5, 2000));
        assert_eq!((gaps.count, gaps.ns), (2, 8));
        let begins: Vec<_> = to.gaps.iter().map(|g| (g.cpu, g.begin_ns)).collect();
        assert_eq!(begins, [(3, 0), (3, 10)]);
        let (mut sum, mut to) = (Volumes::default(), Activity::default());
        add_activity(3, &cpu(100), 2, &mut sum, &mut to).unwrap();
        assert_eq!((to.gaps.len(), to.gaps_lost), (64, 34));
        assert_eq!((to.gaps[0].begin_ns, to.gaps[63].end_ns), (360, 994));
        add_activity(3, &cpu(100), 100, &mut sum, &mut to).unwrap();
        assert_eq!((to.gaps.len(), to.gaps_lost), (64, 34));
        assert_eq!((sum.unmapped.bytes, sum.early_interrupts), (600, 14));
        assert_eq!(add_activity(3, &[0; 96], 0, &mut sum, &mut to), Err(DecodeError));
    }
}
