// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong with a recording.

use std::error::Error as StdError;
use std::fmt::{Display, Formatter};
use std::{fmt, io};

use super::frame::VERSION;

/// Why a block cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It ends before its content does.
    Short,
    /// The checksum of its head does not match.
    Head,
    /// The checksum of its payload does not match.
    Payload,
    /// A length is beyond the limits of the format.
    Length,
    /// It cannot be decompressed.
    Compression,
    /// Blocks are missing before it.
    Gap,
    /// The checksums match, but the content is not valid.
    Content(&'static str),
}

impl Display for Damage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it is truncated",
            Self::Head => "the checksum of a block's head does not match",
            Self::Payload => "the checksum of a block does not match",
            Self::Length => "a block is longer than the format permits",
            Self::Compression => "a block cannot be decompressed",
            Self::Gap => "blocks are missing",
            Self::Content(what) => what,
        })
    }
}

impl StdError for Damage {}

/// Why a recording cannot be opened or written.
#[derive(Debug)]
pub enum Error {
    /// The file begins with other bytes.
    Foreign,
    /// The format has this version, which is not the one of this program.
    Version(u16),
    /// It is a recording of the driver, where one of the host side is needed.
    GuestSide,
    /// It cannot be used.
    Damaged(Damage),
    /// It cannot be read or written.
    Io(io::Error),
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is not a recording of nvme-deep"),
            Self::Version(found) => {
                let age = if *found > VERSION { "a newer" } else { "an older" };
                write!(
                    f,
                    "its format has version {found}, and this nvme-deep reads version {VERSION}: use \
                     {age} nvme-deep"
                )
            }
            Self::GuestSide => f.write_str(
                "it is a recording of the driver: give one that `host trace -o` or `import` \
                 has written",
            ),
            Self::Damaged(damage) => damage.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Damaged(damage) => Some(damage),
            Self::Io(error) => Some(error),
            Self::Foreign | Self::GuestSide | Self::Version(_) => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}
