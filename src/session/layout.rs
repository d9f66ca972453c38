// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sizes of the maps, and the position of each controller's slots. Pure arithmetic.
//!
//! Memory is bounded, independent of the number of CPUs. S is the sum over all controllers of
//! queues times tags (rounded up to a power of two). R is the same for one more controller of the
//! largest size, which may appear later:
//!
//! ```text
//! bytes = (S + R) * (slot + start) + min(cells, what is left of BUDGET) + FIXED + CPUs * counters
//!         + the rings, and the stacks with their histograms, where they are used
//! ```
//!
//! S cannot be smaller, because each tag may be a command in flight. If memory is short, R is
//! reduced first, then the cells: with fewer shards than CPUs the BPF side adds atomically. A trace
//! without histograms has one row of cells, which is never used. The rings are halved down to 4 MiB
//! in all.
//!
//! Each group of [`RING_CPUS`] CPUs has a ring of its own, because all producers of a ring contend for
//! its lock.

use crate::abi::CPU_BYTES;
use crate::abi::MAX_ROWS;
use crate::abi::MAX_STACKS;
use crate::abi::RING_CPUS;
use crate::abi::SCRATCH_BYTES;
use crate::abi::SCRATCHES;
use crate::abi::SLOT_BASIC;
use crate::abi::SLOT_FINE;
use crate::abi::SLOT_TRACE;
use crate::abi::STACK_BYTES;
use crate::abi::STACK_SUM_BYTES;
use crate::abi::START_BYTES;
use crate::abi::cell_bytes;
use crate::machine::sysfs::Controller;
use crate::model::stage::StageSet;
use crate::session::settings::Also;
use crate::session::settings::Settings;

/// Limit of all maps together, if the controllers' tags permit it.
pub const BUDGET: usize = 60 << 20;
/// Upper bound of the histograms' memory in bytes.
const CELL_BUDGET: usize = 32 << 20;
/// Lower bound of the histograms' memory, whatever else is needed.
const MIN_CELLS: usize = 4 << 20;
/// Tables of a fixed size (tasks, queues, controllers, row cache, commands without a row).
const FIXED: usize = 3 << 19;
/// Default size of all rings of events.
const RINGS: u32 = 16 << 20;
/// The same for each ring, where there are many.
const RING: u32 = 2 << 20;
/// Lower bound of the default size of all rings: some 20000 events.
const MIN_RINGS: u32 = 4 << 20;
/// Minimum size of a ring: a page, on every architecture.
const MIN_RING: u32 = 64 << 10;
/// Size of the ring of the slowest commands in bytes, for `details`.
const DETAIL_RING: u32 = 256 << 10;
/// Memory that a hash map of the kernel needs per entry, besides key and value.
const HASH_ENTRY: usize = 64;
/// Tags per queue if the kernel does not report them: the driver's default (nvme.io_queue_depth).
const DEFAULT_DEPTH: u32 = 1024;
/// Minimum number of slots per queue. The admin queue has 30 tags (NVME_AQ_MQ_TAG_DEPTH).
pub const MIN_STRIDE: u32 = 64;

/// The CPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Number of CPUs that it can ever have.
    pub possible: u32,
    /// One more than the highest number of a CPU that is online.
    pub online: u32,
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
pub struct Place {
    /// Its first slot.
    pub base: u32,
    /// The number of its slots.
    pub size: Size,
}

impl Place {
    /// Whether this is enough for a controller that needs `size`.
    pub const fn holds(&self, size: &Size) -> bool {
        self.size.stride >= size.stride && self.size.queues >= size.queues
    }

    /// Whether this slot is one of them.
    pub const fn contains(&self, slot: u32) -> bool {
        slot >= self.base && slot - self.base < self.size.stride * self.size.queues
    }
}

/// Sizes of all maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Possible CPUs.
    pub cpus: u32,
    /// Copies of the cells: as many as CPUs, or fewer if the budget requires it.
    pub shards: u32,
    /// Rows of a shard.
    pub rows: u32,
    /// Slots of all controllers, and spare ones for controllers that appear later.
    pub slots: u32,
    /// The rings of events.
    pub rings: Rings,
    /// Bytes of all maps.
    pub bytes: usize,
    next_base: u32,
}

/// Slot size of a stage set, or of a trace.
pub const fn slot_bytes(stage_set: StageSet, trace: bool) -> usize {
    match stage_set {
        _ if trace => SLOT_TRACE,
        StageSet::Total | StageSet::Basic => SLOT_BASIC,
        StageSet::Fine => SLOT_FINE,
    }
}

/// The rings: of the requested size, or of what `others` leaves of the budget.
fn rings(settings: &Settings, cpus: Cpus, others: usize) -> Rings {
    match settings.also() {
        _ if settings.has_events() => {
            let total = settings.ring_bytes().unwrap_or_else(|| {
                let groups = cpus.online.div_ceil(RING_CPUS);
                let mut total = groups.saturating_mul(RING).max(RINGS);
                while total > MIN_RINGS && others + total as usize > BUDGET {
                    total /= 2;
                }
                total
            });
            Rings::divide(total, cpus)
        }
        Also::TopCounters => Rings {
            count: 1,
            bytes: DETAIL_RING,
        },
        _ => Rings::NONE,
    }
}

