// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the events of a recording, by the rules by which the BPF side counts commands
//! (bpf/include/stages.bpf.h).

use std::collections::btree_map::Entry;

use crate::model::event::{Event, Finished, Intervals};
use crate::model::group::{By, Group};
use crate::model::ids::{RowKey, row_nsid};
use crate::model::nvme_latency::LatBuckets;
use crate::model::origin::Who;
use crate::model::point::{NO_COMPLETE, NO_SETUP, Pattern};
use crate::model::snapshot::{Cell, Snapshot, fold_groups};
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;

/// How to count.
#[derive(Clone, Debug)]
pub struct Recount {
    /// The stages; not more than the recording has.
    pub stage_set: StageSet,
    /// nvme_latency's buckets.
    pub lat: Option<LatBuckets>,
    /// The properties by which commands are grouped, instead of rows.
    pub by: Vec<By>,
    /// Whose process and cgroup count.
    pub who: Who,
}

/// Most histograms of a recording. A file may have more kinds of commands than any machine.
const MOST_HISTOGRAMS: usize = 6144;

/// A recording has more rows than can be counted.
#[derive(Debug, thiserror::Error)]
#[error(
    "it has commands of more than {rows} kinds (controller, namespace, opcode, observed points): \
     choose some by --ctrl, --nsid or --opcode"
)]
pub struct TooManyRows {
    rows: usize,
}

impl Recount {
    /// Counts rows of these stages.
    pub fn of(stage_set: StageSet) -> Self {
        Self { stage_set, lat: None, by: Vec::new(), who: Who::Caller }
    }

    /// The row of a command.
    pub fn row(&self, command: &Finished<'_>) -> RowKey {
        let id = command.id;
        RowKey { ctrl: id.ctrl, nsid: row_nsid(id.nsid), opcode: id.opcode, class: 0 }
    }

    /// Adds a finished command to the counts. Other events are ignored.
    ///
    /// # Errors
    /// If there are too many rows.
    pub fn add(&self, event: &Event, to: &mut Snapshot) -> Result<(), TooManyRows> {
        let Some(command) = Finished::of(event) else {
            return Ok(());
        };
        let pattern = command.pattern(self.stage_set);
        let most = MOST_HISTOGRAMS / self.stage_set.histograms();
        let cell = if self.by.is_empty() {
            let rows = to.cells.len();
            match to.cells.entry((self.row(&command), pattern)) {
                Entry::Occupied(cell) => cell.into_mut(),
                Entry::Vacant(_) if rows >= most => return Err(TooManyRows { rows: most }),
                Entry::Vacant(cell) => cell.insert(Cell::empty(self.stage_set)),
            }
        } else {
            self.group(&command, pattern, most, to)
        };
        self.add_to(cell, &command, pattern);
        Ok(())
    }

    /// The cell of a command's group.
    fn group<'s>(
        &self,
        command: &Finished<'_>,
        pattern: Pattern,
        most: usize,
        to: &'s mut Snapshot,
    ) -> &'s mut Cell {
        let key = (Group::of(command, &self.by, self.who), pattern);
        if to.groups.len() >= most && !to.groups.contains_key(&key) {
            fold_groups(&mut to.groups, most / 2);
        }
        let task = command.submission.and_then(|s| s.task(command.id.opcode, self.who));
        if let Some(task) = task.filter(|_| self.by.contains(&By::Process)) {
            to.names.processes.insert(task.pid, task.comm);
        }
        let empty = || Cell::empty(self.stage_set);
        to.groups.entry(key).or_insert_with(empty)
    }

    fn add_to(&self, cell: &mut Cell, command: &Finished<'_>, pattern: Pattern) {
        let bytes = command.submission.and_then(|a| a.bytes);
        cell.bytes += u64::from(bytes.unwrap_or(0));
        let Intervals { stages, total } = command.intervals(self.stage_set);
        let Some(total) = total else {
            cell.unmeasured += 1;
            return;
        };
        for stage in &stages {
            cell.hists[stage.run.first].record(stage.ns);
        }
        cell.hists[self.stage_set.total_index()].record(total.ns);
        if matches!(self.stage_set, StageSet::Basic | StageSet::Fine) {
            add_parts_of(command, &mut cell.parts);
        }
        // nvme_latency's table has only commands with both setup and completion observed
        if let Some(lat) = self.lat.filter(|_| pattern & (NO_SETUP | NO_COMPLETE) == 0) {
            cell.lat[lat.index(total.ns / 1000)] += 1;
        }
    }
}

/// Adds the times of the parts that were observed by themselves.
fn add_parts_of(command: &Finished<'_>, parts: &mut Vec<u64>) {
    let line = command.timeline();
    // a recording with basic stages has none
    let is_fine = |line: &&Timeline| line.pattern() & !StageSet::Basic.observed() != 0;
    for segment in line.filter(is_fine).into_iter().flat_map(|line| line.each(StageSet::Full)) {
        if segment.run.single().is_some() {
            parts.resize(StageSet::Full.stages().len(), 0);
            let sum = &mut parts[segment.run.first];
            *sum = sum.saturating_add(segment.ns);
        }
    }
}
