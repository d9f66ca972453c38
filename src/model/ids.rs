// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ids that consist of several numbers. They are types, so that a queue is never taken for a namespace.

use std::fmt;
use std::fmt::{Display, Formatter};

use super::event::CommandId;

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
