// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accuracy ledger: commands seen, their outcome, losses, and whether the counts balance.
//! `report::ledger` builds it. Recordings hold it as JSON: a field that one lacks has its default.

use super::counters::Counters;
use super::point::Point;
use crate::model::counters::Count;
use crate::model::event::{Event, EventKind};
use crate::model::machine::Pairing;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::model::timeline::Timeline;
use serde::{Deserialize, Serialize};
use std::ops::Not;

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
    /// How many of these bios, at most, found no room in the table.
    #[serde(skip_serializing_if = "is_zero")]
    pub unstored_bios: u64,
    /// Requests with a wait whose end was not observed. They have no stage before the request either.
    #[serde(skip_serializing_if = "is_zero")]
    pub unpaired_waits: u64,
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
    /// Commands that the filters select, if they leave others of a recording out. Not in the file.
    #[serde(skip)]
    pub selected: Option<u64>,
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
    /// The ledger of a target, or of a text, which does not say what its tracer lost.
    #[must_use]
    pub fn of_target(imported: bool) -> Self {
        let trace = Some(TraceLedger::default());
        let span = StageSet::Host.span();
        Self { imported, misses_known: !imported, trace, span, ..Self::default() }
    }

    /// Counts an event of a target.
    pub fn count(&mut self, event: &Event) {
        let trace = self.trace.get_or_insert_default();
        match &event.what {
            EventKind::Command(_, _, outcome) => {
                let is_in_order = |line: Timeline| line.segments(StageSet::Host).is_some();
                self.negative_intervals += u64::from(!outcome.timeline.is_some_and(is_in_order));
                self.completions += 1;
                self.matched += 1;
                self.seen += 1;
                trace.commands_shown += 1;
            }
            EventKind::Unfinished { .. } => {
                self.in_flight += 1;
                self.seen += 1;
                trace.events_shown += 1;
            }
            _ => trace.events_shown += 1,
        }
    }

    /// Counts events of a target that were lost.
    pub fn lose(&mut self, events: u64) {
        self.trace.get_or_insert_default().lost_events += events;
    }

    /// Counts events of a target that can't be decoded.
    pub fn not_read(&mut self, events: u64) {
        self.trace.get_or_insert_default().undecodable += events;
    }

    /// Whether nothing was lost.
    pub fn is_exact(&self) -> bool {
        self.accuracy() == Accuracy::Exact
    }

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

    /// The ledger of a trace, brought forward to the moment when `later` more commands had been shown. The
    /// programs count a command before it is shown: the later ones are taken from those in flight.
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
        Accuracy::of(self.degraded(), self.misses_known && self.uncovered == 0)
    }

    /// The same for a judgement of many commands, which one in a thousand with a point or an event out of
    /// order does not change.
    pub fn accuracy_of_most(&self) -> Accuracy {
        let of_trace = self.trace.as_ref().map_or(0, |trace| trace.out_of_order);
        let mut ledger = self.clone();
        if (self.negative_intervals + of_trace).saturating_mul(1000) <= self.matched {
            ledger.negative_intervals = 0;
            ledger.trace.iter_mut().for_each(|trace| trace.out_of_order = 0);
        }
        ledger.accuracy()
    }

    /// Why the numbers are not exact, one phrase per reason. Empty if they are exact. Few kinds: `-v` and JSON
    /// have each count.
    pub fn degraded(&self) -> Vec<String> {
        let without_end = match self.may_lose_completions && self.balance.is_some() {
            true => self.overwritten + self.in_flight,
            false => self.overwritten,
        };
        let skipped = if self.recovers { 0 } else { self.recursion_misses };
        let without_row = self.no_row + self.untracked + self.unattributed;
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

/// The cost of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramCost {
    /// `tp_btf`, `fentry`, ...
    pub kind: Text,
    /// Function or tracepoint.
    pub target: Text,
    /// Number of runs, for any request.
    pub runs: u64,
    /// Sum of their times, in nanoseconds.
    pub run_ns: u64,
}

/// The cost of all programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnCost {
    /// The programs, in the order of the hooks.
    pub programs: Vec<ProgramCost>,
    /// Sum of their run times, in nanoseconds.
    pub run_ns: u64,
    /// Run time per command seen.
    pub ns_per_command: Option<f64>,
    /// Share of one CPU's time; 1 is the whole time of one CPU, more is possible.
    pub share_of_a_cpu: f64,
}

