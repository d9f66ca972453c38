// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ids that consist of several numbers. They are types, so that a queue is never taken for a namespace.

use super::event::CommandId;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::subject::ALL_NAMESPACES;
use std::fmt;
use std::fmt::{Display, Formatter};

/// A queue of a controller. As text: `nvme0 queue 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    /// Controller instance.
    pub ctrl: u32,
    /// Queue id; 0 is the admin queue.
    pub qid: u16,
}

impl QueueId {
    /// The queue with this id.
    pub const fn new(ctrl: u32, qid: u16) -> Self {
        Self { ctrl, qid }
    }

    /// Whether it is the admin queue.
    pub const fn is_admin(self) -> bool {
        self.qid == 0
    }
}

impl Display for QueueId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "nvme{} queue {}", self.ctrl, self.qid)
    }
}

/// A namespace of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceId {
    /// Controller instance.
    pub ctrl: u32,
    /// Namespace id.
    pub nsid: u32,
}

impl NamespaceId {
    /// The namespace with this id.
    pub const fn new(ctrl: u32, nsid: u32) -> Self {
        Self { ctrl, nsid }
    }
}

/// What identifies a command while it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlightId {
    /// Its queue.
    pub queue: QueueId,
    /// Its command id.
    pub cid: u16,
}

impl CommandId {
    /// Its queue.
    pub const fn queue(&self) -> QueueId {
        QueueId::new(self.ctrl, self.qid)
    }

    /// Its namespace.
    pub const fn namespace(&self) -> NamespaceId {
        NamespaceId::new(self.ctrl, self.nsid)
    }

    /// What identifies it until it completes.
    pub const fn in_flight(&self) -> FlightId {
        FlightId { queue: self.queue(), cid: self.cid }
    }
}

/// Namespace ids from this one on share one key.
pub const NSID_MASK: u32 = 0x7f_ffff;

/// The namespace id of a command's row. Of the ids that share one key only the one that stands for all
/// namespaces occurs in practice.
#[must_use]
pub const fn row_nsid(nsid: u32) -> u32 {
    if nsid >= NSID_MASK { ALL_NAMESPACES } else { nsid }
}

/// The properties that the commands of a row share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Controller instance.
    pub ctrl: u32,
    /// Namespace id in the command, as [`row_nsid`] gives it.
    pub nsid: u32,
    /// Admin or I/O opcode.
    pub opcode: Opcode,
    /// Size class, 0 if sizes are not split.
    pub class: u8,
}

/// Bits of a key of the BPF side for the pattern of points; there is room for more than there are.
pub const PATTERN_BITS: u32 = 11;
/// Where the parts of a key are, above the pattern.
const CLASS: u32 = PATTERN_BITS;
const ADMIN: u32 = CLASS + 2;
const OPCODE: u32 = ADMIN + 1;
const NSID: u32 = OPCODE + 8;
/// Where the controller is.
pub const CTRL: u32 = NSID + 23;

impl RowKey {
    /// Splits a key of the BPF side into the row and the bits of its pattern
    /// ([`pattern_of`](super::point::pattern_of)).
    pub const fn unpack(key: u64) -> (Self, u16) {
        let queue = if key >> ADMIN & 1 == 1 { QueueKind::Admin } else { QueueKind::Io };
        let row = Self {
            ctrl: (key >> CTRL & 0xff) as u32,
            nsid: row_nsid((key >> NSID) as u32 & NSID_MASK),
            opcode: Opcode { queue, code: (key >> OPCODE) as u8 },
            class: (key >> CLASS) as u8 & 3,
        };
        (row, key as u16 & ((1 << PATTERN_BITS) - 1))
    }
}
