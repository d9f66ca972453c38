// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sizes of the maps, and the position of each controller's slots.
//!
//! *Slots.* Each tag of each queue of the controllers that the filter selects has a slot, and so have the
//! tags of one more controller, which may appear later.
//!
//! *Cells.* A cell has the histograms of a row. Each CPU that is present has a group of cells, one for each
//! row, which no other CPU writes. One more group is for CPUs that appear later. If that takes more than
//! the maps may ([`MapMemory`]), there are fewer rows, and then CPUs share groups.
//!
//! *Rings.* Each group of [`RING_CPUS`] CPUs has a ring of its own, because all producers of a ring
//! contend for its lock. If memory is short, they are halved down to 4 MiB in all.

use crate::abi::{
    CPU_BYTES, LINE, MAX_ROWS, MAX_STACKS, RING_CPUS, SCRATCH_BYTES, STACK_BYTES, STACK_SUM_BYTES,
};
use crate::error::{failed, unsupported};
use crate::machine::System;
use crate::machine::process::MapMemory;
use crate::model::machine::ControllerInfo;
use crate::session::configure::{
    HASH_ENTRY, bio_bytes, cell_stride, slot_bytes, start_bytes, submitter_bytes,
};
use crate::settings::{ExtraEvents, Mode, OriginDetail, Settings};
use anyhow::Result;
use std::collections::BTreeSet;

/// Lower bound of the number of rows.
const MIN_ROWS: u32 = 64;
/// Tables of a fixed size (tasks, queues, controllers, row cache, commands without a row).
const FIXED: usize = 3 << 19;
/// The tables of groups and of candidates.
const GROUPS: usize = 3 << 18;
/// Default size of all rings of events.
const RINGS: u32 = 16 << 20;
/// The same for each ring, where there are many.
const RING: u32 = 2 << 20;
/// Lower bound of the default size of all rings: some 20000 events.
const MIN_RINGS: u32 = 4 << 20;
/// Minimum size of a ring: a page, on every architecture.
const MIN_RING: u32 = 64 << 10;
/// Size of the ring of the slowest commands in bytes, for `top`.
const DETAIL_RING: u32 = 256 << 10;
/// Tags per queue if the kernel does not report them: the driver's default (nvme.io_queue_depth).
const DEFAULT_DEPTH: u32 = 1024;
/// Minimum number of slots per queue. The admin queue has 30 tags (NVME_AQ_MQ_TAG_DEPTH).
pub const MIN_STRIDE: u32 = 64;

/// The CPUs and the memory of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of CPUs that it can ever have.
    pub possible: u32,
    /// One more than the highest number of a CPU that is online.
    pub online: u32,
    /// The CPUs that are present, in order.
    pub present: Vec<u32>,
    /// What maps may take.
    pub memory: MapMemory,
}

impl Capacity {
    /// The budget of this machine.
    ///
    /// # Errors
    /// If the kernel does not report how many CPUs it can ever have.
    pub fn of(system: &System) -> Result<Self> {
        let possible = match system.last_possible_cpu() {
            // not how many there are: the numbers may have holes
            Some(last) => last + 1,
            None => {
                let cpus = libbpf_rs::num_possible_cpus().map_err(failed("count the CPUs"))?;
                u32::try_from(cpus).map_err(failed("count the CPUs"))?
            }
        };
        let last = system.last_online_cpu();
        let present = system.present_cpus().filter(|cpus| !cpus.is_empty());
        Ok(Self {
            possible,
            online: last.map_or(possible, |last| last + 1),
            present: present.unwrap_or_else(|| (0..possible).collect()),
            memory: system.map_memory(),
        })
    }
}

/// The rings of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Number of rings; 0: no events.
    pub count: u32,
    /// Size of each in bytes, a power of two.
    pub bytes: u32,
}

impl Rings {
    const NONE: Self = Self { count: 0, bytes: 0 };

    /// Divides `total` bytes among the groups of CPUs. With few bytes, groups share a ring.
    fn divide(total: u32, online: u32) -> Self {
        let count = online.div_ceil(RING_CPUS).min(total / MIN_RING).max(1);
        let bytes = 1 << (total / count).ilog2();
        Self { count, bytes }
    }

    /// Size of all rings in bytes.
    pub const fn total(self) -> usize {
        self.count as usize * self.bytes as usize
    }

