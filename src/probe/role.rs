// SPDX-License-Identifier: MIT OR Apache-2.0
//! What hooks observe.

use crate::model::point::Point;

/// What a hook observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A point of a command's life.
    Point(Point),
    /// Requests that blk-mq takes back: for the ledger, and for traces.
    Requeue,
    /// Timeouts of commands.
    Timeout,
    /// Requests that the driver cancels.
    Cancel,
    /// State changes of controllers.
    State,
    /// SQ heads: how far a controller has read its submission queues.
    SqHead,
    /// Asynchronous events.
    AsyncEvent,
    /// Waits before the request.
    TagWait,
    /// Splits of bios.
    Split,
    /// Bounce buffers.
    Bounce,
    /// Mappings of the IOMMU.
    IommuMap,
    /// Mappings of the IOMMU that are removed.
    IommuUnmap,
    /// The submissions of bios, and by whom.
    Submitter,
}

impl Role {
    /// The events of a trace other than commands, if all are requested.
    pub const EVENTS: [Self; 5] =
        [Self::Timeout, Self::Cancel, Self::State, Self::SqHead, Self::AsyncEvent];

    /// What `--context` observes besides the commands.
    pub const CONTEXT: [Self; 5] =
        [Self::TagWait, Self::Split, Self::Bounce, Self::IommuMap, Self::IommuUnmap];

    /// Whether its hooks observe neither commands nor controllers: their losses are not losses of
    /// commands.
    pub fn is_context(self) -> bool {
        Self::CONTEXT.contains(&self) || self == Self::Submitter
    }

    /// The point of a command's life; `None` for other roles.
    pub const fn point(self) -> Option<Point> {
        match self {
            Self::Point(point) => Some(point),
            _ => None,
        }
    }

    /// The name in reports and in the README.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point(point) => point.name(),
            Self::Requeue => "requeue",
            Self::Timeout => "timeout",
            Self::Cancel => "cancel",
            Self::State => "state",
            Self::SqHead => "sq_head",
            Self::AsyncEvent => "async_event",
            Self::TagWait => "tag_wait",
            Self::Split => "split",
            Self::Bounce => "bounce",
            Self::IommuMap => "iommu_map",
            Self::IommuUnmap => "iommu_unmap",
            Self::Submitter => "submitter",
        }
    }
}
