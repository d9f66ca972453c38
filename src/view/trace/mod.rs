// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a trace as lines: columns, long lines of `key=value`, or JSON. One table has all fields
//! (fields.rs). The caller takes the lines from time to time, and passes in stacks, which many events
//! share, as rendered text.
//!
//! This runs for every command of a busy device, so nothing on the usual way uses `core::fmt`. serde_json takes
//! 16,600 instructions for a command with stages (tests/reading_cost.rs has ours).

mod columns;
mod fields;
mod line;
mod parts;
mod times;

pub use self::columns::Columns;
use self::columns::Layout;
use self::fields::{FIELDS, Field, Group, Has, Put, Row, Value};
use self::line::LineWriter;
use self::times::Parts;
use crate::model::event::{Event, EventKind};
use crate::model::origin::Cgroups;
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::model::text::word;
use crate::nvme::decode::CommandSet;
use crate::view::json::SCHEMA_VERSION;
use crate::view::theme::{Around, Codes, Theme};
pub use crate::view::trace::times::{Clock, Wall};

/// A colour.
type Style = fn(&Codes) -> &Around;

/// The lines should be taken from this number of bytes on.
const FULL: usize = 64 << 10;

/// Data of an event that the event does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The name of the block device. Empty if there is none, as for admin commands. In a target: of the
    /// controller.
    pub disk: &'a str,
    /// The command set of the namespace.
    pub set: CommandSet,
    /// The stack at submission, rendered by [`TraceLines::stack`]; empty if there is none.
    pub kstack: &'a str,
    /// The stack at completion, rendered in the same way.
    pub kstack_complete: &'a str,
    /// Paths of cgroups.
    pub cgroups: Option<&'a Cgroups>,
    /// Whether submitters are observed.
    pub has_submitters: bool,
    /// The event is a retry, and its line goes below the line of its command.
    pub is_second_line: bool,
}

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A line of columns per command.
    Columns,
    /// All fields as `key=value`.
    Long,
    /// An object per event. The schema is in docs/reference/json.md.
    Json,
}

/// Where fields are written, and how they look.
#[derive(Debug)]
struct Out {
    line: LineWriter,
    clock: Clock,
    codes: Option<Codes>,
    layout: Layout,
    /// The value of a column.
    cell: LineWriter,
    /// The first field of a long line has no comma before it.
    is_first: bool,
}

/// Events as lines.
#[derive(Debug)]
pub struct TraceLines {
    form: Form,
    stages: Option<StageSet>,
    /// The fields of the form, by the events that have them.
    fields: Vec<(Has, Vec<Put>)>,
    /// The points and stages of the last command.
    parts: Parts,
    out: Out,
}

impl TraceLines {
    fn new(form: Form, codes: Option<Codes>, clock: Clock, stages: Option<StageSet>) -> Self {
        let (line, cell, parts, layout) = <_>::default();
        let of_group = |(has, fields): &Group| {
            let put = |field: &Field| if form == Form::Json { field.json } else { field.text };
            let fields: Vec<Put> = fields.iter().filter_map(put).collect();
            (!fields.is_empty()).then_some((*has, fields))
        };
        let fields = FIELDS.iter().filter_map(of_group).collect();
        let out = Out { line, clock, codes, layout, cell, is_first: true };
        Self { form, stages, fields, parts, out }
    }

    /// JSON. `stages` is the stage set to show, if any.
    #[must_use]
    pub fn json(clock: Clock, stages: Option<StageSet>) -> Self {
        Self::new(Form::Json, None, clock, stages)
    }

    /// Long lines.
    #[must_use]
    pub fn long(theme: Theme, clock: Clock, stages: Option<StageSet>) -> Self {
        Self::new(Form::Long, theme.codes(), clock, stages)
    }

    /// Columns that fit this width: `chosen`, or the usual ones.
    #[must_use]
    pub fn columns(
        theme: Theme,
        clock: Clock,
        stages: Option<StageSet>,
        chosen: Option<&Columns>,
        width: usize,
    ) -> Self {
        let layout = Layout::new(chosen, width, clock.width());
        let mut lines = Self::new(Form::Columns, theme.codes(), clock, stages);
        lines.out.layout = layout;
        lines
    }

