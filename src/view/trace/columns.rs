// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of columns per command, under a heading. What is too long for its column takes blanks from those
//! after it, and names are cut: a line is not wider than the screen.

use super::fields::{FIELDS, Field, Row, Value};
use super::line::LineWriter;
use super::{Out, is_apart, parts, times};
use crate::model::event::EventKind;
use crate::model::stack::Frame;
use crate::model::text::word;
use crate::units::{nanos, size_text};
use crate::view::theme::ellipsis;

const USUAL: &str = "time,disk,op,size,lba,process,kernel,device,total";
/// On a screen of this width.
const WIDE: usize = 120;
const USUAL_WIDE: &str =
    "time,disk,op,size,lba,qid,process,before,queue,submit,device,after,total,mostly";
/// The widest name, and the widest one of a disk.
const WIDEST: usize = 24;
const WIDEST_DISK: usize = 16;

/// Columns that were chosen.
#[derive(Clone, Debug, Default)]
pub struct Columns(Vec<&'static Field>);

/// All columns there are.
fn all() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().flat_map(|(_, fields)| *fields).filter(|field| !field.head.is_empty())
}

impl Columns {
    /// Parses names, with commas between them.
    ///
    /// # Errors
    /// If there is no such column; one sentence with the names of all.
    pub fn parse(names: &str) -> Result<Self, String> {
        let find = |name: &str| {
            let found = all().find(|field| field.head.eq_ignore_ascii_case(name.trim()));
            found.ok_or_else(|| {
                let names: Vec<String> = all().map(|field| field.head.to_lowercase()).collect();
                format!("`{name}` is not a column: choose from {}", names.join(", "))
            })
        };
        names.split(',').map(find).collect::<Result<_, _>>().map(Self)
    }
}

/// A column of the layout.
#[derive(Clone, Copy, Debug)]
struct Column {
    field: &'static Field,
    width: usize,
    /// The most characters of a name; longer ones are cut. `None`: a value that is never cut.
    most: Option<usize>,
}

/// How columns are laid out.
#[derive(Debug, Default)]
pub(super) struct Layout {
    columns: Vec<Column>,
    pub(super) width: usize,
    /// Widths of the columns of times and processes.
    time: usize,
    process: usize,
    /// Lines of a screen: so many below a heading.
    pub(super) page: Option<usize>,
    /// Show the largest stages below each command.
    pub(super) largest: bool,
    /// Lines since the heading.
    pub(super) lines: usize,
    pub(super) has_heading: bool,
    usual: Usual,
}

/// About the median of the totals so far.
#[derive(Debug, Default)]
struct Usual {
    median_ns: u64,
    commands: u64,
}

impl Usual {
    /// Adds a total. Returns whether it is more than ten times the median.
    fn is_slow(&mut self, total_ns: u64) -> bool {
        self.commands += 1;
        if self.commands == 1 {
            self.median_ns = total_ns;
        }
        // as many steps up as down: half of the totals are above
        let step = self.median_ns / 32 + 1;
        self.median_ns = match total_ns > self.median_ns {
            true => self.median_ns.saturating_add(step),
            false => self.median_ns.saturating_sub(step),
        };
        self.commands > 32 && total_ns / 10 > self.median_ns
    }
}

impl Layout {
    pub(super) fn new(chosen: Option<&Columns>, width: usize, time: usize) -> Self {
        let usual = if width >= WIDE { USUAL_WIDE } else { USUAL };
        let fields = chosen.cloned().or_else(|| Columns::parse(usual).ok()).unwrap_or_default().0;
        let others = fields.iter().filter(|field| field.head != PROCESS);
        let mut layout = Self { width, time, ..Self::default() };
        let rest = width.saturating_sub(others.map(|field| layout.width_of(field) + 1).sum());
        layout.process = rest.clamp(6, WIDEST);
        let column = |field: &'static Field| {
            let width = layout.width_of(field);
            let most = match field.head {
                PROCESS => width,
                "DISK" => WIDEST_DISK,
                _ => WIDEST,
            };
            let is_name = field.is_left && field.head != "MOSTLY";
            Column { field, width, most: is_name.then_some(most) }
        };
        layout.columns = fields.into_iter().map(column).collect();
        layout
    }

    fn width_of(&self, field: &Field) -> usize {
        match field.head {
            TIME => self.time,
            PROCESS => self.process,
            _ => field.width,
        }
    }
}

/// Columns whose width depends on the clock, and on the others.
const TIME: &str = "TIME";
const PROCESS: &str = "PROCESS";

