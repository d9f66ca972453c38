// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the screen of `top`.

use crate::model::ledger::{Accuracy, Ledger};
use crate::model::report::latency::Share;
use crate::top::report::TopRow;
use crate::units::{counted, nanos, rate};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::app::{App, Panel};
use super::{heat, panels};

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Use colour.
    pub color: bool,
    /// The terminal shows block characters.
    pub unicode: bool,
}

/// Height below which there is no heat map.
const LEAST_HEIGHT: u16 = 14;
/// Height of the part below the rows that has room for all panels.
const ALL_PANELS: u16 = 34;
/// Height of the panels below the heat map, if all are shown.
const PANEL: u16 = 10;
/// Width of the name of a place with its share.
pub const PLACE: usize = 15;
/// Most places of a row.
const MOST_PLACES: usize = 3;
/// Width of the column of names, with the mark of the selected row.
const NAME: usize = 18;
/// Most characters of a wider one, for groups on wide screens.
const MOST_NAME: usize = 40;
/// Width of the columns between the name and the places.
const NUMBERS: usize = 39;

const HELP: [&str; 19] = [
    "Up Down j k       select a row; PageUp PageDown Home End",
    "Tab v             heat map, slowest commands, queues (large screens show all)",
    "Left Right s      stage of the heat map",
    "b                 with --by KEY,KEY: by all keys, then by each",
    "o F6              sort by IOPS, MB/s, in, p99, max, name",
    "/ F4              show only rows with a text in their name; Enter, Esc",
    "Space p           pause: the intervals are shown later",
    "Ctrl-L, Ctrl-Z    draw the screen again; suspend",
    "q F10 Ctrl-C      end",
    "? h F1            these keys",
    "",
    "in     mean number of commands that wait or are in flight",
    "p50    p99, max: total latency of the interval",
    "where  the stages with most of the time: a group (before queue submit device",
    "       complete end), or the part that makes up at least half of it",
    "trend  commands per second in the last intervals",
    "map    commands by latency (upwards) and time (to the right)",
    "queues in: in flight now (recordings: mean). CPUs: of the interrupts",
    "       (recordings: of the completions)",
];

/// Writes a line, cut at the right end of the area.
pub fn put(buffer: &mut Buffer, area: Rect, line: u16, text: &str, style: Style) {
    if line < area.height {
        let (x, y) = (area.x, area.y + line);
        buffer.set_stringn(x, y, text, usize::from(area.width), style);
    }
}

pub fn bold(look: Look, color: Color) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if look.color { style.fg(color) } else { style }
}

/// The state of the counts, in one line.
fn accuracy(ledger: &Ledger) -> (String, bool) {
    match ledger.accuracy() {
        Accuracy::Exact => (format!("exact: {}, 0 lost", counted(ledger.matched, "command")), true),
        Accuracy::Unknown => {
            (format!("{} commands; losses are not counted here", ledger.matched), true)
        }
        Accuracy::Degraded(reasons) => {
            let more = reasons.len().saturating_sub(1);
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let first = reasons.first().cloned().unwrap_or_default();
            (format!("DEGRADED: {first}{more}"), false)
        }
    }
}

/// Events that are trouble, by their hooks. Those without a hook are not known.
fn trouble(failed: Option<u64>, ledger: &Ledger) -> Vec<(&'static str, u64)> {
    let hits = |targets: &[&str]| {
        let hooks = ledger.hooks.iter();
        let of = hooks.filter(|hook| targets.contains(&hook.target.as_str()));
        of.map(|hook| hook.hits).reduce(|a, b| a + b)
    };
    let known = [
        ("failed", failed),
        ("timeouts", hits(&["nvme_timeout"])),
        ("cancels", hits(&["nvme_cancel_request"])),
        ("requeues", Some(ledger.requeue_events)),
    ];
    known.into_iter().filter_map(|(name, n)| n.map(|n| (name, n))).collect()
}

/// Draws all of it.
pub fn draw(app: &App, title: &str, look: Look, area: Rect, buffer: &mut Buffer) {
    buffer.reset();
    if area.width < 20 || area.height < 4 {
        put(buffer, area, 0, "too small", Style::new());
        return;
    }
    head(app, title, look, area, buffer);
    if app.help {
        for (line, text) in (3..).zip(HELP) {
            put(buffer, area, line, text, Style::new());
        }
    } else {
        let rows = app.rows();
        let least = if area.height < LEAST_HEIGHT { 0 } else { 8 };
        let room = usize::from(area.height.saturating_sub(4 + least));
        let shown = rows.len().clamp(1, room.max(1));
        table(app, &rows, shown, look, area, buffer);
        let top = 3 + u16::try_from(shown).unwrap_or(u16::MAX);
        let below = Rect { y: area.y + top, height: area.height.saturating_sub(top + 1), ..area };
        lower(app, look, below, buffer);
    }
    foot(app, look, area, buffer);
}

