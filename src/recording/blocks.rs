// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the blocks of a recording, from front to back. Memory does not depend on the size of the
//! file. Reading stops at the first block that is damaged: what comes before it is whole.

use std::io;
use std::io::Read;

use super::error::{Damage, Error};
use super::frame::{Content, HEAD_BYTES, HEADER_BYTES, Head, check_header};

/// How the blocks of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the block that every finished recording has.
    Complete,
    /// After a whole block, without that last one: the recording was killed, or the file was cut.
    Cut,
    /// In a block that is damaged or not whole.
    Damaged(Damage),
}

impl Ending {
    /// How the file is not whole: `is damaged: ...`. `None`: it is.
    pub fn flaw(self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Damaged(damage) => Some(format!("is damaged: {damage}")),
            Self::Cut => Some("has no end: the recording was interrupted".into()),
        }
    }
}

/// A file of blocks.
pub struct Blocks<R> {
    file: R,
    number: u32,
    payload: Vec<u8>,
    raw: Vec<u8>,
    /// Bytes of the header and of all whole blocks so far.
    whole_bytes: u64,
    ending: Option<Ending>,
    seen_end: bool,
}

/// Replaces `to` by the next bytes of the file: fewer than asked for only at its end.
fn fill(file: &mut impl Read, count: usize, to: &mut Vec<u8>) -> io::Result<()> {
    to.clear();
    file.take(count as u64).read_to_end(to).map(drop)
}

impl<R: Read> Blocks<R> {
    /// Checks the header.
    ///
    /// # Errors
    /// If the file cannot be read, is no recording, or is of a later version.
    pub fn open(mut file: R) -> Result<Self, Error> {
        let mut payload = Vec::new();
        fill(&mut file, HEADER_BYTES, &mut payload)?;
        check_header(payload.first_chunk().ok_or(Error::Foreign)?)?;
        Ok(Self {
            file,
            number: 0,
            payload,
            raw: Vec::new(),
            whole_bytes: HEADER_BYTES as u64,
            ending: None,
            seen_end: false,
        })
    }

    /// How the file ends; `None` before [`Blocks::next`] has returned `None`.
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Bytes of the header and of the blocks that were read and are whole.
    pub const fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// The head of the next block. `None` at the end, see [`Blocks::ending`].
    ///
    /// # Errors
    /// If the file cannot be read. Damage is not an error, but an ending.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<Option<Head>, Error> {
        if self.ending.is_some() {
            return Ok(None);
        }
        match self.read() {
            Ok(Some(head)) => {
                self.number = self.number.wrapping_add(1);
                self.whole_bytes += HEAD_BYTES as u64 + u64::from(head.payload_bytes);
                self.seen_end = head.summary.content == Content::End;
                return Ok(Some(head));
            }
            Ok(None) if self.seen_end => self.ending = Some(Ending::Complete),
            Ok(None) => self.ending = Some(Ending::Cut),
            Err(Error::Damaged(damage)) => self.reject(damage),
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// The payload of the last block, which has this head. A block that is skipped is not decompressed.
    ///
    /// # Errors
    /// If it cannot be decompressed.
    pub fn payload(&mut self, head: &Head) -> Result<&[u8], Damage> {
        self.raw.resize(head.raw_bytes as usize, 0);
        match zstd::bulk::decompress_to_buffer(&self.payload, &mut self.raw) {
            Ok(n) if n == self.raw.len() => Ok(&self.raw),
            _ => Err(Damage::Compression),
        }
    }

    /// Ends the reading, because the content of the last block is not valid.
    pub const fn reject(&mut self, damage: Damage) {
        self.ending = Some(Ending::Damaged(damage));
    }

    fn read(&mut self) -> Result<Option<Head>, Error> {
        fill(&mut self.file, HEAD_BYTES, &mut self.payload)?;
        if self.payload.is_empty() {
            return Ok(None);
        }
        let head = Head::from_bytes(self.payload.first_chunk().ok_or(Damage::Short)?)?;
        if head.number != self.number {
            return Err(Damage::Gap.into());
        }
        fill(&mut self.file, head.payload_bytes as usize, &mut self.payload)?;
        if self.payload.len() < head.payload_bytes as usize {
            return Err(Damage::Short.into());
        }
        if crc32fast::hash(&self.payload) != head.payload_crc {
            return Err(Damage::Payload.into());
        }
        Ok(Some(head))
    }
}