/// Cuts a name in the middle. The number in brackets at its end stays.
fn cut(name: &str, width: usize) -> String {
    let len = name.chars().count();
    let number = name.rfind('[').map(|at| name[at..].chars().count()).filter(|len| *len <= 12);
    let tail = number.unwrap_or(width.saturating_sub(1) / 2);
    let head = width.saturating_sub(tail + 1);
    let chars = |from: usize, n: usize| name.chars().skip(from).take(n).collect::<String>();
    format!("{}{}{}", chars(0, head), ellipsis(), chars(len.saturating_sub(tail), tail))
}

impl Out {
    /// Writes the heading if one is due.
    fn heading(&mut self, has_submitters: bool) {
        let is_new_page = self.layout.page.is_some_and(|page| self.layout.lines >= page);
        if self.layout.has_heading && !is_new_page {
            return;
        }
        (self.layout.has_heading, self.layout.lines) = (true, 1);
        let mut text = String::new();
        for Column { field, width, .. } in &self.layout.columns {
            // a trace shows either of them
            let name =
                if field.head == PROCESS && has_submitters { "SUBMITTER" } else { field.head };
            text += &match field.is_left {
                true => format!("{name:width$} "),
                false => format!("{name:>width$} "),
            };
        }
        let text = text.trim_end();
        self.styled(true, |codes| &codes.head, |out| out.line.str(text));
        self.line.byte(b'\n');
    }

    /// Writes an event.
    pub(super) fn cells(&mut self, row: &Row<'_>) {
        if row.submission.is_none() && row.outcome.is_none() {
            return self.apart(row);
        }
        self.heading(row.cx.has_submitters);
        let is_slow = self.codes.is_some()
            && row.total().is_some_and(|total_ns| self.layout.usual.is_slow(total_ns));
        self.styled(is_slow, |codes| &codes.head, |out| out.command(row));
        self.line.byte(b'\n');
        self.layout.lines += 1;
        self.notes(row);
    }

    /// Writes the columns of a command.
    fn command(&mut self, row: &Row<'_>) {
        let (mut debt, mut blanks) = (0_usize, 0);
        for n in 0..self.layout.columns.len() {
            let Column { field, width, most } = self.layout.columns[n];
            self.cell(field, row);
            let mut len = self.cell.len();
            if let Some(most) = most {
                len = self.cell.width();
                let most = if field.head == PROCESS { most.saturating_sub(debt) } else { most };
                if len > most {
                    let text = self.cell.take(|name| cut(&String::from_utf8_lossy(name), most));
                    self.cell.str(&text);
                    len = text.chars().count();
                }
            }
            let rest = width.saturating_sub(len + debt);
            debt = (len + debt).saturating_sub(width);
            self.line.blanks(if field.is_left { blanks } else { blanks + rest });
            self.line.append(&mut self.cell);
            blanks = if field.is_left { rest + 1 } else { 1 };
        }
        self.line.trim();
    }

    /// Writes a value to the cell.
    fn cell(&mut self, field: &Field, row: &Row<'_>) {
        let Self { cell: line, clock, .. } = self;
        match (field.value)(row) {
            Value::None => line.byte(b'-'),
            Value::Name("") => line.byte(b'-'),
            Value::Unknown => line.byte(b'?'),
            Value::Num(n) => line.dec(n),
            Value::Hex(n) => line.hex(n),
            Value::Flag(is) => line.dec(is),
            Value::Clock(at_ns) => clock.column(at_ns, line),
            Value::Nanos(ns) => line.nanos(ns),
            Value::Part(ns, is_merged) => {
                line.nanos(ns);
                match (is_merged, field.head) {
                    (true, _) => line.byte(b'+'),
                    // the numbers stand below each other
                    (false, "DEVICE") => line.byte(b' '),
                    (false, _) => {}
                }
            }
            // most are
            Value::Bytes(bytes) if bytes % 1024 == 0 && bytes < 1 << 20 => {
                line.dec(bytes >> 10);
                line.byte(b'K');
            }
            Value::Bytes(bytes) => line.str(&size_text(bytes)),
            Value::Word(text) | Value::Raw(text) => line.str(text),
            Value::Name(name) => line.str(&word(name)),
            Value::Comm(comm) => line.comm(comm, "", |line, name| match name {
                "" => line.byte(b'-'),
                name => line.str(&word(name)),
            }),
            Value::Write(write) | Value::Parts(write) => write(row, line),
        }
    }

