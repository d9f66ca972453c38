// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats with a row per command. They differ in how they write a [`Row`].

use super::{Entry, Sink};
use crate::model::command_class::Conditions;
use crate::model::event::{
    CommandId, CompletionStatus, Event, EventKind, Outcome, StackId, Submission,
};
use crate::model::ledger::Ledger;
use crate::model::origin::{Cgroups, Origin, Submitter};
use crate::model::stack::Frame;
use crate::model::stage::{StageRun, StageSet};
use crate::model::text::Text;
use crate::model::timeline::Timeline;
use crate::nvme::decode::{Blocks, blocks};
use crate::recording::RunInfo;
use crate::view::stacks::Stacks;
use std::borrow::Cow;
use std::io;
use std::time::Duration;

/// A format with rows.
pub trait RowFormat {
    /// A recording begins.
    ///
    /// # Errors
    /// Errors of the writer, like all below.
    fn begin(&mut self, _name: &Text, _info: &RunInfo) -> io::Result<()> {
        Ok(())
    }

    fn clock(&mut self, _wall_ns: i64) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> io::Result<()>;

    /// A recording ends.
    fn end(&mut self, _ledger: Option<&Ledger>, _at: Duration) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()>;
}

/// Writes commands in a format with rows.
pub struct Rows<F> {
    run: Run,
    format: F,
}

impl<F: RowFormat> Rows<F> {
    pub(super) fn new(format: F) -> Self {
        Self { run: Run::default(), format }
    }
}

impl<F: RowFormat> Sink for Rows<F> {
    fn begin(&mut self, name: &Text, info: &RunInfo) -> io::Result<()> {
        self.run = Run::new(name, info);
        self.format.begin(name, info)
    }

    fn clock(&mut self, wall_ns: i64) -> io::Result<()> {
        self.run.wall_ns = Some(wall_ns);
        self.format.clock(wall_ns)
    }

    fn stack(&mut self, id: StackId, frames: &[Frame]) -> io::Result<()> {
        self.run.stacks.join(id, frames, ";");
        Ok(())
    }

    fn event(&mut self, entry: &Entry<'_>) -> io::Result<bool> {
        let Some(row) = Row::new(entry, &self.run) else {
            return Ok(false);
        };
        self.format.row(&row)?;
        Ok(true)
    }

    fn end(&mut self, ledger: Option<&Ledger>, at: Duration) -> io::Result<()> {
        self.format.end(ledger, at)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.format.finish()
    }
}

/// The recording that rows belong to, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) name: Text,
    pub(crate) info: RunInfo,
    /// Wall clock minus CLOCK_MONOTONIC, nanoseconds.
    pub(crate) wall_ns: Option<i64>,
    pub(crate) stacks: Stacks,
}

impl Run {
    pub(crate) fn new(name: &Text, info: &RunInfo) -> Self {
        Self { name: name.clone(), info: info.clone(), wall_ns: None, stacks: Stacks::default() }
    }
}

/// The stages of a command.
#[derive(Debug, Default)]
pub(crate) struct StageTimes {
    /// Stages that were measured separately, with their nanoseconds.
    single: Vec<(&'static str, u64)>,
    /// Names of the merged stages, separated by blanks.
    pub(crate) merged: String,
    /// The sum of their nanoseconds; `None` if there are none.
    pub(crate) merged_ns: Option<u64>,
    pub(crate) total_ns: Option<u64>,
}

/// Whether it is one stage, from its start: of a flush, only a part of the queue is known.
fn is_whole(run: &StageRun) -> bool {
    run.single().is_some_and(|name| name == run.name())
}

impl StageTimes {
    fn new(recorded: StageSet, timeline: Option<&Timeline>) -> Self {
        let mut times = Self::default();
        let Some(timeline) = timeline.filter(|_| recorded != StageSet::Total) else {
            return times;
        };
        times.total_ns = timeline.total(StageSet::Basic);
        // the groups, and their parts
        let groups = timeline.segments(StageSet::Basic).unwrap_or_default();
        let parts = timeline.segments(recorded.max(StageSet::Fine)).unwrap_or_default();
        for segment in &groups {
            if is_whole(&segment.run) {
                continue;
            }
            if !times.merged.is_empty() {
                times.merged.push(' ');
            }
            times.merged.push_str(&segment.run.name());
            times.merged_ns = Some(times.merged_ns.unwrap_or(0) + segment.ns);
        }
        let all = groups.iter().chain(&parts).filter(|segment| is_whole(&segment.run));
        times.single = all.filter_map(|s| Some((s.run.single()?, s.ns))).collect();
        times
    }

