// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as text: one line per event, which begins with the fields of nvme_trace. Stacks follow,
//! indented. Lines of events that are not about the life of one command begin with `--`.
//!
//! Plain text has single blanks and no escape sequences. On a terminal the columns are aligned,
//! reference data is dim, and errors are highlighted.

mod outcome;

use self::outcome::FlagsKey;
use super::ink::{Ink, TextStyle};
use super::line::Line;
use super::memo::Memo;
use super::stages::Stages;
use super::{Clock, Context, EventSink, Page, origin};
use crate::model::event::{CommandId, CtrlState, Event, EventKind, Outcome, Submission};
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::model::text::word;
use crate::nvme::aen::AsyncEvent;
use crate::nvme::decode::Field;
use crate::nvme::subject::{ALL_NAMESPACES, namespace};
use crate::view::theme::{Codes, Theme};

/// The longest name of an event.
const EVENT_WIDTH: usize = "Unfinished".len();
/// Writes events as text.
#[derive(Debug)]
pub struct TraceText {
    page: Page,
    stages: Option<Stages>,
    codes: Option<Codes>,
    columns: Option<Columns>,
    memo: Memo,
}

/// The widths of the columns so far.
#[derive(Debug, Default)]
struct Columns {
    time: usize,
    disk: usize,
}

impl TraceText {
    /// A writer. `align` aligns columns. `stages` is the stage set to show, if any.
    #[must_use]
    pub fn new(theme: Theme, align: bool, clock: Clock, stages: Option<StageSet>) -> Self {
        Self {
            page: Page::new(clock),
            stages: stages.map(|stage_set| {
                let label: fn(&str) -> String = |name| format!(", {name}=");
                Stages::new(stage_set, label, label)
            }),
            codes: theme.codes(),
            columns: align.then(Columns::default),
            memo: Memo::new(),
        }
    }
}

impl EventSink for TraceText {
    fn page(&self) -> &Page {
        &self.page
    }

    fn page_mut(&mut self) -> &mut Page {
        &mut self.page
    }

    fn stack(&self, frames: &[Frame]) -> String {
        let dim = self.codes.as_ref().map(|codes| &codes.dim);
        let (before, after) = dim.map_or(("", ""), |dim| (&dim.before, &dim.after));
        let line = |frame: &Frame| format!("    {before}{frame}{after}\n");
        frames.iter().map(line).collect()
    }

    fn event(&mut self, event: &Event, cx: &Context<'_>) {
        let Event { at_ns, what } = event;
        self.page.line.begin();
        let mut ink = Ink { line: &mut self.page.line, codes: self.codes.as_ref() };
        if cx.is_second_line
            && let EventKind::Retry { retries, .. } = what
        {
            return ink.second_line(*retries);
        }
        let (name, styled) = title(what);
        if is_apart(what) {
            ink.line.str("-- ");
        }
        begin(&mut self.page.clock, self.columns.as_mut(), *at_ns, cx, &mut ink);
        ink.styled(styled, |ink| ink.line.name(name));
        if self.columns.is_some() {
            ink.pad(EVENT_WIDTH.saturating_sub(name.len()));
        }
        ink.line.str(" nvme");
        ink.line.dec(what.ctrl());
        ink.line.str(": ");
        ink.body(what, cx, self.stages.as_mut(), &mut self.memo);
        ink.line.byte(b'\n');
        stacks(what, cx, ink.line);
    }
}

impl Ink<'_> {
    fn body(
        &mut self,
        what: &EventKind,
        cx: &Context<'_>,
        stages: Option<&mut Stages>,
        memo: &mut Memo,
    ) {
        if let Some(id) = what.command() {
            self.command(id, what.submission(), cx, memo);
        }
        match what {
            EventKind::Submit(_, submission) => self.number(", cpu=", submission.cpu),
            EventKind::Missed { latency_max_ns, timeline, .. } => {
                self.missed(*latency_max_ns, timeline.as_ref(), stages)
            }
            EventKind::Complete(id, outcome) => {
                self.outcome(id.opcode, outcome, FlagsKey::Flags, stages);
                self.number(", cpu=", outcome.cpu);
            }
            EventKind::Command(id, _, outcome) => {
                self.outcome(id.opcode, outcome, FlagsKey::RqFlags, stages);
            }
            EventKind::Unfinished { submission, age_ns, .. } => {
                self.number(", cpu=", submission.cpu);
                self.age(*age_ns);
            }
            EventKind::Timeout { age_ns, .. } | EventKind::Cancel { age_ns, .. } => {
                self.age(*age_ns)
            }
            EventKind::Retry { retries: Some(retries), .. } => self.number(", retries=", *retries),
            EventKind::Requeue(_) | EventKind::Retry { .. } => {}
            EventKind::Sq { ctrl: _, qid, id, head, tail } => {
                self.number("qid=", *qid);
                if let Some(id) = id {
                    self.number(", cid=", id.cid);
                }
                self.sq(*head, *tail);
            }
            EventKind::AsyncEvent { event, .. } => self.async_event(*event),
            EventKind::State { state, requested, .. } => self.state(*state, *requested),
        }
    }
}

