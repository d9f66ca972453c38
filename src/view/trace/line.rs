//! Bytes of a line, without the machinery of `core::fmt`: that costs more instructions for one number
//! than a tenth of an event may. Every way of writing here has its twin in `Display`, and is tested against
//! it.

use itoa::Buffer;

use crate::nvme::decode::Value;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// A place in the buffer: longer than any line is but for its stacks.
const PLACES: usize = 4096;
/// What is written at once, most often: so much is beyond the last place.
pub(super) const WORD: usize = 512;
const CHUNK: usize = 64;
const SECOND: u64 = 1_000_000_000;

/// The numbers below a thousand: three digits, the first one lowest, and above them how many of them
/// are leading zeroes.
static DIGITS: [u32; 1000] = {
    let mut table = [0; 1000];
    let mut n = 0;
    while n < 1000 {
        let zeroes = (n < 10) as u32 + (n < 100) as u32;
        let [a, b, c] = [n / 100, n / 10 % 10, n % 10];
        table[n as usize] = 0x30_3030 | a | b << 8 | c << 16 | zeroes << 24;
        n += 1;
    }
    table
};

/// A line in the making, in a buffer that is always all there and has room for a word beyond every
/// place. So a word that is known when this is compiled is a store or two, without a question or a
/// call: a third of what it takes to append it to a vector.
#[derive(Debug)]
pub(super) struct Line {
    bytes: [u8; PLACES + WORD],
    /// Below [`PLACES`]. What would be beyond (no line is so long) is garbled but in the buffer.
    at: usize,
    /// What came before, of a line with a long part.
    before: Vec<u8>,
    /// The second of the last stamp, and its digits.
    second: u64,
    second_digits: [u8; 16],
    second_len: usize,
}

