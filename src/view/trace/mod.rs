// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a trace as lines: columns, long lines of `key=value`, or JSON. One table has all fields
//! (fields.rs). The caller takes the lines from time to time, and passes in stacks, which many events
//! share, as rendered text.
//!
//! This runs for every command of a busy device, so nothing on the usual way uses `core::fmt`. serde_json takes
//! 16,600 instructions for a command with stages (tests/reading_cost.rs has ours).

mod clock;
mod columns;
mod fields;
mod line;
mod parts;
mod times;

use std::mem::take;

pub use self::clock::{Clock, Wall};
pub use self::columns::Columns;
use self::columns::Layout;
use self::fields::{FIELDS, Field, Group, Has, Put, Row, Value};
use self::line::LineWriter;
pub(crate) use self::parts::status_type;
use self::times::Parts;
use crate::model::event::{Event, EventKind};
use crate::model::origin::Cgroups;
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::model::text::word;
use crate::nvme::decode::CommandSet;
use crate::view::json::SCHEMA_VERSION;
use crate::view::theme::{Around, Codes, Theme};

/// A colour.
type Style = fn(&Codes) -> &Around;

/// The lines should be taken from this number of bytes on.
const FULL: usize = 64 << 10;

/// Data of an event that the event does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The name of the block device. Empty if there is none, as for admin commands.
    pub disk: &'a str,
    /// The command set of the namespace.
    pub set: CommandSet,
    /// The stack at submission, rendered by [`TraceLines::stack`]; empty if there is none.
    pub kstack: &'a str,
    /// The stack at completion, likewise.
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

/// Where fields are written.
struct Out<'o> {
    line: &'o mut LineWriter,
    clock: &'o mut Clock,
    codes: Option<&'o Codes>,
    /// The first field of a long line has no comma before it.
    is_first: bool,
}

/// Events as lines.
#[derive(Debug)]
pub struct TraceLines {
    form: Form,
    clock: Clock,
    line: LineWriter,
    stages: Option<StageSet>,
    /// The fields of the form, by the events that have them.
    fields: Vec<(Has, Vec<Put>)>,
    /// The points and stages of the last command.
    parts: Parts,
    codes: Option<Codes>,
    layout: Layout,
}

impl TraceLines {
    fn new(form: Form, clock: Clock, stages: Option<StageSet>) -> Self {
        let (line, parts, layout) = <_>::default();
        let of_group = |(has, fields): &Group| {
            let put = |field: &Field| if form == Form::Json { field.json } else { field.text };
            (*has, fields.iter().filter_map(put).collect())
        };
        let fields = FIELDS.iter().map(of_group).collect();
        Self { form, clock, line, stages, fields, parts, codes: None, layout }
    }

    /// JSON. `stages` is the stage set to show, if any.
    #[must_use]
    pub fn json(clock: Clock, stages: Option<StageSet>) -> Self {
        Self::new(Form::Json, clock, stages)
    }

    /// Long lines.
    #[must_use]
    pub fn long(theme: Theme, clock: Clock, stages: Option<StageSet>) -> Self {
        Self { codes: theme.codes(), ..Self::new(Form::Long, clock, stages) }
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
        Self { codes: theme.codes(), layout, ..Self::new(Form::Columns, clock, stages) }
    }

    /// Columns have their heading again after this number of lines.
    #[must_use]
    pub fn with_pages(mut self, lines: Option<usize>) -> Self {
        self.layout.page = lines;
        self
    }

    /// Adds to each command the stages with most of its time. Nothing is above the first heading.
    #[must_use]
    pub const fn with_largest_stages(mut self) -> Self {
        self.layout.largest = true;
        self
    }

    /// The clock, to correct its offset.
    pub const fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Number of bytes that are not taken yet, for [`TraceLines::move_up`].
    pub fn bytes(&self) -> usize {
        self.line.len()
    }

    /// Moves what was appended after the first `from` bytes up, to behind the first `to`.
    pub fn move_up(&mut self, from: usize, to: usize) {
        self.line.move_up(from, to);
    }

