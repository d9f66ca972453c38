// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding of submission queue entries: fields of commands, as text or as typed values.
//!
//! Each file has the tables of one family of commands. Every field that the kernel prints
//! (drivers/nvme/host/trace.c of Linux) is here with the same name and the same number; names of
//! codes and counts are added. The tables note the exceptions: `sv`, `all` and `pr`, where the
//! kernel reads another bit, or too many. Nothing is allocated. Contents of the data buffer (ranges
//! of a Dataset Management, reservation keys, host names) are not part of the entry, and are not
//! decoded.

mod admin;
mod fabrics;
mod feature;
mod io;
mod kv;
pub(super) mod names;
mod table;
mod zns;

use std::fmt;

use super::opcode::{Opcode, QueueKind};
use super::sqe::Sqe;
use super::subject::FABRICS;

pub(super) use self::table::Names;
pub use self::table::{Field, Value};
use self::table::{Spec, hex};

/// The I/O command set of a namespace. Some opcodes of I/O queues depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CommandSet {
    /// The NVM command set; also used if the set is not known.
    #[default]
    Nvm,
    /// The Key Value command set: 01h and 02h are Store and Retrieve.
    KeyValue,
    /// The Zoned Namespace command set: the commands of the NVM command set, and three more.
    Zoned,
}

impl CommandSet {
    /// By Command Set Identifier (NVMe base 2.1, "Command Set Identifiers"). `None` for sets that
    /// are not decoded here.
    #[must_use]
    pub fn from_csi(csi: u8) -> Option<Self> {
        match csi {
            0 => Some(Self::Nvm),
            1 => Some(Self::KeyValue),
            2 => Some(Self::Zoned),
            _ => None,
        }
    }

    /// The Command Set Identifier: the inverse of [`CommandSet::from_csi`].
    #[must_use]
    pub const fn csi(self) -> u8 {
        match self {
            Self::Nvm => 0,
            Self::KeyValue => 1,
            Self::Zoned => 2,
        }
    }
}

/// The logical blocks of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The first block.
    pub slba: u64,
    /// Number of blocks: 1 to 65536.
    pub nlb: u32,
}

/// The tables of a command: the fields common to its kind, and the fields that depend on them.
type Layout = (&'static [Spec], &'static [Spec]);

/// Fields of a command that is reserved, vendor-specific, or not decoded here.
const DWORDS: &[Spec] = &[
    hex("cdw10", 10, 0, 32),
    hex("cdw11", 11, 0, 32),
    hex("cdw12", 12, 0, 32),
    hex("cdw13", 13, 0, 32),
    hex("cdw14", 14, 0, 32),
    hex("cdw15", 15, 0, 32),
];

fn layout(queue: QueueKind, set: CommandSet, sqe: &Sqe) -> Layout {
    match (queue, set) {
        _ if !sqe.has_dwords() => (&[], &[]),
        _ if sqe.opcode() == FABRICS => fabrics::layout(sqe),
        (QueueKind::Admin, _) => admin::layout(sqe),
        (QueueKind::Io, CommandSet::KeyValue) => kv::layout(sqe).unwrap_or_else(|| io::layout(sqe)),
        (QueueKind::Io, CommandSet::Nvm | CommandSet::Zoned) => io::layout(sqe),
    }
}

/// The fields of a command. A kind of command always has the same fields in the same order. Keys
/// are unique.
pub fn fields(queue: QueueKind, set: CommandSet, sqe: &Sqe) -> impl Iterator<Item = Field> + '_ {
    let (first, then) = layout(queue, set, sqe);
    first.iter().chain(then).map(|spec| spec.read(sqe))
}

/// The same without details that are zero ([`Field::shown`]).
pub fn shown_fields(
    queue: QueueKind,
    set: CommandSet,
    sqe: &Sqe,
) -> impl Iterator<Item = Field> + '_ {
    let (first, then) = layout(queue, set, sqe);
    let shown = first.iter().chain(then).filter(|spec| !spec.is_hidden(sqe));
    shown.map(|spec| spec.read(sqe))
}

/// CDW10 to CDW15 of a command, from the numbers of its fields by the kernel's names. `None` if none is known.
pub fn dwords(
    queue: QueueKind,
    sqe: &Sqe,
    number: impl Fn(&str) -> Option<u64>,
) -> Option<[u32; 6]> {
    let (first, _) = layout(queue, CommandSet::Nvm, sqe);
    let (mut dwords, mut is_known) = ([0; 6], false);
    for spec in first.iter().chain(DWORDS) {
        if let Some(n) = number(spec.key()) {
            spec.put(n, &mut dwords);
            is_known = true;
        }
    }
    is_known.then_some(dwords)
}

/// Writes the fields of a command as `key=value`, separated by blanks, without details that are
/// zero ([`Field::shown`]). No value contains a blank or a `=`. Writes nothing for a command
/// without fields, such as Flush.
///
/// # Errors
///
/// Errors of `out`.
pub fn describe(
    queue: QueueKind,
    set: CommandSet,
    sqe: &Sqe,
    out: &mut impl fmt::Write,
) -> fmt::Result {
    let mut blank = "";
    for Field { key, value, .. } in shown_fields(queue, set, sqe) {
        write!(out, "{blank}{key}={value}")?;
        blank = " ";
    }
    Ok(())
}

/// The command's name: [`Opcode::name`]; for Key Value commands the name in that set (`kv-store`),
/// for Fabrics commands the name of their type (`fabrics-connect`).
#[must_use]
pub fn name(queue: QueueKind, set: CommandSet, sqe: &Sqe) -> Option<&'static str> {
    let code = sqe.opcode();
    let own = match (queue, set) {
        _ if code == FABRICS => fabrics::name(sqe),
        (QueueKind::Io, CommandSet::KeyValue) => kv::name(sqe),
        _ => None,
    };
    own.or_else(|| Opcode { queue, code }.name())
}

/// The logical blocks that a command reads, writes, compares, verifies or zeroes. For a Zone
/// Append: as many blocks, from the start of the zone. `None` for any other command.
#[must_use]
pub fn blocks(queue: QueueKind, set: CommandSet, sqe: &Sqe) -> Option<Blocks> {
    let has = queue == QueueKind::Io && set != CommandSet::KeyValue && io::has_blocks(sqe.opcode());
    (has && sqe.has_dwords()).then(|| Blocks { slba: sqe.slba(), nlb: sqe.nlb() })
}
