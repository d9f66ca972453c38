// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and times. Three digits are looked up at once, and six are written at once.

use itoa::Buffer;

use super::Line;

const HEX: &[u8; 16] = b"0123456789abcdef";
const MILLION: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The numbers below 1000 as three digits, the first digit in the lowest byte.
static DIGITS: [u32; 1000] = {
    let mut table = [0; 1000];
    let mut n = 0;
    while n < 1000 {
        let [a, b, c] = [n / 100, n / 10 % 10, n % 10];
        table[n as usize] = 0x30_3030 | a | b << 8 | c << 16;
        n += 1;
    }
    table
};
/// The same with a decimal point after one or two digits.
static POINT_AFTER_1: [u32; 1000] = with_point(1);
static POINT_AFTER_2: [u32; 1000] = with_point(2);

const fn with_point(digits: u32) -> [u32; 1000] {
    let before = (1 << (8 * digits)) - 1;
    let point = (b'.' as u32) << (8 * digits);
    let mut table = DIGITS;
    let mut n = 0;
    while n < 1000 {
        table[n] = table[n] & before | point | (table[n] & !before) << 8;
        n += 1;
    }
    table
}

impl Line {
    #[inline(always)]
    pub(in crate::view::trace) fn dec(&mut self, n: impl Into<u64>) {
        let n = n.into();
        if n < 10 {
            self.byte(b'0' + n as u8);
        } else {
            self.digits(n);
        }
    }

    #[inline(never)]
    fn digits(&mut self, n: u64) {
        if n < MILLION {
            self.no_zeroes(n);
        } else if n < MILLION * MILLION {
            self.no_zeroes(n / MILLION);
            self.first(six(n % MILLION).to_le_bytes(), 6);
        } else {
            self.many_digits(n);
        }
    }

    /// Writes a number below one million without leading zeroes.
    #[inline(always)]
    fn no_zeroes(&mut self, n: u64) {
        let text = six(n);
        let zeroes = (text ^ six(0)).trailing_zeros().min(40) / 8;
        self.first((text >> (8 * zeroes)).to_le_bytes(), 6 - zeroes as usize);
    }

    /// A separate function, because its buffer needs a stack frame.
    #[cold]
    #[inline(never)]
    fn many_digits(&mut self, n: u64) {
        self.name(Buffer::new().format(n));
    }

    /// Writes a number below one million with six digits.
    #[inline(always)]
    pub(in crate::view::trace) fn six(&mut self, n: u64) {
        self.first(six(n % MILLION).to_le_bytes(), 6);
    }

    /// Writes a signed number.
    pub(in crate::view::trace) fn int(&mut self, n: i64) {
        if n < 0 {
            self.byte(b'-');
        }
        self.dec(n.unsigned_abs());
    }

    /// Writes a time in nanoseconds. Caches the digits of the second, because most timestamps are
    /// in the same second as the previous one.
    #[inline]
    pub(in crate::view::trace) fn stamp(&mut self, ns: u64) {
        let mut since = ns.wrapping_sub(self.second_ns);
        if since >= SECOND {
            if ns < SECOND {
                return self.dec(ns);
            }
            self.turn_to(ns / SECOND);
            since = ns % SECOND;
        }
        self.first(self.second_digits, self.second_len);
        self.nine(since);
    }

    #[cold]
    fn turn_to(&mut self, second: u64) {
        let mut buffer = Buffer::new();
        let digits = buffer.format(second).as_bytes();
        self.second_ns = second * SECOND;
        self.second_len = digits.len();
        for (to, from) in self.second_digits.iter_mut().zip(digits) {
            *to = *from;
        }
    }

    /// Writes `0x1f`.
    #[inline]
    pub(in crate::view::trace) fn hex(&mut self, n: impl Into<u64>) {
        let n = n.into();
        if n < 10 {
            self.first([b'0', b'x', b'0' + n as u8, 0], 3);
        } else {
            self.long_hex(n);
        }
    }

    #[inline(never)]
    fn long_hex(&mut self, n: u64) {
        let len = (67 - (n | 1).leading_zeros() as usize) / 4;
        let mut digits = [0; 16];
        let mut rest = n;
        for digit in digits.iter_mut().take(len).rev() {
            *digit = HEX[rest as usize & 0xf];
            rest >>= 4;
        }
        self.str("0x");
        self.first(digits, len);
    }

    /// Writes `0f`.
    pub(in crate::view::trace) fn hex_digits(&mut self, n: u8) {
        let [high, low] = [n >> 4, n & 0xf].map(|d| HEX[usize::from(d)]);
        self.first([high, low], 2);
    }

    /// Writes `0x0f`.
    pub(in crate::view::trace) fn hex_byte(&mut self, n: u8) {
        self.str("0x");
        self.hex_digits(n);
    }

