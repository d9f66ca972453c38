// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heat map of `top`: a column per interval, the latest at the right; eight rows or fewer in
//! each power of two.

use crate::top::report::{Heat, heat_begin};
use crate::units::nanos;
use crate::view::picture::{LEVELS, level, level_rgb};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::app::App;
use super::view::{Look, put};

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
    let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
    let Some(row) = app.selected() else { return };
    let title = format!("latency over time: {}, stage {}", app.name(&row.key), app.stage_name());
    put(buffer, area, 0, &title, underlined);
    let columns = usize::from(area.width.saturating_sub(LABELS));
    let rows = area.height - 1;
    let skip = row.history.len().saturating_sub(columns);
    let empty = Heat::new();
    let heats: Vec<&Heat> = row
        .history
        .iter()
        .skip(skip)
        .map(|point| point.heat.get(app.stage).unwrap_or(&empty))
        .collect();
    let used = || heats.iter().flat_map(|heat| heat.iter().map(|(n, _)| *n));
    let Some((low, high)) = used().min().zip(used().max()) else {
        put(buffer, area, 1, "not measured", Style::new());
        return;
    };
    // in the middle, if there are more rows than buckets
    let spare = rows.saturating_sub(high - low + 1);
    let low = low.saturating_sub(spare / 2);
    // buckets in a row of characters
    let merged = (high - low + 1).div_ceil(rows.max(1)).max(1);
    let map = Map {
        low,
        high: high + spare,
        merged,
        cells: heats.iter().map(|heat| column(heat, low, merged, rows)).collect(),
    };
    map.draw(look, area, buffer);
}

/// The counts of an interval, a row of characters each.
fn column(heat: &Heat, low: u16, merged: u16, rows: u16) -> Vec<u64> {
    let mut column = vec![0; usize::from(rows)];
    for (bucket, count) in heat {
        column[usize::from((bucket - low) / merged)] += count;
    }
    column
}

/// A heat map for the space that it has.
struct Map {
    /// The first bucket.
    low: u16,
    /// The last bucket with a label.
    high: u16,
    /// Buckets in a row of characters.
    merged: u16,
    /// By interval and row.
    cells: Vec<Vec<u64>>,
}

impl Map {
    fn draw(&self, look: Look, area: Rect, buffer: &mut Buffer) {
        let most = self.cells.iter().flatten().copied().max().unwrap_or(1);
        let right = area.x + area.width;
        let left = right - u16::try_from(self.cells.len()).unwrap_or(0);
        for line in 0..area.height - 1 {
            let begin = self.low + line * self.merged;
            let y = area.y + area.height - 1 - line;
            if begin <= self.high {
                let label = format!("{:>7}", nanos(heat_begin(begin) as f64));
                buffer.set_string(area.x, y, label, Style::new());
            }
            for (x, column) in (left..right).zip(&self.cells) {
                let count = column[usize::from(line)];
                if count > 0 {
                    let level = level(count, most);
                    let glyph = GLYPHS[usize::from(level) * GLYPHS.len() / usize::from(LEVELS)];
                    buffer[(x, y)].set_char(glyph).set_style(style(level, look));
                }
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