/// Draws what is below the rows.
fn lower(app: &App, look: Look, area: Rect, buffer: &mut Buffer) {
    let part = |y: u16, height: u16| Rect { y: area.y + y, height, ..area };
    if area.height >= ALL_PANELS {
        let map = area.height - 2 * PANEL;
        heat::draw(app, look, part(0, map - 1), buffer);
        panels::slowest(app, look, part(map, PANEL - 1), buffer);
        panels::queues(app, part(map + PANEL, PANEL), buffer);
        return;
    }
    if area.height < 5 {
        return;
    }
    match app.panel {
        Panel::Map => heat::draw(app, look, area, buffer),
        Panel::Slowest => panels::slowest(app, look, area, buffer),
        Panel::Queues => panels::queues(app, area, buffer),
    }
}

fn head(app: &App, title: &str, look: Look, area: Rect, buffer: &mut Buffer) {
    let top = &app.top;
    let state = match (app.paused, app.ended) {
        (true, _) => "  PAUSED",
        (false, true) => "  END: WHOLE RUN",
        _ => "",
    };
    let flight = top.in_flight.map_or_else(String::new, |n| format!("  {n} in flight"));
    let line = format!("{title}  {:.1} s{flight}{state}", top.at.as_secs_f64());
    put(buffer, area, 0, &line, bold(look, Color::Cyan));
    let (text, good) = accuracy(&top.ledger);
    let style = if good { Style::new() } else { bold(look, Color::Red) };
    put(buffer, area, 1, &text, style);
    let trouble = trouble(top.failed, &top.ledger);
    let is_trouble = trouble.iter().any(|(_, n)| *n > 0);
    let all: Vec<String> = trouble.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let some = trouble.iter().filter(|(_, n)| *n > 0);
    let some: Vec<String> = some.map(|(name, n)| format!("{name} {n}")).collect();
    let style = if is_trouble { bold(look, Color::Red) } else { Style::new() };
    // at the right end; trouble goes before the accuracy if there is no room for both
    let room = usize::from(area.width);
    let fits = |text: &String| text.len() + 2 + accuracy_width(&top.ledger) <= room;
    let text = Some(all.join("  ")).filter(fits);
    let text = text.unwrap_or_else(|| some.join("  "));
    if let Some(left) = room.checked_sub(text.len()) {
        let left = u16::try_from(left).unwrap_or(0);
        let place = Rect { x: area.x + left, width: area.width - left, ..area };
        put(buffer, place, 1, &text, style);
    }
}

fn accuracy_width(ledger: &Ledger) -> usize {
    accuracy(ledger).0.chars().count()
}

fn foot(app: &App, look: Look, area: Rect, buffer: &mut Buffer) {
    let text = if app.editing {
        format!("show rows with: {}_   (Enter, Esc)", app.filter)
    } else if app.filter.is_empty() {
        "q quit  ? help  Tab panel  / filter  o sort  s stage  Space pause".into()
    } else {
        format!("only rows with `{}`; Esc shows all", app.filter)
    };
    let style = if app.editing { bold(look, Color::Yellow) } else { Style::new() };
    put(buffer, area, area.height - 1, &text, style);
}

/// The width of the column of names: for groups, what a wide screen has to spare.
fn name_width(app: &App, area: Rect) -> usize {
    if app.top.keys().is_empty() {
        return NAME;
    }
    let spare = usize::from(area.width).saturating_sub(80);
    (NAME + spare).min(MOST_NAME)
}

/// The number of places that a row has room for.
fn places(app: &App, area: Rect) -> usize {
    let width = usize::from(area.width) + NAME - name_width(app, area);
    // the rest is for the trend
    (1 + width.saturating_sub(80) / (2 * PLACE)).min(MOST_PLACES)
}

/// A place and its share, in its width: `wbt 71%`.
pub fn place(place: &Share) -> String {
    let share = format!(" {:.0}%", 100.0 * place.share);
    let room = PLACE - share.len().min(PLACE);
    format!("{:<PLACE$}", format!("{:.room$}{share}", place.stage))
}

