// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel memory, as words and structs.

use super::types::Types;

/// Memory of a kernel.
pub trait Memory {
    /// Reads from a kernel address. Returns false if not all of it can be read.
    fn read(&mut self, at: u64, to: &mut [u8]) -> bool;
}

/// The bytes of a struct, and the offsets of its members.
pub(super) struct Image<'t> {
    types: &'t Types,
    name: &'static str,
    at: u64,
    bytes: Vec<u8>,
}

/// Reads structs. `None`: not readable, or no such member.
pub(super) struct Reader<'a> {
    pub(super) memory: &'a mut dyn Memory,
    pub(super) types: &'a Types,
}

impl<'a> Reader<'a> {
    /// A whole struct.
    pub(super) fn image(&mut self, name: &'static str, at: u64) -> Option<Image<'a>> {
        let bytes = self.bytes(at, self.types.size(name)?)?;
        Some(Image { types: self.types, name, at, bytes })
    }

    /// Bytes at an address that is not null.
    pub(super) fn bytes(&mut self, at: u64, count: usize) -> Option<Vec<u8>> {
        if at == 0 {
            return None;
        }
        let mut bytes = vec![0; count];
        self.memory.read(at, &mut bytes).then_some(bytes)
    }

    /// A pointer.
    pub(super) fn pointer(&mut self, at: u64) -> Option<u64> {
        let bytes = self.bytes(at, 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Pointers in a row.
    pub(super) fn pointers(&mut self, at: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(at, count.checked_mul(8)?)?;
        let words = bytes.as_chunks::<8>().0;
        Some(words.iter().map(|w| u64::from_ne_bytes(*w)).collect())
    }

    /// The entries of a list (`struct list_head`), except its head; at most `most`.
    pub(super) fn list(&mut self, head: u64, most: usize) -> Option<Vec<u64>> {
        let mut entries = vec![];
        let mut next = self.pointer(head)?;
        while next != head && entries.len() < most {
            entries.push(next);
            next = self.pointer(next)?;
        }
        Some(entries)
    }
}

impl Image<'_> {
    /// The address of a member.
    pub(super) fn address(&self, member: &str) -> Option<u64> {
        let offset = u64::try_from(self.types.offset(self.name, member)?).ok()?;
        Some(self.at.wrapping_add(offset))
    }

    fn word<const N: usize>(&self, member: &str) -> Option<[u8; N]> {
        let at = self.types.offset(self.name, member)?;
        self.bytes.get(at..at + N)?.try_into().ok()
    }

    pub(super) fn u8(&self, member: &str) -> Option<u8> {
        Some(u8::from_ne_bytes(self.word(member)?))
    }

    pub(super) fn u16(&self, member: &str) -> Option<u16> {
        Some(u16::from_ne_bytes(self.word(member)?))
    }

    pub(super) fn u32(&self, member: &str) -> Option<u32> {
        Some(u32::from_ne_bytes(self.word(member)?))
    }

    pub(super) fn u64(&self, member: &str) -> Option<u64> {
        Some(u64::from_ne_bytes(self.word(member)?))
    }
}
