// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings as blocks of bytes. This reader and writer share no code with the library, so that the
//! library's types cannot refuse or repair a text. docs/record.md has the layout.

use std::fs;
use std::path::Path;

const HEADER: [u8; 12] = *b"\x89nvmedp\n\x01\0\0\0";
const MAGIC: [u8; 4] = *b"NDB\x1a";
const HEAD: usize = 40;
/// Bytes of a block of events before its dictionaries.
const COUNTS: usize = 24;
const SHAPE: usize = 40;
const THREAD: usize = 24;

/// Kinds of blocks.
pub const RUN: u8 = 1;
pub const EVENTS: u8 = 2;
pub const STACKS: u8 = 3;
pub const CONTROLLERS: u8 = 5;
pub const LEDGER: u8 = 6;
pub const END: u8 = 7;
pub const MACHINE: u8 = 9;
pub const HOST_EVENTS: u8 = 32;
pub const HOST_CONTROLLERS: u8 = 33;

/// A block, not compressed.
#[derive(Clone, Debug)]
pub struct Block {
    pub kind: u8,
    pub events: u32,
    pub at_ns: u64,
    pub payload: Vec<u8>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The blocks of a recording of the repository.
pub fn read(path: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let bytes = fs::read(&path).unwrap();
    let (mut at, mut blocks) = (HEADER.len() + 4, vec![]);
    while let Some(head) = bytes.get(at..at + HEAD) {
        assert_eq!(head[..4], MAGIC, "{}", path.display());
        let stored = u32_at(head, 12) as usize;
        let stored = &bytes[at + HEAD..at + HEAD + stored];
        let payload = match head[5] {
            0 => stored.to_vec(),
            _ => zstd::bulk::decompress(stored, u32_at(head, 16) as usize).unwrap(),
        };
        blocks.push(Block {
            kind: head[4],
            events: u32_at(head, 20),
            at_ns: u64::from_le_bytes(head[24..32].try_into().unwrap()),
            payload,
        });
        at += HEAD + stored.len();
    }
    blocks
}

/// A recording of these blocks, with the right checksums.
pub fn write(blocks: &[Block]) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    bytes.extend(crc32fast::hash(&HEADER).to_le_bytes());
    for (number, block) in (0_u32..).zip(blocks) {
        let payload = u32::try_from(block.payload.len()).unwrap();
        let mut head = MAGIC.to_vec();
        head.extend([block.kind, 0, 0, 0]);
        for word in [number, payload, payload, block.events] {
            head.extend(word.to_le_bytes());
        }
        head.extend(block.at_ns.to_le_bytes());
        head.extend(crc32fast::hash(&block.payload).to_le_bytes());
        head.extend(crc32fast::hash(&head).to_le_bytes());
        bytes.extend(head);
        bytes.extend(&block.payload);
    }
    bytes
}

/// The names of threads in a block of events.
pub fn names(payload: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    let shapes = u32_at(payload, 12) as usize;
    let threads = u32_at(payload, 16) as usize;
    let from = COUNTS + shapes * SHAPE;
    let entries = payload[from..from + threads * THREAD].chunks_exact_mut(THREAD);
    entries.map(|entry| &mut entry[8..])
}
