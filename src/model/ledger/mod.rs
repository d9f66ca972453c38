// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accuracy ledger: commands seen, their outcome, losses, and whether the counts balance.
//! `report::ledger` builds it. Recordings hold it as JSON: a field that one lacks has its default.

mod cost;
mod hooks;
mod target;
mod trace;

use std::ops::Not;

use serde::{Deserialize, Serialize};

pub use self::cost::{OwnCost, ProgramCost};
pub use self::hooks::{HookLine, MissingHook, PointMethod};
pub use self::target::HostLedger;
use self::trace::is_zero;
pub use self::trace::{EventClass, Shown, TraceLedger};
use super::counters::Counters;
use super::point::Point;
use super::run::Pairing;

/// Accuracy of the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accuracy {
    /// Nothing was lost.
    Exact,
    /// No loss is known, but the kernel does not count the misses of the attach methods.
    Unknown,
    /// Something was lost. One phrase per reason.
    Degraded(Vec<String>),
}

impl Accuracy {
    /// Exact without a reason, if all losses are known.
    fn of(reasons: Vec<String>, losses_known: bool) -> Self {
        if !reasons.is_empty() {
            Self::Degraded(reasons)
        } else if losses_known {
            Self::Exact
        } else {
            Self::Unknown
        }
    }
}

/// The counts that are not zero, as phrases: `3 lost`.
fn phrases(counts: impl IntoIterator<Item = (u64, &'static str)>) -> impl Iterator<Item = String> {
    let lost = counts.into_iter().filter(|(n, _)| *n > 0);
    lost.map(|(n, what)| match n {
        1 => format!("1 {}", what.replacen("s ", " ", 1)),
        n => format!("{n} {what}"),
    })
}

/// Two differences that are zero if every command is accounted for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Balance {
    /// seen - matched - in_flight - ending - requeued - overwritten.
    pub commands_residual: i64,
    /// completions - matched - ending - orphans - filtered - untracked.
    pub completions_residual: i64,
    /// Whether both are zero.
    pub balanced: bool,
}

/// The ledger. All counts are since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Commands that the driver set up and the filters accepted.
    pub seen: u64,
    /// Of these, commands in the histograms (or finished without a free row, see `no_row`).
    pub matched: u64,
    /// Of these, commands not completed yet. Counted slot by slot at the end of the run; before,
    /// the difference of the other counts.
    pub in_flight: u64,
    /// Of these, commands completed but not ended by blk-mq yet (fine stage set).
    pub ending: u64,
    /// Of these, commands set up again without having completed: the driver refused them, or blk-mq
    /// took them back, before they reached the device.
    pub requeued: u64,
    /// Of these, commands in no row: another command took the slot, and nothing shows how this one
    /// ended.
    pub overwritten: u64,
    /// Completions, observed or not.
    pub completions: u64,
    /// Completions of commands that were set up before the run began or after it ended.
    pub orphan_completions: u64,
    /// Of the commands seen, those with a setup that the kernel skipped. Their CQE or their
    /// completion shows them.
    pub unseen_setups: u64,
    /// Of the completions, those that the kernel skipped. The command's generation shows them.
    pub unseen_completions: u64,
    /// Of the commands matched, those without any interval.
    pub unmeasured: u64,
    /// Commands in no row because a filter needs the submitter, and the setup or the submission of the
    /// bio was not observed.
    pub unattributed: u64,
    /// Maximum number of commands in no row because both their setup and their completion were
    /// skipped.
    pub unrecovered: u64,
    /// Commands that a filter rejected.
    pub filtered: u64,
    /// Their completions.
    pub filtered_completions: u64,
    /// With a filter by cgroup: commands that were selected by the task that submitted them, because
    /// their cgroup is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub by_task: u64,
    /// Commands of controllers, queues or tags that are not in the slot table.
    pub untracked: u64,
    /// Their completions.
    pub untracked_completions: u64,
    /// Commands matched, but in no row, because the row table was full.
    pub no_row: u64,
    /// Commands whose stages were merged, although their points were observed: few rows were left.
    #[serde(skip_serializing_if = "is_zero")]
    pub fewer_points: u64,
    /// Requests with a bio whose submission was not observed: their commands have no stage before the
    /// request. Only with those stages.
    #[serde(skip_serializing_if = "is_zero")]
    pub unseen_bios: u64,
    /// Of these, at most as many whose bio found no room in the table.
    #[serde(skip_serializing_if = "is_zero")]
    pub unstored_bios: u64,
    /// Requests with a wait whose end was not observed. They have no stage before the request either.
    #[serde(skip_serializing_if = "is_zero")]
    pub unpaired_waits: u64,
    /// Setups and completions on CPUs that the kernel had not listed, which are counted nowhere else.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_cpu: u64,
    /// Requeues of NVMe requests by blk-mq: retries, and commands taken back.
    pub requeue_events: u64,
    /// Doorbells discarded: the interrupt came before the submitting function returned.
    pub late_doorbells: u64,
    /// Doorbells discarded: an earlier doorbell was not observed, so their commands are not known.
    pub unsure_doorbells: u64,
    /// Interrupts discarded: the handler was already running at the doorbell.
    pub early_irqs: u64,
    /// Points out of order for no known reason.
    pub negative_intervals: u64,
    /// Starts discarded (`start_time_ns` of a retry, or in the future).
    pub discarded_starts: u64,
    /// Doorbells lost: a task set up more commands at once than the list holds, or (kprobes) the
    /// return of the submitting function was not observed.
    pub doorbell_list_full: u64,
    /// Lookups of queues that contradict the type information of a file. These queues are not used.
    pub misfits: u64,
    /// Records that found no room in the ring.
    pub ring_drops: u64,
    /// Program runs that the kernel skipped, over all hooks of commands and controllers.
    pub recursion_misses: u64,
    /// Whether all causes of lost commands are counted. Not if kprobes or classic tracepoints begin
    /// or end commands on a kernel that does not count their misses (before 6.7).
    pub misses_known: bool,
    /// The commands were read from a text, which may be an excerpt: what its tracer lost is not known.
    #[serde(skip_serializing_if = "Not::not")]
    pub imported: bool,
    /// The first and the last point of totals, as far as they were observed for a command.
    #[serde(rename = "total_span")]
    pub span: (Point, Point),
    /// How completions find their setup: `request`, or `tag` with classic tracepoints.
    pub pairing: Pairing,
    /// Whether the counts balance; only after all hooks are detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Balance>,
    /// Commands that a recording has after this ledger, its last one. Whether others were lost beside
    /// them is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub uncovered: u64,
    /// CPUs share histograms, because they would take too much memory: each command costs more.
    #[serde(skip_serializing_if = "Not::not")]
    pub shares_cells: bool,
    /// Whether commands with a skipped program are recovered, and counted in their row.
    pub recovers: bool,
    /// Whether completions can be missed: then a command in flight at the end may have completed.
    pub may_lose_completions: bool,
    /// The attach method of each point of the stage set.
    pub methods: Vec<PointMethod>,
    /// The events of a trace.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceLedger>,
    /// The cost of the tool's programs (with `-v`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cost: Option<OwnCost>,
    /// The attached hooks.
    pub hooks: Vec<HookLine>,
    /// The hooks that are not available, with the reasons.
    pub missing_hooks: Vec<MissingHook>,
}