/// A hook in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookLine {
    /// The point that it observes; `None` for hooks that observe no point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<Text>,
    /// `tp_btf`, `fentry`, `fexit`, `raw_tp`, `kprobe`, `kretprobe`, `tp`.
    pub kind: Text,
    /// Function or tracepoint.
    pub target: Text,
    /// Number of times that it fired for an NVMe request.
    pub hits: u64,
    /// Of these, hits of the second instance of the program, for events at which the kernel skipped
    /// the first. `None` if there is no second instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_second: Option<u64>,
    /// Runs that the kernel skipped, because the program was already running on that CPU, or, for
    /// kprobe and tracepoint programs, because any such program was. With a second instance, the
    /// events that both instances missed.
    pub recursion_misses: u64,
    /// Whether the kernel counts these misses. If not, their number is not known.
    pub misses_known: bool,
    /// Why it may have no hits although commands passed.
    // recordings of earlier builds say `seldom`
    #[serde(skip_serializing_if = "Option::is_none", alias = "seldom")]
    pub may_stay_silent: Option<Text>,
}

/// The attach method of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointMethod {
    /// The point; for hooks without a point their role, such as `requeue`.
    pub point: Text,
    /// `fentry`, `rawtp`, `kprobe`, `tracepoint`; `start_time_ns` for a start that is read from the
    /// request; `None`: not observed.
    pub method: Option<Text>,
}

/// An attach method that was not available for a point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingHook {
    /// The point; for hooks without a point their role, such as `requeue`.
    pub point: Text,
    /// The method: `fentry`, `rawtp`, `kprobe`, `tracepoint`.
    pub method: Text,
    /// The hook that is not available.
    pub hook: Text,
    /// The reason.
    pub why: Text,
    /// The method seemed possible, and the kernel refused it.
    pub tried: bool,
    /// The method that is used instead; `None`: the point is not observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<Text>,
}

/// The class of an event in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// The setup of a command.
    Submit,
    /// The last event of a command.
    Command,
    /// Any other event.
    Other,
}

impl EventClass {
    /// The class of an event.
    pub const fn of(what: &EventKind) -> Self {
        match what {
            EventKind::Submit(..) => Self::Submit,
            EventKind::Complete(..) | EventKind::Command(..) | EventKind::Missed { .. } => {
                Self::Command
            }
            _ => Self::Other,
        }
    }
}

/// Counts of the events that user space received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Submit events written.
    pub submits: u64,
    /// Commands with their last event written.
    pub commands: u64,
    /// Other events written.
    pub events: u64,
    /// Commands that ended and have no line: their completion was not observed, or others were slower.
    pub hidden: u64,
    /// Events after the last command of `-n`.
    pub past_count: u64,
    /// Events that could not be written: the disk is full, or the pipe has no reader.
    pub not_written: u64,
    /// Events written after a later one.
    pub out_of_order: u64,
    /// Records that can't be decoded.
    pub undecodable: u64,
    /// Of the commands, those that this process submitted.
    pub own: u64,
}

impl Shown {
    /// Counts the command of an event if process `own` submitted it. Each command has one event for
    /// which this holds.
    pub fn add_own(&mut self, what: &EventKind, own: Option<u32>) {
        let Some(own) = own else { return };
        let of_command = !matches!(EventClass::of(what), EventClass::Other);
        let submission = what.submission().filter(|s| of_command && s.knows_submitter);
        self.add_own_pid(submission.map(|s| s.pid), Some(own));
    }

    /// Counts a command that this process has submitted.
    pub fn add_own_pid(&mut self, pid: Option<u32>, own: Option<u32>) {
        self.own += u64::from(own.is_some() && pid == own);
    }

    /// Counts an event.
    pub const fn add(&mut self, class: EventClass) {
        match class {
            EventClass::Submit => self.submits += 1,
            EventClass::Command => self.commands += 1,
            EventClass::Other => self.events += 1,
        }
    }
}

