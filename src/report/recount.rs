// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the events of a recording, by the rules by which the BPF side counts commands
//! (bpf/include/stages.bpf.h).

use std::collections::BTreeMap;

use crate::model::event::CommandId;
use crate::model::event::Event;
use crate::model::event::EventKind;
use crate::model::event::Submission;
use crate::model::milestone::Milestone;
use crate::model::milestone::NO_COMPLETE;
use crate::model::milestone::NO_SETUP;
use crate::model::nvme_latency::LatBuckets;
use crate::model::row::NSID_MASK;
use crate::model::row::RowKey;
use crate::model::snapshot::Cell;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;
use crate::nvme::decode;
use crate::nvme::decode::CommandSet;

/// How to count.
#[derive(Clone, Debug)]
pub struct Recount {
    /// The stages; not more than the recording has.
    pub stage_set: StageSet,
    /// nvme_latency's buckets.
    pub lat: Option<LatBuckets>,
    /// A row per size class.
    pub split_size: bool,
    /// Bytes of a logical block, by controller and namespace.
    pub lba_bytes: BTreeMap<(u32, u32), u32>,
}

/// The size class of a command: up to 16 KiB, up to 64 KiB, above (`class_of()` of
/// bpf/include/rows.bpf.h).
const fn size_class(bytes: u32) -> u8 {
    match bytes {
        0..=0x4000 => 1,
        0x4001..=0x1_0000 => 2,
        _ => 3,
    }
}

/// The points of this stage set in a pattern.
fn points_of(stage_set: StageSet) -> u16 {
    let stages = stage_set.stages();
    let end = stage_set.end_of(stages.len() - 1);
    let points = stages.iter().map(|s| s.from).chain([end]);
    let bits = points.filter_map(Milestone::pattern_bit);
    bits.fold(NO_SETUP | NO_COMPLETE, |all, bit| all | bit)
}

impl Recount {
    /// Adds a finished command to the counts. Other events are ignored.
    pub fn add(&self, event: &Event, to: &mut Snapshot) {
        let (id, asked, latency, timeline, complete) = match &event.what {
            EventKind::Command(id, asked, end) => {
                (id, Some(asked), end.latency_ns, &end.timeline, true)
            }
            EventKind::Missed {
                id,
                asked,
                timeline,
                ..
            } => (id, asked.as_ref(), None, timeline, false),
            _ => return,
        };
        let bytes = asked.and_then(|a| a.bytes).unwrap_or(0);
        let class = if self.split_size {
            size_class(self.size(id, asked).unwrap_or(bytes))
        } else {
            0
        };
        let row = RowKey {
            ctrl: id.ctrl,
            nsid: id.nsid.min(NSID_MASK),
            opcode: id.opcode,
            class,
        };
        let line = timeline
            .as_ref()
            .filter(|_| self.stage_set != StageSet::Total);
        let pattern = line.map_or_else(
            || {
                let no_setup = if complete && latency.is_none() {
                    NO_SETUP
                } else {
                    0
                };
                no_setup | if complete { 0 } else { NO_COMPLETE }
            },
            |line| line.pattern() & points_of(self.stage_set),
        );
        let cell = to.cells.entry((row, pattern));
        let cell = cell.or_insert_with(|| Cell::empty(self.stage_set));
        cell.bytes += u64::from(bytes);
        match line {
            Some(line) => self.stages(line, pattern, cell),
            None => self.total(latency, cell),
        }
    }

    /// Bytes of the logical blocks that a command names, which may be more than it transfers.
    fn size(&self, id: &CommandId, asked: Option<&Submission>) -> Option<u32> {
        let blocks = decode::blocks(id.opcode.queue, CommandSet::Nvm, &asked?.sqe)?;
        let lba_bytes = self.lba_bytes.get(&(id.ctrl, id.nsid))?;
        blocks.nlb.checked_mul(*lba_bytes)
    }

    fn total(&self, latency: Option<u64>, cell: &mut Cell) {
        match (latency, cell.hists.last_mut()) {
            (Some(ns), Some(hist)) => {
                hist.record(ns);
                self.table(ns, cell);
            }
            _ => cell.unmeasured += 1,
        }
    }

    /// nvme_latency's table has only commands with both set-up and completion observed.
    fn table(&self, total_ns: u64, cell: &mut Cell) {
        if let Some(lat) = &self.lat {
            cell.lat[lat.index(total_ns / 1000)] += 1;
        }
    }

    fn stages(&self, line: &Timeline, pattern: u16, cell: &mut Cell) {
        let line = line.with_pattern(pattern);
        let segments = line.segments(self.stage_set).unwrap_or_default();
        if segments.is_empty() {
            cell.unmeasured += 1;
            return;
        }
        for segment in &segments {
            cell.hists[segment.run.first].record(segment.ns);
        }
        let total = line.total(self.stage_set).unwrap_or(0);
        cell.hists[self.stage_set.total_index()].record(total);
        if pattern & (NO_SETUP | NO_COMPLETE) == 0 {
            self.table(total, cell);
        }
    }
}
