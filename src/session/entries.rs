// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sizes of single entries of the maps, by stage set.

use crate::abi::{
    BEGUN_BYTES, BIO_BYTES, BIOS, LINE, PAUSE_BYTES, SLOT_BASIC, SLOT_FINE, SLOT_FULL, SLOT_ORIGIN,
    SLOT_TRACE, START_BYTES, START_FULL_BYTES, SUBMITTER_BYTES, SUBMITTERS, cell_bytes,
};
use crate::model::stage::StageSet;
use crate::settings::Who;

/// Memory that a hash map of the kernel needs per entry, besides key and value.
pub const HASH_ENTRY: usize = 64;

/// Entries of an LRU map that a CPU keeps to itself, free ones or the last that it made
/// (`LOCAL_FREE_TARGET` of kernel/bpf/bpf_lru_list.c).
const LRU_OF_CPU: u32 = 128;

/// The size of an LRU map for `entries`. With many CPUs the kernel would evict entries that were just
/// made.
pub const fn lru_entries(entries: u32, cpus: u32) -> u32 {
    entries + cpus * LRU_OF_CPU
}

/// Slot size of a stage set, or of a trace. `origin`: it observes who caused each command.
pub const fn slot_bytes(stage_set: StageSet, trace: bool, origin: bool) -> usize {
    match stage_set {
        _ if origin => SLOT_ORIGIN,
        StageSet::Full => SLOT_FULL,
        _ if trace => SLOT_TRACE,
        StageSet::Total | StageSet::Basic => SLOT_BASIC,
        StageSet::Fine => SLOT_FINE,
    }
}

/// Bytes of a start entry.
pub const fn start_bytes(stage_set: StageSet) -> usize {
    match stage_set {
        StageSet::Full => START_FULL_BYTES,
        StageSet::Total | StageSet::Basic | StageSet::Fine => START_BYTES,
    }
}

/// Memory of the bios that have no request yet, and of the tasks that wait.
pub const fn bio_bytes(stage_set: StageSet) -> usize {
    match stage_set {
        StageSet::Full => BIOS * (2 * HASH_ENTRY + BIO_BYTES + BEGUN_BYTES) + PAUSE_BYTES,
        StageSet::Total | StageSet::Basic | StageSet::Fine => 0,
    }
}

/// Memory of the submitters of bios.
pub const fn submitter_bytes(who: Who, cpus: u32) -> usize {
    let entries = lru_entries(SUBMITTERS, cpus) as usize;
    match who {
        Who::Submitters => entries * (HASH_ENTRY + SUBMITTER_BYTES),
        Who::Nobody | Who::Cgroups => 0,
    }
}

/// Bytes of a row's cell in the map: whole cache lines.
pub const fn cell_stride(stage_set: StageSet) -> usize {
    cell_bytes(stage_set).next_multiple_of(LINE)
}
