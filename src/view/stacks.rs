// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands by kernel stack: as text, as JSON, and in the folded format of flame graph tools.

use crate::model::event::StackId;
use crate::model::report::stacks::{StackRow, Weight};
use crate::model::stack::{Frame, Stack, StackAt};
use crate::model::text::{Text, word};
use crate::units::{counted, nanos, percent};
use crate::view::header::{TIE, hang};
use crate::view::json::{Dist, dist, typed_line};
use crate::view::theme::Theme;
use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{Options, from_lines};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::io::{ErrorKind, Write};

/// Stands for a stack that the kernel could not take.
const NO_STACK: &str = "[no_stack]";
/// Stands for a stack that was not observed because the kernel skipped the program.
const NOT_OBSERVED: &str = "[not observed]";

/// Writes lists of stacks.
#[derive(Clone, Copy, Debug)]
pub struct StacksView {
    /// Colours.
    pub theme: Theme,
    /// Columns of the output.
    pub width: usize,
    /// Frames with the places of their calls.
    pub detail: bool,
    /// A line for each frame.
    pub full: bool,
    /// Where the stacks were taken.
    pub at: StackAt,
    /// Order of the list.
    pub by: Weight,
    /// Maximum number of stacks.
    pub top: Option<usize>,
}

#[derive(Serialize)]
struct StackLine {
    at: &'static str,
    observed: bool,
    count: u64,
    unmeasured: u64,
    share: f64,
    latency_share: f64,
    latency: Dist,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<String>,
    kstack: Vec<String>,
}

/// Sums over all commands, to compute shares.
struct All {
    count: u64,
    sum: u128,
}

impl All {
    fn of(rows: &[StackRow]) -> Self {
        Self {
            count: rows.iter().map(StackRow::commands).sum(),
            sum: rows.iter().map(|r| r.hist.sum()).sum(),
        }
    }

    /// Shares of the commands and of their latency, from 0 to 1.
    fn shares(&self, count: u64, sum: u128) -> (f64, f64) {
        let commands = count as f64 / (self.count as f64).max(1.0);
        (commands, sum as f64 / (self.sum as f64).max(1.0))
    }
}

fn commands(n: u64) -> String {
    counted(n, "command")
}

const fn at_words(at: StackAt) -> &'static str {
    match at {
        StackAt::Submit => "submission",
        StackAt::Complete => "completion",
    }
}

/// The title of a flame graph, which says what its widths sum.
pub(crate) fn title(rows: &[StackRow], by: Weight, at: StackAt, file: Option<&Text>) -> String {
    let sums = match by {
        Weight::Count => "number of commands",
        Weight::Latency => "sum of latency",
    };
    let file = file.map(|file| format!(", {file}")).unwrap_or_default();
    let commands = commands(All::of(rows).count);
    format!("{sums} by kernel stack at {}, {commands}{file}", at_words(at))
}