    /// Rings of the requested size, or of what `others` leaves of the budget.
    fn new(settings: &Settings, capacity: &Capacity, others: usize) -> Self {
        match settings.extra() {
            _ if settings.has_events() => {
                let total = settings.ring_bytes().unwrap_or_else(|| {
                    let groups = capacity.online.div_ceil(RING_CPUS);
                    let mut total = groups.saturating_mul(RING).max(RINGS);
                    while total > MIN_RINGS && others + total as usize > capacity.memory.usual {
                        total /= 2;
                    }
                    total
                });
                Self::divide(total, capacity.online)
            }
            ExtraEvents::TopCounters => Self { count: 1, bytes: DETAIL_RING },
            _ => Self::NONE,
        }
    }
}

/// The slots that a controller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Slots per queue, a power of two.
    pub stride: u32,
    /// Queues, the admin queue included.
    pub queues: u32,
}

impl Size {
    fn of(controller: &ControllerInfo, cpus: u32) -> Self {
        let depth = controller.depth.unwrap_or(DEFAULT_DEPTH);
        Self {
            stride: depth.next_power_of_two().max(MIN_STRIDE),
            queues: controller.queues.unwrap_or(cpus + 1).max(2),
        }
    }

    const fn slots(self) -> usize {
        self.stride as usize * self.queues as usize
    }
}

/// The slots that a controller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// Its first slot.
    pub base: u32,
    /// The number of its slots.
    pub size: Size,
}

impl SlotRange {
    /// Whether this is enough for a controller that needs `size`.
    pub const fn holds(&self, size: &Size) -> bool {
        self.size.stride >= size.stride && self.size.queues >= size.queues
    }

    /// The queue that has this slot, if it is one of the controller's.
    pub const fn queue_of_slot(&self, slot: u32) -> Option<u32> {
        match slot.checked_sub(self.base) {
            Some(at) if at / self.size.stride < self.size.queues => Some(at / self.size.stride),
            _ => None,
        }
    }
}

/// The cells of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Rows: kinds of commands.
    pub rows: u32,
    /// Groups of cells. The last one is for CPUs that appear later.
    pub groups: u32,
    /// The CPUs that are present, in order.
    present: Vec<u32>,
}

impl Cells {
    /// Cells of up to `rows` rows in `bytes`. Rows come before groups: few runs use all of them.
    fn new(rows: u32, each: usize, bytes: usize, present: &[u32]) -> Self {
        let wanted = present.len() as u32 + 1;
        let most = u32::try_from(bytes / each).unwrap_or(u32::MAX);
        let rows = rows.min((most / wanted).max(rows / 4).max(MIN_ROWS));
        let groups = wanted.min(most / rows).max(2);
        Self { rows, groups, present: present.to_vec() }
    }

    /// Number of cells.
    pub const fn count(&self) -> u32 {
        self.rows * self.groups
    }

    /// The group of a CPU.
    pub fn group_of(&self, cpu: u32) -> u32 {
        let last = self.groups - 1;
        match self.present.binary_search(&cpu) {
            Ok(at) => (at * last as usize / self.present.len()) as u32,
            Err(_) => last,
        }
    }

    /// Whether CPUs that are present share groups.
    pub const fn are_shared(&self) -> bool {
        (self.groups as usize) < self.present.len() + 1
    }

    /// Whether several CPUs have this group.
    pub const fn is_shared(&self, group: u32) -> bool {
        self.are_shared() || group + 1 == self.groups
    }
}

/// Sizes of all maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Possible CPUs.
    pub cpus: u32,
    /// The histograms.
    pub cells: Cells,
    /// Slots of all controllers, and spare ones for controllers that appear later.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// The rings of events.
    pub rings: Rings,
    /// Bytes of all maps.
    pub bytes: usize,
    /// Bytes of the slots, and of what belongs to them.
    of_slots: usize,
    memory: MapMemory,
    /// The controllers that have slots. Empty: all.
    ctrls: BTreeSet<u32>,
    next_base: u32,
}

/// Memory for stacks.
fn stack_bytes(settings: &Settings, cpus: u32) -> usize {
    let stacks = MAX_STACKS as usize * (HASH_ENTRY + STACK_BYTES) + cpus as usize * SCRATCH_BYTES;
    let sums = MAX_STACKS as usize * (HASH_ENTRY + STACK_SUM_BYTES);
    let stacks = if settings.stack().is_some() { stacks } else { 0 };
    stacks + if settings.sums_stacks() { sums } else { 0 }
}

