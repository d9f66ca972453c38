// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sizes of the maps, and the position of each controller's slots. Pure arithmetic.
//!
//! Memory is bounded, for up to 384 CPUs and 128 controllers (layout_tests.rs):
//!
//! ```text
//! bytes = slots * slot + starts * start + cells * cell + FIXED + CPUs * counters
//!         + the extra slots' entries and the windows', the numbers of cells that CPUs share,
//!         the rings, and the stacks with their histograms, where they are used
//! ```
//!
//! *Slots.* Each tag may be a command in flight. Where the tags of all controllers fit, each has a
//! slot, and so have the tags of one more controller, which may appear later. Where they do not,
//! a queue has a window of a few slots from its first command on, and commands that find no free slot
//! in it have one of [`EXTRA`] others (bpf/include/slots.bpf.h).
//!
//! *Cells.* A cell has the histograms of a row. Where that fits, each CPU has its own cells for all
//! rows. Where it does not, a CPU has cells for the rows that it uses; the last free ones are for groups
//! of CPUs that share a cache (bpf/include/rows.bpf.h).
//!
//! *Rings.* Each group of [`RING_CPUS`] CPUs has a ring of its own, because all producers of a ring
//! contend for its lock. If memory is short, they are halved down to 4 MiB in all.

use crate::abi::{
    CPU_BYTES, LINE, MAX_ROWS, MAX_STACKS, NUMBERS_BYTES, RING_CPUS, SCRATCH_BYTES, SCRATCHES,
    STACK_BYTES, STACK_SUM_BYTES,
};
use crate::machine::sysfs::Controller;
use crate::model::stage::StageSet;
use crate::session::configure::{
    HASH_ENTRY, bio_bytes, cell_stride, slot_bytes, start_bytes, submitter_bytes,
};
use crate::settings::{ExtraEvents, Mode, OriginDetail, Settings};

/// Limit of all maps together.
pub const BUDGET: usize = 60 << 20;
/// The same where slots have the submission, too: of runs with single commands.
pub const TRACE_BUDGET: usize = 91 << 20;
/// What `--stages=full` may add to each: where tags share slots, these take more, and there are bios.
const FULL_BUDGET: usize = 50 << 20;
/// Upper bound of the cells' memory in bytes.
const CELL_BUDGET: usize = 32 << 20;
/// The cells' memory that slots of all tags must leave.
const USUAL_CELLS: usize = 12 << 20;
/// Lower bound of the cells' memory.
const MIN_CELLS: usize = 4 << 20;
/// Lower bound of the number of rows.
const MIN_ROWS: u32 = 64;
/// Tables of a fixed size (tasks, queues, controllers, row cache, commands without a row).
const FIXED: usize = 3 << 19;
/// The table of groups, and that of the candidates.
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
/// Commands in flight that have a slot, whatever their queues, where tags do not.
pub const EXTRA: u32 = 1 << 18;
/// Memory of an extra slot, besides the slot: an entry of the hash, and one of the free slots.
const EXTRA_ENTRY: usize = HASH_ENTRY + 16 + 8;
/// Slots of all windows, by the size of a slot: basic, fine, trace.
const WINDOW_SLOTS: [u32; 3] = [1 << 17, 1 << 15, 1 << 14];
/// Least number of slots of a window. The greatest is [`MIN_STRIDE`].
const MIN_WINDOW: u32 = 8;

/// The CPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Number of CPUs that it can ever have.
    pub possible: u32,
    /// One more than the highest number of a CPU that is online.
    pub online: u32,
    /// Groups of CPUs that share a last-level cache.
    pub caches: u32,
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
    fn divide(total: u32, cpus: Cpus) -> Self {
        let groups = cpus.online.div_ceil(RING_CPUS);
        let count = groups.min(total / MIN_RING).max(1);
        let bytes = 1 << (total / count).ilog2();
        Self { count, bytes }
    }

    /// Size of all rings in bytes.
    pub const fn total(self) -> usize {
        self.count as usize * self.bytes as usize
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

/// The slots that a controller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// Its first slot; with windows the number of its first queue.
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

    /// The queue with this number, with windows.
    pub const fn queue_of_number(&self, number: u32) -> Option<u32> {
        match number.checked_sub(self.base) {
            Some(qid) if qid < self.size.queues => Some(qid),
            _ => None,
        }
    }
}

/// Slots where tags do not have their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Slots of a window, a power of two.
    pub tags: u32,
    /// Number of windows. Their slots come first.
    pub count: u32,
    /// Number of queues that can have one, with those of controllers that appear later.
    pub queues: u32,
}

impl Windows {
    /// Slots of all windows: the number of the first extra slot.
    pub const fn slots(self) -> u32 {
        self.tags * self.count
    }
}

/// The cells of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Rows: kinds of commands.
    pub rows: u32,
    /// Number of cells.
    pub count: u32,
    /// CPUs have cells of the rows that they use; `None`: of all rows.
    pub sparse: Option<Sparse>,
}

