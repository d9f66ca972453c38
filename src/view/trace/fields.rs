// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of events. Each is listed once, with its key in JSON, its key in long lines, its column, and
//! its value. A field without a key or a column is left out of that form.

use super::line::LineWriter;
use super::times::{Part, Parts};
use super::{Context, Form, Out, parts, times};
use crate::model::event::{
    CommandId, CompletionStatus, Event, EventKind, NO_QUEUE, Outcome, Submission,
};
use crate::model::origin::{Bios, Origin, Submitter};
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;
use crate::nvme::decode::blocks;
use crate::nvme::opcode::QueueKind;
use crate::nvme::subject::{ALL_NAMESPACES, namespace};

/// The value of a field.
pub(super) enum Value<'a> {
    /// The event has none: it is left out, and `-` in a column.
    None,
    /// It was not observed: `?`, in JSON null.
    Unknown,
    Num(u64),
    /// A number that is hexadecimal in text.
    Hex(u64),
    Flag(bool),
    /// The time of the event, which the clock writes.
    Clock(u64),
    /// A duration.
    Nanos(u64),
    /// A part of the time, and whether it includes another part that was not observed separately.
    Part(u64, bool),
    /// A size in bytes.
    Bytes(u64),
    /// A word of this program.
    Word(&'a str),
    /// A name from outside, escaped.
    Name(&'a str),
    /// The name of a thread.
    Comm(&'a [u8; 16]),
    /// JSON.
    Raw(&'a str),
    /// Anything else.
    Write(fn(&Row<'_>, &mut LineWriter)),
    /// The same, but in long lines with keys of its own.
    Parts(fn(&Row<'_>, &mut LineWriter)),
}

impl<'a> Value<'a> {
    fn num(n: Option<impl Into<u64>>) -> Self {
        n.map_or(Self::None, |n| Self::Num(n.into()))
    }

    fn hex(n: Option<impl Into<u64>>) -> Self {
        n.map_or(Self::None, |n| Self::Hex(n.into()))
    }

    /// A duration that may not be known.
    fn nanos(ns: Option<u64>) -> Self {
        ns.map_or(Self::Unknown, Self::Nanos)
    }

    fn word(word: Option<&'a str>) -> Self {
        word.map_or(Self::None, Self::Word)
    }
}

/// An event, and what its fields look at.
pub(super) struct Row<'a> {
    pub(super) form: Form,
    pub(super) event: &'a Event,
    pub(super) cx: &'a Context<'a>,
    pub(super) id: Option<&'a CommandId>,
    pub(super) submission: Option<&'a Submission>,
    pub(super) outcome: Option<&'a Outcome>,
    pub(super) timeline: Option<&'a Timeline>,
    /// The stages that are shown.
    stage_set: StageSet,
    /// The points of the pattern, each with its key in JSON.
    pub(super) points: &'a [(Point, String)],
    /// The stages; empty if two points are out of order.
    pub(super) stages: &'a [Part],
}

impl<'a> Row<'a> {
    /// `parts` will hold the points and the stages.
    pub(super) fn new(
        form: Form,
        event: &'a Event,
        cx: &'a Context<'a>,
        shown: Option<StageSet>,
        parts: &'a mut Parts,
    ) -> Self {
        let timeline = match &event.what {
            EventKind::Complete(_, outcome) => outcome.timeline.as_ref(),
            what => what.timeline(),
        };
        let timeline = timeline.filter(|_| shown.is_some());
        // columns divide the time themselves
        let stage_set = match (form, shown) {
            (Form::Columns, Some(_)) => StageSet::Full,
            (_, stages) => stages.unwrap_or_default(),
        };
        let (mut points, mut stages): (&[(Point, String)], &[Part]) = (&[], &[]);
        if let Some(times) = timeline {
            parts.set(times, stage_set, form);
            (points, stages) = (parts.points(), parts.stages());
        }
        Self {
            form,
            event,
            cx,
            id: event.what.id(),
            submission: event.what.submission(),
            outcome: event.what.outcome(),
            timeline,
            stage_set,
            points,
            stages,
        }
    }

    /// From the first to the last observed point.
    pub(super) fn total(&self) -> Option<u64> {
        match self.stages {
            [] => self.timeline?.total(self.stage_set),
            stages => Some(stages.iter().map(|part| part.ns).sum()),
        }
    }

    /// Whether the event is of a target: not of the driver.
    pub(super) fn is_of_target(&self) -> bool {
        self.stage_set == StageSet::Host
    }

    fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    fn verdict(&self) -> Option<&'a CompletionStatus> {
        self.outcome.and_then(|outcome| outcome.verdict.as_ref())
    }

    /// What only the driver knows.
    fn of_driver(&self) -> Option<&'a CompletionStatus> {
        self.verdict().filter(|_| !self.is_of_target())
    }

    pub(super) fn has_failed(&self) -> bool {
        self.verdict().is_some_and(|verdict| !verdict.status.is_success())
    }

    fn bios(&self) -> Option<Bios> {
        // one is the usual number
        let least = if self.is_json() { 1 } else { 2 };
        let bios = self.outcome.map(|outcome| outcome.bios);
        bios.filter(|bios| bios.count().is_some_and(|count| u16::from(count) >= least))
    }

    fn flag(&self, of: impl FnOnce(&Outcome) -> Option<bool>) -> Value<'a> {
        self.outcome.and_then(of).map_or(Value::None, Value::Flag)
    }

    pub(super) fn caller(&self) -> Option<&'a Submission> {
        self.submission.filter(|submission| submission.knows_submitter)
    }

    fn origin(&self) -> Option<&'a Origin> {
        self.caller().map(|caller| &caller.origin).filter(|origin| origin.is_some())
    }

    pub(super) fn submitter(&self) -> Option<&'a Submitter> {
        self.origin().map(|origin| &origin.submitter)
    }

    /// A value of the submitter, if it is known.
    fn of_submitter(&self, value: impl FnOnce(&'a Submitter) -> Value<'a>) -> Value<'a> {
        self.submitter().filter(|by| by.is_known()).map_or(Value::None, value)
    }

    /// The path of a cgroup. If it is not known, text has its id.
    fn cgroup(&self, id: u64) -> Value<'a> {
        let path = self.cx.cgroups.and_then(|all| all.get(&id));
        match path {
            Some(path) => Value::Name(path),
            None if self.is_json() => Value::Unknown,
            None if id == 0 => Value::None,
            None => Value::Num(id),
        }
    }

    /// The opcode's name, or its number.
    pub(super) fn opcode(&self, line: &mut LineWriter) {
        if let Some(id) = self.id {
            match id.opcode_name(self.cx.set, self.submission) {
                Some(name) => line.str(name),
                None => line.str(&format!("{:#04x}", id.opcode.code)),
            }
        }
    }
}

