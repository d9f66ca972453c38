// SPDX-License-Identifier: MIT OR Apache-2.0
//! stdout, its width and its locale. An error of stdout is one sentence, which names it.

use std::io::{IsTerminal, StdoutLock, Write};
use std::{env, io};

use ratatui::crossterm::terminal;

/// Columns of the output: of the terminal on stdout, else $COLUMNS, else 80. At least 80, at most
/// 120: longer lines are hard to read.
pub fn output_width() -> usize {
    let of_terminal = || io::stdout().is_terminal().then(terminal::size)?.ok();
    let given = || env::var("COLUMNS").ok()?.parse().ok();
    let columns = of_terminal().map(|(columns, _)| columns.into()).or_else(given);
    columns.unwrap_or(80).clamp(80, 120)
}

/// Whether the locale has characters other than ASCII.
pub fn has_unicode() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let mut set = names.iter().filter_map(|name| env::var(name).ok());
    let locale = set.find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The sentence about a write to stdout that failed.
pub fn cannot_write(error: &io::Error) -> String {
    format!("cannot write to stdout: {error}")
}

/// An error of stdout, with its sentence. It keeps its kind.
pub fn error_of_stdout(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), cannot_write(error))
}

/// The locked stdout.
pub struct Stdout(StdoutLock<'static>);

/// Locks stdout. Writers should flush: errors of what is left at the end of the program are lost.
pub fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

/// Writes what stdout holds back.
///
/// # Errors
/// If it cannot be written; one sentence.
pub fn flush() -> io::Result<()> {
    stdout().flush()
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|e| error_of_stdout(&e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|e| error_of_stdout(&e))
    }
}