/// Counts of all events, and of losses. A count that an older recording lacks is zero;
/// `commands_shown` makes it the ledger of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLedger {
    /// Submit events shown.
    #[serde(default)]
    pub submits_shown: u64,
    /// Commands with their last event shown.
    pub commands_shown: u64,
    /// Other events shown.
    #[serde(default)]
    pub events_shown: u64,
    /// Commands that ended and are not shown: they were fast or without an error, or their completion was
    /// not observed.
    #[serde(default)]
    pub not_shown: u64,
    /// Events after the last command of `-n`.
    #[serde(default)]
    pub past_count: u64,
    /// Submit events that found no room in the ring.
    #[serde(default)]
    pub lost_submits: u64,
    /// Commands with a last event that found no room in the ring.
    #[serde(default)]
    pub lost_completions: u64,
    /// Other events that found no room in the ring.
    #[serde(default)]
    pub lost_events: u64,
    /// Events that could not be written.
    #[serde(default)]
    pub not_written: u64,
    /// Events written after a later one.
    #[serde(default)]
    pub out_of_order: u64,
    /// Records that can't be decoded.
    #[serde(default)]
    pub undecodable: u64,
    /// Stacks that the kernel could not take.
    #[serde(default)]
    pub stacks_not_taken: u64,
    /// Stacks that found no room in the table.
    #[serde(default)]
    pub stacks_lost: u64,
    /// Of the commands, those that the tool's own process submitted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_commands: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
pub(crate) const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl TraceLedger {
    /// Replaces what was recorded by what a recording shows after the filters left
    /// `unselected` commands out.
    pub const fn show(&mut self, shown: &Shown, unselected: u64) {
        self.submits_shown = shown.submits;
        self.commands_shown = shown.commands;
        self.events_shown = shown.events;
        self.past_count += shown.past_count;
        self.not_shown += unselected + shown.hidden;
        self.not_written = shown.not_written;
    }

    /// Builds the ledger of a trace.
    pub const fn new(counters: &Counters, shown: &Shown) -> Self {
        Self {
            submits_shown: shown.submits,
            commands_shown: shown.commands,
            events_shown: shown.events,
            not_shown: counters.get(Count::NotShown) + shown.hidden,
            past_count: shown.past_count,
            lost_submits: counters.get(Count::LostSubmit),
            lost_completions: counters.get(Count::RingFull),
            lost_events: counters.get(Count::LostEvent),
            not_written: shown.not_written,
            out_of_order: shown.out_of_order,
            undecodable: shown.undecodable,
            stacks_not_taken: counters.get(Count::NoStack),
            stacks_lost: counters.get(Count::StacksFull),
            own_commands: shown.own,
        }
    }

    /// Events shown.
    pub const fn events(&self) -> u64 {
        self.submits_shown + self.commands_shown + self.events_shown
    }

    /// Events that found no room in the ring.
    pub const fn lost(&self) -> u64 {
        self.lost_submits + self.lost_completions + self.lost_events
    }

    /// The commands of the tool's own process, in one sentence. `None`: there are none.
    pub fn own_share(&self) -> Option<String> {
        let own = self.own_commands;
        // with two events per command, only the first has the submitter
        let all = self.submits_shown.max(self.commands_shown);
        let percent = 100.0 * own as f64 / all.max(1) as f64;
        let share = if percent < 0.05 { "less than 0.1%".into() } else { format!("{percent:.1}%") };
        (own > 0).then(|| format!("{own} of {all} commands ({share}) are nvme-deep's own"))
    }

    /// Why the trace is not complete: counts and phrases.
    pub(crate) const fn flaws(&self) -> [(u64, &'static str); 4] {
        [
            (self.lost(), "events lost: the ring was full"),
            (self.not_written, "events not written"),
            (self.out_of_order + self.undecodable, "events out of time order or not valid"),
            (self.stacks_not_taken + self.stacks_lost, "stacks not taken or not kept"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_of_many_commands_bears_few_points_out_of_order() {
        let trace = |out_of_order| TraceLedger { out_of_order, ..TraceLedger::default() };
        let of = |negative_intervals, out_of_order| Ledger {
            matched: 3000,
            misses_known: true,
            negative_intervals,
            trace: Some(trace(out_of_order)),
            ..Ledger::default()
        };
        assert_eq!(of(2, 1).accuracy_of_most(), Accuracy::Exact);
        assert!(matches!(of(2, 1).accuracy(), Accuracy::Degraded(_)));
        assert!(matches!(of(2, 2).accuracy_of_most(), Accuracy::Degraded(_)));
        let lost = Ledger { ring_drops: 1, trace: None, ..of(0, 0) };
        assert!(matches!(lost.accuracy_of_most(), Accuracy::Degraded(_)));
    }
}
