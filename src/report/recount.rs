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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Outcome;
    use crate::model::event::StackId;
    use crate::nvme::opcode::Opcode;
    use crate::nvme::opcode::QueueKind;
    use crate::nvme::sqe::Parts;
    use crate::report::latency::rows;
    use std::time::Duration;

    const ID: CommandId = CommandId {
        ctrl: 0,
        qid: 1,
        cid: 7,
        nsid: 1,
        opcode: Opcode {
            queue: QueueKind::Io,
            code: 2,
        },
    };

    fn asked() -> Submission {
        Submission {
            // 64 blocks
            sqe: Parts {
                opcode: 2,
                cdw: [0, 0, 63, 0, 0, 0],
                ..Parts::default()
            }
            .into(),
            bytes: Some(32 << 10),
            knows_submitter: true,
            pid: 1,
            tid: 1,
            comm: [0; 16],
            cpu: 0,
            stack: StackId(0),
        }
    }

    /// A read with these points: start, setup_out, doorbell, CQE, complete.
    fn read([start, out, doorbell, cqe, complete]: [u64; 5], pattern: u16) -> Event {
        let points = [start, 0, out, 0, doorbell, 0, cqe, complete, 0];
        let end = Outcome {
            verdict: None,
            latency_ns: (pattern & NO_SETUP == 0).then(|| complete - out),
            timeline: Some(Timeline::new(points, pattern)),
            cpu: 0,
            stack: StackId(0),
        };
        Event {
            at_ns: complete,
            what: EventKind::Command(ID, asked(), end),
        }
    }

    fn counted(stage_set: StageSet, events: &[Event]) -> Snapshot {
        let recount = Recount {
            stage_set,
            lat: None,
            split_size: true,
            lba_bytes: BTreeMap::from([((0, 1), 512)]),
        };
        let mut snapshot = Snapshot::default();
        events.iter().for_each(|e| recount.add(e, &mut snapshot));
        snapshot
    }

    const ALL: u16 = 0b10_1001;

    #[test]
    fn commands_are_counted_by_stage() {
        let events = [
            read([100, 110, 130, 170, 180], ALL),
            // no doorbell: two stages are one
            read([100, 110, 0, 170, 180], ALL & !0b1000),
            // no set-up
            read([0, 0, 0, 170, 180], 0b10_0000 | NO_SETUP),
        ];
        let snapshot = counted(StageSet::Basic, &events);
        assert_eq!(snapshot.commands(), 3);
        let rows = rows(&snapshot, StageSet::Basic, None, Duration::from_secs(1));
        assert_eq!(rows.len(), 1);
        let stages = rows[0].stages.iter();
        let sums: Vec<(&str, u128)> = stages.map(|s| (s.name.as_str(), s.hist.sum())).collect();
        assert_eq!(
            sums,
            [
                ("queue", 20),
                ("submit", 20),
                ("submit+device", 60),
                ("device", 40),
                ("complete", 30)
            ]
        );
        assert_eq!(rows[0].total.sum(), 80 + 80 + 10);
        assert_eq!(
            (rows[0].bytes, rows[0].class()),
            (96 << 10, Some("(16KiB,64KiB]"))
        );
    }

    #[test]
    fn fewer_stages_than_recorded_are_possible() {
        let events = [
            read([100, 110, 130, 170, 180], ALL),
            read([0, 0, 0, 170, 180], 0b10_0000 | NO_SETUP),
        ];
        let snapshot = counted(StageSet::Total, &events);
        assert_eq!((snapshot.commands(), snapshot.unmeasured()), (2, 1));
        let sum: u128 = snapshot.cells.values().map(|c| c.hists[0].sum()).sum();
        assert_eq!(sum, 70);
    }
}
