// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an import has read, and what its text lacks.

use std::io;
use std::io::Write;

use serde::Serialize;

use super::driver::Census;
use super::kvm::KvmTrace;
use super::lines::Unread;
use super::spdk::State;
use crate::model::histogram::Histogram;
use crate::model::ledger::HostLedger;
use crate::model::target::TargetKind;
use crate::model::text::Text;
use crate::target::Imported;
use crate::units::{counted, nanos};
use crate::view::header::entry_at;
use crate::view::json::{Dist, dist, typed_line};

/// Column of the texts.
const COLUMN: usize = 12;

/// Lines of a kind.
#[derive(Serialize)]
struct Kind {
    kind: Text,
    #[serde(flatten)]
    unread: Unread,
}

/// The report.
#[derive(Default, Serialize)]
pub struct Report {
    /// What the text is.
    pub format: &'static str,
    /// What it has: `command`, `request`, `doorbell write`.
    #[serde(skip)]
    pub what: &'static str,
    /// What was read, and what was not.
    #[serde(flatten)]
    pub ledger: HostLedger,
    /// Resolution of the times; zero: there are none.
    pub resolution_ns: u64,
    /// What the text lacks, and what follows from that; a sentence each.
    pub lacks: Vec<String>,
    unread: Vec<Kind>,
    /// The states of SPDK's objects, since the first one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    states: Vec<StateLine>,
}

/// A state.
#[derive(Serialize)]
struct StateLine {
    state: Text,
    #[serde(flatten)]
    since: Dist,
    #[serde(skip)]
    hist: Histogram,
}

impl Report {
    /// That of tracepoints of the driver.
    pub fn of_driver(census: &Census) -> Self {
        let ledger = &census.ledger;
        let has = |name| census.events.contains_key(name);
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
        let without = |known: u64| matched.saturating_sub(known);
        if has("nvme_sq") && without(census.with_cqe) > 0 {
            let n = counted(without(census.with_cqe), "command");
            lack(true, &format!("the CQE of {n}: no nvme_sq, or several, fit"));
        }
        if has("block_getrq") && without(census.with_start) > 0 {
            let n = counted(without(census.with_start), "command");
            lack(true, &format!("the allocation of {n}: no block_getrq, or several, fit"));
        }
        if census.bare > 0 {
            let n = counted(census.bare, "command");
            lack(true, &format!("the blocks and sizes of {n}: CDW10 to CDW15 are not printed"));
        }
        if census.partial > 0 {
            let n = counted(census.partial, "command");
            lack(
                true,
                &format!("some fields of {n}: the kernel does not print them, they read as zero"),
            );
        }
        if census.without_status > 0 {
            let n = counted(census.without_status, "completion");
            lack(true, &format!("the status of {n}"));
        }
        if census.overwritten > 0 {
            let n = counted(census.overwritten, "event");
            lack(true, &format!("{n} at its begin, which ftrace's ring had overwritten"));
        }
        let ledger = HostLedger {
            imported: true,
            commands: matched,
            unfinished: ledger.in_flight,
            without_begin: ledger.orphan_completions,
            without_end: ledger.overwritten + ledger.untracked,
            lost: ledger.trace.as_ref().map_or(0, |trace| trace.lost_events),
            ..HostLedger::default()
        };
        Self {
            format: "tracepoints of the driver",
            what: "command",
            ledger,
            resolution_ns: census.resolution_ns,
            lacks,
            ..Self::default()
        }
        .with(&census.unreads)
    }

    /// That of a target.
    #[must_use]
    pub fn of_target(self, imported: &Imported, format: &'static str) -> Self {
        let is_command = imported.target.kind == TargetKind::Qemu;
        Self {
            format,
            what: if is_command { "command" } else { "request" },
            ledger: imported.ledger.clone(),
            resolution_ns: imported.target.resolution_ns,
            ..self
        }
    }

    /// That of doorbell writes.
    pub fn of_kvm(trace: &KvmTrace) -> Self {
        let user = "returns to user space (kvm_userspace_exit): IN_USER is not known";
        Self {
            format: "tracepoints of KVM",
            what: "doorbell write",
            ledger: HostLedger {
                imported: true,
                commands: trace.writes(),
                without_end: trace.incomplete,
                lost: trace.lost,
                ..HostLedger::default()
            },
            resolution_ns: trace.resolution_ns,
            lacks: (!trace.has_user).then(|| user.to_owned()).into_iter().collect(),
            ..Self::default()
        }
        .with(&trace.unreads)
    }

    /// The same, which lacks this, too.
    #[must_use]
    pub fn lacking(mut self, lacks: &[impl ToString]) -> Self {
        self.lacks.extend(lacks.iter().map(ToString::to_string));
        self
    }

    /// The same with the states of SPDK's objects.
    #[must_use]
    pub fn with_states(mut self, states: Vec<State>) -> Self {
        let line = |State { name, since }: State| StateLine {
            state: name,
            since: dist(&since, false),
            hist: since,
        };
        self.states = states.into_iter().map(line).collect();
        self
    }

    /// The same with the lines that nothing was read from.
    #[must_use]
    pub fn with(mut self, unreads: &super::lines::Unreads) -> Self {
        let kinds = unreads.0.iter();
        self.unread = kinds
            .map(|(kind, unread)| Kind { kind: kind.clone(), unread: unread.clone() })
            .collect();
        self
    }

    /// Writes it.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            return typed_line("import", self, out);
        }
        if !self.states.is_empty() {
            writeln!(out, "{:<24}{:>7}{:>9}{:>9}{:>9}", "STATE", "n", "mean", "p50", "max")?;
        }
        for StateLine { state, hist, .. } in &self.states {
            let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), nanos);
            let p50 = time(hist.percentile(50.0).map(|ns| ns as f64));
            let max = time(hist.max().map(|ns| ns as f64));
            writeln!(
                out,
                "{state:<24}{:>7}{:>9}{p50:>9}{max:>9}",
                hist.count(),
                time(hist.mean())
            )?;
        }
        let mut entry = |label: &str, text: &str| entry_at(COLUMN, label, text, out);
        entry("format", self.format)?;
        let ledger = &self.ledger;
        let mut text = counted(ledger.commands, self.what);
        for (count, what, how) in [
            (ledger.unfinished, "start", " without an end before the text ends"),
            (ledger.without_begin, "end", " without a start"),
            (ledger.without_end, "start", " without an end"),
            (ledger.interrupts, "interrupt", ""),
            (ledger.lost, "event", " lost before the text was written"),
        ] {
            if count > 0 {
                text += &format!(", {}{how}", counted(count, what));
            }
        }
        entry("read", &text)?;
        if ledger.other > 0 {
            let text = format!("{}, which say nothing more", counted(ledger.other, "event"));
            entry("not needed", &text)?;
        }
        match self.resolution_ns {
            0 => entry("times", "none: only the order of the lines")?,
            ns => entry("times", &format!("to {}", nanos(ns as f64)))?,
        }
        for (n, lack) in self.lacks.iter().enumerate() {
            entry(if n == 0 { "lacks" } else { "" }, lack)?;
        }
        for (n, Kind { kind, unread }) in self.unread.iter().enumerate() {
            let Unread { count, line, first } = unread;
            let text = format!("{} of {kind}; line {line}: {first}", counted(*count, "line"));
            entry(if n == 0 { "not read" } else { "" }, &text)?;
        }
        Ok(())
    }
}
