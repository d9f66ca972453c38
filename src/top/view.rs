// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the screen of `top`.

use crate::model::group::By;
use crate::model::origin::Who;
use crate::model::report::latency::Share;
use crate::top::report::{DEGRADED, Row, Sample, TopKey};
use crate::units::{nanos, percent, rate};
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;
use ratatui::text::Line;
use ratatui::widgets::{
    HighlightSpacing, Paragraph, Row as Cells, Sparkline, StatefulWidget, Table, TableState, Widget,
};

use super::app::{App, Order, Panel};
use super::panels;

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
/// Width from which the heat map and the slowest commands are side by side.
const WIDE: u16 = 120;
/// Width of the slowest commands then.
const SLOWEST: u16 = 77;
/// Width of the name of a place with its share.
const PLACE: u16 = 15;
/// Most places of a row.
const MOST_PLACES: u16 = 3;

const HELP: &str = "\
Up Down j k       select a row; PageUp PageDown Home End
Tab v             heat map, slowest commands, queues (large screens show all)
Left Right s      stage of the heat map
o F6              sort by IOPS, MB/s, DEPTH, P99, MAX, name
/ F4              show only rows with a text in their name; Enter, Esc
b                 with --by KEY,KEY: by all keys, then by each
Space p           pause, go on
< > { }           one interval back or forward; ten
n                 the next interval in which P99 of the selected row is at least
                  twice its median so far
0  + -            recordings: the whole run; play faster, slower
Ctrl-L Ctrl-Z     draw the screen again; suspend
? h F1 q F10      these keys; end (also Ctrl-C)

DEPTH   mean number of commands that wait or are in flight
P50 P99 MAX  total latency of the commands of the interval
MOSTLY  the stage with most of the time: before queue submit device complete
        end, or a part of it if that makes up at least half of its time
TREND   commands per second; the latest interval is at the right
heat map  commands by latency (upwards) and time; few . : - = + * # @ many";

/// Writes a line, cut at the right end of the area.
pub fn put(buffer: &mut Buffer, area: Rect, line: u16, text: &str, style: Style) {
    if line < area.height {
        buffer.set_stringn(area.x, area.y + line, text, usize::from(area.width), style);
    }
}

pub fn bold(look: Look, color: Color) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if look.color { style.fg(color) } else { style }
}

/// The title of a panel. Returns the area below it.
pub fn titled(buffer: &mut Buffer, area: Rect, title: &str) -> Rect {
    put(buffer, area, 0, title, Style::new().add_modifier(Modifier::UNDERLINED));
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

/// The width of a column that takes what the others leave.
pub const REST: u16 = u16::MAX;

/// A column: its heading, its width (0: it is left out), and where its texts are.
pub type Column<'c> = (&'c str, u16, Alignment);

/// A table of this width. A row has a text for each column. Columns that do not fit are left out.
pub fn table<'t>(columns: &[Column<'_>], rows: Vec<(Vec<String>, Style)>, room: u16) -> Table<'t> {
    let (mut columns, mut left) = (columns.to_vec(), room);
    for (_, width, _) in &mut columns {
        let taken = if *width == REST { 0 } else { *width };
        *width = if taken <= left { *width } else { 0 };
        left = left.saturating_sub(taken + 1);
    }
    let cells = |texts: Vec<String>| {
        let shown = texts.into_iter().zip(&columns).filter(|(_, column)| column.1 > 0);
        let aligned = shown.map(|(text, column)| Line::from(text).alignment(column.2));
        Cells::new(aligned.collect::<Vec<Line<'t>>>())
    };
    let width = |column: &Column<'_>| match column.1 {
        REST => Constraint::Fill(1),
        width => Constraint::Length(width),
    };
    let widths = columns.iter().filter(|column| column.1 > 0).map(width);
    let heading = cells(columns.iter().map(|column| column.0.to_owned()).collect());
    let rows: Vec<_> = rows.into_iter().map(|(texts, style)| cells(texts).style(style)).collect();
    Table::new(rows, widths).header(heading.style(Style::new().add_modifier(Modifier::REVERSED)))
}

/// A place and its share: `wbt 71%`. A long name is cut.
pub fn place(place: Option<&Share>, width: u16) -> String {
    let Some(Share { stage, share, .. }) = place else { return "-".into() };
    let share = percent(*share);
    let room = usize::from(width).saturating_sub(share.len() + 1);
    format!("{stage:.room$} {share}")
}

pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

/// A text of at most this many characters. A longer one keeps its beginning and its end.
pub fn fit(text: &str, width: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= width {
        return text.to_owned();
    }
    let left = width.saturating_sub(2);
    let end = all.len() - left / 2;
    all[..left - left / 2].iter().chain(&['.', '.']).chain(&all[end..]).collect()
}

