// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last blocks of a run in memory, until they are written to a file (`record --ring`).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::frame::{Content, Summary};
use super::meta::{KernelLine, LedgerInfo, RunInfo};
use crate::recording::writer::{Block, BlockWriter};

/// How much to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Blocks that are older than the latest one by this are dropped.
    pub time: Duration,
    /// The oldest blocks are dropped when there are more bytes than this.
    pub bytes: u64,
}

/// Blocks in memory.
#[derive(Debug)]
pub struct Ring {
    keep: Keep,
    blocks: VecDeque<Arc<Block>>,
    bytes: u64,
    /// What applies to the first of `blocks`: the run, and the last dropped block of the kinds that
    /// replace each other.
    before: Vec<Arc<Block>>,
    /// Stacks and cgroups are never dropped: later events may refer to them. Their number is bounded.
    stacks: Vec<Arc<Block>>,
    evicted: u64,
}

impl Ring {
    /// An empty ring.
    pub const fn new(keep: Keep) -> Self {
        Self {
            keep,
            blocks: VecDeque::new(),
            bytes: 0,
            before: Vec::new(),
            stacks: Vec::new(),
            evicted: 0,
        }
    }

    /// Bytes of the blocks that can be dropped.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of events that were dropped.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Adds a block, and drops old ones.
    pub fn push(&mut self, mut block: Block) {
        // the compressor reserves for the worst case
        block.payload.shrink_to_fit();
        match block.summary.content {
            Content::Run => return self.replace(Arc::new(block)),
            Content::Stacks | Content::Cgroups => return self.stacks.push(Arc::new(block)),
            _ => {}
        }
        let oldest = block.summary.to_ns.saturating_sub(nanos(self.keep.time));
        self.bytes += block.bytes();
        self.blocks.push_back(Arc::new(block));
        while let Some(first) = self.blocks.front() {
            let fits = self.bytes <= self.keep.bytes && first.summary.to_ns >= oldest;
            if fits || self.blocks.len() == 1 {
                break;
            }
            let Some(first) = self.blocks.pop_front() else {
                break;
            };
            self.bytes -= first.bytes();
            if first.summary.events > 0 {
                self.evicted += u64::from(first.summary.events);
            } else {
                self.replace(first);
            }
        }
    }

    fn replace(&mut self, block: Arc<Block>) {
        self.before.retain(|b| b.summary.content != block.summary.content);
        self.before.push(block);
    }

    /// All blocks, the description of the run first.
    pub fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.before.iter().chain(&self.stacks).chain(&self.blocks)
    }

    /// What is in it now. It goes on.
    pub fn copy(&self) -> RingCopy {
        let events = self.blocks.iter().filter(|b| b.summary.events > 0);
        let blocks = self.blocks().filter(|b| b.summary.content != Content::Run);
        RingCopy {
            first_ns: events.clone().map(|b| b.summary.from_ns).min(),
            events: events.map(|b| u64::from(b.summary.events)).sum(),
            evicted: self.evicted,
            blocks: blocks.cloned().collect(),
        }
    }
}

/// What was in a ring at a time.
#[derive(Debug)]
pub struct RingCopy {
    /// When the first event was, CLOCK_MONOTONIC nanoseconds; `None`: there is none.
    pub first_ns: Option<u64>,
    /// Number of events.
    pub events: u64,
    /// Number of events that were dropped before.
    pub evicted: u64,
    /// Without the description of the run.
    blocks: Vec<Arc<Block>>,
}

/// A block of data of the run.
fn data(content: Content, at_ns: u64, data: &impl Serialize) -> io::Result<Block> {
    let payload = serde_json::to_vec(data).map_err(io::Error::other)?;
    Block::new(Summary::at(content, at_ns), &payload)
}

impl RingCopy {
    /// Writes a whole recording of it. Returns its size in bytes.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn write(
        &self,
        file: File,
        run: &RunInfo,
        log: &[KernelLine],
        end: &LedgerInfo,
    ) -> io::Result<u64> {
        let mut writer = BlockWriter::create(file)?;
        let at_ns = run.begin_ns.saturating_add(end.at_ns);
        writer.write(&data(Content::Run, run.begin_ns, run)?)?;
        self.blocks.iter().try_for_each(|block| writer.write(block))?;
        if !log.is_empty() {
            writer.write(&data(Content::KernelLog, at_ns, &log)?)?;
        }
        writer.write(&data(Content::End, at_ns, end)?)?;
        Ok(writer.bytes())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(content: Content, at_s: u64, bytes: usize) -> Block {
        let events = u16::from(content == Content::Events);
        Block {
            summary: Summary { events, ..Summary::at(content, at_s * 1_000_000_000) },
            raw_bytes: bytes as u32,
            payload: vec![at_s as u8; bytes],
        }
    }

    fn ring(seconds: u64, bytes: u64) -> Ring {
        Ring::new(Keep { time: Duration::from_secs(seconds), bytes })
    }

    /// The contents and times of a dump.
    fn dumped(ring: &Ring) -> Vec<(Content, u64)> {
        let mut file = vec![];
        let mut writer = BlockWriter::create(&mut file).unwrap();
        ring.blocks().for_each(|block| writer.write(block).unwrap());
        let mut blocks = super::super::Blocks::open(file.as_slice()).unwrap();
        let mut all = vec![];
        while let Some(head) = blocks.next().unwrap() {
            all.push((head.summary.content, head.summary.to_ns / 1_000_000_000));
        }
        all
    }

    #[test]
    fn what_applies_to_the_kept_events_is_kept() {
        let mut ring = ring(10, 1 << 20);
        ring.push(block(Content::Run, 0, 5));
        ring.push(block(Content::Clock, 0, 5));
        ring.push(block(Content::Stacks, 1, 5));
        for at in 1..30 {
            ring.push(block(Content::Events, at, 100));
            ring.push(block(Content::Ledger, at, 10));
        }
        ring.push(block(Content::Clock, 29, 5));
        assert_eq!(ring.evicted(), 18);
        let all = dumped(&ring);
        assert_eq!(
            all[..4],
            [(Content::Run, 0), (Content::Clock, 0), (Content::Ledger, 18), (Content::Stacks, 1)]
        );
        assert_eq!(all[4], (Content::Events, 19));
        assert_eq!(all.last(), Some(&(Content::Clock, 29)));
    }
}
