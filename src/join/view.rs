// SPDX-License-Identifier: MIT OR Apache-2.0
//! The join of both sides as text and as JSON.

use std::cmp::Reverse;
use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::{Value, json};

use crate::join::matching::{Guest, Join};
use crate::model::event::CommandId;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::parts::PartKey;
use crate::model::target::Part;
use crate::model::text::{Text, word};
use crate::units::{counted, nanos};
use crate::view::header::entry_at;
use crate::view::json::typed_line;
use crate::view::parts::{ids, parts_json, parts_text};
use crate::view::theme::Theme;

/// How the clocks of the two recordings were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum JoinClock {
    /// Both recordings are of one boot of one machine
    Same,
    /// The offset is bounded by the pairs of commands
    Pairs,
    /// The TSC, with the offset that KVM gave the virtual machine (`host trace --pid`)
    Tsc,
    /// The host's wall clock, which the guest reads by ptp_kvm. HOST must be of the machine that runs
    /// the guest
    Ptp,
}

/// What is shown of a join.
pub struct JoinView<'a> {
    /// The join.
    pub join: &'a Join,
    /// How the clocks were compared.
    pub clock: JoinClock,
    /// Names of the host side's controllers.
    pub host_name: &'a dyn Fn(u32) -> Text,
    /// Names of the guest's disks.
    pub disks: &'a DiskNames,
    /// Pairs of controllers: in the guest, on the host side.
    pub controllers: Vec<(u32, u32)>,
    /// Number of slow commands to show singly.
    pub slowest: usize,
    /// Whether nothing of either recording is lost.
    pub is_exact: bool,
    /// Reasons for unmatched commands.
    pub notes: Vec<String>,
}

impl JoinView<'_> {
    /// The pairs, slowest first.
    fn slow(&self) -> Vec<(&Guest, Vec<Part>)> {
        let mut all: Vec<_> = self.join.commands().collect();
        all.sort_by_key(|(g, _)| (Reverse(g.last_ns - g.begin_ns), g.issue_ns));
        all.truncate(self.slowest);
        all
    }

    /// Writes the report as text.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
        let subject = |(ctrl, cdw1, opcode): &PartKey| self.disks.subject(*ctrl, *cdw1, *opcode);
        parts_text(&self.join.rows(), &subject, self.error() > 0, theme, out)?;
        for (n, (guest, parts)) in self.slow().iter().enumerate() {
            if n == 0 {
                writeln!(out, "{}", theme.head("slowest commands"))?;
            }
            slow_line(guest, parts, self.disks, out)?;
        }
        if self.slowest > 0 && !self.join.pairs.is_empty() {
            writeln!(out)?;
        }
        self.summary(out)
    }

    fn error(&self) -> u64 {
        self.join.error_ns().unwrap_or(0)
    }

    /// The clock in sentences.
    fn clock_text(&self) -> String {
        let Some(offset) = &self.join.offset else {
            let text = match self.join.pairs.is_empty() {
                true => "not compared: no command is on both sides",
                false => "no offset agrees with the pairs",
            };
            return text.into();
        };
        let by = match self.clock {
            JoinClock::Same => return "same: both recordings have the clock of one boot".into(),
            JoinClock::Pairs if self.join.has_cqes() => "bounded by issue and the CQE",
            JoinClock::Pairs => "bounded by issue and the completion (fabrics have no CQE)",
            JoinClock::Tsc => "by the TSC of both",
            JoinClock::Ptp => "by the wall clock of the host, read in the guest by ptp_kvm",
        };
        let (low, high) = offset.range_ns;
        format!(
            "host minus guest {low} to {high} ns, {by}; drift {:.1} to {:.1} \
             ppm. Parts with * are uncertain by {}: what one of the two gains, the other loses",
            offset.drift_ppm.0,
            offset.drift_ppm.1,
            nanos(self.error() as f64)
        )
    }

    fn summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { join, host_name, .. } = self;
        let pair = |(g, h): &(u32, u32)| format!("nvme{g} = {}", word(&host_name(*h)));
        let pairs: Vec<String> = self.controllers.iter().map(pair).collect();
        let ([guest, host], [of_guest, of_host]) = (join.unmatched(), join.ambiguous);
        let matched = counted(join.pairs.len() as u64, "command");
        let mut entries = vec![
            ("joined", pairs.join(", ")),
            (
                "matched",
                format!(
                    "{matched}; unmatched: guest {guest}, host {host}; ambiguous: guest {of_guest}, host \
                     {of_host}"
                ),
            ),
            ("clock", self.clock_text()),
        ];
        let exact = "exact: no record of either side is lost";
        entries.extend(self.is_exact.then(|| ("accuracy", exact.to_owned())));
        entries.extend(self.notes.iter().map(|note| ("note", note.clone())));
        entries.iter().try_for_each(|(label, text)| entry_at(10, label, text, out))
    }

    /// Writes the report as JSON: an object per stratum, one per slow command, and `join`.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let name = |ctrl| format!("nvme{ctrl}").into();
        parts_json("join_row", &self.join.rows(), &name, out)?;
        for (guest, parts) in self.slow() {
            let mut line = ids(&guest.id, guest.blocks);
            let more = [
                ("time_ns", json!(guest.last_ns)),
                ("ctrl", json!(format!("nvme{}", guest.ctrl))),
                ("parts", json!(parts)),
                ("total_ns", json!(guest.last_ns - guest.begin_ns)),
            ];
            line.extend(more.map(|(key, value)| (key.to_owned(), value)));
            typed_line("join_command", &line, out)?;
        }
        typed_line("join", &self.end_line(), out)
    }

    fn end_line(&self) -> Value {
        let Self { join, .. } = self;
        let offset = join.offset.as_ref();
        let ([guest, host], [of_guest, of_host]) = (join.unmatched(), join.ambiguous);
        let pair = |(g, h): &(u32, u32)| (format!("nvme{g}"), (self.host_name)(*h));
        json!({
            "controllers": self.controllers.iter().map(pair).collect::<Vec<_>>(),
            "exact": self.is_exact,
            "matched": join.pairs.len(),
            "unmatched_guest": guest,
            "unmatched_host": host,
            "ambiguous_guest": of_guest,
            "ambiguous_host": of_host,
            "clock": self.clock,
            "offset_low_ns": offset.map(|o| o.range_ns.0),
            "offset_high_ns": offset.map(|o| o.range_ns.1),
            "drift_low_ppm": offset.map(|o| o.drift_ppm.0),
            "drift_high_ppm": offset.map(|o| o.drift_ppm.1),
            "error_ns": join.error_ns(),
            "bounded_by_cqe": join.has_cqes(),
            "notes": self.notes,
        })
    }
}

fn slow_line(
    guest: &Guest,
    parts: &[Part],
    disks: &DiskNames,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = nanos((guest.last_ns - guest.begin_ns) as f64);
    let CommandId { qid, cid, nsid, opcode, .. } = guest.id;
    let mut text = format!("{} qid={qid} cid={cid}", disks.subject(guest.ctrl, nsid, opcode));
    guest.blocks.iter().for_each(|blocks| text += &format!(" slba={}", blocks.slba));
    writeln!(out, "{total:>8}  {text}")?;
    let parts: Vec<String> =
        parts.iter().map(|p| format!("{}={}", p.name, nanos(p.ns as f64))).collect();
    entry_at(10, "", &parts.join(" "), out)
}
