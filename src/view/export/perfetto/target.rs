// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of the host side, on their own tracks beside the guest's controllers.

use std::io;
use std::io::Write;

use super::packets::Detail;
use super::{HOST, Perfetto, Place, Shows, Span};
use crate::model::event::CommandId;
use crate::model::ids::QueueId;
use crate::model::stage::StageSet;
use crate::model::target::Served;
use crate::model::text::Text;
use crate::view::export::columns::Cell;

/// A command of the host side.
#[derive(Clone, Copy, Debug)]
pub struct OnHost<'a> {
    /// The command.
    pub served: &'a Served,
    /// The name of its controller.
    pub name: &'a Text,
    /// What to add to its times to get the guest's, in nanoseconds.
    pub shift_ns: i64,
    /// How far its times may be wrong, in nanoseconds.
    pub error_ns: u64,
}

impl<W: Write> Perfetto<W> {
    /// Adds a command of the host side. Commands of a queue must come in the order of their ends.
    /// Returns false if its times do not fit the guest's clock.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn on_host(&mut self, on_host: &OnHost<'_>) -> io::Result<bool> {
        let OnHost { served, name, shift_ns, error_ns } = *on_host;
        let shift = |ns: u64| ns.checked_add_signed(shift_ns);
        let Some((begin_ns, end_ns)) = shift(served.first_ns).zip(shift(served.last_ns)) else {
            return Ok(false);
        };
        let CommandId { ctrl, qid, cid, nsid, opcode } = served.id;
        let ctrl = HOST.saturating_add(ctrl);
        self.targets.entry(ctrl).or_insert_with(|| format!("host {name}"));
        let queue = QueueId::new(ctrl, qid);
        let span = Span { begin_ns, end_ns: Some(end_ns) };
        let lane = self.lanes.entry(queue).or_default().put(&span);
        let track = self.track(Place::Lane(queue, lane), Shows::Events)?;
        let opcode = opcode.to_string();
        let number = |name, n: u64| Detail::Value(name, Cell::Unsigned(n));
        let mut details = vec![
            number("qid", qid.into()),
            number("cid", cid.into()),
            number("nsid", nsid.into()),
            number("uncertain_ns", error_ns),
        ];
        details.extend(served.blocks.map(|blocks| number("slba", blocks.slba)));
        details.extend(served.blocks.map(|blocks| number("nlb", blocks.nlb.into())));
        details.extend(served.status.map(|s| number("status", s.0.into())));
        let stages = served.times.segments(StageSet::Host).unwrap_or_default();
        let stages = stages.iter().map(|stage| (stage.run.name(), stage.ns));
        self.packets.slices((track, &span), (&opcode, &details), None, stages)?;
        Ok(true)
    }
}
