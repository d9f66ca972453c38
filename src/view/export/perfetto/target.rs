// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of the host side, on their own tracks beside the guest's controllers.

use std::io;
use std::io::Write;

use super::packets::Detail;
use super::{HOST, Perfetto, Place, Shows, Span};
use crate::model::ids::QueueId;
use crate::model::target::HostCommand;
use crate::model::text::Text;
use crate::view::export::columns::Cell;

/// A command of the host side.
#[derive(Clone, Copy, Debug)]
pub struct OnHost<'a> {
    /// The command.
    pub command: &'a HostCommand,
    /// The name of its controller.
    pub name: &'a Text,
    /// What to add to its times to get the guest's, in nanoseconds.
    pub shift_ns: i64,
    /// How far its times may be wrong, in nanoseconds.
    pub error_ns: u64,
}

impl OnHost<'_> {
    /// Its time on the guest's clock; `None` if no point was observed.
    pub fn span(&self) -> Option<(u64, u64)> {
        let (first, last) = self.command.times.ends()?;
        let shift = |ns: u64| ns.checked_add_signed(self.shift_ns);
        Some((shift(first)?, shift(last)?))
    }
}

impl<W: Write> Perfetto<W> {
    /// Adds a command of the host side. Commands of a queue must come in the order of their ends.
    /// Returns false if it has no place: no id, or no time.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn on_host(&mut self, served: &OnHost<'_>) -> io::Result<bool> {
        let command = served.command;
        let Some(((begin_ns, end_ns), (qid, opcode))) =
            served.span().zip(command.qid.zip(command.opcode()))
        else {
            return Ok(false);
        };
        let ctrl = HOST.saturating_add(command.ctrl);
        self.targets.entry(ctrl).or_insert_with(|| format!("host {}", served.name));
        let queue = QueueId::new(ctrl, qid);
        let span = Span { begin_ns, end_ns: Some(end_ns) };
        let lane = self.lanes.entry(queue).or_default().put(&span);
        let track = self.track(Place::Lane(queue, lane), Shows::Events)?;
        let opcode = opcode.to_string();
        let number = |name, n: u64| Detail::Value(name, Cell::Unsigned(n));
        let mut details = vec![number("qid", qid.into())];
        details.extend(command.cid.map(|cid| number("cid", cid.into())));
        details.extend(command.nsid.map(|n| number("nsid", n.into())));
        details.extend(command.slba.map(|n| number("slba", n)));
        details.extend(command.nlb.map(|n| number("nlb", n.into())));
        details.extend(command.status.map(|s| number("status", s.0.into())));
        details.push(number("uncertain_ns", served.error_ns));
        let stages = command.times.stages().unwrap_or_default();
        let stages = stages.iter().map(|stage| (&stage.name, stage.ns.unsigned_abs()));
        self.packets.slices((track, &span), (&opcode, &details), None, stages)?;
        Ok(true)
    }
}
