// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a file, and the heads of its blocks.
//!
//! All numbers are little-endian. A checksum covers each head, another one the payload. Lengths are
//! checked before anything is allocated. docs/reference/file-format.md has the layout to the byte.

use super::error::{Damage, Error};
use super::events::BLOCK_EVENTS;

/// The first bytes of a file. The first is not ASCII, and the last are those that a text conversion
/// changes.
pub const MAGIC: [u8; 8] = *b"\x89nvmedp\n";
/// Version of the format, and of the records in it. A reader refuses any other.
pub const VERSION: u16 = 2;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 16;
/// The first bytes of a block.
const BLOCK: [u8; 4] = *b"NDB\x1a";
/// Bytes of the head of a block.
pub const HEAD_BYTES: usize = 48;
/// Maximum number of bytes of a payload, before and after compression.
pub const MAX_PAYLOAD: usize = 16 << 20;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    /// The run: program, machine, settings. The first block of a file.
    Run = 1,
    /// Events.
    Events = 2,
    /// Stacks that later events refer to.
    Stacks = 3,
    /// The offset between CLOCK_MONOTONIC and the wall clock, from here on.
    Clock = 4,
    /// The controllers and their namespaces, from here on.
    Controllers = 5,
    /// The ledger up to here.
    Ledger = 6,
    /// The ledger of the whole run. The last block of a file.
    End = 7,
    /// What the machine did besides the commands, up to here.
    Activity = 8,
    /// Settings of the machine and its controllers.
    Machine = 9,
    /// Readings of clocks that two machines can share.
    Readings = 10,
    /// Paths of cgroups that later events refer to.
    Cgroups = 11,
    /// Lines of the kernel's log.
    KernelLog = 12,
    /// Events of the host side.
    HostEvents = 32,
    /// The controllers of the host side.
    HostControllers = 33,
    /// A kind that a later program has added: skipped.
    Other = 0,
}

impl Content {
    const ALL: [Self; 14] = [
        Self::Run,
        Self::Events,
        Self::Stacks,
        Self::Clock,
        Self::Controllers,
        Self::Ledger,
        Self::End,
        Self::Activity,
        Self::Machine,
        Self::Readings,
        Self::Cgroups,
        Self::KernelLog,
        Self::HostEvents,
        Self::HostControllers,
    ];

    /// The kind with this number in the head of a block.
    pub fn of(code: u8) -> Self {
        Self::ALL.into_iter().find(|content| *content as u8 == code).unwrap_or(Self::Other)
    }
}

/// What the head of a block says of its content. Blocks before a time can be skipped by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What it holds.
    pub content: Content,
    /// Number of events.
    pub events: u16,
    /// How many of them are the last one of a command.
    pub commands: u16,
    /// CLOCK_MONOTONIC nanoseconds of the earliest event, or of the block.
    pub from_ns: u64,
    /// CLOCK_MONOTONIC nanoseconds of the latest event, or of the block.
    pub to_ns: u64,
}

