// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access patterns per disk, opcode and process: sequential or random, sizes, distances, commands in flight, time
//! between submissions, alignment. Commands are judged in the order of their submission. Pure.

use crate::model::histogram::Histogram;
use crate::model::report::submissions::{Depth, Submitted};
use crate::nvme::decode::Blocks;
use crate::nvme::opcode::Opcode;
use std::collections::BTreeMap;

/// Most processes with a row. The commands of later ones share a row per disk and opcode.
const PROCESSES: usize = 1024;
/// Most rows.
const MOST_ROWS: usize = 4096;

/// What the commands of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PatternKey {
    /// Controller instance.
    pub ctrl: u32,
    /// Namespace id.
    pub nsid: u32,
    /// The opcode.
    pub opcode: Opcode,
    /// The process that called the driver; `None`: all those without a row of their own, and those
    /// that were not observed.
    pub pid: Option<u32>,
}

/// Counts of commands. Histograms have a bucket per power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub commands: u64,
    /// Commands beside an earlier one of their process.
    pub sequential: u64,
    /// Streams with at least two commands.
    pub streams: u64,
    /// Logical blocks of all commands.
    pub blocks: u64,
    /// Logical blocks of the sequential commands.
    pub sequential_blocks: u64,
    /// Sizes in logical blocks.
    pub size: Histogram,
    /// The largest power of two, in logical blocks, that divides start and length; at most 65536.
    pub alignment: Histogram,
    /// Distance in logical blocks from the end of the row's command before, in either direction.
    pub seek: Histogram,
    /// Commands in flight in the namespace, at the submission, that command included.
    pub in_flight: Histogram,
    /// Nanoseconds since the row's submission before.
    pub gap: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        let powers = || Histogram::with_bits(0);
        Self {
            commands: 0,
            sequential: 0,
            streams: 0,
            blocks: 0,
            sequential_blocks: 0,
            size: powers(),
            alignment: powers(),
            seek: powers(),
            in_flight: powers(),
            gap: powers(),
        }
    }
}

impl Counts {
    /// The other commands: the first of each stream, too.
    #[must_use]
    pub const fn random(&self) -> u64 {
        self.commands - self.sequential
    }

    /// Their logical blocks.
    #[must_use]
    pub const fn random_blocks(&self) -> u64 {
        self.blocks - self.sequential_blocks
    }

    /// Commands whose start and length are multiples of this many blocks, a power of two.
    #[must_use]
    pub fn aligned_to(&self, blocks: u64) -> u64 {
        let buckets = self.alignment.iter();
        buckets.filter(|b| b.first >= blocks).map(|b| b.count).sum()
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let Self {
            commands,
            sequential,
            streams,
            blocks,
            sequential_blocks,
            size,
            alignment,
            seek,
            in_flight,
            gap,
        } = self;
        Self {
            commands: commands - earlier.commands,
            // the first command of a batch may have been before
            sequential: (sequential - earlier.sequential).min(commands - earlier.commands),
            streams: streams - earlier.streams,
            blocks: blocks - earlier.blocks,
            sequential_blocks: (sequential_blocks - earlier.sequential_blocks)
                .min(blocks - earlier.blocks),
            size: size.minus(&earlier.size),
            alignment: alignment.minus(&earlier.alignment),
            seek: seek.minus(&earlier.seek),
            in_flight: in_flight.minus(&earlier.in_flight),
            gap: gap.minus(&earlier.gap),
        }
    }
}

/// The commands of a disk, opcode and process.
#[derive(Clone, Debug)]
struct Row {
    counts: Counts,
    streams: Streams,
    /// Time of the last submission, and the block after that command.
    last: Option<(u64, u64)>,
    /// The thread of the last command.
    comm: [u8; 16],
    disk: Disk,
}

/// What is known of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The name of the block device; empty if there is none.
    pub name: String,
    /// Bytes of a logical block, if known.
    pub lba_bytes: Option<u32>,
}