/// Draws all of it.
pub fn draw(app: &App, look: Look, area: Rect, buffer: &mut Buffer) {
    buffer.reset();
    if area.width < 20 || area.height < 4 {
        put(buffer, area, 0, "too small", Style::new());
        return;
    }
    let none = Sample::default();
    let now = app.now().unwrap_or(&none);
    let alarms = &now.state.alarms;
    let rows = app.rows();
    let least = if area.height < LEAST_HEIGHT { 0 } else { 8 };
    let room = area.height.saturating_sub(3 + least).max(1);
    let lines = u16::try_from(rows.len()).map_or(room, |n| n.clamp(1, room));
    let heights = [1, u16::from(!alarms.is_empty()), lines + 1].map(Constraint::Length);
    let [head, alarm, top, below, foot] =
        Layout::vertical(heights.into_iter().chain([Constraint::Fill(1), Constraint::Length(1)]))
            .areas(area);
    let title = title(app, now, usize::from(area.width));
    let is_good = now.state.accuracy != DEGRADED;
    put(buffer, head, 0, &title, bold(look, if is_good { Color::Cyan } else { Color::Red }));
    put(buffer, alarm, 0, &alarms.join("  "), bold(look, Color::Red));
    if app.help {
        Paragraph::new(HELP).render(top.union(below), buffer);
    } else {
        all_rows(app, &rows, look, top, buffer);
        lower(app, look, below, buffer);
    }
    let (keys, style) = if app.editing {
        let text = format!("show rows with: {}_   (Enter, Esc)", app.filter);
        (text, bold(look, Color::Yellow))
    } else if app.filter.is_empty() {
        let keys = "q quit  ? help  Tab panel  / filter  o sort  s stage  Space pause  < > step";
        (keys.into(), Style::new())
    } else {
        (format!("only rows with `{}`; Esc shows all", app.filter), Style::new())
    };
    put(buffer, foot, 0, &keys, style);
}

/// The first line: what is shown, when, and how exact it is.
fn title(app: &App, now: &Sample, width: usize) -> String {
    let end_ns = app.clock.begin_ns.saturating_add(now.at.as_nanos() as u64);
    let seconds = now.at.as_secs_f64();
    let parts = [
        app.clock.utc(end_ns, "%H:%M:%S UTC"),
        Some(match app.length().filter(|_| !app.is_whole) {
            Some(length) => format!("{seconds:.1} of {:.1} s", length.as_secs_f64()),
            None => format!("{seconds:.1} s"),
        }),
        app.is_whole.then(|| "END: WHOLE RUN".into()),
        (!app.is_whole).then(|| format!("every {:?}", app.interval)),
        (app.speed > 0).then(|| format!("{}x", 1 << app.speed)),
        (app.speed < 0).then(|| format!("1/{}x", 1 << -app.speed)),
        app.paused.then(|| "PAUSED".into()),
        now.in_flight.map(|n| format!("{n} in flight")),
        Some(now.state.accuracy.to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let rest = parts.join("  ");
    let name = fit(&app.name, width.saturating_sub(17 + rest.len()).max(8));
    format!("nvme-deep top  {name}  {rest}").replace("top    ", "top  ")
}

/// Draws what is below the rows.
fn lower(app: &App, look: Look, area: Rect, buffer: &mut Buffer) {
    let is_wide = area.width >= WIDE;
    let is_tall = area.height >= if is_wide { 2 * PANEL + 2 } else { ALL_PANELS };
    let tall = if is_tall { PANEL } else { 0 };
    if area.height < 5 {
        return;
    }
    let [main, queues] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(tall)]).areas(area);
    if is_tall {
        panels::queues(app, queues, buffer);
    }
    match app.panel {
        Panel::Queues if !is_tall => panels::queues(app, area, buffer),
        _ if is_wide => {
            let widths = [Constraint::Fill(1), Constraint::Length(SLOWEST)];
            let [map, slowest] = Layout::horizontal(widths).spacing(1).areas(main);
            panels::draw(app, look, map, buffer);
            panels::slowest(app, look, slowest, buffer);
        }
        _ if is_tall => {
            let heights = [Constraint::Fill(1), Constraint::Length(PANEL)];
            let [map, slowest] = Layout::vertical(heights).areas(main);
            panels::draw(app, look, map, buffer);
            panels::slowest(app, look, slowest, buffer);
        }
        Panel::Slowest => panels::slowest(app, look, main, buffer),
        _ => panels::draw(app, look, main, buffer),
    }
}

