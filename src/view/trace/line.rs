//! Bytes of a line, without the machinery of `core::fmt`: that costs more instructions for one number
//! than a whole event may. Every way of writing here has its twin in `Display`, and is tested against
//! it.

use std::iter::from_fn;

use itoa::Buffer;

use crate::nvme::decode::Value;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// Threads have names of at most so many bytes (the kernel's TASK_COMM_LEN).
pub(super) const COMM: usize = 16;

/// Writes at the end of a buffer.
pub(super) struct Line<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

impl Line<'_> {
    #[inline]
    pub(super) fn str(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// The first `len` of these bytes: a copy of a length that is known beforehand needs no call.
    #[inline]
    pub(super) fn first<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        let end = self.out.len() + len.min(N);
        self.out.extend_from_slice(&bytes);
        self.out.truncate(end);
    }

    pub(super) fn dec(&mut self, n: impl Into<u64>) {
        let n = n.into();
        if n < 10 {
            self.byte(digit(n));
        } else {
            self.str(Buffer::new().format(n));
        }
    }

    /// A signed number.
    pub(super) fn int(&mut self, n: i64) {
        if n < 0 {
            self.byte(b'-');
        }
        self.dec(n.unsigned_abs());
    }

    /// Digits only, as few as there must be.
    fn digits(&mut self, n: u64) {
        let len = (67 - (n | 1).leading_zeros() as usize) / 4;
        let mut digits = [0; 16];
        let mut rest = n;
        for at in (0..len).rev() {
            digits[at] = HEX[rest as usize & 0xf];
            rest >>= 4;
        }
        self.first(digits, len);
    }

    /// `0x1f`.
    pub(super) fn hex(&mut self, n: impl Into<u64>) {
        let n = n.into();
        if n < 10 {
            self.first([b'0', b'x', digit(n)], 3);
        } else {
            self.str("0x");
            self.digits(n);
        }
    }

    /// `0f`.
    pub(super) fn hex_digits(&mut self, n: u8) {
        let [high, low] = [n >> 4, n & 0xf].map(|d| HEX[usize::from(d)]);
        self.first([high, low], 2);
    }

    /// `0x0f`.
    pub(super) fn hex_byte(&mut self, n: u8) {
        self.str("0x");
        self.hex_digits(n);
    }

    /// Nine digits: nanoseconds after the decimal point.
    pub(super) fn nine(&mut self, n: u32) {
        let mut digits = [b'0'; 9];
        let mut rest = n % 1_000_000_000;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.first(digits, 9);
    }

    /// Three significant digits and the unit, as [`crate::units::nanos`] but without floating point:
    /// the two differ only in which way exactly a half is rounded; up here.
    pub(super) fn nanos(&mut self, ns: u64) {
        // so much is one, in that unit
        let (one, unit) = match ns {
            0..1_000 => (1, *b"ns"),
            1_000..999_500 => (1_000, *b"us"),
            999_500..999_500_000 => (1_000_000, *b"ms"),
            _ => (1_000_000_000, *b"s\0"),
        };
        let unit_len = if unit[1] == 0 { 1 } else { 2 };
        if one == 1 {
            self.dec(ns);
        } else if ns < one / 1000 * 9_995 {
            let n = (ns + one / 200) / (one / 100);
            self.first([digit(n / 100), b'.', digit(n / 10), digit(n)], 4);
        } else if ns < one / 1000 * 99_950 {
            let n = (ns + one / 20) / (one / 10);
            self.first([digit(n / 100), digit(n / 10), b'.', digit(n)], 4);
        } else {
            self.dec(ns / one + u64::from(ns % one >= one / 2));
        }
        self.first(unit, unit_len);
    }

    /// The value of a field, as its `Display`.
    pub(super) fn value(&mut self, value: Value) {
        match value {
            Value::Num(n) => self.dec(n),
            Value::Hex(n) => self.hex(n),
            Value::Flag(set) => self.byte(digit(set.into())),
            Value::Code(n, name) => {
                self.dec(n);
                self.byte(b':');
                self.str(name);
            }
            Value::HexCode(n, name) => {
                self.hex(n);
                self.byte(b':');
                self.str(name);
            }
        }
    }
}

