// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an import has read, and what its text lacks.

use std::io;
use std::io::Write;

use serde::Serialize;

use super::driver::Census;
use super::kvm::KvmTrace;
use super::lines::{Unread, Unreads};
use super::spdk::State;
use crate::model::ledger::{Ledger, TraceLedger};
use crate::units::{counted, nanos};
use crate::view::header::entry_at;
use crate::view::json::typed_line;
use crate::view::table::{Table, WIDE};
use crate::view::text::times;
use crate::view::theme::Theme;

/// Column of the texts.
const COLUMN: usize = 12;

/// The report.
#[derive(Default, Serialize)]
pub struct Report {
    /// What the text is.
    pub format: &'static str,
    /// What it has: `command`, `request`, `doorbell write`.
    #[serde(skip)]
    pub what: &'static str,
    /// What was read, and what was not.
    pub ledger: Ledger,
    /// Lines about something else.
    pub other: u64,
    /// Resolution of the times; zero: there are none.
    pub resolution_ns: u64,
    /// What the text lacks, and what follows from that; a sentence each.
    pub lacks: Vec<String>,
    /// Lines that nothing was read from.
    pub unread: Unreads,
    /// The states of SPDK's objects, since the first one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<State>,
}

impl Report {
    /// The report on tracepoints of the driver.
    pub fn of_driver(census: &Census) -> Self {
        let ledger = &census.ledger;
        let has = |name| census.events.contains(name);
        let stages = match has("nvme_sq") {
            true => "doorbells and interrupts: `submit+device` is one stage",
            false => {
                "doorbells, interrupts and CQEs (nvme_sq): `submit+device+complete` is one stage"
            }
        };
        let mut lacks = vec![stages.to_owned()];
        let mut lack = |is: bool, text: &str| lacks.extend(is.then(|| text.to_owned()));
        lack(!has("nvme_setup_cmd"), "nvme_setup_cmd: no command has a start");
        lack(!has("nvme_complete_rq"), "nvme_complete_rq: no command has an end");
        lack(!has("block_getrq"), "block_getrq: no `queue`");
        let matched = ledger.matched;
        let without = |name, known| if has(name) { matched.saturating_sub(known) } else { 0 };
        let mut some = |n: u64, what: &str, text: &str| {
            lacks.extend((n > 0).then(|| text.replace("{}", &counted(n, what))));
        };
        let (no_cqe, no_start) =
            (without("nvme_sq", census.with_cqe), without("block_getrq", census.with_start));
        some(no_cqe, "command", "the CQE of {}: no nvme_sq, or several, fit");
        some(no_start, "command", "the allocation of {}: no block_getrq, or several, fit");
        let fields = "some fields of {}: the kernel does not print them, they read as zero";
        some(census.bare, "command", "the blocks and sizes of {}: CDW10 to CDW15 are not printed");
        some(census.partial, "command", fields);
        some(census.without_status, "completion", "the status of {}");
        let early = "{} at its start, which ftrace's ring had overwritten";
        some(census.overwritten, "event", early);
        let report = Self::of_census("tracepoints of the driver", "command", census);
        Self { lacks, ..report }
    }

    /// The report on a text with commands of the driver.
    pub fn of_census(format: &'static str, what: &'static str, census: &Census) -> Self {
        Self {
            format,
            what,
            ledger: census.ledger.clone(),
            other: census.other,
            resolution_ns: census.resolution_ns,
            lacks: census.lacks.clone(),
            unread: census.unreads.clone(),
            ..Self::default()
        }
    }

    /// The report on doorbell writes.
    pub fn of_kvm(trace: &KvmTrace) -> Self {
        let mut ledger = Ledger {
            matched: trace.writes(),
            overwritten: trace.incomplete,
            ..Ledger::of_target(true)
        };
        ledger.lose(trace.lost);
        let user = "returns to user space (kvm_userspace_exit): IN_USER is not known";
        Self {
            format: "tracepoints of KVM",
            what: "doorbell write",
            ledger,
            resolution_ns: trace.resolution_ns,
            lacks: (!trace.has_user).then(|| user.to_owned()).into_iter().collect(),
            unread: trace.unreads.clone(),
            ..Self::default()
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            return typed_line("import", self, out);
        }
        let mut table = Table::default();
        for State { name, since } in &self.states {
            let mut cells = vec![("<STATE", name.to_string()), ("N", since.count().to_string())];
            cells.extend(times(since, false, false));
            table.row(cells);
        }
        table.write(Theme { color: false }, WIDE, out)?;
        let mut entry = |label: &str, text: &str| entry_at(COLUMN, label, text, out);
        entry("format", self.format)?;
        let ledger = &self.ledger;
        let mut text = counted(ledger.matched, self.what);
        let lost = ledger.trace.as_ref().map_or(0, TraceLedger::lost);
        for (count, what, how) in [
            (ledger.in_flight, "start", " without an end before the text ends"),
            (ledger.orphan_completions, "end", " without a start"),
            (ledger.overwritten + ledger.untracked, "start", " without an end"),
            (lost, "event", " lost before the text was written"),
        ] {
            if count > 0 {
                text += &format!(", {}{how}", counted(count, what));
            }
        }
        entry("read", &text)?;
        if self.other > 0 {
            let text = format!("{} about something else", counted(self.other, "event"));
            entry("not needed", &text)?;
        }
        match self.resolution_ns {
            0 => entry("times", "none: only the order of the lines")?,
            ns => entry("times", &format!("to {}", nanos(ns as f64)))?,
        }
        for (n, lack) in self.lacks.iter().enumerate() {
            entry(if n == 0 { "lacks" } else { "" }, lack)?;
        }
        for (n, Unread { kind, count, line, first }) in self.unread.0.iter().enumerate() {
            let text = format!("{} of {kind}; line {line}: {first}", counted(*count, "line"));
            entry(if n == 0 { "not read" } else { "" }, &text)?;
        }
        Ok(())
    }
}
