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

impl<W: Write> Perfetto<W> {
    /// Adds a command of the host side, of the controller with this name. `shift_ns`: what to add to its
    /// times to get the guest's; `error_ns`: how far they may be wrong. Commands of a queue must come in the
    /// order of their ends. Returns false if its times do not fit the guest's clock.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn on_host(
        &mut self,
        served: &Served,
        name: &Text,
        shift_ns: i64,
        error_ns: u64,
    ) -> io::Result<bool> {
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
        let details = [
            ("qid", Some(qid.into())),
            ("cid", Some(cid.into())),
            ("nsid", Some(nsid.into())),
            ("uncertain_ns", Some(error_ns)),
            ("slba", served.blocks.map(|blocks| blocks.slba)),
            ("nlb", served.blocks.map(|blocks| blocks.nlb.into())),
            ("status", served.status.map(|status| status.0.into())),
        ];
        let detail = |(name, n): (_, Option<u64>)| Some(Detail::Value(name, Cell::Unsigned(n?)));
        let details: Vec<_> = details.into_iter().filter_map(detail).collect();
        let stages = served.times.segments(StageSet::Host).unwrap_or_default();
        let stages = stages.iter().map(|stage| (stage.run.name(), stage.ns));
        self.packets.slices((track, &span), (&opcode, &details), None, stages)?;
        Ok(true)
    }
}