/// A text of at most this many characters. A longer one keeps its beginning and its end.
fn fit(text: &str, width: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= width {
        return text.to_owned();
    }
    let left = width.saturating_sub(2);
    let end = left / 2;
    let begin = all.iter().take(left - end);
    let end = all.iter().skip(all.len() - end);
    begin.chain(['.', '.'].iter()).chain(end).collect()
}

fn table(app: &App, rows: &[&TopRow], shown: usize, look: Look, area: Rect, buffer: &mut Buffer) {
    let mark = |column: &str| {
        if column == app.order.name() { format!("{column}*") } else { column.to_owned() }
    };
    let (name, wide) = (name_width(app, area), places(app, area) * (PLACE + 1));
    let keys: Vec<_> = app.top.keys().iter().map(|by| by.name()).collect();
    let keys = match keys.is_empty() {
        true => "disk opcode".into(),
        false => fit(&keys.join(","), name - 1),
    };
    let line = format!(
        "{:<name$}{:>6}{:>6}{:>6}{:>7}{:>7}{:>7} {:<wide$}{}",
        keys,
        mark("IOPS"),
        mark("MB/s"),
        mark("in"),
        "p50",
        mark("p99"),
        mark("max"),
        "where",
        "trend",
    );
    let width = usize::from(area.width);
    let style = Style::new().add_modifier(Modifier::REVERSED);
    put(buffer, area, 2, &format!("{line:<width$}"), style);
    if rows.is_empty() {
        let text = if app.filter.is_empty() { "no command yet" } else { "no row has this text" };
        put(buffer, area, 3, text, Style::new());
        return;
    }
    let selected = app.selected().map(|row| &row.key);
    let place = rows.iter().position(|row| Some(&row.key) == selected);
    let first = (place.unwrap_or(0) + 1).saturating_sub(shown);
    for (line, row) in (3..).zip(rows.iter().skip(first).take(shown)) {
        row_line(app, row, look, line, area, buffer);
    }
}

fn row_line(app: &App, row: &TopRow, look: Look, line: u16, area: Rect, buffer: &mut Buffer) {
    let selected = app.selected().is_some_and(|chosen| chosen.key == row.key);
    let style = if selected { bold(look, Color::Yellow) } else { Style::new() };
    let mark = if selected { '>' } else { ' ' };
    let width = name_width(app, area);
    let room = width - 1;
    let name = format!("{mark}{:<room$}", fit(&app.name(&row.key), room));
    let Some(last) = &row.last else {
        put(buffer, area, line, &format!("{name}{:>6}", "-"), style);
        return;
    };
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".into(), |ns| nanos(ns as f64));
    let most = places(app, area);
    let mut texts: Vec<String> = last.places().iter().take(most).map(place).collect();
    if texts.is_empty() {
        texts.push("-".into());
    }
    let wide = most * (PLACE + 1);
    let numbers = format!(
        "{name}{:>6}{:>6}{:>6}{:>7}{:>7}{:>7} {:<wide$}",
        rate(last.iops),
        rate(last.mb_per_s),
        rate(row.depth()),
        time(last.total.percentile(50.0)),
        time(last.total.percentile(99.0)),
        time(last.total.max()),
        texts.join(" "),
    );
    put(buffer, area, line, &numbers, style);
    let (y, right) = (area.y + line, area.x + area.width);
    let begin = area.x + u16::try_from(width + NUMBERS + 1 + wide).unwrap_or(u16::MAX);
    let room = usize::from(right.saturating_sub(begin));
    for (x, c) in (begin..right).zip(trend(row, room, look)) {
        buffer[(x, y)].set_char(c);
    }
}

/// Commands per second of the last intervals.
fn trend(row: &TopRow, room: usize, look: Look) -> Vec<char> {
    let glyphs: Vec<char> = if look.unicode {
        "▁▂▃▄▅▆▇█".chars().collect()
    } else {
        "_.-=+*#@".chars().collect()
    };
    let skip = row.history.len().saturating_sub(room);
    let last: Vec<f64> = row.history.iter().skip(skip).map(|p| p.iops).collect();
    let most = last.iter().copied().fold(0.0, f64::max);
    let glyph = |iops: &f64| {
        if *iops <= 0.0 || most <= 0.0 {
            return ' ';
        }
        let level = (iops / most * 8.0).ceil() as usize;
        glyphs[level.clamp(1, 8) - 1]
    };
    last.iter().map(glyph).collect()
}