impl StacksView {
    /// The rows to show, and the rest.
    fn split_top<'r>(&self, rows: &'r [StackRow]) -> (&'r [StackRow], &'r [StackRow]) {
        rows.split_at(self.top.unwrap_or(usize::MAX).min(rows.len()))
    }

    /// Writes rows as text below the header. The name of a function may be wider than the screen.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, rows: &[StackRow], out: &mut dyn Write) -> io::Result<()> {
        if rows.is_empty() {
            return writeln!(out, "no finished command to show");
        }
        let all = All::of(rows);
        let (order, at) = match self.by {
            Weight::Count => ("most commands", self.at),
            Weight::Latency => ("largest sum of latency", self.at),
        };
        let at = at_words(at);
        let stacks = counted(rows.len() as u64, "stack");
        writeln!(out, "{} through {stacks} at {at}, {order} first\n", commands(all.count))?;
        let head =
            format!("{:>7} {:>4} {:>5} {:>7} {:>7}  PATH", "CMDS", "%", "LAT%", "MEAN", "P99");
        writeln!(out, "{}", self.theme.dim(&head))?;
        let ((shown, rest), common) = (self.split_top(rows), common(rows));
        for row in shown {
            self.row(row, &all, common, out)?;
        }
        if !rest.is_empty() {
            let more = All::of(rest);
            let (count, latency) = all.shares(more.count, more.sum);
            writeln!(
                out,
                "{}: {} ({}), {} of the latency; -n shows more",
                counted(rest.len() as u64, "more stack"),
                commands(more.count),
                percent(count),
                percent(latency)
            )?;
        }
        let unmeasured: u64 = rows.iter().map(|row| row.unmeasured).sum();
        if unmeasured > 0 {
            writeln!(out, "{} without a latency", commands(unmeasured))?;
        }
        Ok(())
    }

    fn row(
        &self,
        row: &StackRow,
        all: &All,
        common: (usize, usize),
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (count, latency) = all.shares(row.commands(), row.hist.sum());
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), nanos);
        let numbers = format!(
            "{:>7} {:>4} {:>5} {:>7} {:>7}  ",
            row.commands(),
            percent(count),
            percent(latency),
            time(row.hist.mean()),
            time(row.hist.percentile(99.0).map(|ns| ns as f64))
        );
        let frames = row.stack.frames();
        let what = match &row.stack {
            Stack::NotObserved => Some(NOT_OBSERVED),
            Stack::Taken(frames) if frames.is_empty() => Some(NO_STACK),
            Stack::Taken(_) => None,
        };
        if self.full {
            let process = row.process.as_deref().into_iter().chain(what);
            let line = format!("{numbers}{}", process.collect::<Vec<_>>().join(" "));
            writeln!(out, "{}", line.trim_end())?;
            return frames.iter().try_for_each(|frame| writeln!(out, "        {frame}"));
        }
        let text = |frame: &Frame| if self.detail { frame.to_string() } else { name(frame) };
        let entries = frames.iter().rev().take_while(|frame| frame.is_entry()).count();
        let (inner, outer) = common;
        let own = frames.get(inner..frames.len().saturating_sub(outer.max(entries)));
        let own = own.filter(|own| !own.is_empty()).unwrap_or(frames);
        let path = row.process.clone().into_iter().chain(own.iter().rev().map(text));
        let path = path.chain(what.map(str::to_owned)).collect::<Vec<_>>();
        let path = path.iter().map(|part| part.replace(' ', &TIE.to_string()));
        let path = path.collect::<Vec<_>>().join(&format!(" >{TIE}"));
        hang(self.width, &numbers, &path, str::to_owned, out)
    }

    /// Writes rows as JSON, one object per line.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, rows: &[StackRow], out: &mut dyn Write) -> io::Result<()> {
        let all = All::of(rows);
        for row in self.split_top(rows).0 {
            let (share, latency_share) = all.shares(row.commands(), row.hist.sum());
            let object = StackLine {
                at: self.at.name(),
                observed: row.stack != Stack::NotObserved,
                count: row.commands(),
                unmeasured: row.unmeasured,
                share,
                latency_share,
                latency: dist(&row.hist, false),
                process: row.process.clone(),
                kstack: row.stack.frames().iter().map(ToString::to_string).collect(),
            };
            typed_line("stack", &object, out)?;
        }
        Ok(())
    }

    /// Writes rows in the folded format of flame graph tools.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn folded(&self, rows: &[StackRow], out: &mut dyn Write) -> io::Result<()> {
        for (stack, weight) in folded(self.split_top(rows).0, self.by, 0) {
            writeln!(out, "{stack} {weight}")?;
        }
        Ok(())
    }
}

/// How many innermost and outermost functions all stacks have in common: they tell nothing. Each stack
/// keeps one function. Zero for a single stack.
pub(crate) fn common(rows: &[StackRow]) -> (usize, usize) {
    let taken = rows.iter().map(|row| row.stack.frames()).filter(|frames| !frames.is_empty());
    let all: Vec<Vec<String>> = taken.map(|frames| frames.iter().map(name).collect()).collect();
    let Some((first, others)) = all.split_first() else {
        return (0, 0);
    };
    let is_same = |other: &Vec<String>| other == first;
    let shortest = all.iter().map(Vec::len).min().unwrap_or(0).saturating_sub(1);
    if others.iter().all(is_same) {
        return (0, 0);
    }
    let inner = (0..shortest).take_while(|n| others.iter().all(|o| o[*n] == first[*n])).count();
    let outer = (1..=shortest - inner)
        .take_while(|n| others.iter().all(|o| o[o.len() - n] == first[first.len() - n]));
    (inner, outer.count())
}