    /// The nanoseconds of a stage that was measured separately.
    pub(crate) fn of(&self, name: &str) -> Option<u64> {
        let mut stages = self.single.iter();
        stages.find(|(stage, _)| *stage == name).map(|(_, ns)| *ns)
    }
}

/// A command.
#[derive(Debug)]
pub struct Row<'a> {
    pub(crate) run: &'a Run,
    pub(crate) event: &'a Event,
    pub(crate) id: &'a CommandId,
    pub(crate) disk: &'a str,
    pub(crate) ctrl: String,
    pub(crate) opcode: String,
    pub(crate) comm: Cow<'a, str>,
    pub(crate) blocks: Option<Blocks>,
    pub(crate) stages: StageTimes,
    pub(crate) kstack: &'a str,
    pub(crate) kstack_complete: &'a str,
    pub(crate) submitter_comm: Cow<'a, str>,
    pub(crate) cgroups: &'a Cgroups,
}

impl<'a> Row<'a> {
    /// The row of a command that has ended, or has not by the end of the run; `None` for other
    /// events.
    pub(crate) fn new(entry: &Entry<'a>, run: &'a Run) -> Option<Self> {
        let what = &entry.event.what;
        let (EventKind::Command(id, ..)
        | EventKind::Missed { id, .. }
        | EventKind::Unfinished { id, .. }) = what
        else {
            return None;
        };
        let submission = what.submission();
        let opcode = id
            .opcode_name(entry.set, submission)
            .map_or_else(|| format!("{:#04x}", id.opcode.code), Into::into);
        let comm = submission.map(Submission::comm);
        let [kstack, kstack_complete] = what.stacks().map(|id| run.stacks.get(id));
        Some(Self {
            run,
            event: entry.event,
            id,
            disk: entry.disk,
            ctrl: format!("nvme{}", id.ctrl),
            opcode,
            comm: comm.unwrap_or_default(),
            blocks: submission.and_then(|a| blocks(id.opcode.queue, entry.set, &a.sqe)),
            stages: StageTimes::new(run.info.stage_set, what.timeline()),
            kstack,
            kstack_complete,
            submitter_comm: submission.map_or_else(Cow::default, |s| s.origin.submitter.comm()),
            cgroups: entry.cgroups,
        })
    }

    pub(crate) const fn submission(&self) -> Option<&'a Submission> {
        self.event.what.submission()
    }

    /// The submission, if the submitter is known.
    pub(crate) fn submitter(&self) -> Option<&'a Submission> {
        self.submission().filter(|submission| submission.knows_submitter)
    }

    /// The submitter of the bio, if it is known.
    pub(crate) fn by(&self) -> Option<Submitter> {
        let by = self.submission().map(|s| s.origin.submitter);
        by.filter(Submitter::is_known)
    }

    /// The path of a cgroup of who caused the command.
    pub(crate) fn cgroup(&self, of: fn(&Origin) -> u64) -> Option<&'a Text> {
        let id = self.submission().map(|s| of(&s.origin));
        id.and_then(|id| self.cgroups.get(&id))
    }

    pub(crate) const fn outcome(&self) -> Option<&'a Outcome> {
        self.event.what.outcome()
    }

    pub(crate) fn conditions(&self) -> Conditions {
        self.outcome().map(|o| o.conditions).unwrap_or_default()
    }

    pub(crate) fn verdict(&self) -> Option<&'a CompletionStatus> {
        self.outcome()?.verdict.as_ref()
    }

    pub(crate) const fn timeline(&self) -> Option<&'a Timeline> {
        self.event.what.timeline()
    }
}
