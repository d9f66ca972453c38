// SPDX-License-Identifier: MIT OR Apache-2.0
//! The join of both sides as text and as JSON.

use std::cmp::Reverse;
use std::io;
use std::io::Write;

use serde::Serialize;

use crate::join::pairing::{Guest, Join, Part, Segment, Strata};
use crate::model::histogram::Histogram;
use crate::model::report::disk_names::DiskNames;
use crate::model::text::{Text, word};
use crate::nvme::subject::fctype;
use crate::units::{counted, nanos};
use crate::view::json::{Dist, SCHEMA_VERSION, dist, line as json_line};
use crate::view::page::fill;
use crate::view::theme::Theme;

/// Width of the column of names.
const NAME: usize = 26;

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
    /// Reasons for unmatched commands.
    pub notes: Vec<String>,
}

/// A signed time.
fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", nanos(-ns)) } else { nanos(ns) }
}

fn short(name: &str) -> String {
    match (name.split_once('+'), name.rsplit_once('+')) {
        (Some((first, _)), Some((_, last))) if name.len() >= NAME => format!("{first}..{last}"),
        _ => name.to_owned(),
    }
}

impl JoinView<'_> {
    /// The pairs, slowest first.
    fn slow(&self) -> Vec<(&Guest, Vec<Segment>)> {
        let mut all: Vec<_> = self.join.commands().map(|(g, _, parts)| (g, parts)).collect();
        all.sort_by_key(|(g, _)| (Reverse(g.last_ns - g.begin_ns), g.issue_ns));
        all.truncate(self.slowest);
        all
    }

    /// Writes the report as text.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
        let strata = Strata::of(self.join);
        for (key, parts) in &strata.parts {
            let (ctrl, nsid, opcode) = *key;
            let Some(total) = strata.totals.get(key) else {
                continue;
            };
            let head = theme.head(&self.disks.subject(ctrl, nsid, opcode));
            writeln!(out, "{head}  {}", counted(total.times.count(), "cmd"))?;
            let columns = format!(
                "  {:<NAME$}{:>7}{:>7}{:>8}{:>8}{:>8}{:>8}",
                "part", "n", "share", "mean", "p50", "p99", "max"
            );
            writeln!(out, "{}", theme.dim(&columns))?;
            for part in parts {
                self.part(part, total.sum_ns, out)?;
            }
            self.part(&Part { name: "total".into(), ..total.clone() }, total.sum_ns, out)?;
            writeln!(out)?;
        }
        for (n, (guest, parts)) in self.slow().iter().enumerate() {
            if n == 0 {
                writeln!(out, "{}", theme.head("slowest commands"))?;
            }
            slow_line(guest, parts, self.disks, out)?;
        }
        if self.slowest > 0 && !self.join.matches.pairs.is_empty() {
            writeln!(out)?;
        }
        self.summary(out)
    }

    fn part(&self, part: &Part, total: i128, out: &mut dyn Write) -> io::Result<()> {
        let Part { name, times, sum_ns, by_clock } = part;
        let share = 100.0 * *sum_ns as f64 / (total as f64).max(1.0);
        let mean = *sum_ns as f64 / (times.count() as f64).max(1.0);
        let name = short(name) + if *by_clock && self.error() > 0 { " *" } else { "" };
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".into(), |ns| nanos(ns as f64));
        write!(out, "  {name:<NAME$}{:>7}{share:>6.1}%{:>8}", times.count(), signed(mean))?;
        for p in [50.0, 99.0] {
            write!(out, "{:>8}", time(times.percentile(p)))?;
        }
        writeln!(out, "{:>8}", time(times.max()))
    }

    fn error(&self) -> u64 {
        self.join.error_ns().unwrap_or(0)
    }

    /// The clock in sentences.
    fn clock_text(&self) -> String {
        let Some(offset) = &self.join.matches.offset else {
            return "no offset agrees with the pairs: the two directions are one part, `transit`"
                .into();
        };
        let by = match self.clock {
            JoinClock::Same => return "same: both recordings have the clock of one boot".into(),
            JoinClock::Pairs if self.join.guest.iter().all(|g| g.has_cqe) => {
                "bounded by issue and the CQE"
            }
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
        let Self { join, .. } = self;
        let matches = &join.matches;
        let pairs: Vec<String> = self
            .controllers
            .iter()
            .map(|(g, h)| format!("nvme{g} = {}", word(&(self.host_name)(*h))))
            .collect();
        let mut entries = vec![
            ("joined", pairs.join(", ")),
            (
                "matched",
                format!(
                    "{}; unmatched: guest {}, host {}; ambiguous: guest {}, host {}",
                    counted(matches.pairs.len() as u64, "command"),
                    join.unmatched_guest(),
                    join.unmatched_host(),
                    matches.ambiguous_guest,
                    matches.ambiguous_host
                ),
            ),
            ("clock", self.clock_text()),
        ];
        if matches.contradictory > 0 {
            let text = format!(
                "{} pairs with equal ids contradict the clock, and are unmatched",
                matches.contradictory
            );
            entries.push(("", text));
        }
        entries.extend(self.notes.iter().map(|note| ("note", note.clone())));
        for (label, text) in entries {
            let mut first = format!("{label:<10}");
            for line in fill(&text, 10) {
                writeln!(out, "{first}{line}")?;
                first = " ".repeat(10);
            }
        }
        Ok(())
    }

    /// Writes the report as JSON: an object per stratum, one per slow command, and `join`.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let strata = Strata::of(self.join);
        for (key, parts) in &strata.parts {
            let (ctrl, nsid, opcode) = *key;
            let total = strata.totals.get(key).map(|t| &t.times);
            let row = RowLine {
                r#type: "join_row",
                schema_version: SCHEMA_VERSION,
                ctrl: format!("nvme{ctrl}"),
                nsid,
                queue: opcode.queue.name(),
                opcode: opcode.name_or_code(),
                fctype: fctype(opcode, nsid),
                parts: parts.iter().map(part_line).collect(),
                total: dist(total.unwrap_or(&Histogram::new()), false),
            };
            json_line(&row, out)?;
        }
        for (guest, parts) in self.slow() {
            json_line(&command_line(guest, parts), out)?;
        }
        json_line(&self.end_line(), out)
    }

    fn end_line(&self) -> EndLine<'_> {
        let Self { join, .. } = self;
        let matches = &join.matches;
        let offset = matches.offset.as_ref();
        EndLine {
            r#type: "join",
            schema_version: SCHEMA_VERSION,
            controllers: self
                .controllers
                .iter()
                .map(|(g, h)| (format!("nvme{g}"), (self.host_name)(*h)))
                .collect(),
            matched: matches.pairs.len() as u64,
            unmatched_guest: join.unmatched_guest(),
            unmatched_host: join.unmatched_host(),
            ambiguous_guest: matches.ambiguous_guest,
            ambiguous_host: matches.ambiguous_host,
            contradictory: matches.contradictory,
            clock: self.clock,
            offset_low_ns: offset.map(|o| o.range_ns.0),
            offset_high_ns: offset.map(|o| o.range_ns.1),
            drift_low_ppm: offset.map(|o| o.drift_ppm.0),
            drift_high_ppm: offset.map(|o| o.drift_ppm.1),
            error_ns: join.error_ns(),
            bounded_by_cqe: join.guest.iter().all(|g| g.has_cqe),
            notes: &self.notes,
        }
    }
}