/// Whether the line of an event begins with `--`: it is about a controller, or tells of trouble.
const fn is_apart(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::State { .. }
            | EventKind::AsyncEvent { .. }
            | EventKind::Timeout { .. }
            | EventKind::Cancel { .. }
    )
}

/// The event's name, and its emphasis.
fn title(what: &EventKind) -> (&'static str, TextStyle) {
    match what {
        EventKind::Submit(..) => ("Submit", TextStyle::Plain),
        EventKind::Complete(_, outcome) => {
            ("Complete", TextStyle::failed(failed(outcome), TextStyle::Plain))
        }
        EventKind::Command(_, _, outcome) => {
            ("Command", TextStyle::failed(failed(outcome), TextStyle::Plain))
        }
        EventKind::Unfinished { .. } => ("Unfinished", TextStyle::Head),
        EventKind::Missed { .. } => ("Missed", TextStyle::Warn),
        EventKind::Sq { .. } => ("Sq", TextStyle::Dim),
        EventKind::Timeout { .. } => ("Timeout", TextStyle::Warn),
        EventKind::Cancel { .. } => ("Cancel", TextStyle::Warn),
        EventKind::Requeue(_) => ("Requeue", TextStyle::Head),
        EventKind::Retry { .. } => ("Retry", TextStyle::Warn),
        EventKind::AsyncEvent { .. } => ("AsyncEvent", TextStyle::Head),
        // `live` is normal; all other states are warnings
        EventKind::State { state, .. } => {
            ("State", TextStyle::failed(state.0 != 1, TextStyle::Head))
        }
    }
}

fn failed(outcome: &Outcome) -> bool {
    let verdict = outcome.verdict.as_ref();
    verdict.is_some_and(|v| !v.status.is_success())
}

/// Writes the time and the disk, with the blanks after them.
#[inline]
fn begin(
    clock: &mut Clock,
    columns: Option<&mut Columns>,
    at_ns: u64,
    cx: &Context<'_>,
    ink: &mut Ink<'_>,
) {
    let disk = word(cx.disk);
    let disk = if disk.is_empty() { "-" } else { &disk };
    let Some(Columns { time: time_width, disk: disk_width }) = columns else {
        ink.styled(TextStyle::Dim, |ink| clock.text(at_ns, ink.line));
        ink.line.byte(b' ');
        ink.line.name(disk);
        ink.line.byte(b' ');
        return;
    };
    ink.styled(TextStyle::Dim, |ink| {
        let place = ink.line.place();
        clock.text(at_ns, ink.line);
        let width = ink.line.since(place).len();
        *time_width = width.max(*time_width);
        // numbers are right-aligned
        ink.line.indent(place, *time_width - width);
    });
    let columns = disk.chars().count();
    *disk_width = columns.max(*disk_width);
    ink.line.byte(b' ');
    ink.line.name(disk);
    ink.pad(*disk_width - columns + 1);
}