    /// Columns have their heading again after this number of lines.
    #[must_use]
    pub fn with_pages(mut self, lines: Option<usize>) -> Self {
        self.out.layout.page = lines;
        self
    }

    /// Adds to each command the stages with most of its time. Nothing is above the first heading.
    #[must_use]
    pub const fn with_largest_stages(mut self) -> Self {
        self.out.layout.largest = true;
        self
    }

    /// The clock, to correct its offset.
    pub const fn clock(&mut self) -> &mut Clock {
        &mut self.out.clock
    }

    /// Number of bytes that are not taken yet, for [`TraceLines::move_up`].
    pub fn bytes(&self) -> usize {
        self.out.line.len()
    }

    /// Moves what was appended after the first `from` bytes up, to behind the first `to`.
    pub fn move_up(&mut self, from: usize, to: usize) {
        self.out.line.move_up(from, to);
    }

    /// Whether the lines should be taken.
    pub fn is_full(&self) -> bool {
        self.out.line.len() >= FULL
    }

    /// Passes the lines to `to`, and removes them.
    pub fn take<R>(&mut self, to: impl FnOnce(&[u8]) -> R) -> R {
        self.out.line.take(to)
    }

    /// Appends lines of text. Columns have their heading below it.
    pub fn text(&mut self, lines: &str) {
        self.out.line.str(lines);
        self.out.layout.has_heading = false;
    }

    /// The lines of a stack, for [`Context`].
    pub fn stack(&self, frames: &[Frame]) -> String {
        let dim = |text: &str| match &self.out.codes {
            Some(codes) => format!("    {}{text}{}\n", codes.dim.before, codes.dim.after),
            None => format!("    {text}\n"),
        };
        match self.form {
            Form::Json => {
                let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
                serde_json::to_string(&frames).unwrap_or_default()
            }
            Form::Long => frames.iter().map(|frame| dim(&frame.to_string())).collect(),
            Form::Columns => dim(&columns::path(frames, self.out.layout.width - 4)),
        }
    }

    /// Appends an event.
    pub fn event(&mut self, event: &Event, cx: &Context<'_>) {
        if let (EventKind::Retry { retries, .. }, true) = (&event.what, cx.is_second_line) {
            let again = match retries {
                Some(n) => format!("will be tried again: retry {n}"),
                None => "will be tried again".to_owned(),
            };
            let indent = if self.form == Form::Columns { "    " } else { "  " };
            return self.out.second_line(indent, |codes| &codes.warn, &again);
        }
        let Self { form, stages, fields, parts, out } = self;
        let row = Row::new(*form, event, cx, *stages, parts);
        match form {
            Form::Json => out.object(&row, fields),
            Form::Long => out.pairs(&row, fields),
            Form::Columns => out.cells(&row),
        }
    }
}

impl Out {
    /// Writes an indented line that belongs to the one above.
    fn second_line(&mut self, indent: &str, style: Style, text: &str) {
        self.line.str(indent);
        self.styled(true, style, |out| out.line.str(text));
        self.line.byte(b'\n');
        self.layout.lines += 1;
    }

    /// Writes something in a colour if it `is` to have it.
    fn styled(&mut self, is: bool, style: Style, write: impl FnOnce(&mut Self)) {
        let Some(around) = self.codes.as_ref().filter(|_| is).map(|codes| style(codes).clone())
        else {
            return write(self);
        };
        self.line.str(&around.before);
        write(self);
        self.line.str(&around.after);
    }

    fn put(&mut self, row: &Row<'_>, fields: &[(Has, Vec<Put>)]) {
        self.is_first = true;
        for (_, fields) in fields.iter().filter(|(has, _)| has(row)) {
            fields.iter().for_each(|put| put(row, self));
        }
    }

    /// Writes an event as an object.
    fn object(&mut self, row: &Row<'_>, fields: &[(Has, Vec<Put>)]) {
        const { assert!(SCHEMA_VERSION == 2, "it is in the next lines") };
        self.line.str("{\"type\":\"");
        self.line.str(row.event.what.name());
        self.line.str("\",\"schema_version\":2");
        self.put(row, fields);
        self.line.str("}\n");
    }

