// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a file, and the heads of its blocks.
//!
//! All numbers are little-endian. A checksum covers each head, another one the payload. Lengths are
//! checked before anything is allocated. docs/reference/file-format.md has the layout to the byte.

use super::error::{Damage, Error};
use super::events::BLOCK_EVENTS;
use bytemuck::{
    CheckedBitPattern, Pod, Zeroable, bytes_of, checked, must_cast, pod_read_unaligned,
};

/// The first bytes of a file. The first is not ASCII, and converting the file as text changes the last two.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, CheckedBitPattern)]
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
    /// A kind that a later program has added: skipped.
    Other = 0,
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

/// The header as it is in the file. Like all that runs nvme-deep, it is little-endian.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct HeaderBytes {
    magic: [u8; 8],
    version: u16,
    reserved: u16,
    /// Of the bytes before it.
    crc: u32,
}

/// A head as it is in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct HeadBytes {
    magic: [u8; 4],
    content: u8,
    reserved: u8,
    events: u16,
    commands: u16,
    reserved_too: u16,
    number: u32,
    from_ns: u64,
    to_ns: u64,
    payload_bytes: u32,
    raw_bytes: u32,
    payload_crc: u32,
    /// Of the bytes before it.
    crc: u32,
}

/// The CRC-32 of the bytes before the last four, which hold it.
fn crc_before(bytes: &[u8]) -> u32 {
    crc32fast::hash(&bytes[..bytes.len() - 4])
}

/// The header of a file.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut header = HeaderBytes { magic: MAGIC, version: VERSION, reserved: 0, crc: 0 };
    header.crc = crc_before(bytes_of(&header));
    must_cast(header)
}

/// Checks the header of a file.
///
/// # Errors
/// If the file is of another kind or of another version, or the header is damaged.
pub fn check_header(bytes: &[u8; HEADER_BYTES]) -> Result<(), Error> {
    let HeaderBytes { magic, version, crc, .. } = pod_read_unaligned(bytes);
    match (magic, crc == crc_before(bytes), version) {
        (MAGIC, true, VERSION) => Ok(()),
        (MAGIC, true, _) => Err(Error::Version(version)),
        (MAGIC, false, _) => Err(Damage::Head.into()),
        _ => Err(Error::Foreign),
    }
}

impl Head {
    /// The bytes of the head.
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let Self { summary, number, payload_bytes, raw_bytes, payload_crc } = self;
        let Summary { content, events, commands, from_ns, to_ns } = summary;
        let mut head = HeadBytes {
            magic: BLOCK,
            content: content as u8,
            events,
            commands,
            number,
            from_ns,
            to_ns,
            payload_bytes,
            raw_bytes,
            payload_crc,
            ..HeadBytes::zeroed()
        };
        head.crc = crc_before(bytes_of(&head));
        must_cast(head)
    }

    /// Reads a head.
    ///
    /// # Errors
    /// If its checksum does not match, or a length is beyond the limit.
    pub fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, Damage> {
        let head: HeadBytes = pod_read_unaligned(bytes);
        if head.magic != BLOCK || head.crc != crc_before(bytes) {
            return Err(Damage::Head);
        }
        if head.payload_bytes.max(head.raw_bytes) as usize > MAX_PAYLOAD {
            return Err(Damage::Length);
        }
        let HeadBytes { events, from_ns, to_ns, number, payload_bytes, raw_bytes, .. } = head;
        let content = checked::try_cast(head.content).unwrap_or(Content::Other);
        let commands = head.commands.min(events);
        let summary = Summary { content, events, commands, from_ns, to_ns };
        Ok(Self { summary, number, payload_bytes, raw_bytes, payload_crc: head.payload_crc })
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
    let (head, mut left) = payload.split_at_checked(8 + 9 * N).ok_or(Damage::Short)?;
    let (words, planes) = head.split_at(8 + 8 * N);
    let mut words = words.chunks_exact(8).map(pod_read_unaligned);
    let mut at_ns: u64 = words.next().unwrap_or(0);
    let mut base = [0; N];
    base.iter_mut().zip(words).for_each(|(word, read)| *word = read);
    records.clear();
    records.resize(count, base);
    let (mut column, mut at) = (Vec::new(), Vec::new());
    for (n, planes) in planes.iter().copied().enumerate() {
        let is_time = base[n] != 0 && times.contains(&n);
        if planes == 0 && n != AT && !is_time {
            continue;
        }
        let constant = shifts(planes).fold(base[n], |word, shift| word & !(0xff << shift));
        column.clear();
        column.resize(count, constant);
        for shift in shifts(planes) {
            let plane;
            (plane, left) = left.split_at_checked(count).ok_or(Damage::Short)?;
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
    if !left.is_empty() {
        return Err(Damage::Content("a block of events has bytes after its records"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
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
    }

    #[test]
    fn bytes_that_do_not_vary_take_no_room() {
        let records: Vec<[u64; 4]> = (0..100).map(|n| [7, 1000 + n, 990 + n, n << 8]).collect();
        // the time of the first, a record, a mask for each word; the distances of times; the byte that varies
        assert_eq!(pack(&records, &[2]).len(), 8 + 32 + 4 + 100 + 100);
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