/// The value of a field.
type Get = for<'a> fn(&Row<'a>) -> Value<'a>;
/// Writes the key and the value.
pub(super) type Put = for<'a> fn(&Row<'a>, &mut Out);

/// A field.
#[derive(Debug)]
pub(super) struct Field {
    /// Writes it to JSON; `None` if it is not there.
    pub(super) json: Option<Put>,
    /// Writes it to a long line; `None` if it is not there.
    pub(super) text: Option<Put>,
    /// The heading of its column; empty if it has none.
    pub(super) head: &'static str,
    pub(super) width: usize,
    pub(super) is_left: bool,
    pub(super) value: Get,
}

/// A field with its keys in JSON and in long lines; an empty one means that it is not there. What writes it
/// is compiled for this field: the length of the key and the kind of the value are known.
macro_rules! field {
    ($json:literal, $text:literal, $value:expr) => {{
        const VALUE: Get = $value;
        let json: Put = |row, out| out.json(concat!(",\"", $json, "\":"), VALUE(row), row);
        let text: Put = |row, out| out.text(concat!(", ", $text, "="), VALUE(row), row);
        Field {
            json: if $json.is_empty() { None } else { Some(json) },
            text: if $text.is_empty() { None } else { Some(text) },
            head: "",
            width: 0,
            is_left: false,
            value: VALUE,
        }
    }};
}

impl Field {
    /// It has a column of numbers, too.
    const fn column(self, head: &'static str, width: usize) -> Self {
        Self { head, width, ..self }
    }

    /// It has a column of names, too.
    const fn left(self, head: &'static str, width: usize) -> Self {
        Self { is_left: true, ..self.column(head, width) }
    }
}

