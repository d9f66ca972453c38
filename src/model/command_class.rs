// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of commands that are alike enough to be compared.

use super::event::{CommandId, Submission};
use super::ids::NamespaceId;
use crate::nvme::decode;
use crate::nvme::decode::CommandSet;
use crate::nvme::opcode::Opcode;
use crate::units::size_text;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::{Display, Formatter};

/// The size of a command, rounded up to a power of two. Commands without data have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The class of a size in bytes.
    pub const fn of(bytes: u32) -> Self {
        match bytes {
            0 => Self(0),
            // 2^31 is the largest power of two of the type
            _ => Self(1 + (u32::BITS - (bytes - 1).leading_zeros()) as u8),
        }
    }

    /// The largest size of the class, in bytes.
    pub const fn bytes(self) -> u64 {
        match self.0 {
            0 => 0,
            n => 1 << (n - 1),
        }
    }
}

impl Display for SizeClass {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&size_text(self.bytes()))
    }
}

/// Controller, namespace, opcode and size class of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandClass {
    /// Controller instance.
    pub ctrl: u32,
    /// Namespace id in the command.
    pub nsid: u32,
    /// Admin or I/O opcode.
    pub opcode: Opcode,
    /// Size class.
    pub size: SizeClass,
}

/// Bytes of a logical block, by controller and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSizes(BTreeMap<NamespaceId, u32>);

impl Extend<(NamespaceId, u32)> for BlockSizes {
    fn extend<T: IntoIterator<Item = (NamespaceId, u32)>>(&mut self, sizes: T) {
        self.0.extend(sizes);
    }
}

impl BlockSizes {
    /// Bytes of the logical blocks that a command names, which may be more than it transfers; without
    /// blocks, the bytes that it transfers.
    pub fn size(&self, id: &CommandId, submission: Option<&Submission>) -> u32 {
        let submission =
            submission.map(|submission| (self.named(id, submission), submission.bytes));
        submission.and_then(|(named, bytes)| named.or(bytes)).unwrap_or(0)
    }

    fn named(&self, id: &CommandId, submission: &Submission) -> Option<u32> {
        let blocks = decode::blocks(id.opcode.queue, CommandSet::Nvm, &submission.sqe)?;
        blocks.nlb.checked_mul(*self.0.get(&id.namespace())?)
    }

    /// The class of a command.
    pub fn class(&self, id: &CommandId, submission: Option<&Submission>) -> CommandClass {
        CommandClass {
            ctrl: id.ctrl,
            nsid: id.nsid,
            opcode: id.opcode,
            size: SizeClass::of(self.size(id, submission)),
        }
    }
}

/// Bits of [`Conditions::bits`]. They are part of the format of recordings, and the same as `ND_BESIDE_*`
/// of bpf/include/abi.h.
mod bit {
    pub const IRQ: u8 = 1;
    pub const IDLE: u8 = 1 << 1;
    pub const SOFTIRQ_KNOWN: u8 = 1 << 2;
    pub const SOFTIRQ: u8 = 1 << 3;
    pub const RUNG: u8 = 1 << 4;
    pub const ELIDED: u8 = 1 << 5;
}

/// How the driver announced a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Announcement {
    /// By a write to the doorbell register: in a virtual machine usually an exit.
    Rung,
    /// By the shadow doorbell only: the device had asked for no write (its event index).
    Elided,
}

impl Announcement {
    /// The name in JSON and in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rung => "rung",
            Self::Elided => "elided",
        }
    }
}

/// What was observed beside the points of a command. `None`: not observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions(u8);

impl Conditions {
    /// From the bits of an event or a recording.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether anything was observed.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Whether the CPU of the interrupt was idle before it (the interrupted task is the idle task).
    pub fn cpu_idle(self) -> Option<bool> {
        self.has(bit::IRQ).then(|| self.has(bit::IDLE))
    }

    /// Whether the interrupt interrupted a soft interrupt, or the command was reaped in one.
    pub fn in_softirq(self) -> Option<bool> {
        self.has(bit::SOFTIRQ_KNOWN).then(|| self.has(bit::SOFTIRQ))
    }

    /// How the command was announced. `None` also where the event index moved meanwhile.
    pub fn announcement(self) -> Option<Announcement> {
        match (self.has(bit::RUNG), self.has(bit::ELIDED)) {
            (true, false) => Some(Announcement::Rung),
            (false, true) => Some(Announcement::Elided),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_a_power_of_two() {
        for (bytes, text) in
            [(0, "0B"), (512, "512B"), (513, "1K"), (4096, "4K"), (4097, "8K"), (u32::MAX, "4G")]
        {
            let class = SizeClass::of(bytes);
            assert_eq!(class.to_string(), text, "{bytes}");
            assert!(class.bytes() >= u64::from(bytes));
        }
        assert!(SizeClass::of(512) < SizeClass::of(4096));
    }
}
