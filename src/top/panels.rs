// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables below the rows: the slowest recent commands, and the queues.

use crate::top::report::queues::QueueLine;
use crate::top::report::slowest::SlowCommand;
use crate::units::{nanos, rate, size_text};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::app::App;
use super::view::{Look, PLACE, bold, place, put};

/// Width of the columns before that of a status or a thread.
const NUMBERS: u16 = 73;
/// Width of a time of day.
const TIME: usize = 10;

fn title(buffer: &mut Buffer, area: Rect, text: &str) {
    let style = Style::new().add_modifier(Modifier::UNDERLINED);
    put(buffer, area, 0, text, style);
}

fn head(buffer: &mut Buffer, area: Rect, text: &str) {
    let width = usize::from(area.width);
    let style = Style::new().add_modifier(Modifier::REVERSED);
    put(buffer, area, 1, &format!("{text:<width$}"), style);
}

/// The slowest recent commands of the rows that are shown.
pub fn slowest(app: &App, look: Look, area: Rect, buffer: &mut Buffer) {
    let recent = if app.ended { "" } else { "recent " };
    title(buffer, area, &format!("slowest {recent}commands"));
    let columns = format!(
        "{:<TIME$} {:<16} {:>3} {:>5} {:>11} {:>6} {:<PLACE$} {}",
        "time", "disk opcode", "qid", "size", "LBA", "total", "where", "how"
    );
    head(buffer, area, &columns);
    // the filter is for names of groups, if there are any
    let is_grouped = !app.top.keys().is_empty();
    let shown = |command: &&SlowCommand| {
        let id = &command.id;
        is_grouped || app.name_of(id.ctrl, id.nsid, id.opcode).contains(&app.filter)
    };
    let room = usize::from(area.height.saturating_sub(2));
    let mut line = 2;
    for command in app.top.slowest.iter().filter(shown).take(room) {
        one(app, command, look, line, area, buffer);
        line += 1;
    }
    if line == 2 {
        let text = if app.top.knows_commands() {
            "none yet"
        } else {
            match is_grouped {
                true => "not known: --by does not report single commands",
                false => "not known: the attach method has no single commands",
            }
        };
        put(buffer, area, 2, text, Style::new());
    }
}

fn one(app: &App, command: &SlowCommand, look: Look, line: u16, area: Rect, buffer: &mut Buffer) {
    let SlowCommand { at_ns, id, total_ns, .. } = command;
    let time = app.clock.text(*at_ns);
    // without the date
    let time = time.get(time.len().saturating_sub(TIME)..).unwrap_or_default();
    let size = command.bytes.map_or_else(|| "-".into(), |n| size_text(n.into()));
    let slba = command.slba.map_or_else(|| "-".into(), |slba| slba.to_string());
    let numbers = format!(
        "{time:>TIME$} {:<16.16} {:>3} {size:>5.5} {slba:>11} {:>6} {}",
        app.name_of(id.ctrl, id.nsid, id.opcode),
        id.qid,
        nanos(*total_ns as f64),
        command.places().first().map_or_else(|| "-".into(), place),
    );
    put(buffer, area, line, &numbers, Style::new());
    let failed = command.status.filter(|status| !status.is_success());
    let (how, style) = match failed {
        Some(status) => {
            let name = status.name_for(id.opcode);
            let text = name.map_or_else(|| status.to_string(), str::to_owned);
            (text, bold(look, Color::Red))
        }
        None => (command.comm.clone().unwrap_or_default(), Style::new()),
    };
    let rest = area.width.saturating_sub(NUMBERS);
    put(buffer, Rect { x: area.right() - rest, width: rest, ..area }, line, &how, style);
}

/// Numbers as ranges: `0-3,7`.
fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The queues of the controller of the selected row; of a group that has none, those of all. With too
/// little room, the busiest.
pub fn queues(app: &App, area: Rect, buffer: &mut Buffer) {
    let ctrl = app.selected().and_then(|row| row.key.ctrl());
    let name = ctrl.map_or_else(String::new, |ctrl| format!(" of nvme{ctrl}"));
    title(buffer, area, &format!("queues{name}"));
    let columns = format!(
        "{:<6}{:>8}{:>9}{:>9}{:>10}{:>8}  CPUs",
        if ctrl.is_none() { "c/qid" } else { "qid" },
        "IOPS",
        "in",
        "irq/s",
        "cmds/irq",
        "irq"
    );
    head(buffer, area, &columns);
    let Some(all) = &app.top.queues else {
        let text = match app.top.keys().is_empty() {
            true => "not counted with this attach method",
            false => "not counted with --by",
        };
        put(buffer, area, 2, text, Style::new());
        return;
    };
    let is_shown = |q: &&QueueLine| ctrl.is_none_or(|ctrl| q.id.ctrl == ctrl);
    let mut lines: Vec<&QueueLine> = all.iter().filter(is_shown).collect();
    let room = usize::from(area.height.saturating_sub(2));
    if lines.len() > room {
        lines.sort_by(|a, b| b.iops.total_cmp(&a.iops));
        lines.truncate(room);
        lines.sort_by_key(|queue| queue.id);
    }
    for (line, queue) in (2..).zip(lines) {
        put(buffer, area, line, &queue_line(queue, ctrl.is_none()), Style::new());
    }
}

fn queue_line(queue: &QueueLine, with_ctrl: bool) -> String {
    let (ctrl, qid) = (queue.id.ctrl, queue.id.qid);
    let name = match with_ctrl {
        true => format!("{ctrl}/{qid}"),
        false => qid.to_string(),
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let batch = queue.interrupts.filter(|n| *n > 0.0);
    let batch = batch.map(|n| format!("{:.1}", queue.iops / n));
    format!(
        "{:<6}{:>8}{:>9}{:>9}{:>10}{:>8}  {}",
        name,
        rate(queue.iops),
        rate(queue.in_flight),
        or_dash(queue.interrupts.map(rate)),
        or_dash(batch),
        or_dash(queue.irq.map(|irq| irq.to_string())),
        ranges(queue.cpus.iter().copied()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_ranges() {
        assert_eq!(ranges([0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges([]), "");
    }
}
