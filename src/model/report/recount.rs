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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::point::Point;
    use crate::model::report::latency::rows;
    use crate::testing::EventBuilder;
    use std::time::Duration;

    /// A read of 64 blocks with these points: start, setup_out, doorbell, CQE, complete; 0: not observed.
    fn read(points: [u64; 5]) -> Event {
        let [_, out, _, _, complete] = points;
        let names = [Point::Start, Point::SetupOut, Point::Doorbell, Point::Cqe, Point::Complete];
        let mut seen: Vec<(Point, u64)> = names.into_iter().zip(points).collect();
        seen.retain(|(_, ns)| *ns > 0);
        EventBuilder::read()
            .at(complete)
            .blocks(0, 64)
            .bytes(32 << 10)
            .latency((out > 0).then(|| complete - out))
            .points(&seen)
            .command()
    }

    fn counted(stage_set: StageSet, events: &[Event]) -> Snapshot {
        let recount = Recount::of(stage_set);
        let mut snapshot = Snapshot::default();
        let mut add = |event| recount.add(event, &mut snapshot);
        events.iter().for_each(|event| add(event).unwrap());
        snapshot
    }

    #[test]
    fn commands_are_counted_by_stage() {
        let events = [
            read([100, 110, 130, 170, 180]),
            // no doorbell: two stages are one
            read([100, 110, 0, 170, 180]),
            // no setup
            read([0, 0, 0, 170, 180]),
        ];
        let snapshot = counted(StageSet::Basic, &events);
        assert_eq!(snapshot.commands(), 3);
        let rows = rows(&snapshot, StageSet::Basic, None, Duration::from_secs(1));
        assert_eq!(rows.len(), 1);
        let stages = rows[0].stages.iter();
        let sums: Vec<String> = stages.map(|s| format!("{} {}", s.name, s.hist.sum())).collect();
        let want = ["queue 20", "submit 20", "submit+device 60", "device 40", "complete 30"];
        assert_eq!(sums, want);
        assert_eq!(rows[0].total.sum(), 80 + 80 + 10);
        assert_eq!(rows[0].bytes, 96 << 10);
    }

    #[test]
    fn fewer_stages_than_recorded_are_possible() {
        let events = [read([100, 110, 130, 170, 180]), read([0, 0, 0, 170, 180])];
        let snapshot = counted(StageSet::Total, &events);
        assert_eq!((snapshot.commands(), snapshot.unmeasured()), (2, 1));
        let sum: u128 = snapshot.cells.values().map(|c| c.hists[0].sum()).sum();
        assert_eq!(sum, 70);
    }
}
