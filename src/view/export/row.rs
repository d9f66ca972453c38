// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command, prepared for the columns of a table.

use std::borrow::Cow;

use super::Entry;
use super::stacks::Stacks;
use crate::model::conditions::Conditions;
use crate::model::event::{CommandId, CompletionStatus, Event, EventKind, Outcome, Submission};
use crate::model::origin::{Cgroups, Origin, Submitter};
use crate::model::stage::{StageRun, StageSet};
use crate::model::text::Text;
use crate::model::timeline::Timeline;
use crate::nvme::decode::{Blocks, blocks};
use crate::recording::RunInfo;

/// The recording that rows belong to, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) name: Text,
    pub(super) info: RunInfo,
    /// Wall clock minus CLOCK_MONOTONIC, nanoseconds.
    pub(super) wall_ns: Option<i64>,
    pub(super) stacks: Stacks,
}

impl Run {
    pub(super) fn new(name: &Text, info: &RunInfo) -> Self {
        Self { name: name.clone(), info: info.clone(), wall_ns: None, stacks: Stacks::default() }
    }
}

/// The stages of a command.
#[derive(Debug, Default)]
pub(super) struct StageTimes {
    /// Stages that were measured by themselves, with their nanoseconds.
    single: Vec<(&'static str, u64)>,
    /// Names of the merged stages, separated by blanks.
    pub(super) merged: String,
    /// The sum of their nanoseconds; `None` if there are none.
    pub(super) merged_ns: Option<u64>,
    pub(super) total_ns: Option<u64>,
}

/// Whether it is one stage, from its begin: of a flush, only a part of the queue is known.
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

    /// The nanoseconds of a stage that was measured by itself.
    pub(super) fn of(&self, name: &str) -> Option<u64> {
        let mut stages = self.single.iter();
        stages.find(|(stage, _)| *stage == name).map(|(_, ns)| *ns)
    }
}

/// A command.
#[derive(Debug)]
pub struct Row<'a> {
    pub(super) run: &'a Run,
    pub(super) event: &'a Event,
    pub(super) id: &'a CommandId,
    pub(super) disk: &'a str,
    pub(super) ctrl: String,
    pub(super) opcode: String,
    pub(super) comm: Cow<'a, str>,
    pub(super) blocks: Option<Blocks>,
    pub(super) stages: StageTimes,
    pub(super) kstack: &'a str,
    pub(super) kstack_complete: &'a str,
    pub(super) submitter_comm: Cow<'a, str>,
    pub(super) cgroups: &'a Cgroups,
}

impl<'a> Row<'a> {
    /// The row of a command that has ended, or has not by the end of the run; `None` for other
    /// events.
    pub(super) fn new(entry: &Entry<'a>, run: &'a Run) -> Option<Self> {
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

    pub(super) const fn submission(&self) -> Option<&'a Submission> {
        self.event.what.submission()
    }

    /// The submission, if the submitter is known.
    pub(super) fn submitter(&self) -> Option<&'a Submission> {
        self.submission().filter(|submission| submission.knows_submitter)
    }

    /// The submitter of the bio, if it is known.
    pub(super) fn by(&self) -> Option<Submitter> {
        let by = self.submission().map(|s| s.origin.submitter);
        by.filter(Submitter::is_known)
    }

    /// The path of a cgroup of who caused the command.
    pub(super) fn cgroup(&self, of: fn(&Origin) -> u64) -> Option<&'a Text> {
        let id = self.submission().map(|s| of(&s.origin));
        id.and_then(|id| self.cgroups.get(&id))
    }

    pub(super) const fn outcome(&self) -> Option<&'a Outcome> {
        self.event.what.outcome()
    }

    pub(super) fn conditions(&self) -> Conditions {
        self.outcome().map(|o| o.conditions).unwrap_or_default()
    }

    pub(super) fn verdict(&self) -> Option<&'a CompletionStatus> {
        self.outcome()?.verdict.as_ref()
    }

    pub(super) const fn timeline(&self) -> Option<&'a Timeline> {
        self.event.what.timeline()
    }
}
