// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `top` shows of an interval. Pure.

use crate::model::event::{CommandId, Event, EventKind, Submission};
use crate::model::group::{By, Group, GroupNames, KeyPart};
use crate::model::histogram::{Bucket, Histogram, index};
use crate::model::ids::{QueueId, RowKey, row_nsid};
use crate::model::ledger::{Accuracy, Ledger};
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::{cells_of, rows_of};
use crate::model::report::latency::{RowReport, Share, Spent, rows};
use crate::model::snapshot::{Cells, Snapshot, add};
use crate::model::stage::{StageRun, StageSet};
use crate::model::timeline::Timeline;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::status::Status;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::time::Duration;

/// Counts by bucket of a latency histogram ([`index`]), lowest first.
pub type Heat = Vec<(u16, u32)>;

/// The commands of an interval, or of the whole run.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its end, since the start of the run.
    pub at: Duration,
    /// Its rows, by view.
    pub rows: Vec<Vec<Row>>,
    /// What the ledger says at its end.
    pub state: State,
    /// Commands in flight at its end, if known.
    pub in_flight: Option<u64>,
    /// Its slowest commands.
    pub slowest: Vec<SlowCommand>,
    /// Its queues; `None` if they are not counted.
    pub queues: Option<Vec<QueueLine>>,
    /// Names of the disks at its end.
    pub disks: DiskNames,
    /// Names of the groups at its end.
    pub names: GroupNames,
}

impl Sample {
    /// About how many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let rows = self.rows.iter().flatten();
        let rows = rows.map(|row| 512 + 8 * row.heat.iter().map(Vec::len).sum::<usize>());
        let queues = self.queues.as_ref().map_or(0, Vec::len);
        rows.sum::<usize>() + 256 * (self.slowest.len() + queues)
    }
}

/// A row in an interval, or in the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What its commands have in common.
    pub key: TopKey,
    /// Commands per second.
    pub iops: f64,
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// The mean number of commands that wait or are in flight: the sum of their times, divided by the interval.
    pub depth: f64,
    /// The median of the total.
    pub p50: Option<u64>,
    /// The 99th percentile of the total.
    pub p99: Option<u64>,
    /// The longest command.
    pub max: Option<u64>,
    /// Where the time was spent, the longest first.
    pub places: Vec<Share>,
    /// Latencies by stage, in the order of [`stages`].
    pub heat: Vec<Heat>,
}

fn heat(hist: &Histogram) -> Heat {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    hist.iter().map(|b| (index(b.first) as u16, count(b.count))).collect()
}

impl Row {
    /// A row of a report, with the latencies of these stages.
    #[must_use]
    pub fn new(row: RowReport<TopKey>, stages: &[&str]) -> Self {
        let seconds = row.count as f64 / row.iops.max(1e-9);
        let of_stage = |name: &&str| {
            let stage = row.stages.iter().find(|stage| stage.name == *name);
            stage.map_or_else(Heat::new, |stage| heat(&stage.hist))
        };
        let parts = stages.iter().skip(1).map(of_stage);
        Self {
            iops: row.iops,
            mb_per_s: row.mb_per_s,
            depth: row.total.sum() as f64 / 1e9 / seconds.max(1e-9),
            p50: row.total.percentile(50.0),
            p99: row.total.percentile(99.0),
            max: row.total.max(),
            places: row.places(),
            heat: once(heat(&row.total)).chain(parts).collect(),
            key: row.key,
        }
    }
}

/// The names of the stages of heat maps, the whole first. `observed`: the stage set whose points are observed.
#[must_use]
pub fn stages(stage_set: StageSet, observed: StageSet) -> Vec<&'static str> {
    let all = if stage_set == StageSet::Total { 0 } else { stage_set.stages().len() };
    let runs = (0..all).map(|n| stage_set.run(n, n));
    let seen = runs.filter(|run| observed.has_point(run.from) && observed.has_point(run.to));
    once(stage_set.whole()).chain(seen.filter_map(StageRun::single)).collect()
}

/// The accuracy of counts that lack something.
pub const DEGRADED: &str = "DEGRADED";