/// Whether an event may have some fields.
pub(super) type Has = fn(&Row<'_>) -> bool;
/// Fields that only some events have.
pub(super) type Group = (Has, &'static [Field]);

/// All fields, in the order of JSON and of long lines.
pub(super) const FIELDS: &[Group] = &[
    (
        |_| true,
        &[
            field!("time_ns", "", |r| Value::Clock(r.event.at_ns)).column("TIME", 15),
            field!("", "", |r| Value::Word(r.event.what.name())).left("EVENT", 10),
            field!("ctrl", "", |_| Value::Write(parts::ctrl)).left("CTRL", 6),
            field!("disk", "", disk).left("DISK", 7),
            field!("qid", "qid", qid).column("QID", 3),
        ],
    ),
    (
        |r| r.id.is_some(),
        &[
            field!("cid", "cid", |r| {
                Value::num(r.id.filter(|id| id.qid != NO_QUEUE).map(|id| id.cid))
            })
            .column("CID", 5),
            field!("nsid", "nsid", nsid).column("NSID", 4),
            field!("queue", "", queue),
            field!("opcode", "opcode", |_| Value::Write(parts::opcode)).left("OP", 5),
            field!("opcode_value", "", |r| Value::num(r.id.map(|id| id.opcode.code))),
            field!("flags", "flags", |r| Value::hex(r.submission.map(|s| s.sqe.flags()))),
            field!("metadata", "meta", |r| {
                r.submission.map_or(Value::None, |s| Value::Flag(s.sqe.metadata()))
            }),
        ],
    ),
    (
        |r| r.submission.is_some(),
        &[
            field!("fields", "fields", |_| Value::Parts(parts::fields)),
            field!("request", "request", |r| {
                let stack = r.submission.filter(|_| r.is_of_target()).map(|s| s.stack);
                Value::hex(stack.filter(|stack| stack.is_some()).map(|stack| stack.0))
            }),
            field!("bytes", "", bytes).column("SIZE", 4),
            field!("", "", lba).column("LBA", 9),
            field!("", "", |r| match r.caller() {
                Some(_) => Value::Write(parts::process),
                None => Value::Unknown,
            })
            .left("PROCESS", 10),
            field!("pid", "pid", |r| Value::num(r.caller().map(|s| s.pid))).column("PID", 7),
            field!("tid", "tid", |r| {
                Value::num(r.caller().filter(|s| r.is_json() || s.tid != s.pid).map(|s| s.tid))
            })
            .column("TID", 7),
            field!("comm", "comm", |r| {
                r.caller().map_or(Value::None, |s| Value::Comm(&s.comm))
            })
            .left("COMM", 15),
        ],
    ),
    (|r| r.id.is_some(), &[field!("cpu", "cpu", cpu).column("CPU", 3)]),
    (
        |r| r.origin().is_some(),
        &[
            field!("cgroup", "cgroup", |r| r
                .origin()
                .map_or(Value::None, |o| r.cgroup(o.io_cgroup)))
            .left("CGROUP", 24),
            field!("cgroup_id", "", |r| Value::num(r.origin().map(|o| o.io_cgroup))),
            field!("task_cgroup", "", |r| {
                r.origin().map_or(Value::None, |o| r.cgroup(o.task_cgroup))
            }),
            field!("submitter_pid", "submitter_pid", |r| match r.submitter() {
                Some(by) if by.is_known() => Value::Num(by.pid.into()),
                Some(_) if r.cx.has_submitters => Value::Unknown,
                _ => Value::None,
            }),
            field!("submitter_tid", "submitter_tid", |r| {
                r.of_submitter(|by| match r.is_json() || by.tid != by.pid {
                    true => Value::Num(by.tid.into()),
                    false => Value::None,
                })
            }),
            field!("submitter_comm", "submitter_comm", |r| {
                r.of_submitter(|by| Value::Comm(&by.comm))
            }),
            field!("submitter_cgroup", "submitter_cgroup", |r| {
                let io_cgroup = r.origin().map_or(0, |origin| origin.io_cgroup);
                r.of_submitter(|by| match r.is_json() || by.cgroup != io_cgroup {
                    true => r.cgroup(by.cgroup),
                    false => Value::None,
                })
            }),
        ],
    ),
    (
        |r| !r.cx.kstack.is_empty() || !r.cx.kstack_complete.is_empty(),
        &[field!("kstack", "", kstack)],
    ),
    (
        |r| r.outcome.is_some(),
        &[
            field!("result", "res", |r| Value::hex(r.of_driver().map(|v| v.result)))
                .column("RESULT", 6),
            field!("status", "status", |r| match (r.outcome, r.verdict()) {
                (_, Some(_)) => Value::Write(parts::status),
                (Some(_), None) => Value::Unknown,
                (None, None) => Value::None,
            })
            .left("STATUS", 24),
            field!("retries", "retries", |r| Value::num(r.of_driver().map(|v| v.retries)))
                .column("RETRIES", 7),
            field!("request_flags", "rqflags", |r| Value::hex(r.of_driver().map(|v| v.flags))),
            field!("driver_ns", "driver", |r| match r.outcome {
                Some(_) if r.is_of_target() => Value::None,
                // the stages have it
                Some(_) if r.form == Form::Long && !r.stages.is_empty() => Value::None,
                Some(outcome) => Value::nanos(outcome.latency_ns),
                None => Value::None,
            })
            .column("DRIVER", 6),
        ],
    ),
    (
        |r| matches!(r.event.what, EventKind::Missed { .. }),
        &[field!("driver_max_ns", "driver_max", |r| match &r.event.what {
            EventKind::Missed { latency_max_ns, .. } => Value::nanos(*latency_max_ns),
            _ => Value::None,
        })],
    ),
    (
        |_| false,
        &[
            field!("", "", times::host).column("KERNEL", 6),
            field!("", "", |r| times::part(r, &["before"])).column("BEFORE", 6),
            field!("", "", |r| times::part(r, &["queue"])).column("QUEUE", 6),
            field!("", "", |r| times::part(r, &["submit"])).column("SUBMIT", 6),
            field!("", "", |r| times::part(r, &["device"])).column("DEVICE", 7),
            field!("", "", |r| times::part(r, &["complete"])).column("COMPLETE", 8),
            field!("", "", |r| times::part(r, &["end"])).column("END", 6),
            field!("", "", |r| times::part(r, &["complete", "end"])).column("AFTER", 6),
            field!("", "", |r| match r.outcome {
                Some(outcome) => Value::nanos(r.total().or(outcome.latency_ns)),
                None => Value::None,
            })
            .column("TOTAL", 6),
            field!("", "", |_| Value::Write(times::mostly)).left("MOSTLY", 16),
        ],
    ),
    (
        |r| r.outcome.is_some_and(|o| o.conditions.is_some()),
        &[
            field!("cpu_idle", "", |r| r.flag(|o| o.conditions.cpu_idle())),
            field!("in_softirq", "", |r| r.flag(|o| o.conditions.in_softirq())),
            field!("announced", "", |r| {
                let announced = r.outcome.and_then(|o| o.conditions.announcement());
                Value::word(announced.map(|a| a.name()))
            }),
        ],
    ),
    (
        |r| r.outcome.is_some_and(|o| o.bios.count().is_some()),
        &[
            field!("bios", "bios", |r| Value::num(r.bios().and_then(|b| b.count().map(u16::from)))),
            field!("longest_wait_ns", "longest_wait", |r| match r.bios() {
                Some(bios) => Value::nanos(bios.longest_wait_ns()),
                None => Value::None,
            }),
        ],
    ),
    (
        |r| r.timeline.is_some(),
        &[
            field!("points_ns", "", |_| Value::Write(parts::points)),
            field!("stages", "stages", |_| Value::Parts(parts::stages)),
            field!("total_ns", "total", |r| match r.form {
                Form::Long if r.stages.is_empty() => Value::None,
                _ => Value::nanos(r.total()),
            }),
        ],
    ),
    (
        |r| matches!(r.event.what, EventKind::Command(..)),
        &[
            field!("complete_cpu", "", |r| {
                Value::num(r.outcome.filter(|_| !r.is_of_target()).map(|o| o.cpu))
            }),
            field!("kstack_complete", "", |r| match r.cx.kstack_complete {
                "" => Value::None,
                stack => Value::Raw(stack),
            }),
        ],
    ),
    (
        |r| r.outcome.is_none() && r.submission.is_none_or(|_| is_unfinished(r)),
        &[
            field!("age_ns", "age", |r| match r.event.what {
                EventKind::Unfinished { age_ns, .. }
                | EventKind::Timeout { age_ns, .. }
                | EventKind::Cancel { age_ns, .. } => Value::Nanos(age_ns),
                _ => Value::None,
            }),
            field!("retries", "retries", |r| match r.event.what {
                EventKind::Retry { retries, .. } => Value::num(retries),
                _ => Value::None,
            }),
            field!("sq_head", "sq_head", |r| match r.event.what {
                EventKind::Sq { head, .. } => Value::Num(head.into()),
                _ => Value::None,
            }),
            field!("sq_tail", "sq_tail", |r| match r.event.what {
                EventKind::Sq { tail, .. } => Value::Num(tail.into()),
                _ => Value::None,
            }),
            field!("result", "result", |r| match r.event.what {
                EventKind::AsyncEvent { event, .. } => Value::Hex(event.0.into()),
                _ => Value::None,
            }),
            field!("fields", "fields", |r| match r.event.what {
                EventKind::AsyncEvent { .. } => Value::Parts(parts::async_event),
                _ => Value::None,
            }),
            field!("state", "state", |r| match r.event.what {
                EventKind::State { .. } => Value::Parts(parts::state),
                _ => Value::None,
            }),
            field!("vector", "vector", |r| match r.event.what {
                EventKind::Interrupt { vector, .. } => Value::Num(vector.into()),
                _ => Value::None,
            }),
        ],
    ),
];

const fn is_unfinished(row: &Row<'_>) -> bool {
    matches!(row.event.what, EventKind::Unfinished { .. })
}

fn disk<'a>(row: &Row<'a>) -> Value<'a> {
    match (row.cx.disk, row.form) {
        ("", Form::Columns) => Value::Write(parts::ctrl),
        ("", _) => Value::None,
        _ if row.is_of_target() => Value::None,
        (disk, _) => Value::Name(disk),
    }
}

