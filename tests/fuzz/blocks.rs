// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs for readers of recordings: parts, of which a recording with right checksums is made.
//!
//! A part is its kind, flags, number of events (4 bytes), time (8), length of its payload (4), and the
//! payload, which is not compressed. So a changed byte reaches the decoders, and not only the checks.

use arbitrary::Unstructured;
use nvme_deep::recording::{Blocks, Builder, Content, Head, MAX_PAYLOAD, RunInfo};

use crate::events::events;

/// The head of a part.
const HEAD: usize = 18;
/// Flag: the block is compressed.
pub const COMPRESS: u8 = 1;
/// Flag: the number of events is as given, and not that of the payload.
const AS_GIVEN: u8 = 2;
/// Kind: events made of the payload.
pub const MADE: u8 = 0xe0;
/// Kind of block, byte, length (4 bytes): a payload of equal bytes.
pub const EQUAL: u8 = 0xe1;
/// Kind: what follows belongs to another recording.
pub const NEXT: u8 = 0xf0;
/// Most bytes of equal payloads in an input, so that a run remains short.
const MOST: usize = 2 * MAX_PAYLOAD;

/// A part of an input.
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub kind: u8,
    pub flags: u8,
    pub events: u32,
    pub at_ns: u64,
    pub payload: Vec<u8>,
}

/// Divides an input. All inputs have a meaning.
pub fn parts(mut input: &[u8]) -> Vec<Part> {
    let mut all = vec![];
    while let Some((head, rest)) = input.split_first_chunk::<HEAD>() {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[at + n]));
        let length = (word(14) as usize).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        all.push(Part {
            kind: head[0],
            flags: head[1],
            events: word(2),
            at_ns: u64::from(word(6)) | u64::from(word(10)) << 32,
            payload: payload.to_vec(),
        });
        input = rest;
    }
    all
}

/// The inverse of [`parts`].
pub fn input_of(parts: &[Part]) -> Vec<u8> {
    let mut input = vec![];
    for part in parts {
        input.extend([part.kind, part.flags]);
        input.extend(part.events.to_le_bytes());
        input.extend(part.at_ns.to_le_bytes());
        input.extend((part.payload.len() as u32).to_le_bytes());
        input.extend(&part.payload);
    }
    input
}

/// The parts of a recording.
pub fn of_recording(file: &[u8]) -> Vec<Part> {
    let mut all = vec![];
    let Ok(mut blocks) = Blocks::open(file) else {
        return all;
    };
    while let Ok(Some((head, payload))) = blocks.next() {
        all.push(Part {
            kind: head.to_bytes()[4],
            flags: if head.compressed { COMPRESS } else { 0 },
            events: head.events,
            at_ns: head.at_ns,
            payload: payload.to_vec(),
        });
    }
    all
}

/// A block under construction.
struct Block {
    kind: u8,
    events: u32,
    payload: Vec<u8>,
}

fn block(part: &Part, left: &mut usize) -> Block {
    let mut kind = part.kind;
    let mut payload = part.payload.clone();
    match part.kind {
        MADE => {
            let mut builder = Builder::new();
            let mut source = Unstructured::new(&part.payload);
            events(&mut source, part.at_ns, &mut |event| builder.push(event));
            payload.clear();
            builder.take(&mut payload);
            kind = 2;
        }
        EQUAL => {
            let mut bytes = part.payload.iter().copied().chain([0; 6]);
            let mut next = || bytes.next().unwrap_or(0);
            kind = next();
            let byte = next();
            let length = u32::from_le_bytes([next(), next(), next(), next()]) as usize;
            let length = (length % (MAX_PAYLOAD + 1)).min(*left);
            *left -= length;
            payload = vec![byte; length];
        }
        _ => {}
    }
    let rows = payload.first_chunk().map_or(0, |n| u32::from_le_bytes(*n));
    let has_events = matches!(kind, 2 | 32);
    Block {
        kind,
        events: if part.flags & AS_GIVEN != 0 {
            part.events
        } else if has_events {
            rows
        } else {
            0
        },
        payload,
    }
}

/// A header with the right checksum.
fn header() -> Vec<u8> {
    let mut bytes = b"\x89nvmedp\n\x01\0\0\0".to_vec();
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// A block of a recording, with right checksums.
fn append(block: &Block, part: &Part, number: u32, file: &mut Vec<u8>) {
    let raw_bytes = block.payload.len() as u32;
    let compressed = part.flags & COMPRESS != 0;
    let payload = match zstd::bulk::compress(&block.payload, 1) {
        Ok(small) if compressed => small,
        _ => block.payload.clone(),
    };
    let mut head = Head {
        content: Content::Unknown(block.kind),
        compressed,
        number,
        payload_bytes: payload.len() as u32,
        raw_bytes,
        events: block.events,
        at_ns: part.at_ns,
        payload_crc: crc32fast::hash(&payload),
    };
    if !compressed {
        head.raw_bytes = head.payload_bytes;
    }
    file.extend(head.to_bytes());
    file.extend(payload);
}

/// The block that a recording begins with, if the input has another one.
fn run() -> Part {
    let info = RunInfo { pairs: true, ..RunInfo::default() };
    Part { kind: 1, payload: serde_json::to_vec(&info).unwrap_or_default(), ..Part::default() }
}

/// The recordings of an input, and the bytes of their blocks.
pub fn recordings(input: &[u8]) -> Vec<(Vec<u8>, usize)> {
    let mut left = MOST;
    parts(input)
        .split(|part| part.kind == NEXT)
        .map(|parts| {
            let first = (parts.first().map(|p| p.kind) != Some(1)).then(run);
            let (mut file, mut bytes) = (header(), 0);
            for (number, part) in (0..).zip(first.iter().chain(parts)) {
                let block = block(part, &mut left);
                bytes += block.payload.len();
                append(&block, part, number, &mut file);
            }
            (file, bytes)
        })
        .collect()
}
