// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a trace as text ([`TraceText`]) or as JSON ([`TraceJson`]). Events are converted to
//! lines; the caller takes the lines from time to time.
//!
//! This code runs for every command of a busy device. A line is written to its final place in a
//! buffer. Nothing allocates (unless the lines are not taken), and nothing uses `core::fmt`.
//! benches/render.rs measures time and allocations. Stacks, which many events share, are passed in
//! as rendered text.

mod clock;
mod ink;
mod json;
mod line;
mod memo;
mod origin;
mod stages;
mod text;

pub use self::clock::{Clock, Wall};
pub use self::json::TraceJson;
pub(crate) use self::json::type_name as status_type;
pub use self::text::TraceText;

use self::line::Line;
use crate::model::event::Event;
use crate::model::origin::Cgroups;
use crate::model::stack::Frame;
use crate::nvme::decode::CommandSet;

/// The state that every sink needs.
#[derive(Debug)]
pub struct Page {
    clock: Clock,
    line: Box<Line>,
}

impl Page {
    fn new(clock: Clock) -> Self {
        Self { clock, line: Line::new() }
    }
}

/// A destination of the events of a trace.
pub trait EventSink {
    /// Appends an event.
    fn event(&mut self, event: &Event, cx: &Context<'_>);

    /// The lines of a stack, for [`Context`].
    fn stack(&self, frames: &[Frame]) -> String;

    /// The clock and the lines.
    fn page(&self) -> &Page;

    /// The same, mutable.
    fn page_mut(&mut self) -> &mut Page;

    /// Number of bytes that are not drained yet, for [`EventSink::move_up`].
    fn bytes(&self) -> usize {
        self.page().line.bytes()
    }

    /// Moves what was appended after the first `from` bytes up, to behind the first `to`.
    fn move_up(&mut self, from: usize, to: usize) {
        self.page_mut().line.move_up(from, to);
    }

    /// Whether the lines should be drained.
    fn is_full(&self) -> bool {
        self.page().line.is_full()
    }

    /// Passes the lines to `to`, and empties the buffer.
    fn drain(&mut self, to: &mut dyn FnMut(&[u8])) {
        self.page_mut().line.take(to);
    }

    /// The same, and returns the result of `to`.
    fn take<R>(&mut self, to: impl FnOnce(&[u8]) -> R) -> R
    where
        Self: Sized,
    {
        self.page_mut().line.take(to)
    }

    /// The clock, to correct its offset.
    fn clock(&mut self) -> &mut Clock {
        &mut self.page_mut().clock
    }
}

/// Data of an event that the event does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The name of the block device. Empty if there is none, as for admin commands.
    pub disk: &'a str,
    /// The command set of the namespace.
    pub set: CommandSet,
    /// The stack at submission, rendered by `stack` of the same sink; empty if there is none.
    pub kstack: &'a str,
    /// The stack at completion, likewise.
    pub kstack_complete: &'a str,
    /// Paths of cgroups.
    pub cgroups: Option<&'a Cgroups>,
    /// Whether submitters are observed.
    pub has_submitters: bool,
    /// The event is a retry, and its line goes below the line of its command.
    pub is_second_line: bool,
}
