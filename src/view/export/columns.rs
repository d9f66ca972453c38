// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of a command: the fields of CSV and NDJSON, the columns of Parquet, the details of a
//! slice in Perfetto. A new column is a line here, and in docs/export.md; a test compares the two.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::model::point::Point;
use crate::model::text::Text as Name;
use crate::view::export::rows::Row;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// Not known, not measured, or not applicable.
    Empty,
    Flag(bool),
    Int(i64),
    Unsigned(u64),
    Text(&'a str),
    /// Nanoseconds since 1970.
    Time(i64),
}

/// A time as text: RFC 3339, UTC, with nanoseconds.
pub(super) fn rfc3339(ns: i64) -> String {
    let at = Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
    format!("{at:.9}")
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Empty => to.serialize_none(),
            Self::Flag(flag) => to.serialize_bool(flag),
            Self::Int(n) => to.serialize_i64(n),
            Self::Unsigned(n) => to.serialize_u64(n),
            Self::Text(text) => to.serialize_str(text),
            Self::Time(ns) => to.serialize_str(&rfc3339(ns)),
        }
    }
}

/// The type of a column. Each may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    /// 64 bits, signed.
    Int64,
    /// 64 bits, unsigned.
    Uint64,
    Text,
    /// A time of the wall clock, to the nanosecond, UTC.
    Timestamp,
}

impl Type {
    /// The name in the documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Text => "text",
            Self::Timestamp => "timestamp",
        }
    }
}

/// What a column is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The recording.
    Run,
    /// Times and stages.
    Time,
    /// How long the whole command took.
    Latency,
    /// The command, its submitter and its outcome.
    Command,
    /// Kernel stacks.
    Stack,
}

/// A column.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name, as in the JSON of `trace` where that has the value.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// What it is about.
    pub group: Group,
    /// Its meaning, with the unit, as in docs/export.md. Neighbours with the same meaning share a row there.
    pub meaning: &'static str,
    get: for<'r> fn(&'r Row<'_>) -> Cell<'r>,
}

impl Column {
    /// The value for a command.
    #[must_use]
    pub fn get<'r>(&self, row: &'r Row<'_>) -> Cell<'r> {
        (self.get)(row)
    }
}

const fn column(
    group: Group,
    name: &'static str,
    kind: Type,
    meaning: &'static str,
    get: for<'r> fn(&'r Row<'_>) -> Cell<'r>,
) -> Column {
    Column { name, kind, group, meaning, get }
}

/// A number that fits 63 bits: only a corrupt recording has a larger one.
fn number<'r>(n: Option<impl Into<u64>>) -> Cell<'r> {
    n.map_or(Cell::Empty, |n| Cell::Int(i64::try_from(n.into()).unwrap_or(i64::MAX)))
}

fn unsigned<'r>(n: Option<u64>) -> Cell<'r> {
    n.map_or(Cell::Empty, Cell::Unsigned)
}

/// Text; an empty one means that there is none.
const fn some(text: &str) -> Cell<'_> {
    if text.is_empty() { Cell::Empty } else { Cell::Text(text) }
}

fn name(name: Option<&Name>) -> Cell<'_> {
    name.map_or(Cell::Empty, |name| Cell::Text(name))
}

fn flag<'r>(value: Option<bool>) -> Cell<'r> {
    value.map_or(Cell::Empty, Cell::Flag)
}

fn maybe(text: Option<&str>) -> Cell<'_> {
    text.map_or(Cell::Empty, Cell::Text)
}

fn cdw<'r>(row: &Row<'_>, n: usize) -> Cell<'r> {
    let known = row.submission().filter(|submission| submission.sqe.has_dwords());
    number(known.map(|submission| submission.sqe.cdw(n)))
}

fn point<'r>(row: &Row<'_>, at: Point) -> Cell<'r> {
    number(row.timeline().and_then(|line| line.at(at)))
}

fn age<'r>(row: &Row<'_>) -> Cell<'r> {
    use crate::model::event::EventKind::Unfinished;
    match row.event.what {
        Unfinished { age_ns, .. } => number(Some(age_ns)),
        _ => Cell::Empty,
    }
}