/// The last decimal digit.
#[inline]
fn digit(n: u64) -> u8 {
    b'0' + (n % 10) as u8
}

/// The characters of what may be no UTF-8, and the bytes that are none.
pub(super) fn chars(mut bytes: &[u8]) -> impl Iterator<Item = Result<char, u8>> {
    from_fn(move || {
        let (&first, rest) = bytes.split_first()?;
        let char = bytes.utf8_chunks().next()?.valid().chars().next();
        bytes = char.map_or(rest, |c| bytes.get(c.len_utf8()..).unwrap_or_default());
        Some(char.ok_or(first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;
    use proptest::prelude::*;

    fn line(write: impl FnOnce(&mut Line<'_>)) -> String {
        let mut out = vec![];
        write(&mut Line { out: &mut out });
        String::from_utf8(out).unwrap()
    }

    fn nanos(ns: u64) -> String {
        line(|l| l.nanos(ns))
    }

    /// Whether it lies half way between two numbers of three digits.
    fn tie(ns: u64) -> bool {
        let mut step = 1;
        while ns / step >= 1000 {
            step *= 10;
        }
        step > 1 && ns % step == step / 2
    }

    #[test]
    fn durations_are_those_of_units() {
        let near = (3..=11).flat_map(|power| {
            let ten = 10_u64.pow(power);
            [ten, ten * 9_995 / 10_000, ten * 99_950 / 100_000]
        });
        let near = near.flat_map(|ns| ns - 30..ns + 30);
        for ns in (0..2_000_000).chain(near).filter(|&ns| !tie(ns)) {
            assert_eq!(nanos(ns), units::nanos(ns as f64), "{ns}");
        }
    }

    #[test]
    fn a_half_goes_up() {
        let ties = [1_005, 12_350, 100_500, 999_500, 9_995_000, 99_950_000_000];
        assert_eq!(
            ties.map(nanos),
            ["1.01us", "12.4us", "101us", "1.00ms", "10.0ms", "100s"]
        );
        assert_eq!(nanos(u64::MAX), "18446744074s");
    }

    proptest! {
        #[test]
        fn any_duration_is_that_of_units(ns in 0..1_u64 << 50, shift in 0..50) {
            let ns = ns >> shift;
            if !tie(ns) {
                prop_assert_eq!(nanos(ns), units::nanos(ns as f64));
            }
        }

        #[test]
        fn numbers_are_those_of_display(n in any::<u64>(), shift in 0..64_u32, i in any::<i64>()) {
            let n: u64 = n >> shift;
            prop_assert_eq!(line(|l| l.dec(n)), n.to_string());
            prop_assert_eq!(line(|l| l.int(i)), i.to_string());
            prop_assert_eq!(line(|l| l.hex(n)), format!("{n:#x}"));
            prop_assert_eq!(line(|l| l.hex_byte(n as u8)), format!("{:#04x}", n as u8));
            let below = (n % 1_000_000_000) as u32;
            prop_assert_eq!(line(|l| l.nine(below)), format!("{below:09}"));
            for value in [
                Value::Num(n),
                Value::Hex(n),
                Value::Code(n, "name"),
                Value::HexCode(n, "name"),
                Value::Flag(n > 9),
            ] {
                prop_assert_eq!(line(|l| l.value(value)), value.to_string());
            }
        }

        #[test]
        fn characters_are_those_of_utf8(text in any::<String>(), bytes in any::<Vec<u8>>()) {
            let all: String = chars(text.as_bytes()).map(Result::unwrap).collect();
            prop_assert_eq!(&all, &text);
            let mut back = vec![];
            for char in chars(&bytes) {
                match char {
                    Ok(c) => back.extend(c.to_string().bytes()),
                    Err(byte) => back.push(byte),
                }
            }
            prop_assert_eq!(back, bytes);
        }
    }
}
