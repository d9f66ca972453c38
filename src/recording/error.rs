// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a recording.

use std::io;

use super::frame::VERSION;

/// Why a block cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It ends before its content does.
    #[error("it is truncated")]
    Short,
    /// The checksum of its head does not match.
    #[error("the checksum of a block's head does not match")]
    Head,
    /// The checksum of its payload does not match.
    #[error("the checksum of a block does not match")]
    Payload,
    /// A length is beyond the limits of the format.
    #[error("a block is longer than the format permits")]
    Length,
    /// It cannot be decompressed.
    #[error("a block cannot be decompressed")]
    Compression,
    /// Blocks are missing before it.
    #[error("blocks are missing")]
    Gap,
    /// The checksums match, but the content is not valid.
    #[error("{0}")]
    Content(&'static str),
}

/// Why a recording cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file begins with other bytes.
    #[error(
        "it is not a recording: give a file that `record` wrote. `import` makes one of a text of ftrace, perf, blkparse or QEMU"
    )]
    Foreign,
    /// The format has this version, which is not the one of this program.
    #[error(
        "its format has version {_0}, and this nvme-deep reads version {VERSION}: use {age} nvme-deep",
        age = if *_0 > VERSION { "a newer" } else { "an older" }
    )]
    Version(u16),
    /// It is a recording of the driver, where one of the host side is needed.
    #[error(
        "it is a recording of the driver: give one that `host trace -o` or `import` has written"
    )]
    GuestSide,
    /// It cannot be used.
    #[error("{0}: copy it again")]
    Damaged(#[from] Damage),
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}
