// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a file, and the heads of its blocks.
//!
//! All numbers are little-endian. A checksum covers each head, another one the payload. Lengths are
//! checked before anything is allocated. docs/record.md has the layout to the byte.

use super::bytes::Cursor;
use super::error::{Damage, Error};

/// The first bytes of a file. The first is not ASCII, and the last are those that a text conversion
/// changes.
pub const MAGIC: [u8; 8] = *b"\x89nvmedp\n";
/// Version of the format. A reader refuses a later one.
pub const VERSION: u16 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 16;
/// The first bytes of a block.
const BLOCK: [u8; 4] = *b"NDB\x1a";
/// Bytes of the head of a block.
pub const HEAD_BYTES: usize = 40;
/// Maximum number of bytes of a payload, compressed or not.
pub const MAX_PAYLOAD: usize = 16 << 20;
/// Bit of a head: the payload is a zstd frame.
const ZSTD: u8 = 1;
/// Bit of a head: the events have further parts. A reader that lacks them refuses the block by this.
const PARTS: u8 = 1 << 1;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The run: program, machine, settings. The first block of a file.
    Run,
    /// Events.
    Events,
    /// Events with parts that few runs have: see `parts`.
    EventsWithParts,
    /// Stacks that later events refer to.
    Stacks,
    /// The offset between CLOCK_MONOTONIC and the wall clock, from here on.
    Clock,
    /// The controllers and their namespaces, from here on.
    Controllers,
    /// The ledger up to here.
    Ledger,
    /// The ledger of the whole run. The last block of a file.
    End,
    /// What the machine did besides the commands, up to here.
    Activity,
    /// Settings of the machine and its controllers.
    Machine,
    /// Readings of clocks that two machines can share.
    Readings,
    /// Paths of cgroups that later events refer to.
    Cgroups,
    /// Events of the host side.
    HostEvents,
    /// The controllers of the host side.
    HostControllers,
    /// A kind that a later program has added: skipped.
    Unknown(u8),
}

impl Content {
    /// Whether the block has events.
    #[must_use]
    pub const fn is_events(self) -> bool {
        matches!(self, Self::Events | Self::EventsWithParts)
    }

    const fn code(self) -> u8 {
        match self {
            Self::Run => 1,
            Self::Events | Self::EventsWithParts => 2,
            Self::Stacks => 3,
            Self::Clock => 4,
            Self::Controllers => 5,
            Self::Ledger => 6,
            Self::End => 7,
            Self::Activity => 8,
            Self::Machine => 9,
            Self::Readings => 10,
            Self::Cgroups => 11,
            Self::HostEvents => 32,
            Self::HostControllers => 33,
            Self::Unknown(code) => code,
        }
    }