/// Whether something is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// `exact`, or what else the counts are.
    pub accuracy: &'static str,
    /// What is wrong: failed commands and the like, then what the counts lack.
    pub alarms: Vec<String>,
}

impl State {
    /// `failed`: commands that failed since the start, if they are counted.
    #[must_use]
    pub fn new(ledger: &Ledger, failed: Option<u64>) -> Self {
        let hits = |target: &str| {
            let hooks = ledger.hooks.iter().filter(|hook| hook.target == target);
            hooks.map(|hook| hook.hits).sum()
        };
        let trouble = [
            ("failed", failed.unwrap_or(0)),
            ("timeouts", hits("nvme_timeout")),
            ("cancels", hits("nvme_cancel_request")),
            ("requeues", ledger.requeue_events),
        ];
        let trouble = trouble.into_iter().filter(|(_, n)| *n > 0);
        let mut alarms: Vec<String> = trouble.map(|(name, n)| format!("{name} {n}")).collect();
        let accuracy = match ledger.accuracy() {
            Accuracy::Exact => "exact",
            Accuracy::Unknown => "losses not counted",
            Accuracy::Degraded(reasons) => {
                alarms.extend(reasons);
                DEGRADED
            }
        };
        Self { accuracy, alarms }
    }
}

/// Intervals after which a command is no longer recent.
pub const RECENT: usize = 60;
/// Commands of an interval that are kept.
const EACH: usize = 16;
/// Commands that are shown at most.
const ALL: usize = 64;

/// A finished command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Its completion (CLOCK_MONOTONIC, nanoseconds).
    pub at_ns: u64,
    /// What it was.
    pub id: CommandId,
    /// Bytes of data, if known.
    pub bytes: Option<u32>,
    /// The first logical block, if it names blocks.
    pub slba: Option<u64>,
    /// From the first to the last observed point, in nanoseconds; without stages, of the driver.
    pub total_ns: u64,
    /// Its observed points; `None` without stages.
    pub timeline: Option<Timeline>,
    /// How it ended, if known.
    pub status: Option<Status>,
    /// The name of the thread that submitted the bio, else of the one that called the driver, if known.
    pub comm: Option<String>,
}

impl SlowCommand {
    /// The finished command of an event; `None` for other events, and for commands without a latency.
    pub fn of(event: &Event, stage_set: StageSet) -> Option<Self> {
        let EventKind::Command(id, submission, outcome) = &event.what else {
            return None;
        };
        let latency_ns = outcome.latency_ns?;
        let timeline = outcome.timeline.filter(|_| stage_set != StageSet::Total);
        let total_ns = timeline.and_then(|line| line.total(StageSet::Full));
        Some(Self {
            at_ns: event.at_ns,
            // as in the row of the command
            id: CommandId { nsid: row_nsid(id.nsid), ..*id },
            bytes: submission.bytes,
            slba: blocks(id.opcode.queue, CommandSet::Nvm, &submission.sqe).map(|b| b.slba),
            total_ns: total_ns.unwrap_or(latency_ns),
            timeline,
            status: outcome.verdict.map(|v| v.status),
            comm: comm(submission),
        })
    }

    /// Where its time was, the longest first.
    pub fn places(&self) -> Vec<Share> {
        let stages = self.timeline.and_then(|line| line.segments(StageSet::Full));
        let stages = stages.into_iter().flatten().map(|s| (s.run, u128::from(s.ns)));
        Spent { stages: stages.collect(), parts: &[] }.places()
    }
}

fn comm(submission: &Submission) -> Option<String> {
    let by = &submission.origin.submitter;
    let name = match (by.is_known(), submission.knows_submitter) {
        (true, _) => by.comm(),
        (_, true) => submission.comm(),
        _ => return None,
    };
    Some(name.into_owned()).filter(|name| !name.is_empty())
}

/// Keeps the slowest of these commands.
fn keep(commands: &mut Vec<SlowCommand>, most: usize) {
    commands.sort_by_key(|c| (Reverse(c.total_ns), c.at_ns));
    commands.truncate(most);
}

