// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal of `top`: taken over, and given back as it was on every way out. A panic, the end of
//! the run and a second signal restore it.

use std::io::{Stdout, stdout};
use std::panic::{set_hook, take_hook};
use std::sync::mpsc::Sender;
use std::{io, thread};

use anyhow::{Context, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{Event, KeyEvent, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGSTOP, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::raise;

use super::app::App;
use super::view;
use super::view::Look;
use crate::run::drive::turns::{Wake, before_exit};

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
        before_exit(restore);
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