    /// Writes an event as a long line: time, disk, event and controller, the fields, the stacks.
    fn pairs(&mut self, row: &Row<'_>, fields: &[(Has, Vec<Put>)]) {
        let what = &row.event.what;
        if is_apart(what) {
            self.line.str("-- ");
        }
        self.clock.text(row.event.at_ns, &mut self.line);
        let disk = word(if row.is_of_target() { "" } else { row.cx.disk });
        for word in [if disk.is_empty() { "-" } else { &disk }, title(what), ""] {
            self.line.byte(b' ');
            self.line.str(word);
        }
        parts::ctrl(row, &mut self.line);
        self.line.byte(b':');
        self.put(row, fields);
        self.line.byte(b'\n');
        self.line.str(row.cx.kstack);
        if !row.cx.kstack_complete.is_empty() {
            if row.submission.is_some() {
                self.line.str("    -- completed by\n");
            }
            self.line.str(row.cx.kstack_complete);
        }
    }

    /// Writes a field of an object.
    #[inline(always)]
    fn json(&mut self, key: &'static str, value: Value<'_>, row: &Row<'_>) {
        if let Value::None = value {
            return;
        }
        let line = &mut self.line;
        line.str(key);
        match value {
            Value::None => {}
            Value::Unknown => line.str("null"),
            Value::Num(n) | Value::Hex(n) | Value::Bytes(n) => line.dec(n),
            Value::Nanos(ns) | Value::Part(ns, _) => line.dec(ns),
            Value::Flag(is) => line.bool(is),
            Value::Clock(at_ns) => {
                line.dec(at_ns);
                self.clock.json(at_ns, line);
            }
            Value::Word(word) => {
                line.byte(b'"');
                line.str(word);
                line.byte(b'"');
            }
            Value::Name(name) => line.json(name),
            Value::Comm(comm) => line.comm(comm, "\"", LineWriter::json),
            Value::Raw(json) => line.str(json),
            Value::Write(write) | Value::Parts(write) => write(row, line),
        }
    }

    /// Writes a field of a long line.
    #[inline(always)]
    fn text(&mut self, key: &'static str, value: Value<'_>, row: &Row<'_>) {
        let line = &mut self.line;
        match value {
            Value::None => return,
            Value::Parts(_) => {}
            _ if self.is_first => line.str(&key[1..]),
            _ => line.str(key),
        }
        self.is_first = false;
        match value {
            Value::None => {}
            Value::Unknown => line.byte(b'?'),
            Value::Num(n) | Value::Bytes(n) => line.dec(n),
            Value::Hex(n) => line.hex(n),
            Value::Flag(is) => line.hex(is),
            Value::Clock(at_ns) => self.clock.text(at_ns, line),
            Value::Nanos(ns) | Value::Part(ns, _) => line.nanos(ns),
            Value::Word(text) | Value::Raw(text) => line.str(text),
            Value::Name(name) => line.name(name),
            Value::Comm(comm) => line.comm(comm, "", LineWriter::name),
            Value::Parts(write) => write(row, line),
            Value::Write(write) => {
                let red = self.codes.as_ref().filter(|_| key == ", status=" && row.has_failed());
                line.str(red.map_or("", |codes| &codes.warn.before));
                write(row, line);
                line.str(red.map_or("", |codes| &codes.warn.after));
            }
        }
    }
}

/// Whether an event is about a controller, or tells of trouble: its line begins with `--`.
const fn is_apart(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::State { .. }
            | EventKind::AsyncEvent { .. }
            | EventKind::Timeout { .. }
            | EventKind::Cancel { .. }
    )
}

/// The name of an event in long lines.
const fn title(what: &EventKind) -> &'static str {
    match what {
        EventKind::Submit(..) => "Submit",
        EventKind::Complete(..) => "Complete",
        EventKind::Command(..) => "Command",
        EventKind::Unfinished { .. } => "Unfinished",
        EventKind::Missed { .. } => "Missed",
        EventKind::Sq { .. } => "Sq",
        EventKind::Timeout { .. } => "Timeout",
        EventKind::Cancel { .. } => "Cancel",
        EventKind::Requeue(_) => "Requeue",
        EventKind::Retry { .. } => "Retry",
        EventKind::AsyncEvent { .. } => "AsyncEvent",
        EventKind::State { .. } => "State",
        EventKind::Interrupt { .. } => "Interrupt",
    }
}