/// The slowest commands of one interval.
#[derive(Clone, Debug, Default)]
pub struct Collector(Vec<SlowCommand>);

impl Collector {
    /// Adds a command.
    pub fn add(&mut self, command: SlowCommand) {
        self.0.push(command);
        if self.0.len() >= 8 * EACH {
            keep(&mut self.0, EACH);
        }
    }

    /// The slowest ones of the interval, which is over.
    #[must_use]
    pub fn take(&mut self) -> Vec<SlowCommand> {
        keep(&mut self.0, EACH);
        std::mem::take(&mut self.0)
    }
}

/// The slowest of these commands, slowest first.
pub fn slowest<'c>(commands: impl Iterator<Item = &'c SlowCommand>) -> Vec<&'c SlowCommand> {
    let mut all: Vec<_> = commands.collect();
    all.sort_by_key(|c| (Reverse(c.total_ns), c.at_ns));
    all.truncate(ALL);
    all
}

/// The latency in nanoseconds that at most 16 commands of an interval exceed.
#[must_use]
pub fn bar<K>(rows: &[RowReport<K>]) -> u64 {
    let mut buckets: Vec<Bucket> = rows.iter().flat_map(|row| row.total.iter()).collect();
    buckets.sort_by_key(|bucket| Reverse(bucket.last));
    let mut above = 0;
    for bucket in buckets {
        above += bucket.count;
        if above > EACH as u64 {
            return bucket.last;
        }
    }
    0
}

/// Counts of a queue since some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Completed commands.
    pub commands: u64,
    /// Interrupts of its vector by CPU; `None` if not known.
    pub interrupts: Option<BTreeMap<u32, u64>>,
    /// The number of its interrupt in /proc/interrupts, if known.
    pub irq: Option<u32>,
}

/// A queue in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueLine {
    /// Which queue.
    pub id: QueueId,
    /// Completed commands per second.
    pub iops: f64,
    /// Commands in flight: at the end of the interval, or in a recording the mean of the interval.
    pub in_flight: f64,
    /// Interrupts per second, if known.
    pub interrupts: Option<f64>,
    /// The number of its interrupt, if known.
    pub irq: Option<u32>,
    /// The CPUs that took its interrupts; in a recording, those that completed its commands.
    pub cpus: BTreeSet<u32>,
}

/// Counts of all queues, at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues(pub BTreeMap<QueueId, QueueCounts>);

impl Queues {
    /// The queues that were used between `earlier` and now, or have commands in flight.
    #[must_use]
    pub fn lines(
        &self,
        earlier: &Self,
        in_flight: &BTreeMap<QueueId, u64>,
        covers: Duration,
    ) -> Vec<QueueLine> {
        let seconds = covers.as_secs_f64().max(1e-9);
        let none = QueueCounts::default();
        let line = |(id, now): (&QueueId, &QueueCounts)| {
            let was = earlier.0.get(id).unwrap_or(&none);
            let before = |cpu: &u32| was.interrupts.as_ref().and_then(|all| all.get(cpu)).copied();
            let since = |(cpu, n): (&u32, &u64)| {
                let n = n.saturating_sub(before(cpu).unwrap_or(0));
                (n > 0).then_some((*cpu, n))
            };
            let by_cpu: Option<BTreeMap<u32, u64>> =
                now.interrupts.as_ref().map(|all| all.iter().filter_map(since).collect());
            let commands = now.commands.saturating_sub(was.commands);
            let in_flight = in_flight.get(id).copied().unwrap_or(0);
            (commands + in_flight > 0).then(|| QueueLine {
                id: *id,
                iops: commands as f64 / seconds,
                in_flight: in_flight as f64,
                interrupts: by_cpu.as_ref().map(|all| all.values().sum::<u64>() as f64 / seconds),
                irq: now.irq,
                cpus: by_cpu.into_iter().flatten().map(|(cpu, _)| cpu).collect(),
            })
        };
        self.0.iter().filter_map(line).collect()
    }
}