impl Line {
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; PLACES + WORD],
            at: 0,
            before: Vec::new(),
            second: 0,
            second_digits: [0; 16],
            second_len: 0,
        }
    }

    /// Moves what was written to the end of `out`.
    #[inline]
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        if !self.before.is_empty() {
            out.append(&mut self.before);
        }
        out.extend_from_slice(self.since(0));
        self.at = 0;
    }

    /// Where the next byte goes.
    #[inline]
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// What was written from there on.
    #[inline]
    pub(super) fn since(&self, place: usize) -> &[u8] {
        self.bytes.get(place..self.at).unwrap_or_default()
    }

    /// Takes back what was written from there on.
    #[inline]
    pub(super) fn back_to(&mut self, place: usize) {
        self.at = self.at.min(place);
    }

    /// Blanks before what was written from there on.
    pub(super) fn indent(&mut self, place: usize, blanks: usize) {
        for _ in 0..blanks {
            self.byte(b' ');
        }
        let written = self.bytes.get_mut(place..self.at).unwrap_or_default();
        written.rotate_right(blanks.min(written.len()));
    }

    /// Bytes of any number.
    #[inline(never)]
    pub(super) fn long(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if end >= PLACES / 2 {
            // half a buffer is left for what is to come
            self.before
                .extend_from_slice(&self.bytes[..self.at % PLACES]);
            self.before.extend_from_slice(bytes);
            self.at = 0;
        } else if let Some(room) = self.bytes.get_mut(self.at..end) {
            room.copy_from_slice(bytes);
            self.at = end;
        }
    }

    /// The first `len` of these bytes.
    #[inline(always)]
    pub(super) fn first<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        const { assert!(N <= WORD) };
        let at = self.at % PLACES;
        self.bytes[at..at + N].copy_from_slice(&bytes);
        self.at = at + len;
    }

    /// The first `len` of these bytes, of which there may be many: without a call too.
    #[inline(always)]
    pub(super) fn again(&mut self, bytes: &[u8; WORD], len: usize) {
        let at = self.at % PLACES;
        let (to, _) = self.bytes[at..at + WORD].as_chunks_mut::<CHUNK>();
        let (from, _) = bytes.as_chunks::<CHUNK>();
        for (to, from) in to.iter_mut().zip(from).take(len.div_ceil(CHUNK)) {
            *to = *from;
        }
        self.at = at + len;
    }

    /// Text that is known when this is compiled.
    #[inline(always)]
    pub(super) fn str(&mut self, text: &'static str) {
        if text.len() > WORD {
            return self.long(text.as_bytes());
        }
        let at = self.at % PLACES;
        self.bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        self.at = at + text.len();
    }

    /// Text that is not, but is short: without a call too.
    #[inline(always)]
    pub(super) fn name(&mut self, text: &str) {
        self.name_in(text.as_bytes());
    }

    /// The same.
    #[inline(always)]
    pub(super) fn name_in(&mut self, bytes: &[u8]) {
        let at = self.at % PLACES;
        match bytes.len() {
            8..=16 => {
                let ends = bytes.first_chunk::<8>().zip(bytes.last_chunk::<8>());
                if let Some((head, tail)) = ends {
                    let tail_at = at + (bytes.len() - 8) % 9;
                    self.bytes[at..at + 8].copy_from_slice(head);
                    self.bytes[tail_at..tail_at + 8].copy_from_slice(tail);
                }
                self.at = at + bytes.len();
            }
            17..=32 => {
                let ends = bytes.first_chunk::<16>().zip(bytes.last_chunk::<16>());
                if let Some((head, tail)) = ends {
                    let tail_at = at + (bytes.len() - 16) % 17;
                    self.bytes[at..at + 16].copy_from_slice(head);
                    self.bytes[tail_at..tail_at + 16].copy_from_slice(tail);
                }
                self.at = at + bytes.len();
            }
            4..=7 => {
                let ends = bytes.first_chunk::<4>().zip(bytes.last_chunk::<4>());
                if let Some((head, tail)) = ends {
                    let tail_at = at + (bytes.len() - 4) % 4;
                    self.bytes[at..at + 4].copy_from_slice(head);
                    self.bytes[tail_at..tail_at + 4].copy_from_slice(tail);
                }
                self.at = at + bytes.len();
            }
            1..=3 => {
                let [middle, end] = [bytes.len() / 2, bytes.len() - 1];
                self.bytes[at] = bytes[0];
                self.bytes[at + middle % 2] = bytes[middle];
                self.bytes[at + end % 3] = bytes[end];
                self.at = at + bytes.len();
            }
            _ => self.long(bytes),
        }
    }

    #[inline(always)]
    pub(super) fn byte(&mut self, byte: u8) {
        self.first([byte], 1);
    }

    #[inline(always)]
    pub(super) fn dec(&mut self, n: impl Into<u64>) {
        let n = n.into();
        if n < 10 {
            self.byte(b'0' + n as u8);
        } else {
            self.digits(n);
        }
    }

    #[inline(never)]
    fn digits(&mut self, n: u64) {
        let six = |n: u64| {
            let (high, low) = (digits(n / 1000), digits(n % 1000));
            let zeroes = if n < 1000 {
                3 + (low >> 24)
            } else {
                high >> 24
            };
            let text = u64::from(high & 0xff_ffff) | u64::from(low & 0xff_ffff) << 24;
            (text, zeroes as usize % 8)
        };
        let first = if n < 1_000_000 { n } else { n / 1_000_000 };
        if first >= 1_000_000 {
            return self.many_digits(n);
        }
        let (text, zeroes) = six(first);
        self.first((text >> (8 * zeroes)).to_le_bytes(), 6 - zeroes);
        if n >= 1_000_000 {
            self.first(six(n % 1_000_000).0.to_le_bytes(), 6);
        }
    }

    /// Apart, since it needs a stack of its own.
    #[cold]
    #[inline(never)]
    fn many_digits(&mut self, n: u64) {
        self.name(Buffer::new().format(n));
    }

    /// Below a thousand, with zeroes.
    #[inline(always)]
    fn three(&mut self, n: u64) {
        self.first(digits(n).to_le_bytes(), 3);
    }

    /// A signed number.
    pub(super) fn int(&mut self, n: i64) {
        if n < 0 {
            self.byte(b'-');
        }
        self.dec(n.unsigned_abs());
    }

    /// A time in nanoseconds: a number like others, but its seconds are mostly those of the last.
    #[inline]
    pub(super) fn stamp(&mut self, ns: u64) {
        let second = ns / SECOND;
        if second == 0 {
            return self.dec(ns);
        }
        if second != self.second {
            self.turn_to(second);
        }
        self.first(self.second_digits, self.second_len);
        self.nine(ns % SECOND);
    }

    #[cold]
    fn turn_to(&mut self, second: u64) {
        let mut buffer = Buffer::new();
        let digits = buffer.format(second).as_bytes();
        self.second = second;
        self.second_len = digits.len();
        for (to, from) in self.second_digits.iter_mut().zip(digits) {
            *to = *from;
        }
    }

    /// `0x1f`.
    #[inline]
    pub(super) fn hex(&mut self, n: impl Into<u64>) {
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
    #[inline(always)]
    pub(super) fn nine(&mut self, n: u64) {
        let thousands = n / 1000;
        self.three(thousands / 1000);
        self.three(thousands % 1000);
        self.three(n % 1000);
    }

    /// Three significant digits and the unit, as [`crate::units::nanos`] but without floating point:
    /// the two differ only in which way exactly a half is rounded; up here.
    #[inline(never)]
    pub(super) fn nanos(&mut self, ns: u64) {
        // three digits, how many of them are before the point, unit
        let (n, before, unit) = match ns {
            0..1_000 => (ns, 3, *b"ns"),
            1_000..9_995 => ((ns + 5) / 10, 1, *b"us"),
            9_995..99_950 => ((ns + 50) / 100, 2, *b"us"),
            99_950..999_500 => ((ns + 500) / 1_000, 3, *b"us"),
            999_500..9_995_000 => ((ns + 5_000) / 10_000, 1, *b"ms"),
            9_995_000..99_950_000 => ((ns + 50_000) / 100_000, 2, *b"ms"),
            99_950_000..999_500_000 => ((ns + 500_000) / 1_000_000, 3, *b"ms"),
            999_500_000..9_995_000_000 => ((ns + 5_000_000) / 10_000_000, 1, *b"s "),
            9_995_000_000..99_950_000_000 => ((ns + 50_000_000) / 100_000_000, 2, *b"s "),
            _ => (ns / SECOND + ns % SECOND / (SECOND / 2), 3, *b"s "),
        };
        let unit_len = if unit[1] == b' ' { 1 } else { 2 };
        let (digits, unit) = (u64::from(digits(n)), u64::from(u16::from_le_bytes(unit)));
        let point = u64::from(b'.');
        let text = match before {
            1 => digits & 0xff | point << 8 | (digits & 0xff_ff00) << 8 | unit << 32,
            2 => digits & 0xffff | point << 16 | (digits & 0xff_0000) << 8 | unit << 32,
            _ => {
                self.dec(n);
                return self.first(unit.to_le_bytes(), unit_len);
            }
        };
        self.first(text.to_le_bytes(), 4 + unit_len);
    }

    /// The value of a field, as its `Display`.
    pub(super) fn value(&mut self, value: Value) {
        match value {
            Value::Num(n) => self.dec(n),
            Value::Hex(n) => self.hex(n),
            Value::Flag(set) => self.byte(b'0' + u8::from(set)),
            Value::Code(n, name) => {
                self.dec(n);
                self.byte(b':');
                self.name(name);
            }
            Value::HexCode(n, name) => {
                self.hex(n);
                self.byte(b':');
                self.name(name);
            }
        }
    }
}

/// A number below a thousand.
#[inline(always)]
fn digits(n: u64) -> u32 {
    DIGITS.get(n as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;
    use crate::view::trace::chars;
    use proptest::prelude::*;

    fn line(write: impl FnOnce(&mut Line)) -> String {
        let mut out = vec![];
        let mut line = Line::new();
        write(&mut line);
        line.flush(&mut out);
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

    #[test]
    fn a_line_has_the_room_that_it_needs() {
        let long = "long ".repeat(3000);
        let text = line(|l| {
            l.str("a");
            l.name(&long);
            l.dec(7_u8);
            l.long(&long.as_bytes()[..5]);
            l.long(long.as_bytes());
            let place = l.place();
            l.str("taken back");
            l.back_to(place);
            l.str("end");
            l.indent(place, 2);
        });
        assert_eq!(text, format!("a{long}7long {long}  end"));
    }

    #[test]
    fn a_name_of_any_length_is_whole() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        for end in 0..=text.len() {
            assert_eq!(line(|l| l.name(&text[..end])), text[..end]);
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
