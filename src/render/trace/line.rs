// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes of a line, without the machinery of `core::fmt`: that costs more instructions for one number
//! than a tenth of an event may. Every way of writing here has its twin in `Display`, and is tested against
//! it.

mod numbers;

use crate::nvme::decode::Value;

/// Lines are to be taken when there is so much of them.
const FULL: usize = 64 << 10;
/// Places in the buffer. A line begins below [`FULL`] and is, but for its stacks, much shorter than
/// what is left then.
const PLACES: usize = 2 * FULL;
/// What is written at once, most often: so much is beyond the last place.
pub(super) const WORD: usize = 512;
const CHUNK: usize = 64;

/// Lines, the last one in the making, in a buffer that is always all there and has room for a word
/// beyond every place. So a word that is known when this is compiled is a store or two, without a
/// question or a call: a third of what it takes to append it to a vector.
#[derive(Debug)]
pub(super) struct Line {
    bytes: [u8; PLACES + WORD],
    /// Below [`PLACES`]. What would be beyond (no line is so long) is garbled but in the buffer.
    at: usize,
    /// What came before, where there was no room for it.
    before: Vec<u8>,
    /// When the second of the last stamp began, and its digits. Never the first one, which has none.
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

    /// Hands over all that was written, and forgets it.
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

    #[cold]
    fn set_aside(&mut self) {
        self.before
            .extend_from_slice(&self.bytes[..self.at % PLACES]);
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
        if end >= PLACES - FULL / 2 {
            // room is left for what is to come
            self.set_aside();
            self.before.extend_from_slice(bytes);
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
        to[0] = from[0];
        if len > CHUNK {
            let more = to[1..].iter_mut().zip(&from[1..]);
            for (to, from) in more.take((len - 1) / CHUNK) {
                *to = *from;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::trace::chars;
    use proptest::prelude::*;

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
    fn a_name_of_any_length_is_whole() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        for end in 0..=text.len() {
            assert_eq!(line(|l| l.name(&text[..end])), text[..end]);
        }
    }

    proptest! {
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
