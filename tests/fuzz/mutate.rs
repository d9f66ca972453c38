// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of inputs: bytes, lines, parts of recordings.

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

    /// A range in `0..len`, mostly a short one.
    fn range(&mut self, len: usize) -> (usize, usize) {
        let at = self.below(len + 1);
        let most = [8, 32, 256, 4096][self.below(4)];
        (at, self.below((len - at).min(most) + 1))
    }
}

/// Overwrites bytes with a number near a limit.
fn number(random: &mut Random, bytes: &mut [u8]) {
    let mut value = random.number().to_le_bytes();
    let width = random.pick(&[1, 2, 4, 8]);
    let at = random.below(bytes.len());
    if random.below(4) == 0 {
        value[..width].reverse();
    }
    for (to, byte) in bytes[at..].iter_mut().zip(&value[..width]) {
        *to = *byte;
    }
}

/// Changes a byte or a few.
fn change(random: &mut Random, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(5) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.0.u64(..) as u8,
        2 => bytes[at] = bytes[at].wrapping_add(random.below(35) as u8).wrapping_sub(17),
        3 => number(random, bytes),
        _ => {
            let (from, count) = random.range(bytes.len());
            let to = random.below(bytes.len() - count + 1);
            bytes.copy_within(from..from + count, to);
        }
    }
}

/// Changes, removes, adds or repeats bytes. `other` is another input.
fn bytes(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    match random.below(10) {
        0..5 => change(random, input),
        5 => {
            let (at, count) = random.range(input.len());
            input.drain(at..at + count);
        }
        6 => {
            let (from, count) = random.range(input.len());
            let again = input[from..from + count].to_vec();
            let at = random.below(input.len() + 1);
            input.splice(at..at, again);
        }
        7 => {
            let (from, count) = random.range(other.len());
            let at = random.below(input.len() + 1);
            input.splice(at..at, other[from..from + count].iter().copied());
        }
        8 => {
            let at = random.below(input.len() + 1);
            let count = random.below(64);
            let new: Vec<u8> = (0..count).map(|_| random.0.u64(..) as u8).collect();
            input.splice(at..at, new);
        }
        _ => {
            let at = random.below(input.len() + 1);
            let words: Vec<&str> = WORDS.split('|').collect();
            let word = random.pick(&words);
            let end = if random.below(2) == 0 { at } else { (at + word.len()).min(input.len()) };
            input.splice(at..end, word.bytes());
        }
    }
}

/// Replaces a number in a text.
fn digits(random: &mut Random, input: &mut Vec<u8>) {
    let from = random.below(input.len() + 1);
    let Some(at) = input[from..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let at = from + at;
    let count = input[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let new = random.number().to_string();
    input.splice(at..at + count, new.into_bytes());
}

/// Removes, repeats or exchanges lines.
fn lines(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let mut all: Vec<&[u8]> = input.split_inclusive(|&b| b == b'\n').collect();
    let others: Vec<&[u8]> = other.split_inclusive(|&b| b == b'\n').collect();
    if all.is_empty() {
        return;
    }
    let (a, b) = (random.below(all.len()), random.below(all.len()));
    match random.below(4) {
        0 => all.swap(a, b),
        1 => all.insert(a, all[b]),
        2 if !others.is_empty() => all.insert(a, others[random.below(others.len())]),
        _ => {
            all.remove(a);
        }
    }
    *input = all.concat();
}

fn equal(random: &mut Random) -> Part {
    let mut payload = vec![random.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 32, 33])];
    payload.push(random.pick(b"\0\x01\xff[{\",1 "));
    payload.extend((random.0.u64(..) as u32 >> random.below(32)).to_le_bytes());
    Part { kind: EQUAL, flags: 1, payload, ..Part::default() }
}

/// Changes the heads of parts, their order, or the payload of one.
fn blocks(random: &mut Random, all: &mut Vec<Part>, others: &[Part]) {
    let (a, b) = (random.below(all.len()), random.below(all.len()));
    let at = random.below(all.len() + 1);
    match random.below(16) {
        0 if !all.is_empty() => {
            all.remove(a);
        }
        1 if !all.is_empty() => all.insert(at, all[b].clone()),
        2 if !all.is_empty() => all.swap(a, b),
        3 if !others.is_empty() => all.insert(at, others[random.below(others.len())].clone()),
        4 => all.insert(at, equal(random)),
        5 | 6 if !all.is_empty() => {
            let part = &mut all[a];
            match random.below(4) {
                0 => part.kind = random.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 32, 33, 99, NEXT]),
                1 => part.flags ^= 1 << random.below(2),
                2 => part.events = random.number() as u32,
                _ => part.at_ns = random.number(),
            }
        }
        _ if !all.is_empty() => {
            let payload = &mut all[a].payload;
            let other = others.get(b % others.len().max(1)).map_or(&[][..], |p| &p.payload);
            for _ in 0..=random.below(4) {
                if payload.first() == Some(&b'{') || payload.first() == Some(&b'[') {
                    match random.below(3) {
                        0 => digits(random, payload),
                        _ => bytes(random, payload, other),
                    }
                } else {
                    bytes(random, payload, other);
                }
            }
        }
        _ => all.push(equal(random)),
    }
}

/// A changed input.
pub fn mutate(random: &mut Random, form: Form, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut new = input.to_vec();
    let times = 1 + random.below(4);
    match form {
        Form::Bytes => (0..times).for_each(|_| bytes(random, &mut new, other)),
        Form::Text => (0..times).for_each(|_| match random.below(3) {
            0 => lines(random, &mut new, other),
            1 => digits(random, &mut new),
            _ => bytes(random, &mut new, other),
        }),
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
