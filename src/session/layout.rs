//! How large the maps are, and where each controller's slots lie. Pure arithmetic.
//!
//! Memory is bounded: cells take at most [`CELL_BUDGET`] whatever the number of CPUs (with fewer
//! shards than CPUs the kernel side adds atomically), slots grow with queues times depth.

use crate::abi::MAX_ROWS;
use crate::abi::cell_bytes;
use crate::host::sysfs::Controller;
use crate::path::stage::Cut;

/// Upper bound of the histograms' memory in bytes.
pub const CELL_BUDGET: usize = 32 << 20;
/// Tags per queue where the kernel does not tell: the driver's default (nvme.io_queue_depth).
const DEFAULT_DEPTH: u32 = 1024;
/// The admin queue has 30 tags (NVME_AQ_MQ_TAG_DEPTH), and fits this.
const MIN_STRIDE: u32 = 64;

/// What a controller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Slots per queue, a power of two.
    pub stride: u32,
    /// Queues, the admin queue included.
    pub queues: u32,
}

/// What a controller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first slot.
    pub base: u32,
    /// How many.
    pub size: Size,
}

impl Place {
    /// Whether a controller that needs `size` is served.
    pub const fn holds(&self, size: &Size) -> bool {
        self.size.stride >= size.stride && self.size.queues >= size.queues
    }
}

/// Sizes of all maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Possible CPUs.
    pub cpus: u32,
    /// Copies of the cells; as many as CPUs, or fewer if the budget says so.
    pub shards: u32,
    /// Rows of a shard.
    pub rows: u32,
    /// Slots of all controllers, and spare ones for controllers that appear later.
    pub slots: u32,
    next_base: u32,
}

impl Layout {
    /// Sizes the maps for this machine and cut.
    pub fn new(cut: Cut, split_size: bool, cpus: u32, controllers: &[Controller]) -> Self {
        let mut layout = Self {
            cpus,
            shards: 1,
            rows: 64,
            slots: 0,
            next_base: 0,
        };
        let things: usize = controllers.iter().map(|c| 1 + c.namespaces.len()).sum();
        // per namespace and admin queue: some opcodes, each with some patterns of points
        let per_thing = if split_size { 48 } else { 16 };
        layout.rows = u32::try_from(things * per_thing)
            .unwrap_or(MAX_ROWS)
            .clamp(64, MAX_ROWS / 4);
        let per_shard = cell_bytes(cut) * layout.rows as usize;
        layout.shards = u32::try_from(CELL_BUDGET / per_shard)
            .unwrap_or(1)
            .clamp(1, cpus.max(1));
        let needs: Vec<u32> = controllers
            .iter()
            .map(|c| layout.size_of(c))
            .map(|size| size.queues * size.stride)
            .collect();
        // spare room for one more of the largest, and no less than a default one of few queues
        let spare = needs
            .iter()
            .copied()
            .max()
            .unwrap_or(0)
            .max(3 * DEFAULT_DEPTH);
        layout.slots = needs.iter().sum::<u32>() + spare;
        layout
    }

    /// Whether additions to the cells must be atomic.
    pub const fn atomic(&self) -> bool {
        self.shards < self.cpus
    }

    /// What a controller needs.
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

    /// Takes room for a controller. `None` when there is none left.
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

    fn controller(queues: u32, depth: u32) -> Controller {
        Controller {
            instance: 0,
            model: String::new(),
            transport: "pcie".into(),
            queues: Some(queues),
            depth: Some(depth),
            namespaces: vec![],
        }
    }

    #[test]
    fn every_controller_has_room_and_one_more_may_come() {
        let all = [controller(3, 1024), controller(65, 256)];
        let mut layout = Layout::new(Cut::Cheap, false, 64, &all);
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
        let layout = Layout::new(Cut::Cheap, false, 4, &[]);
        assert_eq!(layout.size_of(&controller(3, 8)).stride, 64);
        assert_eq!(layout.size_of(&controller(3, 1000)).stride, 1024);
    }

    #[test]
    fn histograms_stay_within_the_budget_on_any_number_of_cpus() {
        let all: Vec<_> = (0..8).map(|_| controller(129, 1024)).collect();
        for cpus in [1, 2, 64, 256, 1024] {
            for cut in [Cut::Total, Cut::Cheap, Cut::Fine] {
                let l = Layout::new(cut, true, cpus, &all);
                let bytes = cell_bytes(cut) * l.rows as usize * l.shards as usize;
                assert!(bytes <= CELL_BUDGET, "{cpus} {cut:?}: {bytes}");
                assert_eq!(l.atomic(), l.shards < cpus);
            }
        }
    }
}
