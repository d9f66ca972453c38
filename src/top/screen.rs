// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal of `top`: taken over, and given back as it was on every way out. A panic, the end of
//! the run and a second signal restore it.

use super::app::App;
use super::view;
use super::view::Look;
use crate::run::drive::turns::{BEFORE_EXIT, Wake};
use crate::run::stdout::output_width;
use anyhow::{Context, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{Event, KeyEvent, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use signal_hook::consts::{SIGSTOP, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::raise;
use std::io::{Stdout, stdout};
use std::panic::{set_hook, take_hook};
use std::sync::mpsc::Sender;
use std::{io, thread};

/// What the user does.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A key.
    Key(KeyEvent),
    /// The size of the terminal has changed.
    Resize,
    /// SIGTSTP: stop until continued.
    Suspend,
}

/// The terminal.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Gives the terminal back. Errors are of no use: it may be gone.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    // a terminal without an alternate screen has text on it
    let clear = Clear(ClearType::All);
    execute!(stdout(), EnterAlternateScreen, clear, Hide)
}

/// Reads keys and signals, and wakes the loop for each.
fn listen(inputs: Sender<Input>, waker: Sender<Wake>) -> Result<()> {
    let send = move |input| {
        // if the loop has ended, so does the process
        inputs.send(input).is_ok() && waker.send(Wake::Turn).is_ok()
    };
    let also = send.clone();
    let mut signals = Signals::new([SIGTSTP]).context("failed to listen for signals")?;
    thread::spawn(move || {
        for _ in signals.forever() {
            also(Input::Suspend);
        }
    });
    thread::spawn(move || {
        loop {
            let more = match read() {
                Ok(Event::Key(key)) => send(Input::Key(key)),
                Ok(Event::Resize(..)) => send(Input::Resize),
                Ok(_) => true,
                // without keys the run goes on; signals end it
                Err(_) => false,
            };
            if !more {
                break;
            }
        }
    });
    Ok(())
}

impl Screen {
    /// Takes the terminal over. Keys go to `inputs`.
    ///
    /// # Errors
    /// If the terminal cannot be set up. It is as before then.
    pub fn take_over(inputs: Sender<Input>, waker: Sender<Wake>) -> Result<Self> {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        // the same function, if there was a screen before
        let _ = BEFORE_EXIT.set(restore);
        let entered = enter().and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        let terminal = entered.inspect_err(|_| restore());
        let screen = Self { terminal: terminal.context("failed to set up the terminal")? };
        listen(inputs, waker)?;
        Ok(screen)
    }

    /// Draws what has changed.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub fn draw(&mut self, app: &App, look: Look) -> Result<()> {
        let drawn = self.terminal.draw(|frame| {
            let area = frame.area();
            view::draw(app, look, area, frame.buffer_mut());
        });
        drawn.map(drop).context("failed to write to the terminal")
    }

    /// Forgets what is on the screen: all of it is drawn again.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub fn clear(&mut self) -> Result<()> {
        // Terminal::clear() asks the terminal where the cursor is; the thread that reads keys would
        // get the answer
        let cleared = execute!(stdout(), Clear(ClearType::All));
        let new = cleared.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        self.terminal = new.context("failed to write to the terminal")?;
        Ok(())
    }

    /// Gives the terminal back, stops the process, and takes the terminal over when it is continued.
    ///
    /// # Errors
    /// If the terminal cannot be set up again.
    pub fn suspend(&mut self) -> Result<()> {
        restore();
        raise(SIGSTOP).context("failed to stop")?;
        enter().context("failed to set up the terminal")?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

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
