// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points of a command's life that hooks can observe. The variants are in the order in which a
//! command passes them.

use serde::Deserialize;
use serde::Serialize;

/// Points of a command that were observed: a bit for each ([`Point::pattern_bit`]), [`NO_SETUP`] and
/// [`NO_COMPLETE`].
pub type Pattern = u16;

/// Number of points.
pub const POINTS: usize = Point::ALL.len();

/// Bit of a pattern: setup_out was not observed (`ND_NO_SETUP`).
pub const NO_SETUP: Pattern = 1 << 7;
/// Bit of a pattern: complete was not observed (`ND_NO_COMPLETE`).
pub const NO_COMPLETE: Pattern = 1 << 8;
/// All bits of a pattern.
pub const ALL_POINTS: Pattern = (1 << 9) - 1;

/// A point in a command's life.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// blk-mq has allocated the request (`block_io_start`, or the request's `start_time_ns`).
    #[default]
    Start,
    /// `nvme_setup_cmd` is entered.
    SetupIn,
    /// The SQE is built: the last statement of `nvme_setup_cmd`.
    SetupOut,
    /// DMA mapping is done, and blk-mq starts the request (`block_rq_issue`).
    Issue,
    /// The submitting function returns after it has rung the doorbell.
    Doorbell,
    /// The interrupt handler that reaps the command is entered (`nvme_irq`).
    Irq,
    /// The driver handles the command's CQE (`nvme_sq`).
    Cqe,
    /// The driver completes the command (`nvme_complete_rq`, on every path).
    Complete,
    /// blk-mq ends the request (`block_rq_complete`).
    End,
}

impl Point {
    /// All points, in the order in which a command passes them.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::SetupIn,
        Self::SetupOut,
        Self::Issue,
        Self::Doorbell,
        Self::Irq,
        Self::Cqe,
        Self::Complete,
        Self::End,
    ];

    /// The name in reports and in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::SetupIn => "setup_in",
            Self::SetupOut => "setup_out",
            Self::Issue => "issue",
            Self::Doorbell => "doorbell",
            Self::Irq => "irq",
            Self::Cqe => "cqe",
            Self::Complete => "complete",
            Self::End => "end",
        }
    }

    /// The bit in a row's pattern (`ND_SAW_*` of bpf/include/abi.h). `None` for the two points that
    /// nearly every command has; these use [`NO_SETUP`] and [`NO_COMPLETE`].
    pub const fn pattern_bit(self) -> Option<Pattern> {
        match self {
            Self::Start => Some(1 << 0),
            Self::SetupIn => Some(1 << 1),
            Self::Issue => Some(1 << 2),
            Self::Doorbell => Some(1 << 3),
            Self::Irq => Some(1 << 4),
            Self::Cqe => Some(1 << 5),
            Self::End => Some(1 << 6),
            Self::SetupOut | Self::Complete => None,
        }
    }

    /// Whether a command with this pattern was observed at this point.
    pub const fn seen_in(self, pattern: Pattern) -> bool {
        match (self, self.pattern_bit()) {
            (_, Some(bit)) => pattern & bit != 0,
            (Self::Complete, None) => pattern & NO_COMPLETE == 0,
            (_, None) => pattern & NO_SETUP == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_optional_point_has_a_bit_of_its_own() {
        let bits: Vec<Pattern> = Point::ALL.iter().filter_map(|m| m.pattern_bit()).collect();
        assert_eq!(bits.iter().fold(0, |a, b| a | b), 0x7f);
        assert_eq!(bits.len(), 7);
        assert_eq!(0x7f | NO_SETUP | NO_COMPLETE, ALL_POINTS);
        assert!(Point::SetupOut.seen_in(0) && Point::Complete.seen_in(0));
        assert!(!Point::SetupOut.seen_in(NO_SETUP) && Point::SetupOut.seen_in(NO_COMPLETE));
        assert!(!Point::Complete.seen_in(NO_COMPLETE) && Point::Complete.seen_in(NO_SETUP));
    }
}