/// Draws the rows, and the trend of each at the right.
fn all_rows(
    app: &App,
    rows: &[(&TopKey, Option<&Row>)],
    look: Look,
    area: Rect,
    buffer: &mut Buffer,
) {
    let more = area.width.saturating_sub(80);
    let keys = app.keys().iter().map(|by| match (by, app.who) {
        (By::Process, Some(Who::Submitter)) => "SUBMITTER".into(),
        (By::Process, Some(Who::Caller)) => "CALLER".into(),
        _ => by.name().to_uppercase(),
    });
    let keys = keys.collect::<Vec<String>>().join(",");
    // groups have long names, and need no trend
    let (name, head) =
        if keys.is_empty() { (17, "DISK OP".into()) } else { (23 + more.min(17), keys) };
    let places = (1 + more.saturating_sub(name - 17) / (2 * PLACE)).min(MOST_PLACES);
    let mostly = places * (PLACE + 1) - 1;
    let mark = |column: Order| match column == app.order {
        true => format!("{}*", column.name()),
        false => column.name().to_owned(),
    };
    let (left, right) = (Alignment::Left, Alignment::Right);
    let [iops, bytes, depth, p99, max] =
        [Order::Iops, Order::Bytes, Order::Depth, Order::P99, Order::Max].map(mark);
    // these columns, the mark of the selected row, and a space after each
    let before = 1 + name + 1 + 5 + 1 + 5 + 4 * (1 + 6) + 1 + mostly + 1;
    let trend_width = area.width.saturating_sub(before);
    let columns = [
        (head.as_str(), name, left),
        (&iops, 5, right),
        (&bytes, 5, right),
        (&depth, 6, right),
        ("P50", 6, right),
        (&p99, 6, right),
        (&max, 6, right),
        ("MOSTLY", mostly, left),
        ("TREND", trend_width, left),
    ];
    let texts = |(key, row): &(&TopKey, Option<&Row>)| {
        let name = fit(&app.name_of_row(key), usize::from(name));
        let Some(row) = row else { return vec![name, "-".into()] };
        let time = |ns: Option<u64>| or_dash(ns.map(|ns| nanos(ns as f64)));
        let all: Vec<_> = row
            .places
            .iter()
            .map(|share| format!("{:<1$}", place(Some(share), PLACE), usize::from(PLACE)))
            .take(places.into())
            .collect();
        vec![
            name,
            rate(row.iops),
            rate(row.mb_per_s),
            rate(row.depth),
            time(row.p50),
            time(row.p99),
            time(row.max),
            if all.is_empty() { "-".into() } else { all.join(" ") },
        ]
    };
    let lines = rows.iter().map(|row| (texts(row), Style::new())).collect();
    let selected = app.selected();
    let mut state = TableState::new();
    state.select(rows.iter().position(|(key, _)| Some(*key) == selected));
    let table = table(&columns, lines, area.width - 1)
        .row_highlight_style(bold(look, Color::Yellow))
        .highlight_symbol(">")
        .highlight_spacing(HighlightSpacing::Always);
    StatefulWidget::render(table, area, buffer, &mut state);
    if rows.is_empty() {
        let text = if app.filter.is_empty() { "no command yet" } else { "no row has this text" };
        put(buffer, area, 1, text, Style::new());
    }
    for (y, (key, _)) in (area.y + 1..area.bottom()).zip(rows.iter().skip(state.offset())) {
        trend(app, key, look, Rect::new(area.x + before, y, trend_width, 1), buffer);
    }
}

/// Commands per second of the last intervals.
fn trend(app: &App, key: &TopKey, look: Look, area: Rect, buffer: &mut Buffer) {
    const ASCII: bar::Set<'_> = bar::Set {
        full: "@",
        seven_eighths: "#",
        three_quarters: "*",
        five_eighths: "+",
        half: "=",
        three_eighths: "-",
        one_quarter: ".",
        one_eighth: "_",
        empty: " ",
    };
    let columns = app.columns(key, area.width.into());
    let columns = columns.iter().map(|rows| rows.iter().map(|row| row.iops).fold(0.0, f64::max));
    let columns: Vec<f64> = columns.collect();
    let most = columns.iter().copied().fold(0.0, f64::max);
    // up: few commands can be seen beside many
    let eighths = columns.iter().map(|iops| (8.0 * iops / most.max(1e-9)).ceil() as u64);
    let set = if look.unicode { bar::NINE_LEVELS } else { ASCII };
    Sparkline::default().data(eighths.collect::<Vec<_>>()).max(8).bar_set(set).render(area, buffer);
}