impl Layout {
    /// Sizes the maps for this machine and these settings.
    pub fn new(settings: &Settings, capacity: &Capacity, controllers: &[ControllerInfo]) -> Self {
        let cpus = capacity.possible;
        let fixed = FIXED
            + bio_bytes(settings.stage_set)
            + submitter_bytes(settings.observed_origin(), cpus)
            + GROUPS * usize::from(!settings.kernel_groups().is_empty())
            + cpus as usize * CPU_BYTES
            + stack_bytes(settings, cpus);
        let ctrls = &settings.filter.ctrls;
        let chosen = controllers.iter().filter(|c| settings.filter.has_ctrl(c.instance));
        let sizes = chosen.map(|c| Size::of(c, cpus).slots());
        let spare = sizes.clone().max().unwrap_or(0).max(3 * DEFAULT_DEPTH as usize);
        let slots = sizes.sum::<usize>() + spare;
        let has_origin = settings.origin() != OriginDetail::Nobody || settings.follows_submitters();
        let slot_bytes =
            slot_bytes(settings.stage_set, settings.is_trace(), has_origin).next_multiple_of(LINE);
        let of_slots = slots * (slot_bytes + start_bytes(settings));
        let rings = Rings::new(settings, capacity, fixed + of_slots);
        let others = fixed + of_slots + rings.total();
        let each = cell_stride(settings.stage_set);
        let cells = match settings.counts() {
            true => {
                // many slots must not leave nothing for the cells
                let usual = capacity.memory.usual;
                let left = usual.saturating_sub(others).max(usual / 3);
                Cells::new(rows_of(settings, controllers), each, left, &capacity.present)
            }
            // one row, which is never used
            false => Cells::new(1, each, 0, &[]),
        };
        Self {
            cpus,
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            slot_bytes,
            rings,
            bytes: others + cells.count() as usize * each,
            cells,
            of_slots,
            memory: capacity.memory,
            ctrls: ctrls.clone(),
            next_base: 0,
        }
    }

    /// What is to be said of the memory of the slots. They have no smaller form.
    ///
    /// # Errors
    /// If the slots need more memory than they may take; one sentence.
    pub fn remark(&self) -> Result<Option<String>> {
        let MapMemory { usual, most } = self.memory;
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let text = |bytes: usize| {
            format!(
                "slots for commands in flight (one for each tag) take {} MB of kernel memory, more than {} MB: \
                 choose fewer controllers by --ctrl or --disk",
                mib(self.of_slots),
                mib(bytes)
            )
        };
        match self.of_slots {
            n if n > most => Err(unsupported(text(most))),
            n if n > usual => Ok(Some(text(usual))),
            _ => Ok(None),
        }
    }

    /// Whether the filter leaves a controller out, which then needs no slots.
    pub fn leaves_out(&self, instance: u32) -> bool {
        !self.ctrls.is_empty() && !self.ctrls.contains(&instance)
    }

    /// The slots that a controller needs.
    pub fn size_of(&self, controller: &ControllerInfo) -> Size {
        Size::of(controller, self.cpus)
    }

    /// Number of counters of queues.
    pub const fn queue_counts(&self) -> u32 {
        self.slots / MIN_STRIDE
    }

    /// Allocates slots for a controller; `None` if there is no room left.
    pub fn take(&mut self, size: &Size) -> Option<SlotRange> {
        let end = self.next_base.checked_add(u32::try_from(size.slots()).ok()?)?;
        if end > self.slots {
            return None;
        }
        let place = SlotRange { base: self.next_base, size: *size };
        self.next_base = end;
        Some(place)
    }
}

/// Rows for the commands of these controllers. A trace needs none.
fn rows_of(settings: &Settings, controllers: &[ControllerInfo]) -> u32 {
    // per namespace and admin queue: some opcodes, each with some patterns of points
    let each = match (settings.kernel_groups(), &settings.mode) {
        ([], Mode::Flight(_)) => 48,
        ([], _) => 16,
        _ => MAX_ROWS as usize,
    };
    let chosen = controllers.iter().filter(|c| settings.filter.has_ctrl(c.instance));
    let things: usize = chosen.map(|c| 1 + c.disks.len()).sum();
    u32::try_from(things * each).unwrap_or(MAX_ROWS).clamp(MIN_ROWS, MAX_ROWS)
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