impl Ledger {
    /// Sets the number of commands in rows without an interval. A trace counts them in the kernel.
    #[must_use]
    pub fn with_unmeasured(self, unmeasured: u64) -> Self {
        Self { unmeasured, ..self }
    }

    /// Adds the ledger of a trace.
    #[must_use]
    pub fn with_trace(self, counters: &Counters, shown: &Shown) -> Self {
        Self { trace: Some(TraceLedger::new(counters, shown)), ..self }
    }

    /// The ledger of a trace, for the time at which `later` more of its commands were shown than at its
    /// own. The programs count a command before it is shown. Of those that came since, as many as were
    /// in flight are taken to be these.
    #[must_use]
    pub fn when_shown(self, later: u64) -> Self {
        let Some(trace) = &self.trace else {
            return self;
        };
        let matched = trace.commands_shown + trace.not_shown + trace.lost_completions + later;
        let in_flight = (self.matched + self.in_flight).saturating_sub(matched);
        let added = (matched + in_flight).saturating_sub(self.matched + self.in_flight);
        Self {
            seen: self.seen + added,
            in_flight,
            matched,
            completions: (self.completions + matched).saturating_sub(self.matched),
            ..self
        }
    }

    /// The last ledger of a recording without an end, which has this many commands after it.
    #[must_use]
    pub fn cut_off(self, later: u64) -> Self {
        // what it counted already is among the later ones
        Self { uncovered: later, ..self.when_shown(0) }
    }

    /// The accuracy of the numbers.
    pub fn accuracy(&self) -> Accuracy {
        Accuracy::of(self.degraded(), self.misses_known)
    }

    /// Why the numbers are not exact, one phrase per reason. Empty if they are exact. Few kinds: `-v` and JSON
    /// have each count.
    pub fn degraded(&self) -> Vec<String> {
        let without_end = match self.may_lose_completions && self.balance.is_some() {
            true => self.overwritten + self.in_flight,
            false => self.overwritten,
        };
        let skipped = if self.recovers { 0 } else { self.recursion_misses };
        let without_row = self.no_row + self.untracked + self.unattributed + self.no_cpu;
        let of_trace = self.trace.as_ref().map(TraceLedger::flaws);
        let of_rows = [(self.ring_drops, "events lost: the ring was full")];
        let all = [
            (without_end, "commands without a known end"),
            (without_row, "commands without a row"),
            (self.unrecovered, "commands may be in no row: the kernel skipped programs"),
            (skipped, "program runs skipped by the kernel"),
            (self.negative_intervals + self.doorbell_list_full, "points out of order or not kept"),
        ];
        let lost = of_trace.as_ref().map_or(&of_rows[..], |flaws| &flaws[..]);
        let mut reasons: Vec<String> =
            phrases(all.into_iter().chain(lost.iter().copied())).collect();
        if let Some(off) = self.balance.filter(|b| !b.balanced) {
            reasons.push(format!(
                "the ledger is off by {} commands and {} completions",
                off.commands_residual, off.completions_residual
            ));
        }
        reasons
    }
}
