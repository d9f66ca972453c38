//! The fields of commands that come again and again. Of reads and writes little else differs than
//! where they begin: all but `slba` is a copy, which takes a twentieth of the instructions of decoding
//! it and writing it down.

use std::array::from_fn;

use super::line::Line;
use crate::event::Asked;
use crate::nvme::decode::Blocks;
use crate::nvme::decode::CommandSet;
use crate::nvme::decode::Field;
use crate::nvme::decode::Value;
use crate::nvme::decode::blocks;
use crate::nvme::decode::fields;
use crate::nvme::opcode::QueueKind;
use crate::nvme::sqe::Sqe;

/// Opcodes times sizes that may be in use at once without getting in each other's way, most often.
const SLOTS: usize = 1 << 6;

/// Threads that may submit in turns without getting in each other's way, most often.
const THREADS: usize = 1 << 4;

/// Fields and names as they were written down last.
#[derive(Debug)]
pub(super) struct Memo {
    threads: [Thread; THREADS],
    slots: [Slot; SLOTS],
}

#[derive(Debug)]
struct Slot {
    /// The opcode, and CDW12 to CDW15: all that fields depend on but the first, which is `slba`.
    key: Option<[u32; 5]>,
    text: Vec<u8>,
}

/// A thread's name, and how it is written.
#[derive(Debug, Default)]
struct Thread {
    comm: [u8; 16],
    text: Vec<u8>,
}

impl Slot {
    fn new() -> Self {
        Self {
            key: None,
            // as JSON has those of a write
            text: Vec::with_capacity(512),
        }
    }

    #[cold]
    #[inline(never)]
    fn fill(
        &mut self,
        key: [u32; 5],
        (queue, set): (QueueKind, CommandSet),
        sqe: &Sqe,
        line: &mut Line,
        mut write: impl FnMut(&mut Line, Field),
    ) {
        let begin = line.place();
        let rest = fields(queue, set, sqe).skip(1);
        rest.for_each(|field| write(line, field));
        self.text.clear();
        self.text.extend_from_slice(line.since(begin));
        self.key = Some(key);
    }
}

impl Memo {
    pub(super) fn new() -> Self {
        Self {
            threads: from_fn(|_| Thread::default()),
            slots: from_fn(|_| Slot::new()),
        }
    }

    /// Writes the thread's name by `write`, which has to see whether it is harmless, or as that wrote it
    /// before.
    #[inline]
    pub(super) fn comm(&mut self, asked: &Asked, line: &mut Line, write: fn(&mut Line, &[u8])) {
        let thread = &mut self.threads[asked.tid as usize % THREADS];
        if thread.comm == asked.comm && !thread.text.is_empty() {
            line.name_in(&thread.text);
            return;
        }
        let begin = line.place();
        write(line, asked.comm());
        thread.comm = asked.comm;
        thread.text.clear();
        thread.text.extend_from_slice(line.since(begin));
    }

    /// Writes the fields by `write`, or as it wrote them before.
    pub(super) fn fields(
        &mut self,
        (queue, set): (QueueKind, CommandSet),
        sqe: &Sqe,
        line: &mut Line,
        mut write: impl FnMut(&mut Line, Field),
    ) {
        let Some(Blocks { slba, nlb: _ }) = blocks(queue, set, sqe) else {
            fields(queue, set, sqe).for_each(|field| write(line, field));
            return;
        };
        let slba = Field {
            key: "slba",
            value: Value::Num(slba),
            detail: false,
        };
        write(line, slba);
        let key = [
            sqe.opcode().into(),
            sqe.cdw(12),
            sqe.cdw(13),
            sqe.cdw(14),
            sqe.cdw(15),
        ];
        // sizes are powers of two less one: their low bits are alike
        let hash = (key[0] << 16 ^ key[1]).wrapping_mul(0x9e37_79b1) >> 26;
        let slot = &mut self.slots[hash as usize % SLOTS];
        if slot.key == Some(key) {
            line.long(&slot.text);
            return;
        }
        slot.fill(key, (queue, set), sqe, line, write);
    }
}
