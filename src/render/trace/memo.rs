// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of lines that come again and again: which command it is, its fields, who submits it. Of reads
//! and writes little else differs than where they begin. A copy takes a twentieth of the instructions
//! of decoding all that and writing it down.

use std::array::from_fn;

use super::line::Line;
use super::line::WORD;
use crate::model::event::CommandId;
use crate::model::event::Submission;
use crate::nvme::decode::CommandSet;
use crate::nvme::decode::Field;
use crate::nvme::decode::blocks;
use crate::nvme::decode::fields;
use crate::nvme::opcode::QueueKind;

/// Opcodes times sizes that may be in use at once without getting in each other's way, most often.
const SLOTS: usize = 1 << 6;

/// Namespaces times opcodes, likewise.
const COMMANDS: usize = 1 << 5;

/// Threads that may submit in turns, likewise.
const THREADS: usize = 1 << 4;

/// Parts as they were written down last.
#[derive(Debug)]
pub(super) struct Memo {
    commands: [Part<CommandKey>; COMMANDS],
    threads: [Part<Thread>; THREADS],
    fields: [Part<FieldsKey>; SLOTS],
}

/// What was written down.
#[derive(Debug)]
struct Text {
    bytes: [u8; WORD],
    len: usize,
}

impl Text {
    const fn new() -> Self {
        Self {
            bytes: [0; WORD],
            len: 0,
        }
    }

    /// Becomes these bytes. False: they are too many.
    fn set(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.bytes.get_mut(..bytes.len()) else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.len = bytes.len();
        true
    }
}

/// What was written down, and of what.
#[derive(Debug)]
struct Part<K> {
    key: Option<K>,
    text: Text,
}

/// All that distinguishes kinds of commands, except for Fabrics commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommandKey {
    nsid: u32,
    code: u8,
    queue: QueueKind,
    set: CommandSet,
    /// Flags and metadata, where they are known.
    asked: Option<(u8, bool)>,
}

/// All that the fields depend on but the first, which is `slba`; and what is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldsKey {
    code: u8,
    /// CDW12 to CDW15.
    cdw: [u32; 4],
    bytes: Option<u32>,
}

/// Who submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    pid: u32,
    tid: u32,
    comm: [u8; 16],
}

impl<K: PartialEq> Part<K> {
    const fn new() -> Self {
        Self {
            key: None,
            text: Text::new(),
        }
    }

    /// Writes it by `write`, or as that wrote it before.
    #[inline(always)]
    fn write(&mut self, key: K, line: &mut Line, write: impl FnOnce(&mut Line)) {
        if self.key.as_ref() == Some(&key) {
            line.again(&self.text.bytes, self.text.len);
        } else {
            self.fill(key, line, write);
        }
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, key: K, line: &mut Line, write: impl FnOnce(&mut Line)) {
        let begin = line.place();
        write(line);
        self.key = self.text.set(line.since(begin)).then_some(key);
    }
}

impl Memo {
    pub(super) fn new() -> Self {
        Self {
            commands: from_fn(|_| Part::new()),
            threads: from_fn(|_| Part::new()),
            fields: from_fn(|_| Part::new()),
        }
    }

    /// Writes namespace, opcode and its name, and what `asked` has besides, by `write`.
    #[inline]
    pub(super) fn command(
        &mut self,
        id: &CommandId,
        asked: Option<&Submission>,
        set: CommandSet,
        line: &mut Line,
        write: impl FnOnce(&mut Line),
    ) {
        if id.opcode.code == super::FABRICS {
            // its name is of its fields
            return write(line);
        }
        let key = CommandKey {
            nsid: id.nsid,
            code: id.opcode.code,
            queue: id.opcode.queue,
            set,
            asked: asked.map(|a| (a.sqe.flags(), a.sqe.metadata())),
        };
        // where a submission and its completion are events of their own, both come in turns
        let at = (id.nsid << 3) ^ u32::from(key.code) ^ u32::from(asked.is_some()) << 4;
        self.commands[at as usize % COMMANDS].write(key, line, write);
    }

    /// Writes who submits by `write`, which has to see whether the name is harmless.
    #[inline]
    pub(super) fn thread(
        &mut self,
        asked: &Submission,
        line: &mut Line,
        write: fn(&mut Line, &Submission),
    ) {
        let key = Thread {
            pid: asked.pid,
            tid: asked.tid,
            comm: asked.comm,
        };
        self.threads[asked.tid as usize % THREADS].write(key, line, |line| write(line, asked));
    }

    /// Writes the fields and the number of bytes by `rest`, but `slba` by a function of its own.
    #[inline]
    pub(super) fn fields(
        &mut self,
        (queue, set): (QueueKind, CommandSet),
        asked: &Submission,
        line: &mut Line,
        slba: impl FnOnce(&mut Line, u64),
        rest: impl FnOnce(&mut Line, &Submission, &mut dyn Iterator<Item = Field>),
    ) {
        let sqe = &asked.sqe;
        let Some(blocks) = blocks(queue, set, sqe) else {
            return rest(line, asked, &mut fields(queue, set, sqe));
        };
        slba(line, blocks.slba);
        let key = FieldsKey {
            code: sqe.opcode(),
            cdw: [12, 13, 14, 15].map(|n| sqe.cdw(n)),
            bytes: asked.bytes,
        };
        // sizes are powers of two less one: their low bits are alike
        let hash = (u32::from(key.code) << 16 ^ key.cdw[0]).wrapping_mul(0x9e37_79b1) >> 26;
        self.fields[hash as usize % SLOTS].write(key, line, |line| {
            rest(line, asked, &mut fields(queue, set, sqe).skip(1));
        });
    }
}
