// SPDX-License-Identifier: MIT OR Apache-2.0
//! A screen as text, for output that is no terminal.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::app::App;
use super::view;
use super::view::Look;
use crate::run::stdout::output_width;

/// Lines of a page, and one of keys.
const HEIGHT: u16 = 24;

/// The SGR parameter of a colour, for text or background (ECMA-48, and xterm's 256 colours).
fn color_code(color: Color, is_background: bool) -> Option<String> {
    let (few, many) = if is_background { (40, 48) } else { (30, 38) };
    let number = match color {
        Color::Black => few,
        Color::Red => few + 1,
        Color::Green => few + 2,
        Color::Yellow => few + 3,
        Color::Blue => few + 4,
        Color::Magenta => few + 5,
        Color::Cyan => few + 6,
        Color::Gray => few + 7,
        Color::LightRed => few + 61,
        Color::LightBlue => few + 64,
        Color::LightMagenta => few + 65,
        Color::White => few + 67,
        Color::Indexed(n) => return Some(format!("{many};5;{n}")),
        _ => return None,
    };
    Some(number.to_string())
}

/// The escape sequence of the style of a cell, from no style.
fn style(cell: &Cell) -> String {
    let modifiers = [(Modifier::BOLD, "1"), (Modifier::UNDERLINED, "4"), (Modifier::REVERSED, "7")];
    let set = modifiers.iter().filter(|(m, _)| cell.modifier.contains(*m));
    let mut codes: Vec<String> = set.map(|(_, code)| (*code).to_owned()).collect();
    codes.extend(color_code(cell.fg, false));
    codes.extend(color_code(cell.bg, true));
    match codes.as_slice() {
        [] => String::new(),
        codes => format!("\x1b[{}m", codes.join(";")),
    }
}

/// A line, without spaces at its end.
fn line(buffer: &Buffer, y: u16, color: bool) -> String {
    let (mut text, mut last) = (String::new(), String::new());
    let cells: Vec<&Cell> = (0..buffer.area.width).map(|x| &buffer[(x, y)]).collect();
    let is_blank = |cell: &&&Cell| cell.symbol() == " " && (!color || style(cell).is_empty());
    let blank = cells.iter().rev().take_while(is_blank).count();
    for cell in &cells[..cells.len() - blank] {
        let style = if color { style(cell) } else { String::new() };
        if style != last {
            if !last.is_empty() {
                text += "\x1b[0m";
            }
            text += &style;
            last = style;
        }
        text += cell.symbol();
    }
    if !last.is_empty() {
        text += "\x1b[0m";
    }
    text
}

/// The screen as text, without the line of keys, which have no use there.
pub fn page(app: &App, look: Look) -> String {
    let width = u16::try_from(output_width()).unwrap_or(80);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, HEIGHT));
    view::draw(app, look, buffer.area, &mut buffer);
    let lines: Vec<String> = (0..HEIGHT - 1).map(|y| line(&buffer, y, look.color)).collect();
    format!("{}\n\n", lines.join("\n").trim_end())
}