impl Summary {
    /// A block without events.
    pub const fn at(content: Content, at_ns: u64) -> Self {
        Self { content, events: 0, commands: 0, from_ns: at_ns, to_ns: at_ns }
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its content.
    pub summary: Summary,
    /// Number of the block in its file, from 0.
    pub number: u32,
    /// Bytes of the payload in the file, which is a zstd frame.
    pub payload_bytes: u32,
    /// Bytes of the payload when it is decompressed.
    pub raw_bytes: u32,
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
/// If the file is of another kind or of another version, or the header is damaged.
pub fn check_header(bytes: &[u8; HEADER_BYTES]) -> Result<(), Error> {
    let mut cursor = Cursor::new(bytes);
    if cursor.array()? != MAGIC {
        return Err(Error::Foreign);
    }
    let (version, _reserved) = (cursor.u16()?, cursor.u16()?);
    if cursor.u32()? != crc32fast::hash(&bytes[..12]) {
        return Err(Damage::Head.into());
    }
    if version != VERSION {
        return Err(Error::Version(version));
    }
    Ok(())
}

impl Head {
    /// The bytes of the head.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let Summary { content, events, commands, from_ns, to_ns } = self.summary;
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&BLOCK);
        bytes[4] = content as u8;
        bytes[6..8].copy_from_slice(&events.to_le_bytes());
        bytes[8..10].copy_from_slice(&commands.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&from_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&to_ns.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.raw_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// If its checksum does not match, or a length is beyond the limit.
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, Damage> {
        let mut cursor = Cursor::new(bytes);
        let (magic, code, _reserved) = (cursor.array()?, cursor.u8()?, cursor.u8()?);
        let (events, commands) = (cursor.u16()?, cursor.u16()?);
        let (_reserved, number) = (cursor.u16()?, cursor.u32()?);
        let (from_ns, to_ns) = (cursor.u64()?, cursor.u64()?);
        let head = Self {
            summary: Summary {
                content: Content::of(code),
                events,
                commands: commands.min(events),
                from_ns,
                to_ns,
            },
            number,
            payload_bytes: cursor.u32()?,
            raw_bytes: cursor.u32()?,
            payload_crc: cursor.u32()?,
        };
        if magic != BLOCK || cursor.u32()? != crc32fast::hash(&bytes[..44]) {
            return Err(Damage::Head);
        }
        if head.payload_bytes.max(head.raw_bytes) as usize > MAX_PAYLOAD {
            return Err(Damage::Length);
        }
        Ok(head)
    }
}

/// Bytes to read from.
#[derive(Debug)]
pub struct Cursor<'a> {
    left: &'a [u8],
}

macro_rules! numbers {
    ($($name:ident)*) => {$(
        /// Reads a number.
        ///
        /// # Errors
        /// If bytes are missing.
        pub fn $name(&mut self) -> Result<$name, Damage> {
            let bytes = self.left.split_first_chunk().ok_or(Damage::Short)?;
            self.left = bytes.1;
            Ok($name::from_le_bytes(*bytes.0))
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// Reads from the first of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    numbers!(u8 u16 u32 u64);

    /// Reads this many bytes.
    ///
    /// # Errors
    /// If bytes are missing.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Damage> {
        let (taken, left) = self.left.split_at_checked(n).ok_or(Damage::Short)?;
        self.left = left;
        Ok(taken)
    }

    /// Reads an array of bytes.
    ///
    /// # Errors
    /// If bytes are missing.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (taken, left) = self.left.split_first_chunk().ok_or(Damage::Short)?;
        self.left = left;
        Ok(*taken)
    }

    /// Whether all bytes are read.
    pub const fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }
}

/// The word of a record that is its time. Other times come after it.
const AT: usize = 1;

/// A signed number as a small unsigned one, if it is near zero.
const fn zigzag(n: u64) -> u64 {
    n << 1 ^ ((n as i64) >> 63) as u64
}

const fn unzigzag(n: u64) -> u64 {
    n >> 1 ^ (n & 1).wrapping_neg()
}

/// The planes of these records. A time is stored as its distance from the record before, and the words
/// `times` as distances from the time of their record. Zero stays zero.
pub fn pack<const N: usize>(records: &[[u64; N]], times: &[usize]) -> Vec<u8> {
    let first = records.first().copied().unwrap_or([0; N]);
    let mut varying = [0; N];
    for record in records {
        for n in 0..N {
            varying[n] |= record[n] ^ first[n];
        }
    }
    let (mut base, mut masks) = (first, [0; N]);
    let mut out = vec![0; 8 + 9 * N];
    let mut column = Vec::with_capacity(records.len());
    for n in 0..N {
        let is_time = first[n] | varying[n] != 0 && times.contains(&n);
        if varying[n] == 0 && n != AT && !is_time {
            continue;
        }
        column.clear();
        column.extend(records.iter().map(|record| record[n]));
        if n == AT {
            let mut last_ns = first[AT];
            for at_ns in &mut column {
                let since = zigzag(at_ns.wrapping_sub(last_ns));
                (last_ns, *at_ns) = (*at_ns, since);
            }
        } else if is_time {
            for (time, record) in column.iter_mut().zip(records) {
                let distance = zigzag(record[AT].wrapping_sub(*time)).wrapping_add(1);
                *time = if *time == 0 { 0 } else { distance };
            }
        }
        base[n] = column.first().copied().unwrap_or(0);
        masks[n] = planes_of(column.iter().fold(0, |varying, word| varying | (word ^ base[n])));
        for shift in shifts(masks[n]) {
            out.extend(column.iter().map(|word| (word >> shift) as u8));
        }
    }
    let words = [first[AT]].into_iter().chain(base).flat_map(u64::to_le_bytes);
    out.iter_mut().zip(words.chain(masks)).for_each(|(to, byte)| *to = byte);
    out
}

/// The bytes of a word that are not zero, as bits.
fn planes_of(word: u64) -> u8 {
    let bytes = word.to_le_bytes().into_iter().zip(0..);
    bytes.filter(|(byte, _)| *byte != 0).map(|(_, n)| 1 << n).sum()
}

/// How far to shift for each byte.
fn shifts(planes: u8) -> impl Iterator<Item = u32> {
    (0..8).filter(move |n| planes & 1 << n != 0).map(|n| n * 8)
}

/// The inverse of [`pack`]: replaces `records` by the payload's.
///
/// # Errors
/// If the payload does not have this number of records, or if no writer makes a block of so many.
pub fn unpack<const N: usize>(
    payload: &[u8],
    count: usize,
    times: &[usize],
    records: &mut Vec<[u64; N]>,
) -> Result<(), Damage> {
    if count > BLOCK_EVENTS {
        return Err(Damage::Length);
    }
    let mut cursor = Cursor::new(payload);
    let mut at_ns = cursor.u64()?;
    let mut base = [0; N];
    for word in &mut base {
        *word = cursor.u64()?;
    }
    let planes: [u8; N] = cursor.array()?;
    records.clear();
    records.resize(count, base);
    let (mut column, mut at) = (Vec::new(), Vec::new());
    for (n, planes) in planes.into_iter().enumerate() {
        let is_time = base[n] != 0 && times.contains(&n);
        if planes == 0 && n != AT && !is_time {
            continue;
        }
        let constant = shifts(planes).fold(base[n], |word, shift| word & !(0xff << shift));
        column.clear();
        column.resize(count, constant);
        for shift in shifts(planes) {
            let plane = cursor.take(count)?;
            for (word, byte) in column.iter_mut().zip(plane) {
                *word |= u64::from(*byte) << shift;
            }
        }
        if n == AT {
            for since in &mut column {
                at_ns = at_ns.wrapping_add(unzigzag(*since));
                *since = at_ns;
            }
            at.clone_from(&column);
        } else if times.contains(&n) {
            for (distance, at_ns) in column.iter_mut().zip(&at) {
                let time = at_ns.wrapping_sub(unzigzag(distance.wrapping_sub(1)));
                *distance = if *distance == 0 { 0 } else { time };
            }
        }
        for (record, word) in records.iter_mut().zip(&column) {
            record[n] = *word;
        }
    }
    if !cursor.is_at_end() {
        return Err(Damage::Content("a block of events has bytes after its records"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn head() -> Head {
        let content = Content::Events;
        Head {
            summary: Summary { content, events: 33, commands: 9, from_ns: 1 << 39, to_ns: 1 << 40 },
            number: 7,
            payload_bytes: 1000,
            raw_bytes: 2000,
            payload_crc: 0xdead_beef,
        }
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

        #[test]
        fn records_come_back(records in vec(any::<[u64; 4]>(), 0..50), few in vec(0_u64..3, 4)) {
            for records in [records.clone(), records.iter().map(|r| [r[0], r[1], few[2], r[3] & 0xff00]).collect()] {
                let out = pack(&records, &[2]);
                let mut got = vec![];
                prop_assert_eq!(unpack(&out, records.len(), &[2], &mut got), Ok(()));
                prop_assert_eq!(&got, &records);
                prop_assert!(unpack(&out[..out.len() - 1], records.len(), &[2], &mut got).is_err());
            }
        }

        #[test]
        fn any_payload_unpacks_or_is_refused(payload in vec(any::<u8>(), 0..300), count in 0..100_usize) {
            let _ = unpack::<4>(&payload, count, &[2, 3], &mut vec![]);
        }
    }

    #[test]
    fn bytes_that_do_not_vary_take_no_room() {
        let records: Vec<[u64; 4]> = (0..100).map(|n| [7, 1000 + n, 990 + n, n << 8]).collect();
        // the time of the first, a record, a mask for each word; the distances of times; the byte that varies
        assert_eq!(pack(&records, &[2]).len(), 8 + 32 + 4 + 100 + 100);
    }

    #[test]
    fn lengths_beyond_the_limit_are_refused() {
        assert_eq!(Head::from_bytes(&head().to_bytes()), Ok(head()));
        let most = MAX_PAYLOAD as u32;
        for (payload_bytes, raw_bytes) in [(most + 1, 0), (0, most + 1)] {
            let long = Head { payload_bytes, raw_bytes, ..head() };
            assert_eq!(Head::from_bytes(&long.to_bytes()), Err(Damage::Length));
        }
    }

    #[test]
    fn another_version_and_another_file_are_told_apart() {
        check_header(&header()).unwrap();
        for version in [1, VERSION + 1] {
            let mut other = header();
            other[8] = version as u8;
            let crc = crc32fast::hash(&other[..12]);
            other[12..].copy_from_slice(&crc.to_le_bytes());
            assert!(matches!(check_header(&other), Err(Error::Version(found)) if found == version));
        }
        let gzip = *b"\x1f\x8b\x08\0\0\0\0\0\0\x03abcdef";
        assert!(matches!(check_header(&gzip), Err(Error::Foreign)));
    }
}