/// The queues of an interval of a recording.
#[derive(Clone, Debug, Default)]
pub struct QueueCollector(BTreeMap<QueueId, (u64, u64, BTreeSet<u32>)>);

/// Most queues of an interval that are kept: more than any screen shows, or machine has.
const MOST_QUEUES: usize = 1 << 16;

impl QueueCollector {
    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        if let EventKind::Command(id, _, outcome) = &event.what {
            if self.0.len() >= MOST_QUEUES && !self.0.contains_key(&id.queue()) {
                return;
            }
            let (commands, ns, cpus) = self.0.entry(id.queue()).or_default();
            *commands += 1;
            *ns = ns.saturating_add(outcome.latency_ns.unwrap_or(0));
            cpus.insert(outcome.cpu.into());
        }
    }

    /// The queues of the interval, which is over.
    #[must_use]
    pub fn take(&mut self, covers: Duration) -> Vec<QueueLine> {
        let seconds = covers.as_secs_f64().max(1e-9);
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|(id, (commands, ns, cpus))| QueueLine {
                id,
                iops: commands as f64 / seconds,
                in_flight: ns as f64 / 1e9 / seconds,
                interrupts: None,
                irq: None,
                cpus,
            })
            .collect()
    }
}

/// What the commands of a row have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopKey {
    /// Controller, namespace, opcode.
    Row(RowKey),
    /// A group.
    Group(Group),
}

impl TopKey {
    /// The controller, if all commands are of one.
    #[must_use]
    pub fn ctrl(&self) -> Option<u32> {
        match self {
            Self::Row(row) => Some(row.ctrl),
            Self::Group(group) => group.0.iter().find_map(|part| match part {
                KeyPart::Disk(ctrl, _) | KeyPart::Queue(ctrl, _) => Some(*ctrl),
                _ => None,
            }),
        }
    }
}

/// A way to group the commands of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its keys. Without any, the rows are disks and opcodes.
    pub keys: Vec<By>,
    /// Their places among the keys of the run.
    places: Vec<usize>,
}

impl View {
    /// The views of a run with these keys: by all of them, then by each.
    #[must_use]
    pub fn all(by: &[By]) -> Vec<Self> {
        let whole = Self { keys: by.to_vec(), places: (0..by.len()).collect() };
        let each = by
            .iter()
            .enumerate()
            .map(|(place, key)| Self { keys: vec![*key], places: vec![place] });
        let each = each.filter(|_| by.len() > 1);
        once(whole).chain(each).collect()
    }

    fn group(&self, group: &Group) -> Group {
        let parts = self.places.iter().filter_map(|at| group.0.get(*at).cloned());
        Group(parts.collect())
    }
}