/// Memory for stacks.
fn stack_bytes(settings: &Settings, cpus: u32) -> usize {
    let stacks = MAX_STACKS as usize * (HASH_ENTRY + STACK_BYTES)
        + (cpus * SCRATCHES) as usize * SCRATCH_BYTES;
    let sums = MAX_STACKS as usize * (HASH_ENTRY + STACK_SUM_BYTES);
    let stacks = if settings.stack().is_some() {
        stacks
    } else {
        0
    };
    stacks + if settings.sums_stacks() { sums } else { 0 }
}

impl Layout {
    /// Sizes the maps for this machine and these settings.
    pub fn new(settings: &Settings, machine: Cpus, controllers: &[Controller]) -> Self {
        let cpus = machine.possible;
        let mut layout = Self {
            cpus,
            shards: 1,
            rows: 1,
            slots: 0,
            rings: Rings::NONE,
            bytes: 0,
            next_base: 0,
        };
        let (is_trace, counts) = (settings.is_trace(), settings.counts());
        let things: usize = controllers.iter().map(|c| 1 + c.namespaces.len()).sum();
        // per namespace and admin queue: some opcodes, each with some patterns of points; a trace
        // needs no rows
        let per_thing = if settings.split_size() { 48 } else { 16 };
        if counts {
            layout.rows = u32::try_from(things * per_thing)
                .unwrap_or(MAX_ROWS)
                .clamp(64, MAX_ROWS);
        }
        let needs: Vec<u32> = controllers
            .iter()
            .map(|c| layout.size_of(c))
            .map(|size| size.queues * size.stride)
            .collect();
        let per_slot = slot_bytes(settings.stage_set, is_trace) + START_BYTES;
        let need = needs.iter().sum::<u32>();
        let least_cells = if counts { MIN_CELLS } else { 0 };
        let mut others = FIXED + cpus as usize * CPU_BYTES + stack_bytes(settings, cpus);
        layout.rings = rings(settings, machine, others + need as usize * per_slot);
        others += layout.rings.total();
        let left = BUDGET.saturating_sub(others + least_cells + need as usize * per_slot);
        // spare room for one more of the largest, and at least for a default one with few queues
        let largest = needs.iter().copied().max().unwrap_or(0);
        let spare = u32::try_from(left / per_slot).unwrap_or(u32::MAX);
        layout.slots = need + spare.min(largest).max(3 * DEFAULT_DEPTH);
        let slots = layout.slots as usize * per_slot;
        let cells = BUDGET
            .saturating_sub(others + slots)
            .clamp(MIN_CELLS, CELL_BUDGET);
        let per_shard = cell_bytes(settings.stage_set) * layout.rows as usize;
        if counts {
            layout.shards = u32::try_from(cells / per_shard)
                .unwrap_or(1)
                .clamp(1, cpus.max(1));
        }
        layout.bytes = others + slots + layout.shards as usize * per_shard;
        layout
    }

    /// Whether additions to the cells must be atomic.
    pub const fn atomic(&self) -> bool {
        self.shards < self.cpus
    }

    /// The slots that a controller needs.
    pub fn size_of(&self, controller: &Controller) -> Size {
        Size {
            stride: controller
                .depth
                .unwrap_or(DEFAULT_DEPTH)
                .next_power_of_two()
                .max(MIN_STRIDE),
            queues: controller.queues.unwrap_or(self.cpus + 1).max(2),
        }
    }

