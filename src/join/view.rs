// SPDX-License-Identifier: MIT OR Apache-2.0
//! The join of both sides as text and as JSON.

use std::cmp::Reverse;
use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::{Value, json};

use crate::join::Joined;
use crate::join::matching::Guest;
use crate::model::event::CommandId;
use crate::model::report::disk_names::DiskNames;
use crate::model::stage::StageSet;
use crate::model::target::name_of;
use crate::model::text::{Text, word};
use crate::model::timeline::{Segment, Timeline};
use crate::run::stdout::output_width;
use crate::units::{counted, nanos};
use crate::view::header::entry_at;
use crate::view::json;
use crate::view::json::{ids, typed_line};
use crate::view::text::TextView;
use crate::view::theme::Theme;
use anyhow::Result;

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

impl Joined<'_> {
    /// The pairs, slowest first.
    fn slow(&self) -> Vec<(&Guest, Vec<Segment>)> {
        let mut all: Vec<_> = self.join.commands().collect();
        all.sort_by_key(|(g, _)| (Reverse(g.last_ns - g.begin_ns), g.issue_ns));
        all.truncate(self.args.slowest);
        let stages = |line: Timeline| line.segments(StageSet::Join).unwrap_or_default();
        all.into_iter().map(|(guest, line)| (guest, stages(line))).collect()
    }

    /// Writes the report as text.
    ///
    /// # Errors
    /// If there are too many rows; errors of the writer.
    pub fn text(&self, color: bool, out: &mut dyn Write) -> Result<()> {
        let (view, disks) = (TextView::of(Theme { color }, output_width(), true), self.disks());
        view.disk_rows(&self.join.rows()?, StageSet::Join, &disks, out)?;
        for (n, (guest, stages)) in self.slow().iter().enumerate() {
            if n == 0 {
                writeln!(out, "{}", view.theme.head("slowest commands"))?;
            }
            slow_line(guest, stages, &disks, out)?;
        }
        if self.args.slowest > 0 && !self.join.pairs.is_empty() {
            writeln!(out)?;
        }
        Ok(self.summary(out)?)
    }

    /// The names of the guest's disks.
    fn disks(&self) -> DiskNames {
        let mut disks = DiskNames::default();
        disks.recorded(&self.guest.controllers);
        disks
    }

    /// The pairs of controllers, by name.
    fn controllers(&self) -> impl Iterator<Item = (String, Text)> {
        let name = |(g, h): (&u32, &u32)| (format!("nvme{g}"), name_of(&self.host.targets, *h));
        self.pairs.iter().map(name)
    }

    /// Whether nothing of either recording is lost.
    fn is_exact(&self) -> bool {
        self.guest.is_exact() && self.host.is_exact()
    }

    /// Reasons for commands without a partner.
    fn notes(&self) -> Vec<String> {
        let Self { guest, host, .. } = self;
        let ledger = host.ledger.clone().unwrap_or_default();
        let lost = ledger.degraded().into_iter().map(|what| format!("the host side has {what}"));
        let not_exact =
            (!guest.is_exact()).then(|| "the recording of the guest is not exact".to_owned());
        let counts = [
            (ledger.orphan_completions, "ends without a start on the host side"),
            (
                host.without_times,
                "commands of the host side without times, or with times out of order",
            ),
            (guest.without_times, "commands of the guest without times"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("{what}: {count}"));
        not_exact.into_iter().chain(lost).chain(counts).collect()
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
            "host minus guest {low} to {high} ns, {by}. to_host and to_guest are uncertain by {}: what \
             one of the two gains, the other loses",
            nanos(self.join.error_ns().unwrap_or(0) as f64)
        )
    }

    fn summary(&self, out: &mut dyn Write) -> io::Result<()> {
        let join = &self.join;
        let pairs: Vec<String> =
            self.controllers().map(|(guest, host)| format!("{guest} = {}", word(&host))).collect();
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
        entries.extend(self.is_exact().then(|| ("accuracy", exact.to_owned())));
        entries.extend(self.notes().into_iter().map(|note| ("note", note)));
        entries.iter().try_for_each(|(label, text)| entry_at(10, label, text, out))
    }

    /// Writes the report as JSON: an object per stratum, one per slow command, and `join`.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> Result<()> {
        let disks = self.disks();
        for row in &self.join.rows()? {
            typed_line("join_row", &json::row(row, StageSet::Join, false, &disks), out)?;
        }
        for (guest, stages) in self.slow() {
            let mut line = ids(&guest.id, guest.blocks);
            let stage = |s: &Segment| json!({ "name": s.run.name(), "ns": s.ns });
            let more = [
                ("time_ns", json!(guest.last_ns)),
                ("ctrl", json!(format!("nvme{}", guest.ctrl))),
                ("stages", stages.iter().map(stage).collect()),
                ("total_ns", json!(guest.last_ns - guest.begin_ns)),
            ];
            line.extend(more.map(|(key, value)| (key.to_owned(), value)));
            typed_line("join_command", &line, out)?;
        }
        Ok(typed_line("join", &self.end_line(), out)?)
    }

    fn end_line(&self) -> Value {
        let join = &self.join;
        let offset = join.offset.as_ref();
        let ([guest, host], [of_guest, of_host]) = (join.unmatched(), join.ambiguous);
        json!({
            "controllers": self.controllers().collect::<Vec<_>>(),
            "exact": self.is_exact(),
            "matched": join.pairs.len(),
            "unmatched_guest": guest,
            "unmatched_host": host,
            "ambiguous_guest": of_guest,
            "ambiguous_host": of_host,
            "clock": self.clock,
            "offset_low_ns": offset.map(|o| o.range_ns.0),
            "offset_high_ns": offset.map(|o| o.range_ns.1),
            "error_ns": join.error_ns(),
            "bounded_by_cqe": join.has_cqes(),
            "notes": self.notes(),
        })
    }
}

fn slow_line(
    guest: &Guest,
    stages: &[Segment],
    disks: &DiskNames,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = nanos((guest.last_ns - guest.begin_ns) as f64);
    let CommandId { qid, cid, nsid, opcode, .. } = guest.id;
    let mut text = format!("{} qid={qid} cid={cid}", disks.subject(guest.ctrl, nsid, opcode));
    guest.blocks.iter().for_each(|blocks| text += &format!(" slba={}", blocks.slba));
    writeln!(out, "{total:>8}  {text}")?;
    let stage = |s: &Segment| format!("{}={}", s.run.name(), nanos(s.ns as f64));
    let stages: Vec<String> = stages.iter().map(stage).collect();
    entry_at(10, "", &stages.join(" "), out)
}
