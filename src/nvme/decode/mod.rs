// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a submission queue entry asks for: its command's fields, as text or typed.
//!
//! One file for each family of commands, each a set of tables. The floor is what the kernel prints
//! (drivers/nvme/host/trace.c of Linux): every field that it names is here under that name, with
//! that number, and names and counts come on top. The few that differ (`sv`, `all`, `pr`, where the
//! kernel reads another bit or too many) say so at their tables. Nothing is allocated. What lies in the data buffer (ranges of a Dataset
//! Management, reservation keys, host names) is not in the entry and is not known here.

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

pub(super) use self::table::Names;
pub use self::table::{Field, Value};
use self::table::{Spec, hex};

/// Fabrics commands have one opcode on both kinds of queue (NVMe base 2.1, section 6).
const FABRICS: u8 = 0x7f;

/// The I/O command set of a namespace, which some opcodes of I/O queues depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CommandSet {
    /// The NVM command set; also what to say where the set is not known.
    #[default]
    Nvm,
    /// The Key Value command set, where 01h and 02h are Store and Retrieve.
    KeyValue,
    /// The Zoned Namespace command set: NVM's and three commands of its own.
    Zoned,
}

impl CommandSet {
    /// By Command Set Identifier (NVMe base 2.1, "Command Set Identifiers"); `None` for those whose
    /// commands are not known here.
    #[must_use]
    pub fn from_csi(csi: u8) -> Option<Self> {
        match csi {
            0 => Some(Self::Nvm),
            1 => Some(Self::KeyValue),
            2 => Some(Self::Zoned),
            _ => None,
        }
    }
}

/// Logical blocks, as a command names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// The first one.
    pub slba: u64,
    /// How many: 1 to 65536.
    pub nlb: u32,
}

/// A command's tables: one that all of its kind have, and one that depends on the first.
type Layout = (&'static [Spec], &'static [Spec]);

/// What there is to say of a command that is reserved, a vendor's, or too new.
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
        _ if sqe.opcode() == FABRICS => fabrics::layout(sqe),
        (QueueKind::Admin, _) => admin::layout(sqe),
        (QueueKind::Io, CommandSet::KeyValue) => kv::layout(sqe).unwrap_or_else(|| io::layout(sqe)),
        (QueueKind::Io, CommandSet::Nvm | CommandSet::Zoned) => io::layout(sqe),
    }
}

/// The fields of a command, always the same ones in the same order for a kind of command. No key
/// comes twice.
pub fn fields(queue: QueueKind, set: CommandSet, sqe: &Sqe) -> impl Iterator<Item = Field> + '_ {
    let (first, then) = layout(queue, set, sqe);
    first.iter().chain(then).map(|spec| spec.read(sqe))
}

/// Writes the fields of a command as `key=value` with a blank between, without details that are
/// zero ([`Field::shown`]). No value has a blank or a `=` in it. Nothing is written for a command
/// that has no fields, such as Flush.
///
/// # Errors
///
/// Those of `out`.
pub fn describe(
    queue: QueueKind,
    set: CommandSet,
    sqe: &Sqe,
    out: &mut impl fmt::Write,
) -> fmt::Result {
    let mut blank = "";
    for Field { key, value, .. } in fields(queue, set, sqe).filter(Field::shown) {
        write!(out, "{blank}{key}={value}")?;
        blank = " ";
    }
    Ok(())
}

/// The command's name: [`Opcode::name`], but that a Key Value command has its own (`kv-store`), and
/// a Fabrics command that of its type (`fabrics-connect`).
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

/// The logical blocks that a command reads, writes, compares, verifies or zeroes; of a Zone Append
/// those of the zone's start, with as many blocks. `None` for any other command.
#[must_use]
pub fn blocks(queue: QueueKind, set: CommandSet, sqe: &Sqe) -> Option<Blocks> {
    let has = queue == QueueKind::Io && set != CommandSet::KeyValue && io::has_blocks(sqe.opcode());
    has.then(|| Blocks {
        slba: sqe.slba(),
        nlb: sqe.nlb(),
    })
}
