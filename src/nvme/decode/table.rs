// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of commands: tables of [`Spec`]s. Text and typed values come from the same tables.

use std::fmt;
use std::ops::RangeInclusive;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::nvme::sqe::Sqe;

/// The value of a field.
///
/// Text: `8`, `0x4000`, `1:controller`, `0x7:number-of-queues`, `1`. JSON: a number for the first
/// two, `{"code":1,"name":"controller"}` for the next two, and `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A quantity or an identifier.
    Num(u64),
    /// A mask, an address, or a set of bits.
    Hex(u64),
    /// A code and its name; `reserved` or `vendor-specific` if it has none.
    Code(u64, &'static str),
    /// The same, for codes that are usually written in hexadecimal.
    HexCode(u64, &'static str),
    /// A bit.
    Flag(bool),
}

impl Value {
    /// The number in the field.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Num(n) | Self::Hex(n) | Self::Code(n, _) | Self::HexCode(n, _) => n,
            Self::Flag(set) => u64::from(set),
        }
    }

    /// The name of a code.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Code(_, name) | Self::HexCode(_, name) => Some(name),
            Self::Num(_) | Self::Hex(_) | Self::Flag(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Num(n) => write!(f, "{n}"),
            Self::Hex(n) => write!(f, "{n:#x}"),
            Self::Code(n, name) => write!(f, "{n}:{name}"),
            Self::HexCode(n, name) => write!(f, "{n:#x}:{name}"),
            Self::Flag(set) => write!(f, "{}", u8::from(*set)),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Num(n) | Self::Hex(n) => serializer.serialize_u64(n),
            Self::Flag(set) => serializer.serialize_bool(set),
            Self::Code(code, name) | Self::HexCode(code, name) => {
                let mut object = serializer.serialize_struct("Code", 2)?;
                object.serialize_field("code", &code)?;
                object.serialize_field("name", name)?;
                object.end()
            }
        }
    }
}

/// One field of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The name: the kernel's if drivers/nvme/host/trace.c prints the field, else the
    /// specification's in lower case.
    pub key: &'static str,
    /// The value.
    pub value: Value,
    /// Text omits the field if it is zero: it is usually zero, and the kernel does not print it.
    pub detail: bool,
}

impl Field {
    /// Whether text shows the field.
    #[must_use]
    pub fn shown(&self) -> bool {
        !self.detail || self.value.number() != 0
    }
}

/// Names of the codes of a field.
#[derive(Debug)]
pub(in crate::nvme) struct Names {
    known: &'static [(u16, &'static str)],
    vendor: RangeInclusive<u64>,
}

impl Names {
    /// Codes without a vendor-specific range.
    #[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
    pub(in crate::nvme) const fn new(known: &'static [(u16, &'static str)]) -> Self {
        Self::with_vendor(known, 1..=0)
    }

    /// Codes with the vendor-specific range `vendor`.
    pub(in crate::nvme) const fn with_vendor(
        known: &'static [(u16, &'static str)],
        vendor: RangeInclusive<u64>,
    ) -> Self {
        Self { known, vendor }
    }

    /// The name of a code.
    pub(in crate::nvme) fn get(&self, code: u64) -> &'static str {
        let mut known = self.known.iter();
        match known.find(|(known, _)| u64::from(*known) == code) {
            Some((_, name)) => name,
            None if self.vendor.contains(&code) => "vendor-specific",
            None => "reserved",
        }
    }
}

/// The position of a field in the entry.
#[derive(Debug)]
enum FieldSource {
    Bits { cdw: usize, low: u32, mask: u64 },
    Of(fn(&Sqe) -> u64),
}

