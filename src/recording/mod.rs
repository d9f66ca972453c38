// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: the events of a run in a file. A file is a header and blocks with checksums
//! (frame.rs). A block holds up to [`MAX_ROWS`] events as columns (block.rs), or data of the run.
//! The format depends neither on the kernel nor on the layout of the BPF side: it stores
//! [`Event`](crate::model::event::Event)s. docs/record.md has it to the byte.
#![deny(missing_docs)]

mod batch;
mod block;
mod bytes;
mod columns;
mod distance;
mod error;
mod finished;
mod frame;
mod json;
mod meta;
mod origin;
mod parts;
mod playback;
mod reader;
mod recorder;
mod ring;
mod row;
mod shape;
mod stored;
mod target;
mod tiles;
mod whole;
mod writer;

pub use self::block::{BLOCK_ROWS, Builder, Decoder, MAX_ROWS};
pub use self::error::{Damage, Error};
pub use self::frame::{Content, Head, MAX_PAYLOAD};
pub use self::meta::{CgroupInfo, ClockOffset, FrameInfo, LedgerInfo, RunInfo, StackInfo};
pub use self::playback::{Item, Playback};
pub use self::reader::{Blocks, Ending};
pub use self::recorder::{Recorder, Written};
pub use self::ring::Keep;
pub use self::whole::HostRecording;
pub use self::writer::{Block, BlockWriter};
