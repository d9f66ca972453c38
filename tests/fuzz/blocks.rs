// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs for readers of recordings: parts that make up a recording with right checksums.
//!
//! A part is its kind, flags, number of events (4 bytes), time (8), length of its payload (4), and the
//! payload before compression. So a changed byte reaches the decoders, and not only the checks.

use nvme_deep::recording::{
    Block as Compressed, BlockWriter, Blocks, Content, MAX_PAYLOAD, RunInfo, Summary,
};

/// The head of a part.
const HEAD: usize = 18;
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
    while let Ok(Some(head)) = blocks.next() {
        let Ok(payload) = blocks.payload(&head) else {
            return all;
        };
        all.push(Part {
            kind: head.to_bytes()[4],
            flags: 0,
            events: head.summary.events.into(),
            at_ns: head.summary.to_ns,
            payload: payload.to_vec(),
        });
    }
    all
}

/// The block of a part.
fn block(part: &Part, left: &mut usize) -> (Summary, Vec<u8>) {
    let summary = |kind: u8, events: u32| {
        let content = bytemuck::checked::try_cast(kind).unwrap_or(Content::Other);
        let events = events as u16;
        Summary { events, commands: events, ..Summary::at(content, part.at_ns) }
    };
    match part.kind {
        EQUAL => {
            let mut bytes = part.payload.iter().copied().chain([0; 6]);
            let mut next = || bytes.next().unwrap_or(0);
            let (kind, byte) = (next(), next());
            let length = u32::from_le_bytes([next(), next(), next(), next()]) as usize;
            let length = (length % (MAX_PAYLOAD + 1)).min(*left);
            *left -= length;
            (summary(kind, part.events), vec![byte; length])
        }
        kind => (summary(kind, part.events), part.payload.clone()),
    }
}

/// The first block of a recording, if the input has another one.
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
            let (mut file, mut bytes) = (vec![], 0);
            let mut writer = BlockWriter::create(&mut file).unwrap();
            for part in first.iter().chain(parts) {
                let (summary, payload) = block(part, &mut left);
                bytes += payload.len();
                writer.write(&Compressed::new(summary, &payload).unwrap()).unwrap();
            }
            (file, bytes)
        })
        .collect()
}