/// A row of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternRow {
    /// Disk, opcode and process.
    pub key: PatternKey,
    /// The name of the process's last thread, padded with zeroes.
    pub comm: [u8; 16],
    /// The namespace.
    pub disk: Disk,
    /// The counts.
    pub counts: Counts,
}

/// The counts of a time, for differences.
pub type Past = BTreeMap<PatternKey, Counts>;

/// The patterns of a run.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    rows: BTreeMap<PatternKey, Row>,
    without_blocks: u64,
    is_crowded: bool,
}

impl Row {
    fn add(&mut self, at_ns: u64, blocks: Blocks, depth: u64) {
        let Blocks { slba, nlb } = blocks;
        let (counts, length) = (&mut self.counts, u64::from(nlb));
        counts.commands += 1;
        counts.blocks += length;
        if let AccessKind::Sequential { new, joins } = self.streams.judge(blocks) {
            counts.sequential += 1 + u64::from(joins.is_some());
            counts.sequential_blocks += length + joins.unwrap_or(0);
            counts.streams += u64::from(new);
        }
        counts.size.record(length);
        let zeroes = (slba | length).trailing_zeros().min(16);
        counts.alignment.record(1 << zeroes);
        counts.in_flight.record(depth);
        if let Some((before_ns, end)) = self.last {
            counts.seek.record(slba.abs_diff(end));
            counts.gap.record(at_ns.saturating_sub(before_ns));
        }
        self.last = Some((at_ns, slba.saturating_add(length)));
    }
}

impl Patterns {
    /// Adds a submission; they come in the order of time. `disk` describes a namespace, once per row.
    pub fn add(&mut self, submitted: &Submitted, depth: Depth, disk: impl FnOnce() -> Disk) {
        let Some(blocks) = submitted.blocks else {
            self.without_blocks += 1;
            return;
        };
        let id = &submitted.id;
        let mut key = PatternKey {
            ctrl: id.ctrl,
            nsid: id.nsid,
            opcode: id.opcode,
            pid: submitted.task.map(|(pid, _)| pid),
        };
        if self.rows.len() >= PROCESSES && !self.rows.contains_key(&key) {
            key.pid = None;
        }
        if self.rows.len() >= MOST_ROWS && !self.rows.contains_key(&key) {
            self.is_crowded = true;
            return;
        }
        let row = self.rows.entry(key).or_insert_with(|| Row {
            counts: Counts::default(),
            streams: Streams::default(),
            last: None,
            comm: [0; 16],
            disk: disk(),
        });
        if let (Some((_, comm)), Some(_)) = (submitted.task, key.pid) {
            row.comm = comm;
        }
        row.add(submitted.at_ns, blocks, depth.of_disk);
    }

    /// Commands without logical blocks (flush, deallocate, admin commands): in no row.
    #[must_use]
    pub const fn without_blocks(&self) -> u64 {
        self.without_blocks
    }

    /// Whether there were more rows than are kept.
    #[must_use]
    pub const fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// The counts up to here.
    #[must_use]
    pub fn now(&self) -> Past {
        let counts = |(key, row): (&PatternKey, &Row)| (*key, row.counts.clone());
        self.rows.iter().map(counts).collect()
    }

    /// The rows with commands since `past`, most commands first.
    #[must_use]
    pub fn rows(&self, past: &Past) -> Vec<PatternRow> {
        let row = |(key, row): (&PatternKey, &Row)| PatternRow {
            key: *key,
            comm: row.comm,
            disk: row.disk.clone(),
            counts: match past.get(key) {
                Some(earlier) => row.counts.minus(earlier),
                None => row.counts.clone(),
            },
        };
        let mut rows: Vec<PatternRow> = self.rows.iter().map(row).collect();
        rows.retain(|row| row.counts.commands > 0);
        // stable: rows of equal weight keep the order of their keys
        rows.sort_by_key(|row| std::cmp::Reverse(row.counts.commands));
        rows
    }
}

/// Number of streams that are followed.
pub const STREAMS: usize = 16;

/// A stream of commands, each beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    /// Its first block.
    begin: u64,
    /// The block after its last one.
    end: u64,
    /// It has at least two commands.
    continues: bool,
    /// Blocks of its first command, unless that was counted as sequential.
    first: Option<u64>,
}

