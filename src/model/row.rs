// SPDX-License-Identifier: MIT OR Apache-2.0
//! The key of a row: the common properties of its commands.

use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::subject::ALL_NAMESPACES;

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
    /// Splits a key of the BPF side into the row and the bits of its pattern, which those of the
    /// controller's transport are ([`Wire::pattern`](super::transport::Wire::pattern)).
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