    /// Writes nine digits: nanoseconds after the decimal point.
    #[inline(always)]
    pub(in crate::view::trace) fn nine(&mut self, n: u64) {
        self.first(six(n / 1000).to_le_bytes(), 6);
        self.first(three(n % 1000).to_le_bytes(), 3);
    }

    /// Writes three significant digits and the unit, like [`crate::units::nanos`], but without
    /// floating point. The two differ only in the rounding of exact halves; this function rounds
    /// up.
    #[inline(never)]
    pub(in crate::view::trace) fn nanos(&mut self, ns: u64) {
        let (one, two, three) = ((&POINT_AFTER_1, 4), (&POINT_AFTER_2, 4), (&DIGITS, 3));
        match ns {
            0..1_000 => self.below_thousand(ns),
            1_000..9_995 => self.time(one, (ns + 5) / 10, *b"us"),
            9_995..99_950 => self.time(two, (ns + 50) / 100, *b"us"),
            99_950..999_500 => self.time(three, (ns + 500) / 1_000, *b"us"),
            999_500..9_995_000 => self.time(one, (ns + 5_000) / 10_000, *b"ms"),
            9_995_000..99_950_000 => self.time(two, (ns + 50_000) / 100_000, *b"ms"),
            99_950_000..999_500_000 => self.time(three, (ns + 500_000) / 1_000_000, *b"ms"),
            999_500_000..9_995_000_000 => self.time(one, (ns + 5_000_000) / 10_000_000, *b"s "),
            9_995_000_000..99_950_000_000 => {
                self.time(two, (ns + 50_000_000) / 100_000_000, *b"s ");
            }
            _ => self.long_time(ns),
        }
    }

    /// Writes the entry of `table` for `n`, which has `len` bytes, and a unit.
    #[inline(always)]
    fn time(&mut self, (table, len): (&'static [u32; 1000], usize), n: u64, unit: [u8; 2]) {
        let digits = table.get(n as usize).copied().unwrap_or_default();
        let text = u64::from(digits) | u64::from(u16::from_le_bytes(unit)) << (8 * len);
        let unit_len = if unit[1] == b' ' { 1 } else { 2 };
        self.first(text.to_le_bytes(), len + unit_len);
    }

    #[inline(always)]
    fn below_thousand(&mut self, ns: u64) {
        let digits = three(ns);
        let zeroes = (digits ^ three(0)).trailing_zeros().min(16) / 8;
        let text = (digits | u64::from(u16::from_le_bytes(*b"ns")) << 24) >> (8 * zeroes);
        self.first(text.to_le_bytes(), 5 - zeroes as usize);
    }

    /// Writes a time of about 100 seconds or more.
    #[cold]
    #[inline(never)]
    fn long_time(&mut self, ns: u64) {
        self.dec(ns / SECOND + ns % SECOND / (SECOND / 2));
        self.byte(b's');
    }
}

/// A number below 1000 as three digits, the first digit in the lowest byte.
#[inline(always)]
fn three(n: u64) -> u64 {
    DIGITS.get(n as usize).copied().unwrap_or_default().into()
}

/// A number below one million as six digits.
#[inline(always)]
fn six(n: u64) -> u64 {
    three(n / 1000) | three(n % 1000) << 24
}

#[cfg(test)]
mod tests {
    use super::super::tests::line;
    use super::Line;
    use crate::nvme::decode::Value;
    use crate::units;
    use proptest::prelude::*;

    fn nanos(ns: u64) -> String {
        line(|l| l.nanos(ns))
    }

    /// Whether the number is exactly half way between two numbers of three digits.
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
        let mut line = Line::new();
        for ns in (0..2_000_000).chain(near).filter(|&ns| !tie(ns)) {
            line.nanos(ns);
            let text = line.take(|text| String::from_utf8(text.to_vec()).unwrap());
            assert_eq!(text, units::nanos(ns as f64), "{ns}");
        }
    }

    #[test]
    fn a_half_goes_up() {
        let ties = [1_005, 12_350, 100_500, 999_500, 9_995_000, 99_950_000_000];
        assert_eq!(ties.map(nanos), ["1.01us", "12.4us", "101us", "1.00ms", "10.0ms", "100s"]);
        assert_eq!(nanos(u64::MAX), "18446744074s");
    }

    #[test]
    fn stamps_around_the_first_seconds_are_numbers_too() {
        let mut l = Line::new();
        for ns in [0, 999_999_999, 1_000_000_000, 1_999_999_999, 2_000_000_000, 1_500_000_000, 9] {
            l.stamp(ns);
            assert_eq!(l.take(<[u8]>::to_vec), ns.to_string().as_bytes());
            assert_eq!(line(|l| l.stamp(ns)), ns.to_string());
        }
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
            prop_assert_eq!(line(|l| l.stamp(n)), n.to_string());
            prop_assert_eq!(line(|l| { l.stamp(7); l.stamp(n); l.stamp(n) }), format!("7{n}{n}"));
            let below = n % 1_000_000_000;
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
    }
}
