// SPDX-License-Identifier: MIT OR Apache-2.0
//! HdrHistogram's interval log: per interval a histogram (V2, compressed) for each stage and the
//! total of each controller, namespace and opcode. The tag of a histogram is
//! `nvme0/1/read/device`. Values are nanoseconds, with three significant digits.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::io;
use std::io::Write;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::{Entry, Sink};
use crate::model::event::{Finished, Intervals, StackId};
use crate::model::ids::RowKey;
use crate::model::ledger::Ledger;
use crate::model::origin::Who;
use crate::model::report::recount::Recount;
use crate::model::stack::Frame;
use crate::model::stage::{StageRun, StageSet};
use crate::model::text::Text;
use crate::nvme::opcode::QueueKind;
use crate::recording::RunInfo;

/// Significant digits.
const DIGITS: u8 = 3;
/// Most counters (8 bytes each) in memory.
const MOST_COUNTERS: usize = 3 << 20;

/// The row, and the stage or (last) the total.
type Key = (RowKey, Stage);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Run(StageRun),
    Total,
}

/// Writes histograms per interval.
pub struct Hlog<W: Write> {
    out: W,
    serializer: V2DeflateSerializer,
    interval: Duration,
    recount: Recount,
    info: RunInfo,
    /// The header is written.
    begun: bool,
    /// The number of the current interval.
    number: u64,
    histograms: BTreeMap<Key, Histogram<u64>>,
    /// Counters of all histograms.
    counters: usize,
}

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::other(error)
}

/// The tag of a histogram. It has neither commas nor blanks. `whole`: the name of the total.
fn tag((row, stage): &Key, whole: &str) -> String {
    let RowKey { ctrl, nsid, opcode, .. } = row;
    let name = opcode.name_or_code();
    let queue = match opcode.queue {
        QueueKind::Io => "",
        QueueKind::Admin => "admin:",
    };
    let stage = match stage {
        Stage::Run(run) => run.name(),
        Stage::Total => whole.into(),
    };
    format!("nvme{ctrl}/{nsid}/{queue}{name}/{stage}")
}

impl<W: Write> Hlog<W> {
    /// A writer of one recording, in intervals of this length (not zero).
    #[must_use]
    pub fn new(out: W, interval: Duration) -> Self {
        Self {
            out,
            serializer: V2DeflateSerializer::new(),
            interval,
            recount: Recount {
                stage_set: StageSet::Total,
                lat: None,
                by: vec![],
                who: Who::Caller,
            },
            info: RunInfo::default(),
            begun: false,
            number: 0,
            histograms: BTreeMap::new(),
            counters: 0,
        }
    }

    /// Writes the header. Without a recorded wall clock, times are seconds since the start.
    fn header(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("[Latencies of NVMe commands in nanoseconds, by nvme-deep]");
        builder.add_comment("[Histogram log format version 1.3]");
        if let Some(wall_ns) = self.info.wall_ns {
            let begin_ns = self.info.begin_ns.wrapping_add_signed(wall_ns);
            let begin = SystemTime::UNIX_EPOCH + Duration::from_nanos(begin_ns);
            builder.with_start_time(begin).with_base_time(begin);
        }
        builder.begin_log_with(&mut self.out, &mut self.serializer)?;
        let columns =
            r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;
        writeln!(self.out, "{columns}")
    }

    /// Writes the histograms of the current interval.
    fn flush(&mut self) -> io::Result<()> {
        self.header()?;
        let length = self.interval.as_nanos();
        let from = u64::try_from(length * u128::from(self.number)).unwrap_or(u64::MAX);
        let builder = IntervalLogWriterBuilder::new();
        let mut log = builder.begin_log_with(&mut self.out, &mut self.serializer)?;
        for (key, histogram) in &mut self.histograms {
            if histogram.is_empty() {
                continue;
            }
            let text = tag(key, self.recount.stage_set.whole());
            let from = Duration::from_nanos(from);
            log.write_histogram(histogram, from, self.interval, Tag::new(&text)).map_err(
                |error| match error {
                    IntervalLogWriterError::IoError(error) => error,
                    IntervalLogWriterError::SerializeError(error) => other(error),
                },
            )?;
            histogram.reset();
        }
        // one histogram may have half a megabyte, and kinds of commands come and go
        if self.counters > MOST_COUNTERS {
            (self.histograms, self.counters) = (BTreeMap::new(), 0);
        }
        Ok(())
    }

    fn record(&mut self, key: Key, ns: u64) -> io::Result<()> {
        let (histogram, before) = match self.histograms.entry(key) {
            Slot::Occupied(entry) => {
                let histogram = entry.into_mut();
                let before = histogram.distinct_values();
                (histogram, before)
            }
            Slot::Vacant(entry) => (entry.insert(Histogram::new(DIGITS).map_err(other)?), 0),
        };
        histogram.record(ns).map_err(other)?;
        self.counters += histogram.distinct_values() - before;
        if self.counters > MOST_COUNTERS {
            // an interval may have several lines of one tag
            self.flush()?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Hlog<W> {
    fn begin(&mut self, _: &Text, info: &RunInfo) -> io::Result<()> {
        self.info = info.clone();
        self.recount.stage_set = info.stage_set;
        Ok(())
    }

    fn clock(&mut self, _: i64) -> io::Result<()> {
        Ok(())
    }

    fn stack(&mut self, _: StackId, _: &[Frame]) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, entry: &Entry<'_>) -> io::Result<bool> {
        let Some(command) = Finished::of(entry.event) else {
            return Ok(false);
        };
        let Intervals { stages, total } = command.intervals(self.recount.stage_set);
        let Some(total) = total else {
            return Ok(false);
        };
        let row = self.recount.row(&command);
        let since = entry.event.at_ns.saturating_sub(self.info.begin_ns);
        let number = u128::from(since) / self.interval.as_nanos().max(1);
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        // an event that arrives late stays in the current interval
        if number > self.number {
            self.flush()?;
            self.number = number;
        }
        for segment in &stages {
            self.record((row, Stage::Run(segment.run)), segment.ns)?;
        }
        self.record((row, Stage::Total), total.ns)?;
        Ok(true)
    }

    fn end(&mut self, _: Option<&Ledger>, _: Duration) -> io::Result<()> {
        self.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.header()?;
        self.out.flush()
    }
}
