// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of inputs: of bytes, of lines, and of the parts of recordings.

use fastrand::Rng;

use crate::blocks::{EQUAL, NEXT, Part, input_of, parts};
use crate::targets::Form;

/// Longest input.
const MOST: usize = 256 << 10;

/// Words of the texts that are read, with a bar between them.
const WORDS: &str = concat!(
    "0|-1|18446744073709551615|4294967296|1e308|9223372036854775808|0x|ffffffffffffffff|null|[]|{}|[[[[[[[[|\"|",
    "\\u0000|\u{1b}[31m|\u{202e}|\n|\t| |:|,|=|%|\"a\":|999999999999.999999999|\0|../|cid 65535|",
    "nsid 4294967295|pci_nvme_",
);

/// The kinds of parts.
const KINDS: [u8; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 32, 33, 99, NEXT, EQUAL];

/// A source of pseudo-random numbers.
pub struct Random(pub Rng);

impl Random {
    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(0..end.max(1))
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A number near a limit of some width, or a usual one.
    fn number(&mut self) -> u64 {
        match self.pick(&[0, 1, 8, 7, 15, 16, 31, 32, 33, 63, 64]) {
            0 => self.pick(&[0, 2, 1_000_000_000, u64::MAX - 1]),
            bits => ((1_u128 << bits) - self.below(2) as u128) as u64,
        }
    }

    /// A piece of a list, mostly a short one.
    fn piece<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let at = self.below(all.len() + 1);
        let most = self.pick(&[1, 8, 32, 4096]);
        let count = self.below((all.len() - at).min(most) + 1);
        all[at..at + count].to_vec()
    }
}

/// Puts new elements into a list, or over as many others. Without new ones, removes some.
fn put<T: Clone>(random: &mut Random, all: &mut Vec<T>, new: Vec<T>) {
    let at = random.below(all.len() + 1);
    let over = match new.len() {
        0 => random.piece(&all[at..]).len(),
        count => random.pick(&[0, count.min(all.len() - at)]),
    };
    all.splice(at..at + over, new);
}

/// Removes, repeats or adds elements. `others`: of another input.
fn rearrange<T: Clone>(random: &mut Random, all: &mut Vec<T>, others: &[T]) {
    let new = match random.below(3) {
        0 => vec![],
        1 => random.piece(all),
        _ => random.piece(others),
    };
    put(random, all, new);
}

/// Changes bytes.
fn bytes(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(input.len());
    let mut number = random.number().to_le_bytes();
    match random.below(6) {
        0 => rearrange(random, input, other),
        1 => {
            let words: Vec<&str> = WORDS.split('|').collect();
            let word = random.pick(&words).into();
            put(random, input, word);
        }
        2 => {
            let width = random.pick(&[1, 2, 4, 8]);
            if random.0.bool() {
                number[..width].reverse();
            }
            put(random, input, number[..width].into());
        }
        3 if !input.is_empty() => input[at] ^= 1 << random.below(8),
        4 if !input.is_empty() => {
            input[at] = input[at].wrapping_add(random.below(35) as u8).wrapping_sub(17)
        }
        _ => {
            let count = random.below(64);
            let new = (0..count).map(|_| random.0.u8(..)).collect();
            put(random, input, new);
        }
    }
}

/// Changes a text: its lines, a number, or bytes.
fn text(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let lines = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let from = random.below(input.len() + 1);
    let digit = input[from..].iter().position(u8::is_ascii_digit).map(|at| from + at);
    match (random.below(3), digit) {
        (0, _) => {
            let mut all = lines(input);
            rearrange(random, &mut all, &lines(other));
            *input = all.concat();
        }
        (1, Some(at)) => {
            let count = input[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            input.splice(at..at + count, random.number().to_string().into_bytes());
        }
        _ => bytes(random, input, other),
    }
}

/// Changes the order of parts, the head of one, or its payload.
fn blocks(random: &mut Random, all: &mut Vec<Part>, others: &[Part]) {
    if all.is_empty() || random.below(4) == 0 {
        return rearrange(random, all, others);
    }
    let at = random.below(all.len());
    let part = &mut all[at];
    match random.below(12) {
        0 => part.kind = random.pick(&KINDS),
        1 => part.events = random.number() as u32,
        2 => part.at_ns = random.number(),
        _ => {
            let other =
                others.get(at % others.len().max(1)).map_or(&[][..], |other| &other.payload);
            let is_json = matches!(part.payload.first(), Some(b'{' | b'['));
            let change = if is_json { text } else { bytes };
            (0..=random.below(4)).for_each(|_| change(random, &mut part.payload, other));
        }
    }
}

/// A changed input.
pub fn mutate(random: &mut Random, form: Form, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut new = input.to_vec();
    let times = 1 + random.below(4);
    match form {
        Form::Bytes => (0..times).for_each(|_| bytes(random, &mut new, other)),
        Form::Text => (0..times).for_each(|_| text(random, &mut new, other)),
        Form::Parts => {
            let first = new.first().copied().unwrap_or(0);
            let first = if random.below(8) == 0 { random.below(64) as u8 } else { first };
            let mut all = parts(input.get(1..).unwrap_or_default());
            let others = parts(other.get(1..).unwrap_or_default());
            (0..times).for_each(|_| blocks(random, &mut all, &others));
            new = [&[first], input_of(&all).as_slice()].concat();
        }
    }
    new.truncate(MOST);
    new
}
