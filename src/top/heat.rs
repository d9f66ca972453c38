// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heat map of `top`: time to the right, eight rows or fewer in each power of two of the latency.

use crate::model::histogram::bounds;
use crate::units::nanos;
use crate::view::picture::{LEVELS, level, level_rgb};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::app::App;
use super::view::{Look, put, titled};

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