fn slow_line(
    guest: &Guest,
    parts: &[Segment],
    disks: &DiskNames,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = nanos((guest.last_ns - guest.begin_ns) as f64);
    let mut text = format!(
        "{} qid={} cid={}",
        disks.subject(guest.ctrl, guest.nsid, guest.opcode),
        guest.qid,
        guest.cid
    );
    let slba = guest.slba.iter();
    slba.for_each(|slba| text += &format!(" slba={slba}"));
    writeln!(out, "{total:>8}  {text}")?;
    let parts: Vec<String> =
        parts.iter().map(|p| format!("{}={}", p.name, signed(p.ns as f64))).collect();
    for line in fill(&parts.join(" "), 10) {
        writeln!(out, "          {line}")?;
    }
    Ok(())
}

#[derive(Serialize)]
struct PartLine<'a> {
    name: &'a str,
    uncertain: bool,
    exact_sum_ns: i64,
    #[serde(flatten)]
    dist: Dist,
}

fn part_line(part: &Part) -> PartLine<'_> {
    PartLine {
        name: &part.name,
        uncertain: part.by_clock,
        exact_sum_ns: i64::try_from(part.sum_ns).unwrap_or(i64::MAX),
        dist: dist(&part.times, false),
    }
}

#[derive(Serialize)]
struct RowLine<'a> {
    r#type: &'static str,
    schema_version: u32,
    ctrl: String,
    nsid: u32,
    queue: &'static str,
    opcode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fctype: Option<String>,
    parts: Vec<PartLine<'a>>,
    total: Dist,
}

#[derive(Serialize)]
struct SegmentLine {
    name: String,
    ns: i64,
}

#[derive(Serialize)]
struct CommandLine {
    r#type: &'static str,
    schema_version: u32,
    time_ns: u64,
    ctrl: String,
    qid: u16,
    cid: u16,
    nsid: u32,
    queue: &'static str,
    opcode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fctype: Option<String>,
    slba: Option<u64>,
    nlb: Option<u32>,
    parts: Vec<SegmentLine>,
    total_ns: u64,
}

fn command_line(guest: &Guest, parts: Vec<Segment>) -> CommandLine {
    let line = |s: Segment| SegmentLine { name: s.name, ns: s.ns };
    CommandLine {
        r#type: "join_command",
        schema_version: SCHEMA_VERSION,
        time_ns: guest.last_ns,
        ctrl: format!("nvme{}", guest.ctrl),
        qid: guest.qid,
        cid: guest.cid,
        nsid: guest.nsid,
        queue: guest.opcode.queue.name(),
        opcode: guest.opcode.name_or_code(),
        fctype: fctype(guest.opcode, guest.nsid),
        slba: guest.slba,
        nlb: guest.nlb,
        parts: parts.into_iter().map(line).collect(),
        total_ns: guest.last_ns - guest.begin_ns,
    }
}

#[derive(Serialize)]
struct EndLine<'a> {
    r#type: &'static str,
    schema_version: u32,
    controllers: Vec<(String, Text)>,
    matched: u64,
    unmatched_guest: u64,
    unmatched_host: u64,
    ambiguous_guest: u64,
    ambiguous_host: u64,
    contradictory: u64,
    clock: JoinClock,
    offset_low_ns: Option<i64>,
    offset_high_ns: Option<i64>,
    drift_low_ppm: Option<f64>,
    drift_high_ppm: Option<f64>,
    error_ns: Option<u64>,
    bounded_by_cqe: bool,
    notes: &'a [String],
}
