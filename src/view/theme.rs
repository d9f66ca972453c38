// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colours. No other module creates escape sequences.

use owo_colors::OwoColorize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Text with or without colour.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Whether to use colour.
    pub color: bool,
}

impl Theme {
    fn paint(self, text: &str, colored: impl Fn(&str) -> String) -> String {
        if self.color { colored(text) } else { text.to_owned() }
    }

    /// Headings, and highlighted values.
    pub fn head(self, text: &str) -> String {
        self.paint(text, |t| t.bold().to_string())
    }

    /// Column names, units, and other reference data.
    pub fn dim(self, text: &str) -> String {
        self.paint(text, |t| t.dimmed().to_string())
    }

    /// Warnings and errors.
    pub fn warn(self, text: &str) -> String {
        self.paint(text, |t| t.bold().red().to_string())
    }

    /// Normal results.
    pub fn good(self, text: &str) -> String {
        self.paint(text, |t| t.green().to_string())
    }

    /// Bars of histograms.
    pub fn bar(self, text: &str) -> String {
        self.paint(text, |t| t.cyan().to_string())
    }
}

/// Escape sequences before and after a text.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Before the text.
    pub before: String,
    /// After the text.
    pub after: String,
}

/// The colours as escape sequences, for views that must not allocate a `String` per text.
#[derive(Clone, Debug)]
pub struct Codes {
    /// See [`Theme::head`].
    pub head: Around,
    /// See [`Theme::dim`].
    pub dim: Around,
    /// See [`Theme::warn`].
    pub warn: Around,
}

impl Theme {
    /// The escape sequences; `None` without colour.
    pub fn codes(self) -> Option<Codes> {
        let around = |paint: fn(Self, &str) -> String| {
            let painted = paint(self, "|");
            let parts = painted.split_once('|').unwrap_or_default();
            Around { before: parts.0.to_owned(), after: parts.1.to_owned() }
        };
        self.color.then(|| Codes {
            head: around(Self::head),
            dim: around(Self::dim),
            warn: around(Self::warn),
        })
    }
}

static ASCII: AtomicBool = AtomicBool::new(false);

/// Makes all views draw with ASCII characters, for a locale that has no others.
pub fn use_ascii() {
    ASCII.store(true, Ordering::Relaxed);
}

fn choose(unicode: &'static str, ascii: &'static str) -> &'static str {
    if ASCII.load(Ordering::Relaxed) { ascii } else { unicode }
}

/// In the place of what was cut out.
pub(crate) fn ellipsis() -> &'static str {
    choose("…", "~")
}
