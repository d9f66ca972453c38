// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the blocks of a recording: heads, checksums, compression. A block is one write, so that a
//! killed process leaves at most one incomplete block behind.

use std::io;
use std::io::Write;

use super::frame::Content;
use super::frame::HEAD_BYTES;
use super::frame::HEADER_BYTES;
use super::frame::Head;
use super::frame::header;

/// Level of zstd. Higher levels cost more than they save on columns of times.
const LEVEL: i32 = 1;

/// A file of blocks that is being written.
pub struct BlockWriter<W> {
    file: W,
    number: u32,
    /// `None`: blocks are not compressed.
    compressor: Option<zstd::bulk::Compressor<'static>>,
    /// Head and payload of a block.
    buffer: Vec<u8>,
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
            compressor: compress
                .then(|| zstd::bulk::Compressor::new(LEVEL))
                .transpose()?,
            buffer: Vec::new(),
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
        let prepared = self.prepare(block)?;
        self.write_prepared(&prepared)
    }

    /// Writes a block.
    ///
    /// # Errors
    /// If the file cannot be written. It may then end in an incomplete block.
    pub fn write_prepared(&mut self, block: &Prepared) -> io::Result<()> {
        let head = Head {
            content: block.content,
            compressed: block.compressed,
            number: self.number,
            payload_bytes: block.payload.len() as u32,
            raw_bytes: block.raw_bytes,
            events: block.events,
            at_ns: block.at_ns,
            payload_crc: crc32fast::hash(&block.payload),
        };
        self.buffer.clear();
        self.buffer.extend(head.to_bytes());
        self.buffer.extend_from_slice(&block.payload);
        self.file.write_all(&self.buffer)?;
        self.number = self.number.wrapping_add(1);
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }
}