/// How CPUs share cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sparse {
    /// The first ones are for single CPUs.
    pub own: u32,
    /// The others are for this many groups of CPUs.
    pub groups: u32,
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
    /// Where tags do not have their own slots.
    pub windows: Option<Windows>,
    /// The rings of events.
    pub rings: Rings,
    /// Bytes of all maps.
    pub bytes: usize,
    next_base: u32,
}

/// The rings: of the requested size, or of what `others` leaves of the budget.
fn rings(settings: &Settings, cpus: Cpus, others: usize, budget: usize) -> Rings {
    match settings.extra() {
        _ if settings.has_events() => {
            let total = settings.ring_bytes().unwrap_or_else(|| {
                let groups = cpus.online.div_ceil(RING_CPUS);
                let mut total = groups.saturating_mul(RING).max(RINGS);
                while total > MIN_RINGS && others + total as usize > budget {
                    total /= 2;
                }
                total
            });
            Rings::divide(total, cpus)
        }
        ExtraEvents::TopCounters => Rings { count: 1, bytes: DETAIL_RING },
        _ => Rings::NONE,
    }
}

/// Memory for stacks.
fn stack_bytes(settings: &Settings, cpus: u32) -> usize {
    let stacks = MAX_STACKS as usize * (HASH_ENTRY + STACK_BYTES)
        + (cpus * SCRATCHES) as usize * SCRATCH_BYTES;
    let sums = MAX_STACKS as usize * (HASH_ENTRY + STACK_SUM_BYTES);
    let stacks = if settings.stack().is_some() { stacks } else { 0 };
    stacks + if settings.sums_stacks() { sums } else { 0 }
}

/// Windows for this many queues.
fn windows(queues: u32, spare: u32, stage_set: StageSet, is_trace: bool) -> Windows {
    let [basic, fine, trace] = WINDOW_SLOTS;
    let slots = match stage_set {
        _ if is_trace => trace,
        StageSet::Full => trace,
        StageSet::Fine => fine,
        StageSet::Total | StageSet::Basic => basic,
    };
    let each = (slots / queues.max(1)).max(1);
    let tags = (1 << each.ilog2()).clamp(MIN_WINDOW, MIN_STRIDE);
    Windows { tags, count: slots / tags, queues: queues + spare }
}

impl Cells {
    /// A run without histograms has one cell, which is never used.
    const NONE: Self = Self { rows: 1, count: 1, sparse: None };

    /// The cells of `rows` rows in `bytes`.
    fn new(rows: u32, each: usize, bytes: usize, cpus: Cpus) -> Self {
        let all = rows as usize * cpus.possible as usize;
        if all * each <= bytes {
            return Self { rows, count: all as u32, sparse: None };
        }
        let count = u32::try_from(bytes / each)
            .map_or(u32::from(u16::MAX) - 1, |n| n.min(u32::from(u16::MAX) - 1));
        let rows = rows.min(count / 2).max(1);
        let groups = (count / 2 / rows).clamp(1, cpus.caches.max(1));
        Self {
            rows,
            count,
            sparse: Some(Sparse { own: count.saturating_sub(groups * rows), groups }),
        }
    }

    /// Whether any cell is used by several CPUs.
    pub const fn atomic(&self) -> bool {
        self.sparse.is_some()
    }

    /// Whether several CPUs use this cell.
    pub fn is_shared(&self, cell: usize) -> bool {
        self.sparse.is_some_and(|sparse| cell >= sparse.own as usize)
    }

    /// Memory of the cells, and of what leads to them.
    fn bytes(&self, each: usize, cpus: u32) -> usize {
        let numbers = self.sparse.map_or(0, |sparse| {
            (cpus + sparse.groups) as usize * NUMBERS_BYTES + self.count as usize * 8
        });
        self.count as usize * each + numbers
    }
}

/// The slots of all controllers.
struct Slots {
    slots: u32,
    /// Bytes of a slot.
    each: usize,
    windows: Option<Windows>,
    /// Memory of slots, start entries, and what leads to them.
    bytes: usize,
}

impl Slots {
    /// Slots in `room` bytes for controllers of these sizes.
    fn new(settings: &Settings, cpus: u32, sizes: &[Size], room: usize) -> Self {
        let is_trace = settings.is_trace();
        let has_origin = settings.origin() != OriginDetail::Nobody || settings.follows_submitters();
        let exact = slot_bytes(settings.stage_set, is_trace, has_origin);
        let each = exact.next_multiple_of(LINE);
        let start = start_bytes(settings);
        let per_slot = each + start;
        let of = |size: &Size| size.queues as usize * size.stride as usize;
        let need: usize = sizes.iter().map(of).sum();
        let largest = sizes.iter().map(of).max().unwrap_or(0);
        let spare = 3 * DEFAULT_DEPTH as usize;
        if (need + spare) * per_slot <= room {
            // room for one more of the largest, and at least for a default one with few queues
            let more = (room / per_slot - need).min(largest).max(spare);
            return Self {
                slots: (need + more) as u32,
                each,
                windows: None,
                bytes: (need + more) * per_slot,
            };
        }
        let queues = sizes.iter().map(|size| size.queues);
        let more = queues.clone().max().unwrap_or(0).max(cpus + 1);
        // the number of a queue costs eight bytes
        let found = windows(queues.sum(), 16 * more, settings.stage_set, is_trace);
        let slots = found.slots() + EXTRA;
        Self {
            slots,
            each: exact,
            windows: Some(found),
            bytes: slots as usize * exact
                + found.slots() as usize * start
                + EXTRA as usize * EXTRA_ENTRY
                + found.count as usize * (HASH_ENTRY + 24),
        }
    }
}

