// SPDX-License-Identifier: MIT OR Apache-2.0
//! The key of a row: the common properties of its commands.

use super::milestone::ALL_POINTS;
use super::milestone::Pattern;
use crate::nvme::opcode::Opcode;
use crate::nvme::opcode::QueueKind;
use crate::nvme::subject::ALL_NAMESPACES;

/// Namespace ids from this one on share one key.
pub const NSID_MASK: u32 = 0x7f_ffff;

/// The namespace id of a command's row. Of the ids that share one key only the one that stands for all
/// namespaces occurs in practice.
#[must_use]
pub const fn row_nsid(nsid: u32) -> u32 {
    if nsid >= NSID_MASK {
        ALL_NAMESPACES
    } else {
        nsid
    }
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

impl RowKey {
    /// Splits a key of the BPF side into the row and the pattern of points.
    pub const fn unpack(key: u64) -> (Self, Pattern) {
        let queue = if key >> 11 & 1 == 1 {
            QueueKind::Admin
        } else {
            QueueKind::Io
        };
        let row = Self {
            ctrl: (key >> 43 & 0xff) as u32,
            nsid: row_nsid((key >> 20) as u32 & NSID_MASK),
            opcode: Opcode {
                queue,
                code: (key >> 12) as u8,
            },
            class: (key >> 9) as u8 & 3,
        };
        (row, key as Pattern & ALL_POINTS)
    }
}
