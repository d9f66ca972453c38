// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points of a command's life that hooks can observe. The variants are in the order in which a
//! command passes them.

use serde::{Deserialize, Serialize};

/// Points of a command that were observed: a bit for each ([`Point::pattern_bit`]), [`NO_SETUP`] and
/// [`NO_COMPLETE`]. There are bits for 30 points, besides the two that need none.
pub type Pattern = u32;

/// Bit of a pattern: setup_out was not observed.
pub const NO_SETUP: Pattern = 1 << 7;
/// Bit of a pattern: complete was not observed.
pub const NO_COMPLETE: Pattern = 1 << 8;

/// The points: each with its name, the number of its bit in a pattern, and the number of its time in a
/// [`Timeline`](super::timeline::Timeline).
///
/// Bits are numbers of the format of recordings: a point keeps its bit, and a new one takes the next
/// free one.
macro_rules! points {
    ($($(#[$about:meta])* $name:ident $text:literal, $bit:expr, time $time:literal;)*) => {
        /// A point in a command's life.
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Point {
            $($(#[$about])* #[serde(rename = $text)] $name,)*
        }

        impl Point {
            /// All points, in the order in which a command passes them.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$name),*];

            /// The name in reports and in the documentation.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The number of its bit in a pattern.
            const fn bit(self) -> Option<u32> {
                match self {
                    $(Self::$name => $bit,)*
                }
            }

            /// The number of its time in a timeline.
            pub(super) const fn time(self) -> usize {
                match self {
                    $(Self::$name => $time,)*
                }
            }
        }

        /// Number of times in a timeline.
        pub const TIMES: usize = {
            let (all, mut most, mut n) = ([$($time),*], 0, 0);
            while n < all.len() {
                most = if all[n] > most { all[n] } else { most };
                n += 1;
            }
            most + 1
        };
    };
}

points! {
    /// A bio is submitted: blk-throttle looks at it (`__blk_throtl_bio`), or, without limits, as
    /// [`Point::Bio`].
    #[serde(alias = "submit")]
    Submit "bio_submit", Some(10), time 9;
    /// The block layer queues the bio, after blk-throttle (`block_bio_queue`).
    #[serde(alias = "bio")]
    Bio "bio_queue", Some(9), time 10;
    /// From here on: the request's start, less the waits that follow. The wait for a frozen queue
    /// (`__bio_queue_enter`).
    Freeze "freeze", Some(11), time 11;
    /// A zone of a disk takes one write at a time (`blk_zone_plug_bio`; 6.10 and later).
    Zone "zone", Some(15), time 15;
    /// The wait that io.cost demands (`ioc_rqos_throttle`).
    Iocost "iocost", Some(12), time 12;
    /// The wait of writeback throttling (`rq_qos_wait`).
    Wbt "wbt", Some(13), time 13;
    /// No tag is free (`__blk_mq_get_tag`).
    Tag "tag", Some(14), time 14;
    /// blk-mq has allocated the request (`block_io_start`, or the request's `start_time_ns`).
    #[default]
    Start "start", Some(0), time 0;
    /// `nvme_setup_cmd` is entered.
    SetupIn "setup_in", Some(1), time 1;
    /// The SQE is built: the last statement of `nvme_setup_cmd`.
    SetupOut "setup_out", None, time 2;
    /// DMA mapping is done, and blk-mq starts the request (`block_rq_issue`).
    Issue "issue", Some(2), time 3;
    /// The submitting function returns after it has rung the doorbell.
    Doorbell "doorbell", Some(3), time 4;
    /// The interrupt handler that reaps the command is entered (`nvme_irq`).
    Irq "irq", Some(4), time 5;
    /// The driver handles the command's CQE (`nvme_sq`).
    Cqe "cqe", Some(5), time 6;
    /// The driver completes the command (`nvme_complete_rq`, on every path).
    Complete "complete", None, time 7;
    /// blk-mq ends the request (`block_rq_complete`).
    End "end", Some(6), time 8;
}

/// All bits of a pattern.
pub const ALL_POINTS: Pattern = {
    let (mut bits, mut n) = (NO_SETUP | NO_COMPLETE, 0);
    while n < Point::ALL.len() {
        if let Some(bit) = Point::ALL[n].pattern_bit() {
            assert!(bits & bit == 0, "two points have the same bit");
            bits |= bit;
        }
        n += 1;
    }
    bits
};

/// The points whose times are in each record of the ring, in their order there (`nd_times` of
/// bpf/include/abi.h). Their bits on the BPF side (`ND_SAW_*`) are the bits of a [`Pattern`].
pub const IN_RECORDS: [Point; 7] = [
    Point::Start,
    Point::SetupIn,
    Point::Issue,
    Point::Doorbell,
    Point::Irq,
    Point::Cqe,
    Point::End,
];

/// The bit of [`Point::Bio`]. A command that has it has all points before the request that the run
/// observes; the BPF side sets no other bit for them.
pub const HAS_BEFORE: Pattern = match Point::Bio.pattern_bit() {
    Some(bit) => bit,
    None => panic!("Point::Bio has no bit"),
};

/// The bits that the BPF side sets.
const OF_BPF: Pattern = ((1 << IN_RECORDS.len()) - 1) | NO_SETUP | NO_COMPLETE | HAS_BEFORE;

/// The pattern with these bits of the BPF side, in a run that observes the points `before` the
/// request.
pub const fn pattern_of(bits: u16, before: Pattern) -> Pattern {
    let bits = bits as Pattern & OF_BPF;
    if bits & HAS_BEFORE == 0 { bits } else { bits | before }
}

impl Point {
    /// The bit in a pattern. `None` for the two points that nearly every command has; these use
    /// [`NO_SETUP`] and [`NO_COMPLETE`].
    pub const fn pattern_bit(self) -> Option<Pattern> {
        match self.bit() {
            Some(bit) => Some(1 << bit),
            None => None,
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