/// The name of a frame in a flame graph: the function only. An offset would split one function into
/// several. Marks such as perf's `_[k]` distinguish the kernel from user programs, which do not
/// occur here. The module is left out because colours depend on the name, and users search by
/// function.
fn name(frame: &Frame) -> String {
    let Some(symbol) = &frame.symbol else {
        return frame.to_string();
    };
    word(&symbol.name).into_owned()
}

/// Stacks from the process and the outermost frame to the driver's, joined by semicolons, each with its
/// weight, without the `inner` innermost frames.
/// They are sorted by text, as flame graph tools require. Stacks that differ only in call sites
/// within a function are one stack. The weight is the number of commands, or the latency in
/// microseconds, at least one, because tools drop a zero.
pub(crate) fn folded(rows: &[StackRow], by: Weight, inner: usize) -> BTreeMap<String, u128> {
    let mut sums: BTreeMap<String, u128> = BTreeMap::new();
    for row in rows {
        let mut names: Vec<String> =
            row.stack.frames().iter().skip(inner).rev().map(name).collect();
        match &row.stack {
            Stack::NotObserved => names.push(NOT_OBSERVED.into()),
            Stack::Taken(_) if names.is_empty() => names.push(NO_STACK.into()),
            Stack::Taken(_) => {}
        }
        names.splice(0..0, row.process.as_ref().map(|process| process.replace(';', ":")));
        let stack = names.join(";");
        *sums.entry(stack).or_default() += by.of(row);
    }
    if by == Weight::Latency {
        for ns in sums.values_mut() {
            *ns = ((*ns + 500) / 1000).max(1);
        }
    }
    sums
}

const WHITE: Color = Color { r: 255, g: 255, b: 255 };

/// Writes a flame graph as SVG.
///
/// # Errors
/// Errors of the writer, and [`ErrorKind::InvalidInput`] if there are no stacks.
pub fn svg(rows: &[StackRow], by: Weight, title: &str, out: &mut dyn Write) -> io::Result<()> {
    draw(rows, by, title, Options::default(), out)
}

/// The same without scripts and styles, for a page, which has these.
///
/// # Errors
/// If there are no stacks.
pub fn inline(rows: &[StackRow], by: Weight, title: &str) -> io::Result<String> {
    let mut options = Options::default();
    (options.no_javascript, options.bgcolors) = (true, Some(BackgroundColor::Flat(WHITE)));
    options.image_width = Some(1200);
    let mut out = Vec::new();
    draw(rows, by, title, options, &mut out)?;
    let text = String::from_utf8_lossy(&out);
    let picture = text.find("<svg").map_or("", |at| &text[at..]);
    // names are escaped: these are the tags of the library
    let parts = picture.split_once("<style").zip(picture.split_once("</script>"));
    let text = parts.map_or(String::new(), |((before, _), (_, after))| format!("{before}{after}"));
    Ok(text.replacen(" onload=\"init(evt)\"", "", 1))
}

fn draw(
    rows: &[StackRow],
    by: Weight,
    title: &str,
    mut options: Options<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "there is no finished command to draw",
        ));
    }
    let folded = folded(rows, by, common(rows).0);
    let lines: Vec<String> = folded.iter().map(|(s, n)| format!("{s} {n}")).collect();
    options.title = title.to_owned();
    options.count_name = match by {
        Weight::Count => "commands",
        Weight::Latency => "us",
    }
    .into();
    options.name_type = "Function:".into();
    // a function has the same colour in every graph, so that graphs can be compared
    options.deterministic = true;
    from_lines(&mut options, lines.iter().map(String::as_str), out)
}

/// Texts of stacks by number.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    texts: HashMap<StackId, String>,
}

impl Stacks {
    /// Adds a stack: its frames, innermost first, with this text between them.
    pub(crate) fn join(&mut self, id: StackId, frames: &[Frame], between: &str) {
        let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
        self.texts.insert(id, frames.join(between));
    }

    /// The text of a stack; empty if there is none.
    pub(crate) fn get(&self, id: StackId) -> &str {
        self.texts.get(&id).map_or("", String::as_str)
    }
}