fn qid<'a>(row: &Row<'a>) -> Value<'a> {
    match (row.id, row.event.what) {
        (Some(id), _) if id.qid == NO_QUEUE => Value::None,
        (Some(id), _) => Value::Num(id.qid.into()),
        (None, EventKind::Sq { qid, .. }) => Value::Num(qid.into()),
        _ => Value::None,
    }
}

fn nsid<'a>(row: &Row<'a>) -> Value<'a> {
    let Some(id) = row.id else {
        return Value::None;
    };
    match namespace(id.opcode, id.nsid) {
        _ if row.is_json() => Value::Num(id.nsid.into()),
        Some(ALL_NAMESPACES) => Value::Word("all"),
        nsid => Value::num(nsid),
    }
}

fn queue<'a>(row: &Row<'a>) -> Value<'a> {
    Value::word(row.id.map(|id| match id.opcode.queue {
        QueueKind::Io => "io",
        QueueKind::Admin => "admin",
    }))
}

/// A column has none for admin commands: it is not what they do.
fn bytes<'a>(row: &Row<'a>) -> Value<'a> {
    let bytes = row.submission.and_then(|submission| submission.bytes);
    let is_admin = row.id.is_some_and(|id| id.opcode.queue == QueueKind::Admin);
    match bytes {
        _ if row.is_json() => Value::num(bytes),
        None | Some(0) => Value::None,
        Some(_) if is_admin => Value::None,
        Some(bytes) => Value::Bytes(bytes.into()),
    }
}

fn lba<'a>(row: &Row<'a>) -> Value<'a> {
    let slba = |(id, s): (&CommandId, &Submission)| blocks(id.opcode.queue, row.cx.set, &s.sqe);
    Value::num(row.id.zip(row.submission).and_then(slba).map(|blocks| blocks.slba))
}

/// The CPU of the submission, or of a completion that is an event of its own.
fn cpu<'a>(row: &Row<'a>) -> Value<'a> {
    match row.event.what {
        EventKind::Complete(_, outcome) => Value::Num(outcome.cpu.into()),
        EventKind::Command(..) | EventKind::Missed { .. } if row.form == Form::Long => Value::None,
        _ => Value::num(row.caller().map(|submission| submission.cpu)),
    }
}

fn kstack<'a>(row: &Row<'a>) -> Value<'a> {
    let stack = match row.event.what {
        EventKind::Complete(..) => row.cx.kstack_complete,
        _ if row.caller().is_some() => row.cx.kstack,
        _ => "",
    };
    if stack.is_empty() { Value::None } else { Value::Raw(stack) }
}
