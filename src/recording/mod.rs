// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: the events of a run in a file. A file is a header and compressed blocks with checksums
//! (frame.rs). A block holds up to [`BLOCK_EVENTS`] events as fixed records (`abi::Record`) in byte
//! planes (frame.rs), or data of the run as JSON (meta.rs). docs/reference/file-format.md has it to
//! the byte.
#![deny(missing_docs)]

mod blocks;
mod error;
mod events;
mod frame;
mod meta;
mod reader;
mod ring;
mod writer;

pub use self::blocks::{Blocks, Ending};
pub use self::error::{Damage, Error};
pub use self::events::{BLOCK_EVENTS, Batch, Unpacked};
pub use self::frame::{Content, Head, MAX_PAYLOAD, Summary};
pub use self::meta::{
    CgroupInfo, ClockOffset, KernelLine, LedgerInfo, RingInfo, RunInfo, StackInfo,
};
pub use self::reader::{Fact, Item, Reader};
pub use self::ring::{Keep, RingCopy};
pub use self::writer::{Writer, Written};
pub use crate::recording::writer::{Block, BlockWriter};
