// SPDX-License-Identifier: MIT OR Apache-2.0
//! A buffer of lines. `core::fmt` takes some 200 instructions for a number, and a line has thirty.

use itoa::Buffer;

use crate::model::group::{comm_of, comm_text};
use crate::model::text::is_plain;
use crate::nvme::decode::{CommandSet, Value};

/// Lines. The last one may be incomplete.
#[derive(Debug, Default)]
pub(crate) struct LineWriter {
    bytes: Vec<u8>,
    /// What [`LineWriter::repeat`] wrote last, and for which key.
    last: Option<(Key, Vec<u8>)>,
}

/// Opcode, command set, and CDW12 to CDW15.
type Key = (u8, CommandSet, [u32; 4]);

impl LineWriter {
    /// Number of bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes from a position on.
    pub(super) fn since(&self, begin: usize) -> &[u8] {
        self.bytes.get(begin..).unwrap_or_default()
    }

    /// Appends what the other one has, and empties it.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.bytes.extend_from_slice(&other.bytes);
        other.bytes.clear();
    }

    /// Removes the blanks at the end.
    pub(super) fn trim(&mut self) {
        while self.bytes.last() == Some(&b' ') {
            self.bytes.pop();
        }
    }

    /// Number of characters.
    pub(super) fn width(&self) -> usize {
        self.bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
    }
    /// Passes all lines to `to`, and removes them.
    pub(super) fn take<R>(&mut self, to: impl FnOnce(&[u8]) -> R) -> R {
        let taken = to(&self.bytes);
        self.bytes.clear();
        taken
    }

    /// Moves everything from `from` on up to `to`.
    pub(super) fn move_up(&mut self, from: usize, to: usize) {
        let moved = self.bytes.len().saturating_sub(from);
        self.bytes[to.min(from)..].rotate_right(moved);
    }

    /// Writes what `write` writes for this key. Most commands have the key of the one before, and to decode
    /// and write their fields takes some 800 instructions: it is written again.
    pub(super) fn repeat(&mut self, key: Key, write: impl FnOnce(&mut Self)) {
        match &self.last {
            Some((last, text)) if *last == key => self.bytes.extend_from_slice(text),
            _ => {
                let begin = self.bytes.len();
                write(self);
                self.last = Some((key, self.since(begin).to_vec()));
            }
        }
    }

    #[inline(always)]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    #[inline(always)]
    pub(super) fn str(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Opens an object whose members were written since a position, each with a comma before it.
    pub(super) fn open(&mut self, begin: usize, bracket: u8) {
        match self.bytes.get_mut(begin) {
            Some(comma) => *comma = bracket,
            None => self.bytes.push(bracket),
        }
    }

    /// Closes an object or an array. The comma after its last member goes.
    pub(super) fn close(&mut self, bracket: u8) {
        if self.bytes.last() == Some(&b',') {
            self.bytes.pop();
        }
        self.byte(bracket);
    }

    pub(super) fn blanks(&mut self, n: usize) {
        self.bytes.resize(self.bytes.len() + n, b' ');
    }

    #[inline]
    pub(super) fn dec(&mut self, n: impl Into<u64>) {
        match n.into() {
            n @ 0..10 => self.byte(b'0' + n as u8),
            n @ 10..100 => {
                self.bytes.extend_from_slice(&[b'0' + (n / 10) as u8, b'0' + (n % 10) as u8])
            }
            n => self.str(Buffer::new().format(n)),
        }
    }

    pub(super) fn int(&mut self, n: i64) {
        self.str(Buffer::new().format(n));
    }

    pub(super) fn bool(&mut self, is: bool) {
        self.str(if is { "true" } else { "false" });
    }

    /// Writes the last `width` digits, with leading zeroes; at most 20.
    pub(super) fn digits(&mut self, n: u64, width: usize) {
        let mut digits = [b'0'; 20];
        let mut rest = n;
        for digit in digits[..width].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.bytes.extend_from_slice(&digits[..width]);
    }

    /// Writes `0x1f`.
    pub(super) fn hex(&mut self, n: impl Into<u64>) {
        let n = n.into();
        let digits = (n | 1).ilog2() / 4;
        self.str("0x");
        for shift in (0..=digits).rev() {
            self.byte(b"0123456789abcdef"[(n >> (4 * shift) & 0xf) as usize]);
        }
    }

    /// Writes three significant digits and the unit, as [`crate::units::nanos`] does in floating point.
    /// Exact halves go up.
    pub(super) fn nanos(&mut self, ns: u64) {
        match ns {
            0..1_000 => {
                self.dec(ns);
                self.str("ns");
            }
            1_000..999_500 => self.three(ns, 1_000, *b"us"),
            999_500..999_500_000 => self.three(ns, 1_000_000, *b"ms"),
            _ => self.three(ns, 1_000_000_000, *b"s"),
        }
    }

    /// Writes three significant digits and the unit, of this length in nanoseconds. Inlined: the divisions
    /// are by constants.
    #[inline(always)]
    fn three<const N: usize>(&mut self, ns: u64, unit: u64, name: [u8; N]) {
        let round = |step: u64| ns / step + u64::from(ns % step >= step / 2);
        let digits = |n: u64| [n / 100, n / 10 % 10, n % 10].map(|digit| b'0' + digit as u8);
        match ns / (unit / 1000) {
            0..9_995 => {
                let [a, b, c] = digits(round(unit / 100));
                self.bytes.extend_from_slice(&[a, b'.', b, c]);
            }
            9_995..99_950 => {
                let [a, b, c] = digits(round(unit / 10));
                self.bytes.extend_from_slice(&[a, b, b'.', c]);
            }
            _ => self.dec(round(unit)),
        }
        self.bytes.extend_from_slice(&name);
    }

    /// Writes a name. One that is ambiguous in a line of `key=value` is quoted.
    pub(super) fn name(&mut self, name: &str) {
        let may_stand = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b',' | b'\\' | b'=');
        if is_plain(name.as_bytes()) || !name.is_empty() && name.bytes().all(may_stand) {
            return self.str(name);
        }
        self.byte(b'"');
        self.str(&name.replace('"', "\\\""));
        self.byte(b'"');
    }

    /// Writes a JSON string.
    pub(super) fn json(&mut self, text: &str) {
        if !is_plain(text.as_bytes()) {
            return self.str(&serde_json::Value::from(text).to_string());
        }
        self.byte(b'"');
        self.str(text);
        self.byte(b'"');
    }

    /// Writes a thread's name between these quotes if it is plain, otherwise its escaped text by `write`.
    #[inline]
    pub(super) fn comm(&mut self, comm: &[u8; 16], quotes: &str, write: fn(&mut Self, &str)) {
        let name = comm_of(comm);
        if !is_plain(name) {
            return write(self, &comm_text(comm));
        }
        self.str(quotes);
        self.bytes.extend_from_slice(name);
        self.str(quotes);
    }

    /// Writes the value of a field of a command in the format of its `Display`.
    pub(super) fn value(&mut self, value: Value) {
        match value {
            Value::Num(n) => self.dec(n),
            Value::Hex(n) => self.hex(n),
            Value::Flag(set) => self.dec(set),
            Value::Code(..) | Value::HexCode(..) => self.str(&value.to_string()),
        }
    }

    /// Writes the value of a field of a command in the format of its `Serialize`.
    #[inline(always)]
    pub(super) fn json_value(&mut self, value: Value) {
        match value {
            Value::Num(n) | Value::Hex(n) => self.dec(n),
            Value::Flag(true) => self.str("true"),
            Value::Flag(false) => self.str("false"),
            Value::Code(code, name) | Value::HexCode(code, name) => {
                self.str("{\"code\":");
                self.dec(code);
                self.str(",\"name\":\"");
                self.str(name);
                self.str("\"}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;

    fn line(write: impl FnOnce(&mut LineWriter)) -> String {
        let mut line = LineWriter::default();
        write(&mut line);
        line.take(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn nanos(ns: u64) -> String {
        line(|l| l.nanos(ns))
    }

    /// Whether the number is exactly half way between two numbers of three digits.
    fn is_tie(ns: u64) -> bool {
        let mut step = 1;
        while ns / step >= 1000 {
            step *= 10;
        }
        step > 1 && ns % step == step / 2
    }

    #[test]
    fn durations_are_as_in_units() {
        let near = (3..=11).flat_map(|power| {
            let ten = 10_u64.pow(power);
            [ten, ten * 9_995 / 10_000, ten * 99_950 / 100_000]
        });
        let near = near.flat_map(|ns| ns - 30..ns + 30);
        for ns in (0..200_000).chain(near).filter(|&ns| !is_tie(ns)) {
            assert_eq!(nanos(ns), units::nanos(ns as f64), "{ns}");
        }
        let ties = [1_005, 12_350, 100_500, 999_500, 9_995_000, 99_950_000_000];
        assert_eq!(ties.map(nanos), ["1.01us", "12.4us", "101us", "1.00ms", "10.0ms", "100s"]);
        assert_eq!(nanos(u64::MAX), "18446744074s");
    }
}