impl Ink<'_> {
    /// Writes the identity of a command, its opcode with the name, and its parameters without the
    /// CPU. Flags and metadata precede the opcode, as in nvme_trace.
    #[inline]
    fn command(
        &mut self,
        id: &CommandId,
        submission: Option<&Submission>,
        cx: &Context<'_>,
        memo: &mut Memo,
    ) {
        self.number("qid=", id.qid);
        self.number(", cid=", id.cid);
        let codes = self.codes;
        memo.command(id, submission, cx.set, self.line, |line| {
            Ink { line, codes }.kind(id, submission, cx);
        });
        if let Some(submission) = submission {
            self.submission(id, submission, cx, memo);
        }
    }

    fn kind(&mut self, id: &CommandId, submission: Option<&Submission>, cx: &Context<'_>) {
        match namespace(id.opcode, id.nsid) {
            Some(ALL_NAMESPACES) => self.line.str(", nsid=all"),
            Some(nsid) => self.number(", nsid=", nsid),
            None => {}
        }
        if let Some(submission) = submission {
            self.styled(TextStyle::Dim, |ink| {
                ink.line.str(", flags=");
                ink.line.hex(submission.sqe.flags());
                ink.line.str(", meta=");
                ink.line.hex(submission.sqe.metadata());
            });
        }
        self.number(", opcode=", id.opcode.code);
        self.line.str(" (");
        self.styled(TextStyle::Head, |ink| match id.opcode_name(cx.set, submission) {
            Some(name) => ink.line.name(name),
            None => ink.line.hex_byte(id.opcode.code),
        });
        self.line.byte(b')');
    }

    #[inline]
    fn submission(
        &mut self,
        id: &CommandId,
        submission: &Submission,
        cx: &Context<'_>,
        memo: &mut Memo,
    ) {
        let slba = |line: &mut Line, slba| {
            line.str(", slba=");
            line.dec(slba);
        };
        memo.fields((id.opcode.queue, cx.set), submission, self.line, slba, rest);
        if !submission.knows_submitter {
            return;
        }
        memo.thread(submission, self.line, |line, submission| {
            let mut ink = Ink { line, codes: None };
            ink.number(", pid=", submission.pid);
            if submission.tid != submission.pid {
                ink.number(", tid=", submission.tid);
            }
            line.str(", comm=");
            name(line, &submission.comm());
        });
        if submission.origin.is_some() {
            origin::text(self.line, &submission.origin, cx);
        }
    }

    /// Writes the line below a command that is tried again. It has fewer blanks than a stack.
    #[cold]
    fn second_line(&mut self, retries: Option<u8>) {
        self.line.str("  ");
        self.styled(TextStyle::Warn, |ink| {
            ink.line.str("will be tried again");
            if let Some(retries) = retries {
                ink.number(": retry ", retries);
            }
        });
        self.line.byte(b'\n');
    }

    fn sq(&mut self, head: u16, tail: u16) {
        self.number(", sq_head=", head);
        self.number(", sq_tail=", tail);
    }

    #[inline]
    fn age(&mut self, ns: u64) {
        self.line.str(", age=");
        self.styled(TextStyle::Head, |ink| ink.line.nanos(ns));
    }

    fn async_event(&mut self, event: AsyncEvent) {
        let [whole, kind, info, lid] = event.fields();
        for (key, value) in [
            ("result=", whole.value),
            (", type=", kind.value),
            (", info=", info.value),
            (", lid=", lid.value),
        ] {
            self.line.name(key);
            self.line.value(value);
        }
    }

    fn state(&mut self, state: CtrlState, requested: bool) {
        match state.name() {
            Some(name) => self.line.name(name),
            None => {
                self.number("unknown (", state.0);
                self.line.byte(b')');
            }
        }
        if requested {
            self.line.str(" (asked)");
        }
    }
}

/// Writes the fields except `slba`, and the number of bytes transferred.
fn rest(line: &mut Line, submission: &Submission, fields: &mut dyn Iterator<Item = Field>) {
    let mut shown = None;
    for field in fields {
        if field.shown() {
            line.str(", ");
            line.name(field.key);
            line.byte(b'=');
            line.value(field.value);
        }
        if field.key == "bytes" {
            shown = Some(field.value.number());
        }
    }
    let bytes = submission.bytes.filter(|&n| n != 0);
    if let Some(bytes) = bytes.filter(|&n| shown != Some(n.into())) {
        // `transfer` if a field of the command already gives another number of bytes
        let key = shown.map_or(", bytes=", |_| ", transfer=");
        line.str(key);
        line.dec(bytes);
    }
}

/// Writes the name of a thread or cgroup. Ambiguous names are quoted.
pub(super) fn name(line: &mut Line, name: &str) {
    let plain = |b: u8| b.is_ascii_graphic() && !b"\",\\=".contains(&b);
    if !name.is_empty() && name.bytes().all(plain) {
        return line.name(name);
    }
    line.byte(b'"');
    line.long(name.replace('"', "\\\"").as_bytes());
    line.byte(b'"');
}

/// Writes the stacks of an event. If there may be two, a line introduces the second.
#[inline]
fn stacks(what: &EventKind, cx: &Context<'_>, line: &mut Line) {
    let (submit, complete) = match what {
        EventKind::Submit(..) | EventKind::Unfinished { .. } | EventKind::Missed { .. } => {
            (true, false)
        }
        EventKind::Complete(..) => (false, true),
        EventKind::Command(..) => (true, true),
        _ => (false, false),
    };
    if submit && !cx.kstack.is_empty() {
        line.long(cx.kstack.as_bytes());
    }
    if complete && !cx.kstack_complete.is_empty() {
        if submit {
            line.str("    -- completed by\n");
        }
        line.long(cx.kstack_complete.as_bytes());
    }
}