/// How a field is read and shown.
#[derive(Debug)]
enum Show {
    Num,
    Hex,
    Flag,
    Code(&'static Names),
    HexCode(&'static Names),
    /// Zero-based.
    Count,
    /// Zero-based, in dwords; shown in bytes.
    Bytes,
}

/// A line of a table: a field, its position, and how it is shown.
#[derive(Debug)]
pub(super) struct Spec {
    key: &'static str,
    place: FieldSource,
    show: Show,
    detail: bool,
}

/// `width` bits from bit `low` of CDW`cdw` on. The field may extend into the next dword.
const fn bits(key: &'static str, cdw: usize, low: u32, width: u32, show: Show) -> Spec {
    assert!(cdw >= 10 && width > 0 && low + width <= 64, "not a field");
    assert!(cdw as u32 + (low + width - 1) / 32 <= 15, "beyond CDW15");
    let mask = u64::MAX >> (64 - width);
    Spec { key, place: FieldSource::Bits { cdw, low, mask }, show, detail: false }
}

pub(super) const fn num(key: &'static str, cdw: usize, low: u32, width: u32) -> Spec {
    bits(key, cdw, low, width, Show::Num)
}

pub(super) const fn hex(key: &'static str, cdw: usize, low: u32, width: u32) -> Spec {
    bits(key, cdw, low, width, Show::Hex)
}

/// A zero-based number; shown plus one.
pub(super) const fn count(key: &'static str, cdw: usize, low: u32, width: u32) -> Spec {
    assert!(width <= 32, "one more may not fit");
    bits(key, cdw, low, width, Show::Count)
}

/// A zero-based number of dwords; shown in bytes.
pub(super) const fn bytes(cdw: usize, low: u32, width: u32) -> Spec {
    assert!(width <= 32, "four times as many may not fit");
    bits("bytes", cdw, low, width, Show::Bytes)
}

/// A bit, as a detail.
pub(super) const fn flag(key: &'static str, cdw: usize, bit: u32) -> Spec {
    bits(key, cdw, bit, 1, Show::Flag).detail()
}

pub(super) const fn code(
    key: &'static str,
    cdw: usize,
    low: u32,
    width: u32,
    names: &'static Names,
) -> Spec {
    bits(key, cdw, low, width, Show::Code(names))
}

pub(super) const fn hex_code(
    key: &'static str,
    cdw: usize,
    low: u32,
    width: u32,
    names: &'static Names,
) -> Spec {
    bits(key, cdw, low, width, Show::HexCode(names))
}

/// A number that is not contiguous, or not in CDW10 to CDW15.
pub(super) const fn num_of(key: &'static str, of: fn(&Sqe) -> u64) -> Spec {
    spec_of(key, of, Show::Num)
}

/// The same in hexadecimal.
pub(super) const fn hex_of(key: &'static str, of: fn(&Sqe) -> u64) -> Spec {
    spec_of(key, of, Show::Hex)
}

/// A code that is not in CDW10 to CDW15.
pub(super) const fn code_of(key: &'static str, of: fn(&Sqe) -> u64, names: &'static Names) -> Spec {
    spec_of(key, of, Show::Code(names))
}

const fn spec_of(key: &'static str, of: fn(&Sqe) -> u64, show: Show) -> Spec {
    Spec { key, place: FieldSource::Of(of), show, detail: false }
}

impl Spec {
    /// Text omits the field if it is zero.
    pub(super) const fn detail(mut self) -> Self {
        self.detail = true;
        self
    }

    /// The number in this entry.
    #[inline]
    fn number(&self, sqe: &Sqe) -> u64 {
        match self.place {
            FieldSource::Bits { cdw, low, mask } => sqe.pair(cdw) >> low & mask,
            FieldSource::Of(of) => of(sqe),
        }
    }

    /// The name.
    pub(super) const fn key(&self) -> &'static str {
        self.key
    }

    /// Puts a number into CDW10 to CDW15. One that is not contiguous there is left out.
    pub(super) fn put(&self, n: u64, dwords: &mut [u32; 6]) {
        if let FieldSource::Bits { cdw, low, mask } = self.place {
            let bits = (n & mask) << low;
            dwords[cdw - 10] |= bits as u32;
            dwords.iter_mut().skip(cdw - 9).take(1).for_each(|dword| *dword |= (bits >> 32) as u32);
        }
    }

    /// Whether it is a detail that is zero. As [`Field::shown`], without a name for the value.
    #[inline]
    pub(super) fn is_hidden(&self, sqe: &Sqe) -> bool {
        self.detail && self.number(sqe) == 0 && !matches!(self.show, Show::Count | Show::Bytes)
    }

    /// Reads the field from this entry.
    #[inline(always)]
    pub(super) fn read(&self, sqe: &Sqe) -> Field {
        let n = self.number(sqe);
        let value = match self.show {
            Show::Num => Value::Num(n),
            Show::Hex => Value::Hex(n),
            Show::Flag => Value::Flag(n != 0),
            Show::Code(names) => Value::Code(n, names.get(n)),
            Show::HexCode(names) => Value::HexCode(n, names.get(n)),
            Show::Count => Value::Num(n + 1),
            Show::Bytes => Value::Num((n + 1) * 4),
        };
        Field { key: self.key, value, detail: self.detail }
    }
}

/// The fields of all commands on logical blocks. `ctrl` is the upper half of CDW12, as in the
/// kernel. `len` is the lower half, zero-based; `nlb` is the same as a number of blocks.
pub(super) const BLOCKS: &[Spec] = &[
    num("slba", 10, 0, 64),
    num("len", 12, 0, 16),
    count("nlb", 12, 0, 16),
    hex("ctrl", 12, 16, 16),
    num("dsmgmt", 13, 0, 32),
    num("reftag", 14, 0, 32),
    flag("lr", 12, 31),
    flag("fua", 12, 30),
    flag("pract", 12, 29),
    hex("prchk", 12, 26, 3).detail(),
    flag("stc", 12, 24),
    num("cetype", 12, 16, 4).detail(),
    num("apptag", 15, 0, 16).detail(),
    hex("appmask", 15, 16, 16).detail(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::sqe::Parts;

    fn sqe(cdw: [u32; 6]) -> Sqe {
        Sqe::from(Parts { cdw, ..Parts::default() })
    }

    #[test]
    fn the_largest_zero_based_number_has_room() {
        let sqe = sqe([u32::MAX; 6]);
        assert_eq!(count("n", 12, 0, 32).read(&sqe).value.number(), 1 << 32);
        assert_eq!(bytes(12, 0, 32).read(&sqe).value.number(), 1 << 34);
    }

    #[test]
    fn a_code_without_a_name_is_reserved_or_the_vendors() {
        let names = Names::with_vendor(&[(1, "one")], 0xc0..=0xfe);
        assert_eq!([0, 1, 0xbf].map(|c| names.get(c)), ["reserved", "one", "reserved"]);
        assert_eq!([0xc0, 0xfe].map(|c| names.get(c)), ["vendor-specific"; 2]);
        assert_eq!([&names, &Names::new(&[])].map(|n| n.get(0xff)), ["reserved"; 2]);
    }
}
