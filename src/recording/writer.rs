// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the blocks of a recording: heads, checksums, compression. A block is one write, so that a
//! killed process leaves at most one incomplete block behind.

use std::io;
use std::io::{ErrorKind, IoSlice, Write};

use super::frame::{Content, HEAD_BYTES, HEADER_BYTES, Head, header};

/// Level of zstd. A command costs 270 instructions with it, and 470 with level 1, whose files are 6 to 8 %
/// smaller. Higher levels cost more than they save on columns of times.
const LEVEL: i32 = -5;

/// A file of blocks that is being written.
pub struct BlockWriter<W> {
    file: W,
    number: u32,
    /// `None`: blocks are not compressed.
    compressor: Option<zstd::bulk::Compressor<'static>>,
    bytes: u64,
}

/// A block that is compressed and not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// What it holds.
    pub content: Content,
    /// Whether it is compressed.
    pub compressed: bool,
    /// Bytes before the compression.
    pub raw_bytes: u32,
    /// Number of events.
    pub events: u32,
    /// CLOCK_MONOTONIC nanoseconds of the last event, or of the block.
    pub at_ns: u64,
    /// The payload as it will be in the file.
    pub payload: Vec<u8>,
}

impl Prepared {
    /// Bytes in the file.
    pub const fn bytes(&self) -> u64 {
        (HEAD_BYTES + self.payload.len()) as u64
    }
}

/// A block to be written.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// What it holds.
    pub content: Content,
    /// Not compressed; at most [`MAX_PAYLOAD`](super::frame::MAX_PAYLOAD) bytes.
    pub payload: &'a [u8],
    /// Number of events.
    pub events: u32,
    /// CLOCK_MONOTONIC nanoseconds of the last event, or of the block.
    pub at_ns: u64,
}

impl<W: Write> BlockWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If the file cannot be written, or zstd lacks memory.
    pub fn create(mut file: W, compress: bool) -> io::Result<Self> {
        file.write_all(&header())?;
        Ok(Self {
            file,
            number: 0,
            compressor: compress.then(|| zstd::bulk::Compressor::new(LEVEL)).transpose()?,
            bytes: HEADER_BYTES as u64,
        })
    }

    /// Bytes written, in whole blocks.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Passes on what the file buffers.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// The file.
    pub const fn file(&self) -> &W {
        &self.file
    }

    /// Compresses a block.
    ///
    /// # Errors
    /// If zstd fails.
    pub fn prepare(&mut self, block: &Block<'_>) -> io::Result<Prepared> {
        let payload = match &mut self.compressor {
            Some(compressor) => compressor.compress(block.payload)?,
            None => block.payload.to_vec(),
        };
        Ok(Prepared {
            content: block.content,
            compressed: self.compressor.is_some(),
            raw_bytes: block.payload.len() as u32,
            events: block.events,
            at_ns: block.at_ns,
            payload,
        })
    }

    /// Compresses and writes a block.
    ///
    /// # Errors
    /// As [`BlockWriter::write_prepared`].
    pub fn write(&mut self, block: &Block<'_>) -> io::Result<()> {
        if self.compressor.is_some() {
            let prepared = self.prepare(block)?;
            return self.write_prepared(&prepared);
        }
        self.put(block, block.payload.len() as u32, false)
    }

    /// Writes a block.
    ///
    /// # Errors
    /// If the file cannot be written. It may then end in an incomplete block.
    pub fn write_prepared(&mut self, prepared: &Prepared) -> io::Result<()> {
        let block = Block {
            content: prepared.content,
            payload: &prepared.payload,
            events: prepared.events,
            at_ns: prepared.at_ns,
        };
        self.put(&block, prepared.raw_bytes, prepared.compressed)
    }

    /// Writes the head and the payload as it is, in one write if the file takes all at once.
    fn put(&mut self, block: &Block<'_>, raw_bytes: u32, compressed: bool) -> io::Result<()> {
        let head = Head {
            content: block.content,
            compressed,
            number: self.number,
            payload_bytes: block.payload.len() as u32,
            raw_bytes,
            events: block.events,
            at_ns: block.at_ns,
            payload_crc: crc32fast::hash(block.payload),
        };
        let head = head.to_bytes();
        let mut parts = [IoSlice::new(&head), IoSlice::new(block.payload)];
        let mut left = &mut parts[..];
        while left.iter().any(|part| !part.is_empty()) {
            match self.file.write_vectored(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.number = self.number.wrapping_add(1);
        self.bytes += (HEAD_BYTES + block.payload.len()) as u64;
        Ok(())
    }
}
