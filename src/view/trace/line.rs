// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writer of lines without `core::fmt`, which needs more instructions for one number than a tenth
//! of the budget of an event. Tests compare every number and value with its `Display`.

mod numbers;

use crate::nvme::decode::Value;

/// The lines should be taken from this number of bytes on.
const FULL: usize = 64 << 10;
/// Positions in the buffer. A line begins below [`FULL`], and except for its stacks it is much
/// shorter than the rest of the buffer.
const PLACES: usize = 2 * FULL;
/// Maximum length of one write without a bounds check. The buffer extends this far beyond the last
/// position.
pub(super) const WORD: usize = 512;
const CHUNK: usize = 64;

/// Lines, of which the last may be incomplete. The buffer has a fixed size, and room for [`WORD`]
/// bytes after every position. So writing a text that is known at compile time takes one or two
/// stores, without a branch or a call: a third of the cost of appending it to a vector.
#[derive(Debug)]
pub(super) struct Line {
    bytes: [u8; PLACES + WORD],
    /// Below [`PLACES`]. A longer text (no line is that long) would be garbled, but stay in the
    /// buffer.
    at: usize,
    /// Earlier bytes that did not fit the buffer.
    before: Vec<u8>,
    /// Start of the second of the last timestamp, and its digits. Never second 0, which has no
    /// digits.
    second_ns: u64,
    second_digits: [u8; 16],
    second_len: usize,
}

impl Line {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            bytes: [0; PLACES + WORD],
            at: 0,
            before: Vec::new(),
            second_ns: 1_000_000_000,
            second_digits: [b'1'; 16],
            second_len: 1,
        })
    }

    /// Makes room for a line.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.at >= FULL {
            self.set_aside();
        }
    }

    /// Whether the lines should be taken.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.before.len() + self.at >= FULL
    }

    /// Passes all lines to `to`, and empties the buffer.
    pub(super) fn take<R>(&mut self, to: impl FnOnce(&[u8]) -> R) -> R {
        let taken = if self.before.is_empty() {
            to(self.since(0))
        } else {
            self.set_aside();
            to(&self.before)
        };
        self.before.clear();
        self.at = 0;
        taken
    }

    /// Number of bytes that are not taken yet.
    pub(super) fn bytes(&self) -> usize {
        self.before.len() + self.at
    }

    /// Moves what was written after the first `from` bytes up, to behind the first `to`.
    #[cold]
    pub(super) fn move_up(&mut self, from: usize, to: usize) {
        self.set_aside();
        let moved = self.before.len().saturating_sub(from);
        if let Some(rest) = self.before.get_mut(to..).filter(|rest| moved <= rest.len()) {
            rest.rotate_right(moved);
        }
    }

    #[cold]
    fn set_aside(&mut self) {
        self.before.extend_from_slice(&self.bytes[..self.at % PLACES]);
        self.at = 0;
    }

    /// Position of the next byte.
    #[inline]
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// The bytes written since that position.
    #[inline]
    pub(super) fn since(&self, place: usize) -> &[u8] {
        self.bytes.get(place..self.at).unwrap_or_default()
    }

    /// Removes the bytes written since that position.
    #[inline]
    pub(super) fn back_to(&mut self, place: usize) {
        self.at = self.at.min(place);
    }

    /// Inserts blanks at that position.
    pub(super) fn indent(&mut self, place: usize, blanks: usize) {
        for _ in 0..blanks {
            self.byte(b' ');
        }
        let written = self.bytes.get_mut(place..self.at).unwrap_or_default();
        written.rotate_right(blanks.min(written.len()));
    }

    /// Writes any number of bytes.
    #[inline(never)]
    pub(super) fn long(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if end >= PLACES - FULL / 2 {
            // leaves room in the buffer for the rest of the line
            self.set_aside();
            self.before.extend_from_slice(bytes);
        } else if let Some(room) = self.bytes.get_mut(self.at..end) {
            room.copy_from_slice(bytes);
            self.at = end;
        }
    }

    /// Writes the first `len` of these bytes.
    #[inline(always)]
    pub(super) fn first<const N: usize>(&mut self, bytes: [u8; N], len: usize) {
        const { assert!(N <= WORD) };
        let at = self.at % PLACES;
        self.bytes[at..at + N].copy_from_slice(&bytes);
        self.at = at + len;
    }

    /// Writes the first `len` of these bytes, which may be many, without a call.
    #[inline(always)]
    pub(super) fn again(&mut self, bytes: &[u8; WORD], len: usize) {
        let at = self.at % PLACES;
        let (to, _) = self.bytes[at..at + WORD].as_chunks_mut::<CHUNK>();
        let (from, _) = bytes.as_chunks::<CHUNK>();
        to[0] = from[0];
        if len > CHUNK {
            let more = to[1..].iter_mut().zip(&from[1..]);
            for (to, from) in more.take((len - 1) / CHUNK) {
                *to = *from;
            }
        }
        self.at = at + len;
    }

    /// Writes a text that is known at compile time.
    #[inline(always)]
    pub(super) fn str(&mut self, text: &'static str) {
        if text.len() > WORD {
            return self.long(text.as_bytes());
        }
        let at = self.at % PLACES;
        self.bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        self.at = at + text.len();
    }

    /// Writes a text that is not known at compile time. Texts of 1 to 32 bytes are written without
    /// a call.
    #[inline(always)]
    pub(super) fn name(&mut self, text: &str) {
        self.name_in(text.as_bytes());
    }

    /// The same for bytes.
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

    /// Writes the value of a field in the format of its `Display`.
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

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn line(write: impl FnOnce(&mut Line)) -> String {
        let mut line = Line::new();
        write(&mut line);
        String::from_utf8(line.take(<[u8]>::to_vec)).unwrap()
    }

    #[test]
    fn a_line_has_the_room_that_it_needs() {
        let long = "long ".repeat(30_000);
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
    fn lines_that_nobody_takes_are_kept() {
        let mut line = Line::new();
        let mut want = String::new();
        for n in 0..50_000_u32 {
            line.begin();
            line.dec(n);
            line.byte(b'\n');
            want.push_str(&format!("{n}\n"));
        }
        assert!(line.is_full());
        assert!(line.take(|lines| lines == want.as_bytes()));
        assert!(!line.is_full());
        assert_eq!(line.take(<[u8]>::len), 0);
    }

    #[test]
    fn what_was_written_last_can_be_moved_up() {
        for set_aside in [false, true] {
            let text = line(|l| {
                l.str("one\n");
                let to = l.bytes();
                l.str("two\n");
                if set_aside {
                    l.set_aside();
                }
                let from = l.bytes();
                l.str("more of one\n");
                l.move_up(from, to);
                l.str("three\n");
            });
            assert_eq!(text, "one\nmore of one\ntwo\nthree\n");
        }
    }

    #[test]
    fn a_name_of_any_length_is_whole() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        for end in 0..=text.len() {
            assert_eq!(line(|l| l.name(&text[..end])), text[..end]);
        }
    }
}