    const fn of(code: u8) -> Self {
        match code {
            1 => Self::Run,
            2 => Self::Events,
            3 => Self::Stacks,
            4 => Self::Clock,
            5 => Self::Controllers,
            6 => Self::Ledger,
            7 => Self::End,
            8 => Self::Activity,
            9 => Self::Machine,
            10 => Self::Readings,
            11 => Self::Cgroups,
            32 => Self::HostEvents,
            33 => Self::HostControllers,
            _ => Self::Unknown(code),
        }
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it holds.
    pub content: Content,
    /// Whether the payload is compressed.
    pub compressed: bool,
    /// Number of the block in its file, from 0.
    pub number: u32,
    /// Bytes of the payload in the file.
    pub payload_bytes: u32,
    /// Bytes of the payload when it is decompressed.
    pub raw_bytes: u32,
    /// Number of events.
    pub events: u32,
    /// CLOCK_MONOTONIC nanoseconds of the last event, or of the block.
    pub at_ns: u64,
    /// CRC-32 of the payload in the file.
    pub payload_crc: u32,
}

/// The header of a file.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks the header of a file.
///
/// # Errors
/// If the file is of another kind or of a later version, or the header is damaged.
pub fn check_header(bytes: &[u8; HEADER_BYTES]) -> Result<(), Error> {
    let mut cursor = Cursor::new(bytes);
    if cursor.array()? != MAGIC {
        return Err(Error::Foreign);
    }
    let (version, _reserved) = (cursor.u16()?, cursor.u16()?);
    if cursor.u32()? != crc32fast::hash(&bytes[..12]) {
        return Err(Damage::Head.into());
    }
    if version == 0 {
        return Err(Error::Foreign);
    }
    if version > VERSION {
        return Err(Error::Newer { version });
    }
    Ok(())
}

impl Head {
    /// The bytes of the head.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&BLOCK);
        bytes[4] = self.content.code();
        bytes[5] = if self.compressed { ZSTD } else { 0 };
        if self.content == Content::EventsWithParts {
            bytes[5] |= PARTS;
        }
        let words = [self.number, self.payload_bytes, self.raw_bytes, self.events];
        for (to, word) in bytes[8..24].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..32].copy_from_slice(&self.at_ns.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// If its checksum does not match, or a length is beyond the limit.
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, Damage> {
        let mut cursor = Cursor::new(bytes);
        let (magic, code, flags) = (cursor.array()?, cursor.u8()?, cursor.u8()?);
        let _reserved = cursor.u16()?;
        let has_parts = flags & PARTS != 0 && code == Content::Events.code();
        let content = if has_parts { Content::EventsWithParts } else { Content::of(code) };
        let head = Self {
            content,
            compressed: flags & ZSTD != 0,
            number: cursor.u32()?,
            payload_bytes: cursor.u32()?,
            raw_bytes: cursor.u32()?,
            events: cursor.u32()?,
            at_ns: cursor.u64()?,
            payload_crc: cursor.u32()?,
        };
        if magic != BLOCK || cursor.u32()? != crc32fast::hash(&bytes[..36]) {
            return Err(Damage::Head);
        }
        let most = head.payload_bytes.max(head.raw_bytes);
        if most as usize > MAX_PAYLOAD {
            return Err(Damage::Length);
        }
        if flags & !ZSTD & !(if has_parts { PARTS } else { 0 }) != 0 {
            return Err(Damage::Content("a block has a flag that this version does not have"));
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> Head {
        Head {
            content: Content::Events,
            compressed: true,
            number: 7,
            payload_bytes: 1000,
            raw_bytes: 2000,
            events: 33,
            at_ns: 1 << 40,
            payload_crc: 0xdead_beef,
        }
    }

    #[test]
    fn a_head_comes_back() {
        assert_eq!(Head::from_bytes(&head().to_bytes()), Ok(head()));
    }

    proptest! {
        #[test]
        fn one_changed_bit_is_found(bit in 0..HEAD_BYTES * 8) {
            let mut bytes = head().to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Head::from_bytes(&bytes), Err(Damage::Head));
        }

        #[test]
        fn one_changed_bit_of_the_header_is_found(bit in 0..HEADER_BYTES * 8) {
            let mut bytes = header();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(check_header(&bytes).is_err());
        }
    }

    #[test]
    fn lengths_beyond_the_limit_are_refused() {
        let most = MAX_PAYLOAD as u32;
        for (payload_bytes, raw_bytes) in [(most + 1, 0), (0, most + 1)] {
            let long = Head { payload_bytes, raw_bytes, ..head() };
            assert_eq!(Head::from_bytes(&long.to_bytes()), Err(Damage::Length));
        }
    }

    #[test]
    fn a_later_version_and_another_file_are_told_apart() {
        check_header(&header()).unwrap();
        let mut later = header();
        later[8] = 2;
        let crc = crc32fast::hash(&later[..12]);
        later[12..].copy_from_slice(&crc.to_le_bytes());
        assert!(matches!(check_header(&later), Err(Error::Newer { version: 2 })));
        let gzip = *b"\x1f\x8b\x08\0\0\0\0\0\0\x03abcdef";
        assert!(matches!(check_header(&gzip), Err(Error::Foreign)));
    }
}
