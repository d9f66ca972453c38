// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace's events as they come, as text ([`TraceText`]) or as JSON ([`TraceJson`]): events in, lines
//! out, which the caller takes from time to time.
//!
//! This runs for every command of a busy device, so a line is written where it stays until it is
//! taken, nothing here allocates (unless lines are not taken), and nothing goes through `core::fmt`. benches/render.rs counts both. What is
//! the same for many events comes rendered: the stacks.

mod clock;
mod ink;
mod json;
mod line;
mod memo;
mod stages;
mod text;

pub use self::clock::Clock;
pub use self::clock::Wall;
pub use self::json::TraceJson;
pub use self::text::TraceText;

use std::iter::from_fn;

use crate::model::event::CommandId;
use crate::model::event::Event;
use crate::model::event::Submission;
use crate::model::stack::Frame;
use crate::nvme::decode;
use crate::nvme::decode::CommandSet;
use crate::nvme::sqe::Parts;
use crate::nvme::sqe::Sqe;

/// Of both kinds of queue.
const FABRICS: u8 = 0x7f;

/// Where the events of a trace go.
pub trait EventSink {
    /// Appends an event.
    fn event(&mut self, event: &Event, cx: &Context<'_>);

    /// The lines of a stack, to be given to [`Context`].
    fn stack(&self, frames: &[Frame]) -> String;

    /// Whether the lines should be drained.
    fn is_full(&self) -> bool;

    /// Hands over the lines, and forgets them.
    fn drain(&mut self, to: &mut dyn FnMut(&[u8]));

    /// The clock, to correct it.
    fn clock(&mut self) -> &mut Clock;
}

/// What an event does not say itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The block device, in the kernel's own words (these are written as they are); empty for none,
    /// as for admin commands.
    pub disk: &'a str,
    /// The command set of the namespace.
    pub set: CommandSet,
    /// The stack at submission, by the same view's `stack`; empty for none.
    pub kstack: &'a str,
    /// The stack at completion, likewise.
    pub kstack_complete: &'a str,
}

/// The command's name. Without its entry too: the little that names depend on is in its id.
#[inline]
fn opcode_name(
    id: &CommandId,
    set: CommandSet,
    asked: Option<&Submission>,
) -> Option<&'static str> {
    let opcode = id.opcode;
    if opcode.code != FABRICS && set != CommandSet::KeyValue {
        return opcode.name();
    }
    special_name(id, set, asked)
}

#[cold]
fn special_name(
    id: &CommandId,
    set: CommandSet,
    asked: Option<&Submission>,
) -> Option<&'static str> {
    let CommandId { opcode, nsid, .. } = *id;
    // a Fabrics command has its type where others have a namespace
    let known = Parts {
        opcode: opcode.code,
        nsid,
        ..Parts::default()
    };
    let sqe = asked.map_or_else(|| Sqe::from(known), |a| a.sqe);
    decode::name(opcode.queue, set, &sqe)
}

/// The characters of what may be no UTF-8, and the bytes that are none.
fn chars(mut bytes: &[u8]) -> impl Iterator<Item = Result<char, u8>> {
    from_fn(move || {
        let (&first, rest) = bytes.split_first()?;
        let char = bytes.utf8_chunks().next()?.valid().chars().next();
        bytes = char.map_or(rest, |c| bytes.get(c.len_utf8()..).unwrap_or_default());
        Some(char.ok_or(first))
    })
}
