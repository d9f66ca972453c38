// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cache of parts of lines that repeat: opcode, fields, submitter. Reads and writes differ in
//! little but their start LBA. A copy takes a twentieth of the instructions of decoding and
//! formatting.

use std::array::from_fn;

use super::line::{Line, WORD};
use crate::model::event::{CommandId, Submission};
use crate::nvme::decode::{CommandSet, Field, blocks, fields};
use crate::nvme::opcode::QueueKind;
use crate::nvme::subject::FABRICS;

/// Combinations of opcode and size that can be in use at once, mostly without collisions.
const SLOTS: usize = 1 << 6;

/// Combinations of namespace and opcode, likewise.
const COMMANDS: usize = 1 << 5;

/// Threads that submit in turn, likewise.
const THREADS: usize = 1 << 4;

/// The cached parts.
#[derive(Debug)]
pub(super) struct Memo {
    commands: [Part<CommandKey>; COMMANDS],
    threads: [Part<Thread>; THREADS],
    fields: [Part<FieldsKey>; SLOTS],
}

/// The text of a part.
#[derive(Debug)]
struct Text {
    bytes: [u8; WORD],
    len: usize,
}

impl Text {
    const fn new() -> Self {
        Self { bytes: [0; WORD], len: 0 }
    }

    /// Copies these bytes. Returns false if they are too many.
    fn set(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.bytes.get_mut(..bytes.len()) else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.len = bytes.len();
        true
    }
}

/// The text of a part, and its key.
#[derive(Debug)]
struct Part<K> {
    key: Option<K>,
    text: Text,
}

/// Everything that the text of a command depends on, except for Fabrics commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommandKey {
    nsid: u32,
    code: u8,
    queue: QueueKind,
    set: CommandSet,
    /// Flags and metadata, if they are known.
    submission: Option<(u8, bool)>,
}

/// Everything that the fields depend on, except the first field, `slba`; and the bytes transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldsKey {
    code: u8,
    /// CDW12 to CDW15.
    cdw: [u32; 4],
    bytes: Option<u32>,
}

/// The submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    pid: u32,
    tid: u32,
    comm: [u8; 16],
}

impl<K: PartialEq> Part<K> {
    const fn new() -> Self {
        Self { key: None, text: Text::new() }
    }

    /// Writes the cached text if the key is the same. Otherwise calls `write` and caches its
    /// output.
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
        // a long text may have moved the line to the start of the buffer
        let is_here = line.place() >= begin;
        self.key = (is_here && self.text.set(line.since(begin))).then_some(key);
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

    /// Writes the namespace, the opcode and its name, and the flags and metadata of `asked`.
    /// `write` formats them.
    #[inline]
    pub(super) fn command(
        &mut self,
        id: &CommandId,
        submission: Option<&Submission>,
        set: CommandSet,
        line: &mut Line,
        write: impl FnOnce(&mut Line),
    ) {
        if id.opcode.code == FABRICS {
            // its name depends on its fields
            return write(line);
        }
        let key = CommandKey {
            nsid: id.nsid,
            code: id.opcode.code,
            queue: id.opcode.queue,
            set,
            submission: submission.map(|a| (a.sqe.flags(), a.sqe.metadata())),
        };
        // if submissions and completions are separate events, they alternate
        let at = (id.nsid << 3) ^ u32::from(key.code) ^ u32::from(submission.is_some()) << 4;
        self.commands[at as usize % COMMANDS].write(key, line, write);
    }

    /// Writes the submitter. `write` formats it, and escapes the thread's name.
    #[inline]
    pub(super) fn thread(
        &mut self,
        submission: &Submission,
        line: &mut Line,
        write: fn(&mut Line, &Submission),
    ) {
        let key = Thread { pid: submission.pid, tid: submission.tid, comm: submission.comm };
        self.threads[submission.tid as usize % THREADS]
            .write(key, line, |line| write(line, submission));
    }

    /// Writes the fields and the number of bytes. `slba` writes the start LBA of commands on
    /// logical blocks, `rest` everything else.
    #[inline]
    pub(super) fn fields(
        &mut self,
        (queue, set): (QueueKind, CommandSet),
        submission: &Submission,
        line: &mut Line,
        slba: impl FnOnce(&mut Line, u64),
        rest: impl FnOnce(&mut Line, &Submission, &mut dyn Iterator<Item = Field>),
    ) {
        let sqe = &submission.sqe;
        let Some(blocks) = blocks(queue, set, sqe) else {
            return rest(line, submission, &mut fields(queue, set, sqe));
        };
        slba(line, blocks.slba);
        let key = FieldsKey {
            code: sqe.opcode(),
            cdw: [12, 13, 14, 15].map(|n| sqe.cdw(n)),
            bytes: submission.bytes,
        };
        // len is usually a power of two minus one, so the low bits are the same
        let hash = (u32::from(key.code) << 16 ^ key.cdw[0]).wrapping_mul(0x9e37_79b1) >> 26;
        self.fields[hash as usize % SLOTS].write(key, line, |line| {
            rest(line, submission, &mut fields(queue, set, sqe).skip(1));
        });
    }
}