/// What a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It begins where an earlier stream ended, or ends where one began.
    Sequential {
        /// Its stream had one command before, and is not counted yet.
        new: bool,
        /// Its stream now begins where an earlier one ended, as with a batch that was submitted in reverse. So the
        /// first command of the batch, of so many blocks, was sequential, too.
        joins: Option<u64>,
    },
    /// It is elsewhere.
    Random,
}

/// The streams, the latest first.
#[derive(Clone, Debug, Default)]
pub struct Streams(Vec<Stream>);

impl Streams {
    /// Judges a command. It continues its stream, or begins one in place of that which was not
    /// continued for the longest time.
    pub fn judge(&mut self, blocks: Blocks) -> AccessKind {
        let (begin, length) = (blocks.slba, u64::from(blocks.nlb));
        let end = begin.saturating_add(length);
        let found = self.0.iter().position(|s| s.end == begin || s.begin == end);
        let Some(place) = found else {
            self.0.truncate(STREAMS - 1);
            let first = Some(length);
            self.0.insert(0, Stream { begin, end, continues: false, first });
            return AccessKind::Random;
        };
        let own = self.0.remove(place);
        let mut stream =
            Stream { begin: own.begin.min(begin), end: own.end.max(end), continues: true, ..own };
        let before = self.0.iter().position(|s| s.continues && s.end == stream.begin);
        let before = before.filter(|_| begin < own.begin).map(|place| self.0.remove(place));
        let joins = before.and_then(|before| {
            stream.begin = before.begin;
            stream.first.take()
        });
        self.0.insert(0, stream);
        AccessKind::Sequential { new: !own.continues && before.is_none(), joins }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::EventBuilder;

    fn submitted(at_ns: u64, pid: u32, slba: u64, nlb: u32) -> Submitted {
        Submitted {
            at_ns,
            id: EventBuilder::read().id,
            blocks: Some(Blocks { slba, nlb }),
            bytes: None,
            task: Some((pid, [b'x'; 16])),
        }
    }

    const DEPTH: Depth = Depth { of_disk: 3, of_all: 9 };

    fn add(patterns: &mut Patterns, submitted: &Submitted) {
        patterns.add(submitted, DEPTH, Disk::default);
    }

    #[test]
    fn processes_beyond_the_limit_share_a_row() {
        let mut patterns = Patterns::default();
        for pid in 0..PROCESSES as u32 + 10 {
            add(&mut patterns, &submitted(pid.into(), pid, 0, 8));
        }
        let rows = patterns.rows(&Past::new());
        assert_eq!(rows.len(), PROCESSES + 1);
        assert_eq!((rows[0].key.pid, rows[0].counts.commands), (None, 10));
        assert_eq!(rows[0].comm, [0; 16]);
    }

    fn judge(streams: &mut Streams, slba: u64) -> AccessKind {
        streams.judge(Blocks { slba, nlb: 8 })
    }

    #[test]
    fn sixteen_interleaved_streams_are_sequential_and_seventeen_are_not() {
        for (interleaved, sequential) in [(1, 99), (16, 16 * 99), (17, 0)] {
            let mut streams = Streams::default();
            let mut found = 0;
            for n in 0..100 {
                for stream in 0..interleaved {
                    let kind = judge(&mut streams, (stream << 32) + n * 8);
                    found += u32::from(kind != AccessKind::Random);
                }
            }
            assert_eq!(found, sequential, "{interleaved}");
        }
        // the one that waited longest is replaced
        let mut streams = Streams::default();
        for n in 0..16 {
            judge(&mut streams, n << 32);
        }
        assert_ne!(judge(&mut streams, 8), AccessKind::Random);
        judge(&mut streams, 99 << 32);
        // 0 was continued, 1 was not
        assert_eq!(judge(&mut streams, (1 << 32) + 8), AccessKind::Random);
        assert_ne!(judge(&mut streams, 16), AccessKind::Random);
    }
}