    /// Writes the lines below a command: its failure, its largest stages, its stack.
    fn notes(&mut self, row: &Row<'_>) {
        if row.has_failed() {
            let failure = parts::failure(row).unwrap_or_default();
            self.second_line("    ", |codes| &codes.warn, &format!("! {failure}"));
        }
        if let EventKind::Unfinished { age_ns, .. } = row.event.what {
            let text = format!("! unfinished: in flight for {}", nanos(age_ns as f64));
            self.second_line("    ", |codes| &codes.warn, &text);
        }
        if self.layout.largest
            && let Some(stages) = times::largest(row)
        {
            self.second_line("    ", |codes| &codes.dim, &stages);
        }
        for stack in [row.cx.kstack, row.cx.kstack_complete] {
            self.line.str(stack);
            self.layout.lines += usize::from(!stack.is_empty());
        }
    }

    /// Writes an event that is not a command: `TIME DISK -- what happened`.
    fn apart(&mut self, row: &Row<'_>) {
        for field in all().filter(|field| [TIME, "DISK"].contains(&field.head)) {
            self.cell(field, row);
            let rest = self.layout.width_of(field).saturating_sub(self.cell.width());
            self.line.blanks(if field.is_left { 0 } else { rest });
            self.line.append(&mut self.cell);
            self.line.blanks(if field.is_left { rest + 1 } else { 1 });
        }
        let what = &row.event.what;
        let is_trouble = match what {
            EventKind::State { state, .. } => state.name() != Some("live"),
            what => is_apart(what) || matches!(what, EventKind::Retry { .. }),
        };
        self.styled(is_trouble, |codes| &codes.warn, |out| happened(row, &mut out.line));
        self.line.byte(b'\n');
        self.layout.lines += 1;
    }
}

/// Writes what happened.
fn happened(row: &Row<'_>, line: &mut LineWriter) {
    line.str("-- ");
    if let Some(id) = row.id {
        row.opcode(line);
        line.str(&format!(" qid {} cid {} ", id.qid, id.cid));
    }
    match &row.event.what {
        EventKind::Timeout { age_ns, .. } => {
            line.str(&format!("has timed out after {}", nanos(*age_ns as f64)));
        }
        EventKind::Cancel { age_ns, .. } => {
            line.str(&format!("is cancelled after {}", nanos(*age_ns as f64)));
        }
        EventKind::Retry { retries: Some(n), .. } => {
            line.str(&format!("will be tried again: retry {n}"));
        }
        EventKind::Retry { .. } => line.str("will be tried again"),
        EventKind::Sq { qid, id, head, tail, .. } => {
            if id.is_none() {
                line.str(&format!("qid {qid} "));
            }
            line.str(&format!("sq_head {head} sq_tail {tail}"));
        }
        EventKind::AsyncEvent { .. } => {
            line.str("event");
            parts::async_event(row, line);
        }
        EventKind::State { .. } => {
            line.str("controller is");
            parts::state(row, line);
        }
        other => line.str(other.name()),
    }
}

/// Innermost functions that the stacks of all commands have: the driver and blk-mq.
const INNERMOST: [&str; 10] = [
    "nvme_",
    "__nvme_",
    "blk_mq_",
    "__blk_mq_",
    "blk_flush_plug",
    "__blk_flush_plug",
    "blk_finish_plug",
    "submit_bio",
    "__submit_bio",
    "blk_complete_reqs",
];

/// A stack in one line: the functions on the way to the driver, outermost first, without those that most
/// stacks have. If they are too many, the outer ones are left out.
pub(super) fn path(frames: &[Frame], width: usize) -> String {
    let names = frames.iter().map(|frame| match &frame.symbol {
        Some(symbol) => word(&symbol.name).into_owned(),
        None => frame.to_string(),
    });
    let names: Vec<String> = names.collect();
    let is_inner = |name: &&String| INNERMOST.iter().any(|begin| name.starts_with(begin));
    let inner = names.iter().take_while(is_inner).count();
    let outer = frames.iter().rev().take_while(|frame| frame.is_entry()).count();
    let callers = names.get(inner..names.len() - outer).filter(|callers| !callers.is_empty());
    let path: Vec<&str> = callers.unwrap_or(&names).iter().rev().map(String::as_str).collect();
    let (mut text, mut skipped) = (path.join(" > "), 0);
    while text.chars().count() > width && skipped + 1 < path.len() {
        skipped += 1;
        text = format!("{} > {}", ellipsis(), path[skipped..].join(" > "));
    }
    if text.chars().count() > width { cut(&text, width) } else { text }
}
