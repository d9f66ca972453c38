// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables below the rows: the slowest recent commands, and the queues.

use super::app::App;
use super::view::{Column, Look, REST, bold, or_dash, place, put, table, titled};
use crate::model::histogram::bounds;
use crate::top::report::{QueueLine, SlowCommand};
use crate::units::{nanos, rate, size_text};
use crate::view::picture::{LEVELS, level, level_rgb};
use ratatui::buffer::Buffer;
use ratatui::layout::HorizontalAlignment::{Left, Right};
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget;

/// Width of a place and its share.
const PLACE: u16 = 15;

/// The slowest recent commands of the rows that are shown.
pub fn slowest(app: &App, look: Look, area: Rect, buffer: &mut Buffer) {
    let recent = if app.is_whole { "" } else { "recent " };
    let area = titled(buffer, area, &format!("slowest {recent}commands"));
    let time = if app.clock.wall_ns.is_some() { "TIME UTC" } else { "TIME" };
    let columns: [Column<'_>; 8] = [
        (time, 10, Right),
        ("DISK OP", 16, Left),
        ("QID", if area.width < 80 { 0 } else { 3 }, Right),
        ("SIZE", 5, Right),
        ("LBA", 11, Right),
        ("TOTAL", 6, Right),
        ("MOSTLY", PLACE, Left),
        ("PROCESS", REST, Left),
    ];
    // the filter is for names of groups, if there are any
    let is_grouped = !app.keys().is_empty();
    let name = |command: &SlowCommand| {
        let id = &command.id;
        app.name_of(id.ctrl, id.nsid, id.opcode)
    };
    let shown = |command: &&&SlowCommand| is_grouped || name(command).contains(&app.filter);
    let slowest = app.slowest();
    let lines = slowest.iter().filter(shown).map(|command| {
        let SlowCommand { at_ns, id, .. } = command;
        let failed = command.status.filter(|status| !status.is_success());
        let how = match failed {
            Some(status) => {
                let name = status.name_for(id.opcode);
                name.map_or_else(|| status.to_string(), str::to_owned)
            }
            None => command.comm.clone().unwrap_or_default(),
        };
        let texts = vec![
            app.clock.utc(*at_ns, "%H:%M:%S%.1f").unwrap_or_else(|| app.clock.text(*at_ns)),
            name(command),
            id.qid.to_string(),
            or_dash(command.bytes.map(|n| size_text(n.into()))),
            or_dash(command.slba.map(|slba| slba.to_string())),
            nanos(command.total_ns as f64),
            place(command.places().first(), PLACE),
            how,
        ];
        (texts, if failed.is_some() { bold(look, Color::Red) } else { Style::new() })
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        let counts = app.now().is_none_or(|now| now.queues.is_some());
        let text = match (counts, is_grouped) {
            (true, _) => "none yet",
            (false, true) => "not known: --by does not report single commands",
            (false, false) => "not known: the attach method has no single commands",
        };
        put(buffer, area, 1, text, Style::new());
    }
    table(&columns, lines, area.width).render(area, buffer);
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

/// The queues of the selected row's controller; all queues if a group has none. With too
/// little room, the busiest.
pub fn queues(app: &App, area: Rect, buffer: &mut Buffer) {
    let ctrl = app.selected().and_then(|key| key.ctrl());
    let name = ctrl.map_or_else(String::new, |ctrl| format!(" of nvme{ctrl}"));
    let area = titled(buffer, area, &format!("queues{name}"));
    let columns: [Column<'_>; 7] = [
        (if ctrl.is_none() { "C/QID" } else { "QID" }, 6, Left),
        ("IOPS", 7, Right),
        ("DEPTH", 8, Right),
        ("IRQ/S", 8, Right),
        ("CMDS/IRQ", 9, Right),
        ("IRQ", 7, Right),
        (" CPUS", REST, Left),
    ];
    let all = app.now().and_then(|now| now.queues.as_ref());
    if all.is_none() {
        let text = match app.keys().is_empty() {
            true => "not counted with this attach method",
            false => "not counted with --by",
        };
        put(buffer, area, 1, text, Style::new());
    }
    let is_shown = |q: &&QueueLine| ctrl.is_none_or(|ctrl| q.id.ctrl == ctrl);
    let mut lines: Vec<&QueueLine> = all.into_iter().flatten().filter(is_shown).collect();
    lines.sort_by(|a, b| b.iops.total_cmp(&a.iops));
    lines.truncate(area.height.saturating_sub(1).into());
    lines.sort_by_key(|queue| queue.id);
    let lines = lines.iter().map(|queue| {
        let (ctrl_of, qid) = (queue.id.ctrl, queue.id.qid);
        let batch = queue.interrupts.filter(|n| *n > 0.0);
        let texts = vec![
            if ctrl.is_none() { format!("{ctrl_of}/{qid}") } else { qid.to_string() },
            rate(queue.iops),
            rate(queue.in_flight),
            or_dash(queue.interrupts.map(rate)),
            or_dash(batch.map(|n| format!("{:.1}", queue.iops / n))),
            or_dash(queue.irq.map(|irq| irq.to_string())),
            format!(" {}", ranges(queue.cpus.iter().copied())),
        ];
        (texts, Style::new())
    });
    table(&columns, lines.collect(), area.width).render(area, buffer);
}

/// Characters of the levels, for terminals without colour too.
const GLYPHS: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];
/// Width of the labels.
const LABELS: u16 = 8;

/// The nearest of the 216 colours that terminals with 256 have.
fn indexed([r, g, b]: [u8; 3]) -> Color {
    let step = |c: u8| u8::try_from((u16::from(c) * 5 + 127) / 255).unwrap_or(5);
    Color::Indexed(16 + 36 * step(r) + 6 * step(g) + step(b))
}

/// Draws the heat map of the selected row and stage.
pub fn draw(app: &App, look: Look, area: Rect, buffer: &mut Buffer) {
    let Some(key) = app.selected() else { return };
    let stage = app.stages[app.stage];
    let title = format!("latency over time: {}, stage {stage}", app.name_of_row(key));
    let area = titled(buffer, area, &title);
    let columns = app.columns(key, area.width.saturating_sub(LABELS).into());
    let heat =
        |column: usize| columns[column].iter().filter_map(|row| row.heat.get(app.stage)).flatten();
    let used = || (0..columns.len()).flat_map(heat).map(|(bucket, _)| *bucket);
    let Some((low, high)) = used().min().zip(used().max()) else {
        put(buffer, area, 0, "not measured", Style::new());
        return;
    };
    // in the middle, if there are more rows than buckets
    let rows = area.height.max(1);
    let spare = rows.saturating_sub(high - low + 1);
    let (low, high) = (low.saturating_sub(spare / 2), high + spare);
    // buckets in a row of characters
    let merged = (high - low + 1 - spare).div_ceil(rows).max(1);
    let place = |bucket: u16| usize::from((bucket - low) / merged);
    let mut cells = vec![vec![0_u64; usize::from(rows)]; columns.len()];
    for (column, cells) in cells.iter_mut().enumerate() {
        heat(column).for_each(|(bucket, count)| cells[place(*bucket)] += u64::from(*count));
    }
    let most = cells.iter().flatten().copied().max().unwrap_or(1);
    for (line, y) in (0..rows).zip((area.y..area.bottom()).rev()) {
        let begin = low + line * merged;
        if begin <= high {
            let label = format!("{:>7}", nanos(bounds(begin.into()).0 as f64));
            buffer.set_string(area.x, y, label, Style::new());
        }
        for (x, cells) in (area.x + LABELS..).zip(&cells) {
            let count = cells[usize::from(line)];
            if count > 0 {
                let level = level(count, most);
                let glyph = GLYPHS[usize::from(level) * GLYPHS.len() / usize::from(LEVELS)];
                buffer[(x, y)].set_char(glyph).set_style(style(level, look));
            }
        }
    }
}

/// The colours of a level.
fn style(level: u8, look: Look) -> Style {
    if !look.color {
        return Style::new();
    }
    let text = if level > LEVELS / 2 { Color::Black } else { Color::White };
    Style::new().bg(indexed(level_rgb(level))).fg(text)
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