impl Layout {
    /// Sizes the maps for this machine and these settings.
    pub fn new(settings: &Settings, machine: Cpus, controllers: &[Controller]) -> Self {
        let cpus = machine.possible;
        let counts = settings.counts();
        let waits = match settings.stage_set {
            StageSet::Full => FULL_BUDGET,
            StageSet::Total | StageSet::Basic | StageSet::Fine => 0,
        };
        let budget = waits + if settings.is_trace() { TRACE_BUDGET } else { BUDGET };
        let numbers = cpus as usize * NUMBERS_BYTES;
        let least_cells = if counts { MIN_CELLS + numbers } else { 0 };
        let usual_cells = if counts { USUAL_CELLS + numbers } else { 0 };
        let fixed = FIXED
            + bio_bytes(settings.stage_set)
            + submitter_bytes(settings.observed_origin(), cpus)
            + GROUPS * usize::from(!settings.kernel_groups().is_empty());
        let mut bytes = fixed + cpus as usize * CPU_BYTES + stack_bytes(settings, cpus);
        let least_rings = rings(settings, machine, budget, budget).total();
        let sizes: Vec<_> = controllers.iter().map(|c| size_of(c, cpus)).collect();
        let room = budget.saturating_sub(bytes + least_rings + usual_cells);
        let slots = Slots::new(settings, cpus, &sizes, room);
        bytes += slots.bytes;
        let rings = rings(settings, machine, bytes + least_cells, budget);
        bytes += rings.total();
        let each = cell_stride(settings.stage_set);
        let cells = if counts {
            let left = budget.saturating_sub(bytes + numbers);
            let rows = rows_of(settings, controllers);
            Cells::new(rows, each, left.clamp(MIN_CELLS, CELL_BUDGET), machine)
        } else {
            Cells::NONE
        };
        Self {
            cpus,
            cells,
            slots: slots.slots,
            slot_bytes: slots.each,
            windows: slots.windows,
            rings,
            bytes: bytes + cells.bytes(each, cpus),
            next_base: 0,
        }
    }

    /// The same for commands that are identified by their tag: each tag needs its own slot, and
    /// controllers without room have none.
    pub fn by_tag(mut self) -> Self {
        self.windows = None;
        self
    }

    /// The slots that a controller needs.
    pub fn size_of(&self, controller: &Controller) -> Size {
        let size = size_of(controller, self.cpus);
        Size { stride: self.windows.map_or(size.stride, |windows| windows.tags), ..size }
    }

    /// Number of start entries: as many as slots of tags.
    pub fn starts(&self) -> u32 {
        self.windows.map_or(self.slots, Windows::slots)
    }

    /// Number of counters of queues.
    pub fn queue_counts(&self) -> u32 {
        self.windows.map_or(self.slots / MIN_STRIDE, |windows| windows.queues)
    }

    /// Allocates slots for a controller; `None` if there is no room left.
    pub fn take(&mut self, size: &Size) -> Option<SlotRange> {
        let (each, limit) = match self.windows {
            Some(windows) => (1, windows.queues),
            None => (size.stride, self.slots),
        };
        let end = self.next_base.checked_add(each.checked_mul(size.queues)?)?;
        if end > limit {
            return None;
        }
        let place = SlotRange { base: self.next_base, size: *size };
        self.next_base = end;
        Some(place)
    }
}

/// The queues of a controller, and the tags of each.
fn size_of(controller: &Controller, cpus: u32) -> Size {
    let depth = controller.depth.unwrap_or(DEFAULT_DEPTH);
    Size {
        stride: depth.next_power_of_two().max(MIN_STRIDE),
        queues: controller.queues.unwrap_or(cpus + 1).max(2),
    }
}

/// Rows for the commands of these controllers. A trace needs none.
fn rows_of(settings: &Settings, controllers: &[Controller]) -> u32 {
    // per namespace and admin queue: some opcodes, each with some patterns of points
    let each = match (settings.kernel_groups(), &settings.mode) {
        ([], Mode::Flight(_)) => 48,
        ([], _) => 16,
        _ => MAX_ROWS as usize,
    };
    let things: usize = controllers.iter().map(|c| 1 + c.namespaces.len()).sum();
    u32::try_from(things * each).unwrap_or(MAX_ROWS).clamp(MIN_ROWS, MAX_ROWS)
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
