// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of the BPF side (bpf/include/abi.h).

use std::array;
use std::mem::offset_of;

use bytemuck::{AnyBitPattern, Zeroable};

use super::skel::types::{nd_group, nd_group_limit, nd_group_row};
use super::{DecodeError, ROW_BITS, nd_by, nd_slot, read, words};
use crate::abi::events::name_of;
use crate::model::group::{By, KeyPart, SizeLimits};
use crate::model::ids::{RowKey, row_nsid};
use crate::nvme::opcode::{Opcode, QueueKind};

/// Numbers of groups, including the one for groups without a row.
pub const MAX_GROUPS: u32 = nd_group_limit::ND_MAX_GROUPS.0;

/// Bytes of a group in the maps.
pub const GROUP_BYTES: usize = size_of::<nd_group>();

/// Most candidates.
pub const MAX_CANDIDATES: u32 = nd_group_limit::ND_MAX_CANDIDATES.0;

// SAFETY: `repr(C)` structs of fixed-width integers and arrays of them, without padding (asserted in
// abi.h): any bit pattern is valid.
unsafe impl AnyBitPattern for nd_group {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_group_row {}
// SAFETY: zero bits are a valid value of each of its integers.
unsafe impl Zeroable for nd_group {}
// SAFETY: as above.
unsafe impl Zeroable for nd_group_row {}

/// The value of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// Its number.
    pub number: u32,
    /// The thread of its first command, padded with zeroes.
    pub comm: [u8; 16],
}

const fn bit(by: By) -> u32 {
    match by {
        By::Process => nd_by::ND_BY_PROCESS.0,
        By::Comm => nd_by::ND_BY_COMM.0,
        By::Cgroup | By::Container => nd_by::ND_BY_CGROUP.0,
        By::Cpu => nd_by::ND_BY_CPU.0,
        By::Queue => nd_by::ND_BY_QUEUE.0,
        By::Size(_) => nd_by::ND_BY_SIZE.0,
        By::Priority => nd_by::ND_BY_PRIORITY.0,
        By::Disk => nd_by::ND_BY_DISK.0,
        By::Opcode => nd_by::ND_BY_OPCODE.0,
        By::Flags => 0,
    }
}

/// Set in the size of a group if it is above the limit.
const ABOVE: u8 = 0x80;

const fn size_of_byte(byte: u8) -> KeyPart {
    match (byte & ABOVE, (byte & !ABOVE).checked_sub(1)) {
        (ABOVE, Some(exponent)) => KeyPart::SizeAbove(exponent),
        (_, exponent) => KeyPart::Size(exponent),
    }
}

/// The setting `by_size`.
pub fn by_size(limits: SizeLimits) -> [u8; 64] {
    array::from_fn(|at| {
        let largest = at.checked_sub(1).map_or(0, |exponent| 1_u64 << exponent);
        match limits.class(u32::try_from(largest).unwrap_or(u32::MAX)) {
            KeyPart::Size(Some(exponent)) => 1 + exponent,
            KeyPart::SizeAbove(exponent) => ABOVE | (1 + exponent),
            _ => 0,
        }
    })
}

/// The bits of the setting `by`.
pub fn by_bits(by: &[By]) -> u32 {
    by.iter().map(|by| bit(*by)).fold(0, |all, bit| all | bit)
}

/// What a group has in common, from its key in the map.
///
/// # Errors
/// If the key is too short.
pub fn group_of(bytes: &[u8], by: &[By]) -> Result<Vec<KeyPart>, DecodeError> {
    let g: nd_group = read(bytes)?;
    let known = |unknown: u8, part| if unknown == 0 { part } else { KeyPart::Unknown };
    let who = |part| known(g.unknown, part);
    let queue = match g.admin {
        0 => QueueKind::Io,
        _ => QueueKind::Admin,
    };
    let part = |by: &By| match by {
        By::Process => who(KeyPart::Process(g.tgid)),
        By::Comm => who(KeyPart::Comm(name_of(g.comm))),
        By::Cgroup | By::Container => who(KeyPart::Cgroup(g.cgroup)),
        By::Cpu => known(g.unseen, KeyPart::Cpu(g.cpu)),
        By::Queue => KeyPart::Queue(g.ctrl.into(), g.qid),
        By::Size(_) => size_of_byte(g.size),
        By::Priority => KeyPart::Priority(g.priority),
        By::Disk => KeyPart::Disk(g.ctrl.into(), row_nsid(g.nsid)),
        By::Opcode => KeyPart::Opcode(Opcode { queue, code: g.opcode }),
        By::Flags => KeyPart::Unknown,
    };
    Ok(by.iter().map(part).collect())
}

/// The number of a group, from its value in the map.
///
/// # Errors
/// If the value is too short.
pub fn group_row(bytes: &[u8]) -> Result<GroupRow, DecodeError> {
    let row: nd_group_row = read(bytes)?;
    Ok(GroupRow { number: row.number, comm: name_of(row.comm) })
}

/// The value of a group that gets this number.
pub fn group_row_bytes(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<nd_group_row>()];
    let at = offset_of!(nd_group_row, number);
    bytes[at..at + size_of::<u32>()].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// The number of the group of a slot's command.
///
/// # Errors
/// If the value is too short.
pub fn slot_group(bytes: &[u8]) -> Result<u32, DecodeError> {
    let words = words(bytes);
    let key = words.get(offset_of!(nd_slot, key) / 8).ok_or(DecodeError)?;
    Ok(RowKey::unpack(key >> ROW_BITS).0.nsid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::group::{ByWord, size_exponent};

    const SIZE: By = By::Size(SizeLimits::EACH);

    #[test]
    fn the_programs_find_the_class_of_a_size_in_a_table() {
        let words = ["size", "size=512,64K"].map(|text| text.split(',').map(str::parse));
        for words in words {
            let words: Result<Vec<ByWord>, String> = words.collect();
            let keys = ByWord::keys(&words.unwrap()).unwrap();
            let [By::Size(limits)] = keys[..] else {
                panic!("{keys:?}");
            };
            let table = by_size(limits);
            for bytes in [0, 1, 512, 513, 65_536, 65_537, 1 << 31, u32::MAX] {
                let at = size_exponent(bytes).map_or(0, |exponent| 1 + usize::from(exponent));
                assert_eq!(size_of_byte(table[at]), limits.class(bytes), "{bytes} {limits:?}");
            }
        }
    }

    #[test]
    fn a_key_has_the_parts_that_were_asked_for() {
        let mut bytes = [0; size_of::<nd_group>()];
        bytes[offset_of!(nd_group, tgid)] = 7;
        bytes[offset_of!(nd_group, size)] = 13;
        bytes[offset_of!(nd_group, opcode)] = 2;
        let of = |bytes: &[u8]| group_of(bytes, &[By::Process, SIZE, By::Opcode]);
        let read = Opcode { queue: QueueKind::Io, code: 2 };
        let rest = [KeyPart::Size(Some(12)), KeyPart::Opcode(read)];
        assert_eq!(of(&bytes).unwrap()[0], KeyPart::Process(7));
        assert_eq!(of(&bytes).unwrap()[1..], rest);
        bytes[offset_of!(nd_group, unknown)] = 1;
        assert_eq!(of(&bytes).unwrap()[0], KeyPart::Unknown);
        assert_eq!(of(&bytes).unwrap()[1..], rest);
        assert!(of(&bytes[1..]).is_err());
        assert_eq!(group_row(&group_row_bytes(9)).unwrap().number, 9);
    }
}