    /// Whether the lines should be taken.
    pub fn is_full(&self) -> bool {
        self.line.len() >= FULL
    }

    /// Passes the lines to `to`, and removes them.
    pub fn take<R>(&mut self, to: impl FnOnce(&[u8]) -> R) -> R {
        self.line.take(to)
    }

    /// Appends lines of text. Columns have their heading below it.
    pub fn text(&mut self, lines: &str) {
        self.line.str(lines);
        self.layout.has_heading = false;
    }

    /// The lines of a stack, for [`Context`].
    pub fn stack(&self, frames: &[Frame]) -> String {
        let dim = |text: &str| match &self.codes {
            Some(codes) => format!("    {}{text}{}\n", codes.dim.before, codes.dim.after),
            None => format!("    {text}\n"),
        };
        match self.form {
            Form::Json => {
                let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
                serde_json::to_string(&frames).unwrap_or_default()
            }
            Form::Long => frames.iter().map(|frame| dim(&frame.to_string())).collect(),
            Form::Columns => dim(&columns::path(frames, self.layout.width - 4)),
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
            return self.second_line(indent, |codes| &codes.warn, &again);
        }
        let mut parts = take(&mut self.parts);
        let row = Row::new(self.form, event, cx, self.stages, &mut parts);
        match self.form {
            Form::Json => self.object(&row),
            Form::Long => self.pairs(&row),
            Form::Columns => self.cells(&row),
        }
        self.parts = parts;
    }

    /// Writes an indented line that belongs to the one above.
    fn second_line(&mut self, indent: &str, style: Style, text: &str) {
        self.line.str(indent);
        self.styled(true, style, |lines| lines.line.str(text));
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

    fn put(&mut self, row: &Row<'_>) {
        let Self { line, clock, codes, fields, .. } = self;
        let mut out = Out { line, clock, codes: codes.as_ref(), is_first: true };
        for (_, fields) in fields.iter().filter(|(has, _)| has(row)) {
            fields.iter().for_each(|put| put(row, &mut out));
        }
    }

    /// Writes an event as an object.
    fn object(&mut self, row: &Row<'_>) {
        const { assert!(SCHEMA_VERSION == 2, "it is in the next lines") };
        self.line.str("{\"type\":\"");
        self.line.str(row.event.what.name());
        self.line.str("\",\"schema_version\":2");
        self.put(row);
        self.line.str("}\n");
    }

    /// Writes an event as a long line: time, disk, event and controller, the fields, the stacks.
    fn pairs(&mut self, row: &Row<'_>) {
        let what = &row.event.what;
        if is_apart(what) {
            self.line.str("-- ");
        }
        self.clock.text(row.event.at_ns, &mut self.line);
        let disk = word(row.cx.disk);
        for word in [if disk.is_empty() { "-" } else { &disk }, title(what), "nvme"] {
            self.line.byte(b' ');
            self.line.str(word);
        }
        self.line.dec(what.ctrl());
        self.line.byte(b':');
        self.put(row);
        self.line.byte(b'\n');
        self.line.str(row.cx.kstack);
        if !row.cx.kstack_complete.is_empty() {
            if row.submission.is_some() {
                self.line.str("    -- completed by\n");
            }
            self.line.str(row.cx.kstack_complete);
        }
    }
}

impl Out<'_> {
    /// Writes a field of an object.
    #[inline(always)]
    fn json(&mut self, key: &'static str, value: Value<'_>, row: &Row<'_>) {
        if let Value::None = value {
            return;
        }
        let line = &mut *self.line;
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
            Value::Name(name) => line.json(&name),
            Value::Raw(json) => line.str(json),
            Value::Write(write) | Value::Parts(write) => write(row, line),
        }
    }

    /// Writes a field of a long line.
    #[inline(always)]
    fn text(&mut self, key: &'static str, value: Value<'_>, row: &Row<'_>) {
        let line = &mut *self.line;
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
            Value::Name(name) => line.name(&name),
            Value::Parts(write) => write(row, line),
            Value::Write(write) => {
                let red = self.codes.filter(|_| key == ", status=" && row.has_failed());
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
    }
}