fn latency_max<'r>(row: &Row<'_>) -> Cell<'r> {
    use crate::model::event::EventKind::Missed;
    match row.event.what {
        Missed { latency_max_ns, .. } => number(latency_max_ns),
        _ => Cell::Empty,
    }
}

fn wall<'r>(row: &Row<'_>) -> Cell<'r> {
    let wall = |offset: i64| row.event.at_ns.wrapping_add_signed(offset).cast_signed();
    row.run.wall_ns.map_or(Cell::Empty, |offset| Cell::Time(wall(offset)))
}

fn since_begin<'r>(row: &Row<'_>) -> Cell<'r> {
    let since = row.event.at_ns.wrapping_sub(row.run.info.begin_ns);
    Cell::Int(since.cast_signed())
}

fn status_name<'r>(row: &'r Row<'_>) -> Cell<'r> {
    let status = row.verdict().map(|v| v.status);
    maybe(status.and_then(|s| s.name_for(row.id.opcode)))
}

use Group::{Command, Latency, Run, Stack, Time};
use Type::{Bool, Int64, Text, Timestamp as Instant, Uint64};

/// All columns, in their order. New ones are added at the end.
#[rustfmt::skip]
pub const COLUMNS: &[Column] = &[
    column(Run, "recording", Text, "file name of the recording; with `--redact` its number, from 1", |r| Cell::Text(&r.run.name)),
    column(Run, "host", Text, "name of the machine", |r| name(r.run.info.host.as_ref())),
    column(Run, "type", Text, "`command`, `missed` or `unfinished`", |r| Cell::Text(r.event.what.name())),
    column(Time, "time_ns", Int64, "completion, CLOCK_MONOTONIC, ns; `missed`: at the latest; `unfinished`: end of run", |r| number(Some(r.event.at_ns))),
    column(Time, "time_rel_ns", Int64, "the same since the start of the run, ns", since_begin),
    column(Time, "time", Instant, "the same by the wall clock, UTC, to the nanosecond; empty if it was not recorded", wall),
    column(Command, "ctrl", Text, "controller; block device of the namespace", |r| Cell::Text(&r.ctrl)),
    column(Command, "disk", Text, "controller; block device of the namespace", |r| some(r.disk)),
    column(Command, "qid", Int64, "ids of the queue (0: admin), of the command, of the namespace", |r| number(Some(r.id.qid))),
    column(Command, "cid", Int64, "ids of the queue (0: admin), of the command, of the namespace", |r| number(Some(r.id.cid))),
    column(Command, "nsid", Int64, "ids of the queue (0: admin), of the command, of the namespace", |r| number(Some(r.id.nsid))),
    column(Command, "queue", Text, "`io` or `admin`", |r| Cell::Text(r.id.opcode.queue.name())),
    column(Command, "opcode", Text, "name of the opcode, or its number, as in `0x9d`", |r| Cell::Text(&r.opcode)),
    column(Command, "opcode_value", Int64, "number of the opcode", |r| number(Some(r.id.opcode.code))),
    column(Command, "flags", Int64, "CDW0 bits 15:8", |r| number(r.submission().map(|a| a.sqe.flags()))),
    column(Command, "metadata", Bool, "the request has metadata", |r| r.submission().map_or(Cell::Empty, |a| Cell::Flag(a.sqe.metadata()))),
    column(Command, "slba", Uint64, "first logical block; empty if the command names none", |r| unsigned(r.blocks.map(|b| b.slba))),
    column(Command, "nlb", Int64, "number of logical blocks, from 1", |r| number(r.blocks.map(|b| b.nlb))),
    column(Command, "bytes", Int64, "bytes to transfer", |r| number(r.submission().and_then(|a| a.bytes))),
    column(Command, "cdw10", Int64, "command dwords 10 to 15", |r| cdw(r, 10)),
    column(Command, "cdw11", Int64, "command dwords 10 to 15", |r| cdw(r, 11)),
    column(Command, "cdw12", Int64, "command dwords 10 to 15", |r| cdw(r, 12)),
    column(Command, "cdw13", Int64, "command dwords 10 to 15", |r| cdw(r, 13)),
    column(Command, "cdw14", Int64, "command dwords 10 to 15", |r| cdw(r, 14)),
    column(Command, "cdw15", Int64, "command dwords 10 to 15", |r| cdw(r, 15)),
    column(Command, "pid", Int64, "process and thread that called the driver", |r| number(r.submitter().map(|a| a.pid))),
    column(Command, "tid", Int64, "process and thread that called the driver", |r| number(r.submitter().map(|a| a.tid))),
    column(Command, "comm", Text, "name of that thread; with `--redact` an empty text", |r| r.submitter().map_or(Cell::Empty, |_| Cell::Text(&r.comm))),
    column(Command, "cpu", Int64, "CPU of the submission; of the completion", |r| number(r.submitter().map(|a| a.cpu))),
    column(Command, "complete_cpu", Int64, "CPU of the submission; of the completion", |r| number(r.outcome().map(|o| o.cpu))),
    column(Command, "result", Uint64, "dwords 0 and 1 of the CQE", |r| unsigned(r.verdict().map(|v| v.result))),
    column(Command, "status", Int64, "status without the phase bit; 0: success", |r| number(r.verdict().map(|v| v.status.0))),
    column(Command, "status_name", Text, "name of the status", status_name),
    column(Command, "retries", Int64, "number of retries before this attempt", |r| number(r.verdict().map(|v| v.retries))),
    column(Command, "request_flags", Int64, "driver flags: 1 cancelled, 2 user, 4 multipath statistics, 8 active on its path", |r| number(r.verdict().map(|v| v.flags))),
    column(Latency, "driver_ns", Int64, "from `setup_out` to `complete`, ns", |r| number(r.outcome().and_then(|o| o.latency_ns))),
    column(Latency, "driver_max_ns", Int64, "`missed`: upper bound of `driver_ns`, ns", latency_max),
    column(Latency, "age_ns", Int64, "`unfinished`: time since its setup, ns", age),
    column(Run, "stage_set", Text, "the stages that were recorded: `none`, `basic`, `fine` or `full`", |r| Cell::Text(r.run.info.stage_set.name())),
    column(Time, "before_ns", Int64, "groups of stages, ns", |r| number(r.stages.of("before"))),
    column(Time, "queue_ns", Int64, "groups of stages, ns", |r| number(r.stages.of("queue"))),
    column(Time, "submit_ns", Int64, "groups of stages, ns", |r| number(r.stages.of("submit"))),
    column(Time, "device_ns", Int64, "groups of stages, ns", |r| number(r.stages.of("device"))),
    column(Time, "complete_ns", Int64, "groups of stages, ns", |r| number(r.stages.of("complete"))),
    column(Time, "end_ns", Int64, "groups of stages, ns", |r| number(r.stages.of("end"))),
    column(Time, "queue_wait_ns", Int64, "parts of `queue`, `submit` and `device`, ns", |r| number(r.stages.of("queue.wait"))),
    column(Time, "queue_setup_ns", Int64, "parts of `queue`, `submit` and `device`, ns", |r| number(r.stages.of("queue.setup"))),
    column(Time, "submit_map_ns", Int64, "parts of `queue`, `submit` and `device`, ns", |r| number(r.stages.of("submit.map"))),
    column(Time, "submit_ring_ns", Int64, "parts of `queue`, `submit` and `device`, ns", |r| number(r.stages.of("submit.ring"))),
    column(Time, "device_run_ns", Int64, "parts of `queue`, `submit` and `device`, ns", |r| number(r.stages.of("device.run"))),
    column(Time, "device_irq_ns", Int64, "parts of `queue`, `submit` and `device`, ns", |r| number(r.stages.of("device.irq"))),
    column(Time, "merged_stages", Text, "stages without a boundary between them, as `submit+device`, separated by blanks", |r| some(&r.stages.merged)),
    column(Time, "merged_ns", Int64, "sum of the merged stages, ns", |r| number(r.stages.merged_ns)),
    column(Latency, "total_ns", Int64, "from the first to the last observed point, ns", |r| number(r.stages.total_ns)),
    column(Time, "point_start", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::Start)),
    column(Time, "point_setup_in", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::SetupIn)),
    column(Time, "point_setup_out", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::SetupOut)),
    column(Time, "point_issue", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::Issue)),
    column(Time, "point_doorbell", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::Doorbell)),
    column(Time, "point_irq", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::Irq)),
    column(Time, "point_cqe", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::Cqe)),
    column(Time, "point_complete", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::Complete)),
    column(Time, "point_end", Int64, "observed points, CLOCK_MONOTONIC, ns", |r| point(r, Point::End)),
    column(Stack, "kstack", Text, "kernel stack at the submission; at the completion: frames, innermost first, separated by `;`", |r| some(r.kstack)),
    column(Stack, "kstack_complete", Text, "kernel stack at the submission; at the completion: frames, innermost first, separated by `;`", |r| some(r.kstack_complete)),
    column(Command, "cpu_idle", Bool, "the interrupt woke an idle CPU; it came in a soft interrupt", |r| flag(r.conditions().cpu_idle())),
    column(Command, "in_softirq", Bool, "the interrupt woke an idle CPU; it came in a soft interrupt", |r| flag(r.conditions().in_softirq())),
    column(Command, "announced", Text, "`rung` by the doorbell register, `elided` by the shadow doorbell", |r| maybe(r.conditions().announcement().map(|a| a.name()))),
    column(Time, "throttle_ns", Int64, "parts of `before`, ns", |r| number(r.stages.of("throttle"))),
    column(Time, "block_ns", Int64, "parts of `before`, ns", |r| number(r.stages.of("block"))),
    column(Time, "freeze_ns", Int64, "parts of `before`, ns", |r| number(r.stages.of("freeze"))),
    column(Time, "iocost_ns", Int64, "parts of `before`, ns", |r| number(r.stages.of("iocost"))),
    column(Time, "wbt_ns", Int64, "parts of `before`, ns", |r| number(r.stages.of("wbt"))),
    column(Time, "tag_ns", Int64, "parts of `before`, ns", |r| number(r.stages.of("tag"))),
    column(Time, "point_bio_submit", Int64, "points before the request, ns", |r| point(r, Point::Submit)),
    column(Time, "point_bio_queue", Int64, "points before the request, ns", |r| point(r, Point::Bio)),
    column(Time, "point_freeze", Int64, "points before the request, ns", |r| point(r, Point::Freeze)),
    column(Time, "point_iocost", Int64, "points before the request, ns", |r| point(r, Point::Iocost)),
    column(Time, "point_wbt", Int64, "points before the request, ns", |r| point(r, Point::Wbt)),
    column(Time, "point_tag", Int64, "points before the request, ns", |r| point(r, Point::Tag)),
    column(Command, "cgroup", Text, "path of the cgroup that caused the I/O", |r| name(r.cgroup(|o| o.io_cgroup))),
    column(Command, "task_cgroup", Text, "cgroup of the thread that called the driver", |r| name(r.cgroup(|o| o.task_cgroup))),
    column(Command, "submitter_pid", Int64, "process and thread that submitted the bio", |r| number(r.by().map(|by| by.pid))),
    column(Command, "submitter_tid", Int64, "process and thread that submitted the bio", |r| number(r.by().map(|by| by.tid))),
    column(Command, "submitter_comm", Text, "name of that thread; with `--redact` an empty text", |r| r.by().map_or(Cell::Empty, |_| Cell::Text(&r.submitter_comm))),
    column(Command, "submitter_cgroup", Text, "cgroup of that thread", |r| name(r.cgroup(|o| o.submitter.cgroup))),
    column(Time, "bios", Int64, "bios that the command served, at most 256", |r| number(r.outcome().and_then(|o| o.bios.count()).map(u16::from))),
    column(Time, "longest_wait_ns", Int64, "from the submission of its oldest bio to the end of the setup, ns", |r| number(r.outcome().and_then(|o| o.bios.longest_wait_ns()))),
    column(Time, "zone_ns", Int64, "part of `before`, ns", |r| number(r.stages.of("zone"))),
    column(Time, "point_zone", Int64, "point before the request, ns", |r| point(r, Point::Zone)),
];
