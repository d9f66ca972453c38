// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress of work that takes more than a second: one line on stderr, if it is a terminal, which is
//! erased at the end.

use std::env;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Work that takes less long has no line.
const AFTER: Duration = Duration::from_secs(1);
/// Time between two updates.
const EVERY: Duration = Duration::from_millis(200);
/// Carriage return, and erase to the end of the line.
const ERASE: &str = "\r\x1b[K";

/// Whether stderr is a terminal that can erase a line.
fn has_terminal() -> bool {
    let term = env::var_os("TERM").unwrap_or_default();
    stderr().is_terminal() && !term.is_empty() && term != "dumb"
}

fn write(text: &str) {
    // a line that is not seen does no harm
    let _ = stderr().write_all(text.as_bytes());
}

/// The progress of some work. Dropping it erases the line.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    what: String,
    /// The time of the next update, since the start.
    due: Duration,
    is_shown: bool,
}

impl Progress {
    /// The progress of reading `path`. `None` without a terminal.
    pub fn reading(path: &str) -> Option<Self> {
        has_terminal().then(|| Self::new(format!("reading {path}")))
    }

    fn new(what: String) -> Self {
        Self { begin: Instant::now(), what, due: AFTER, is_shown: false }
    }

    /// `done` of `all` is done.
    pub fn step(&mut self, done: u64, all: u64) {
        if let Some(text) = self.at(self.begin.elapsed(), done, all) {
            write(&text);
        }
    }

    /// The line at this time since the start, if it is due.
    fn at(&mut self, now: Duration, done: u64, all: u64) -> Option<String> {
        if now < self.due {
            return None;
        }
        (self.due, self.is_shown) = (now + EVERY, true);
        let share = done.saturating_mul(100) / all.max(1);
        Some(format!("{ERASE}{}: {}%", self.what, share.min(100)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            write(ERASE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_appears_after_a_second() {
        let mut line = Progress::new("reading run.nvd".into());
        let ms = Duration::from_millis;
        assert_eq!(line.at(ms(900), 40, 100), None);
        assert!(!line.is_shown, "there is nothing to erase");
        let shown = line.at(ms(1000), 45, 100);
        assert_eq!(shown.as_deref(), Some("\r\x1b[Kreading run.nvd: 45%"));
        assert_eq!(line.at(ms(1100), 50, 100), None, "five times a second");
        assert!(line.at(ms(1200), 200, 100).unwrap().ends_with(" 100%"));
        assert!(line.is_shown);
    }
}
