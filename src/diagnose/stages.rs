// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of stages.

use std::ops::BitOr;

use crate::model::point::Point;
use crate::model::stage::StageSet;

/// A set of stages of [`StageSet::Full`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages(u32);

impl Stages {
    /// Limits of cgroups (blk-throttle).
    pub const THROTTLE: Self = Self::from(Point::Submit);
    /// Before the request, but no wait that was measured.
    pub const BLOCK: Self = Self::from(Point::Bio);
    /// A frozen queue.
    pub const FREEZE: Self = Self::from(Point::Freeze);
    /// A zone that takes one write at a time.
    pub const ZONE: Self = Self::from(Point::Zone);
    /// io.cost.
    pub const IOCOST: Self = Self::from(Point::Iocost);
    /// Writeback throttling.
    pub const WBT: Self = Self::from(Point::Wbt);
    /// No free tag.
    pub const TAG: Self = Self::from(Point::Tag);
    /// blk-mq and the scheduler.
    pub const QUEUE: Self = Self::from(Point::Start);
    /// DMA mapping.
    pub const MAP: Self = Self::from(Point::SetupOut);
    /// To the submission queue, and the doorbell.
    pub const SUBMIT: Self = Self::from(Point::Issue);
    /// From the doorbell to the interrupt.
    pub const DEVICE: Self = Self::from(Point::Doorbell);
    /// From the interrupt to the CQE.
    pub const IRQ: Self = Self::from(Point::Irq);
    /// From the CQE to the completion by the driver.
    pub const COMPLETE: Self = Self::from(Point::Cqe);
    /// To the end by blk-mq.
    pub const END: Self = Self::from(Point::Complete);
    /// The block layer's: waits before the request, the scheduler, the setup of the command.
    pub const BLOCK_LAYER: Self = Self::range(0, StageSet::Full.before() + 2);
    /// The driver's.
    pub const DRIVER: Self = Self::MAP.with(Self::SUBMIT).with(Self::COMPLETE).with(Self::END);
    /// The device's, until its interrupt is handled.
    pub const AT_DEVICE: Self = Self::DEVICE.with(Self::IRQ);
    /// All from the request on.
    pub const ALL: Self = Self::range(StageSet::Full.before(), StageSet::Full.stages().len());

    /// The stage that begins at this point.
    const fn from(point: Point) -> Self {
        let (stages, mut n) = (StageSet::Full.stages(), 0);
        while stages[n].from as usize != point as usize {
            n += 1;
        }
        Self::range(n, n + 1)
    }

    /// The stages `first..end`, by number.
    pub const fn range(first: usize, end: usize) -> Self {
        Self(((1_u64 << end) - (1_u64 << first)) as u32)
    }

    /// All stages of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has all stages of the other.
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether they have a stage in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The names; more than three joined stages are shortened to the first and the last.
    pub fn short(self) -> String {
        let all = self.name();
        let names: Vec<&str> = all.split('+').collect();
        match names.as_slice() {
            [first, _, _, .., last] => format!("{first}..{last}"),
            _ => all,
        }
    }

    /// Whether it has more than one stage.
    pub const fn are_joined(self) -> bool {
        self.0.count_ones() > 1
    }

    /// Whether they come before the request.
    pub const fn are_waits(self) -> bool {
        !self.meets(Self::ALL)
    }

    /// `queue.wait has`, or `irq+end have`: to put a share after it.
    pub fn have(self) -> String {
        format!("{} {}", self.short(), if self.are_joined() { "have" } else { "has" })
    }

    /// The names, joined by `+`. All parts of a group have the name of the group.
    pub fn name(self) -> String {
        if self == Self::ALL {
            return "total".into();
        }
        let all = StageSet::Full.stages().iter().enumerate();
        let stages = all.filter(|(n, _)| self.0 & 1 << n != 0).map(|(_, stage)| *stage);
        StageSet::Full.name_of(&stages.collect::<Vec<_>>())
    }
}

impl BitOr for Stages {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_names_of_its_stages() {
        assert_eq!(Stages::range(11, 13), Stages::DEVICE | Stages::IRQ);
        assert_eq!((Stages::THROTTLE | Stages::TAG).name(), "throttle+tag");
        assert_eq!((Stages::IRQ | Stages::COMPLETE).name(), "device.irq+complete");
        assert_eq!((Stages::DEVICE | Stages::IRQ).name(), "device");
        assert_eq!(Stages::range(7, 15).name(), "total");
        assert!(!Stages::ALL.meets(Stages::THROTTLE | Stages::TAG));
        assert!(Stages::ALL.covers(Stages::MAP) && !Stages::MAP.covers(Stages::ALL));
    }

    #[test]
    fn there_is_room_for_32_stages() {
        let (all, last) = (Stages::range(0, 32), Stages::range(31, 32));
        assert!(all.covers(last) && all.covers(Stages::ALL) && !Stages::ALL.meets(last));
        assert!(!last.are_joined());
    }
}