    /// Allocates slots for a controller; `None` if there is no room left.
    pub fn take(&mut self, size: &Size) -> Option<Place> {
        let end = self
            .next_base
            .checked_add(size.stride.checked_mul(size.queues)?)?;
        if end > self.slots {
            return None;
        }
        let place = Place {
            base: self.next_base,
            size: *size,
        };
        self.next_base = end;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stack::StackAt;
    use crate::session::settings::Events;
    use crate::session::settings::Histograms;
    use crate::session::settings::Mode;
    use crate::session::settings::Outcome;
    use crate::session::settings::StackSample;

    const fn all_online(cpus: u32) -> Cpus {
        Cpus {
            possible: cpus,
            online: cpus,
        }
    }

    fn controller(queues: u32, depth: u32) -> Controller {
        Controller {
            instance: 0,
            model: "".into(),
            transport: "pcie".into(),
            cntlid: None,
            nqn: None,
            queues: Some(queues),
            depth: Some(depth),
            namespaces: vec![],
        }
    }

    fn settings(stage_set: StageSet, split_size: bool) -> Settings {
        let histograms = Histograms {
            split_size,
            ..Histograms::default()
        };
        Mode::Histograms(histograms).with(stage_set)
    }

    const AT_SUBMIT: StackSample = StackSample::every(StackAt::Submit);

    fn traced(events: Events) -> Settings {
        Mode::Events(events).with(StageSet::Fine)
    }

    fn with_rings(ring_bytes: Option<u32>) -> Settings {
        traced(Events {
            ring_bytes,
            ..Events::default()
        })
    }

    fn with_stack_sums() -> Settings {
        Mode::Stacks(AT_SUBMIT, Outcome::default()).with(StageSet::Fine)
    }

    #[test]
    fn every_controller_has_room_and_one_more_may_come() {
        let all = [controller(3, 1024), controller(65, 256)];
        let mut layout = Layout::new(&settings(StageSet::Basic, false), all_online(64), &all);
        let mut end = 0;
        for c in &all {
            let size = layout.size_of(c);
            let place = layout.take(&size).unwrap();
            assert_eq!(place.base, end);
            end = place.base + size.queues * size.stride;
        }
        let size = layout.size_of(&all[1]);
        assert!(layout.take(&size).is_some());
        assert!(layout.take(&size).is_none());
    }

    #[test]
    fn the_stride_is_a_power_of_two_and_holds_the_admin_queue() {
        let layout = Layout::new(&settings(StageSet::Basic, false), all_online(4), &[]);
        assert_eq!(layout.size_of(&controller(3, 8)).stride, 64);
        assert_eq!(layout.size_of(&controller(3, 1000)).stride, 1024);
    }

    #[test]
    fn a_large_machine_stays_within_64_mib() {
        // one queue for each of 256 CPUs, and the admin queue, 1024 tags each
        let all = [controller(257, 1024)];
        for stage_set in [StageSet::Total, StageSet::Basic, StageSet::Fine] {
            for split in [false, true] {
                let l = Layout::new(&settings(stage_set, split), all_online(256), &all);
                assert!(l.bytes <= 64 << 20, "{stage_set:?} {split}: {}", l.bytes);
                assert_eq!(l.atomic(), l.shards < 256);
            }
        }
    }

    #[test]
    fn so_does_a_trace_there_but_for_its_stacks() {
        let all = [controller(257, 1024)];
        let with_stacks = Events {
            stack: Some(AT_SUBMIT),
            ..Events::default()
        };
        for (settings, stacks) in [
            (traced(Events::pairs()), 0),
            (traced(with_stacks), 4 << 20),
            (with_stack_sums(), 9 << 20),
        ] {
            let l = Layout::new(&settings, all_online(256), &all);
            assert!(l.bytes <= (64 << 20) + stacks, "{}", l.bytes);
        }
    }

    #[test]
    fn rings_give_way_to_many_tags_but_not_if_their_size_was_asked_for() {
        let rings = |queues, asked| {
            let all = [controller(queues, 1024)];
            Layout::new(&with_rings(asked), all_online(64), &all)
                .rings
                .total()
        };
        assert_eq!(rings(3, None), 16 << 20);
        assert_eq!(rings(129, None), 16 << 20);
        assert_eq!(rings(220, None), 8 << 20);
        assert_eq!(rings(1025, None), 4 << 20);
        assert_eq!(rings(1025, Some(1 << 20)), 1 << 20);
        assert_eq!(rings(1025, Some(1 << 30)), 1 << 30);
        let layout = Layout::new(&with_stack_sums(), all_online(256), &[]);
        assert_eq!(layout.rings, Rings::NONE);
    }

    #[test]
    fn each_group_of_online_cpus_has_a_ring() {
        let rings = |online, asked| {
            let cpus = Cpus {
                possible: 256,
                online,
            };
            let rings = Layout::new(&with_rings(asked), cpus, &[controller(9, 256)]).rings;
            (rings.count, rings.bytes)
        };
        assert_eq!(rings(1, None), (1, 16 << 20));
        assert_eq!(rings(8, None), (1, 16 << 20));
        assert_eq!(rings(9, None), (2, 8 << 20));
        assert_eq!(rings(20, None), (3, 4 << 20));
        assert_eq!(rings(128, None), (16, 2 << 20));
        // 64 MiB would exceed the budget
        assert_eq!(rings(256, None), (32, 1 << 20));
        assert_eq!(rings(256, Some(1 << 20)), (16, 64 << 10));
        assert_eq!(rings(256, Some(64 << 10)), (1, 64 << 10));
    }

    #[test]
    fn the_tags_alone_decide_on_more_controllers() {
        let settings = settings(StageSet::Basic, true);
        let bytes = |n| {
            let all: Vec<_> = (0..n).map(|_| controller(65, 1024)).collect();
            Layout::new(&settings, all_online(64), &all).bytes
        };
        let each = 65 * 1024 * (SLOT_BASIC + START_BYTES);
        assert!(bytes(4) <= BUDGET);
        // one shard with the maximum number of rows
        let shard = cell_bytes(StageSet::Basic) * MAX_ROWS as usize;
        assert!(bytes(16) <= 16 * each + shard + (4 << 20));
        for cpus in [1, 2, 64, 256, 1024] {
            let l = Layout::new(&settings, all_online(cpus), &[controller(3, 1024)]);
            assert!(l.bytes <= 64 << 20, "{cpus}: {}", l.bytes);
        }
    }
}