/// The rows of an interval, by view.
#[must_use]
pub fn rows_by_view(
    interval: &Snapshot,
    by: &[By],
    stage_set: StageSet,
    covers: Duration,
) -> Vec<Vec<RowReport<TopKey>>> {
    if by.is_empty() {
        let rows = rows(interval, stage_set, None, covers).into_iter();
        return vec![rows.map(|row| row.map_key(TopKey::Row)).collect()];
    }
    let cells = cells_of(interval, by);
    let of_view = |view: View| {
        let mut some = Cells::new();
        for ((group, pattern), cell) in &cells {
            add(&mut some, (view.group(group), *pattern), cell.clone());
        }
        let rows = rows_of(&some, stage_set, None, covers).into_iter();
        let rows = rows.filter(|row| row.count > 0);
        rows.map(|row| row.map_key(TopKey::Group)).collect()
    };
    View::all(by).into_iter().map(of_view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::latency::rows;
    use crate::model::snapshot::Snapshot;
    use crate::testing::EventBuilder;
    use crate::testing::snapshot::{READS, cell};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_interval_keeps_its_slowest() {
        let mut collector = Collector::default();
        for total_ns in 0..1000 {
            collector.add(SlowCommand {
                at_ns: 1,
                id: EventBuilder::read().id,
                bytes: Some(4096),
                slba: None,
                total_ns,
                timeline: None,
                status: None,
                comm: None,
            });
        }
        let kept: Vec<u64> = collector.take().iter().map(|c| c.total_ns).collect();
        assert_eq!(kept, (984..1000).rev().collect::<Vec<_>>());
        assert!(collector.take().is_empty());
        // at most 16 commands exceed the bar
        let bar_of = |commands: u64| {
            let each: Vec<[u64; 1]> = (1..=commands).map(|n| [n * 1000]).collect();
            let each: Vec<&[u64]> = each.iter().map(<[u64; 1]>::as_slice).collect();
            let mut snapshot = Snapshot::default();
            snapshot.cells.insert((READS, 0), cell(StageSet::Total, 0, &each));
            bar(&rows(&snapshot, StageSet::Total, None, SECOND))
        };
        assert_eq!((bar_of(0), bar_of(16)), (0, 0));
        assert!((984_000..1_063_000).contains(&bar_of(1000)), "{}", bar_of(1000));
    }

    /// Events of more queues than a machine has, as in a file that was made so.
    #[test]
    fn the_queues_of_an_interval_are_bounded() {
        let read = |ctrl, qid| EventBuilder::read().ctrl(ctrl).qid(qid).command();
        let mut collector = QueueCollector::default();
        for n in 0..MOST_QUEUES as u32 + 10 {
            collector.add(&read(n >> 15, n as u16 & 0x7fff));
        }
        // the queues that are kept go on
        collector.add(&read(0, 0));
        let lines = collector.take(SECOND);
        assert_eq!(lines.len(), MOST_QUEUES);
        assert_eq!((lines[0].id, lines[0].iops), (QueueId::new(0, 0), 2.0));
        collector.add(&read(9, 9));
        assert_eq!(collector.take(SECOND).len(), 1);
    }

    #[test]
    fn lines_are_of_the_interval() {
        let counts = |commands, interrupts: &[(u32, u64)]| QueueCounts {
            commands,
            interrupts: Some(interrupts.iter().copied().collect()),
            irq: Some(27),
        };
        let earlier = Queues([(QueueId::new(0, 1), counts(100, &[(0, 50), (1, 7)]))].into());
        let now = [
            (QueueId::new(0, 1), counts(300, &[(0, 150), (1, 7)])),
            (QueueId::new(0, 2), counts(0, &[(1, 3)])),
            (QueueId::new(0, 3), counts(0, &[])),
        ];
        let in_flight = [(QueueId::new(0, 3), 2)].into();
        let lines = Queues(now.into()).lines(&earlier, &in_flight, 2 * SECOND);
        let [used, waiting] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((used.id, used.iops, used.interrupts), (QueueId::new(0, 1), 100.0, Some(50.0)));
        assert_eq!((used.irq, &used.cpus), (Some(27), &BTreeSet::from([0])));
        assert_eq!((waiting.id, waiting.iops, waiting.in_flight), (QueueId::new(0, 3), 0.0, 2.0));
    }

    #[test]
    fn every_view_has_all_commands() {
        let by = [By::Process, By::Cpu];
        let mut snapshot = Snapshot::default();
        let group = |process, cpu| vec![KeyPart::Process(process), KeyPart::Cpu(cpu)];
        for (parts, commands) in [(group(1, 0), 2), (group(1, 1), 3), (group(2, 1), 4), (vec![], 5)]
        {
            let cell = cell(StageSet::Total, 0, &vec![&[100][..]; commands]);
            snapshot.groups.insert((Group(parts), 0), cell);
        }
        let views = rows_by_view(&snapshot, &by, StageSet::Total, SECOND);
        let counts: Vec<Vec<u64>> =
            views.iter().map(|rows| rows.iter().map(|row| row.count).collect()).collect();
        assert_eq!(counts, [vec![5, 2, 3, 4], vec![5, 5, 4], vec![5, 2, 7]]);
        let keys: Vec<_> = View::all(&by).into_iter().map(|view| view.keys).collect();
        assert_eq!(keys, [vec![By::Process, By::Cpu], vec![By::Process], vec![By::Cpu]]);
        assert_eq!((View::all(&by[..1]).len(), View::all(&[]).len()), (1, 1));
    }
}
