// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colour; no other module writes escape sequences.

use owo_colors::OwoColorize;

/// With or without colour.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    /// Whether to colour at all.
    pub color: bool,
}

impl Theme {
    fn paint(self, text: &str, colored: impl Fn(&str) -> String) -> String {
        if self.color {
            colored(text)
        } else {
            text.to_owned()
        }
    }

    /// What the row is about.
    pub fn head(self, text: &str) -> String {
        self.paint(text, |t| t.bold().to_string())
    }

    /// Column names, units, what is only there for reference.
    pub fn dim(self, text: &str) -> String {
        self.paint(text, |t| t.dimmed().to_string())
    }

    /// What must be seen.
    pub fn warn(self, text: &str) -> String {
        self.paint(text, |t| t.bold().red().to_string())
    }

    /// What is as it should be.
    pub fn good(self, text: &str) -> String {
        self.paint(text, |t| t.green().to_string())
    }

    /// Bars.
    pub fn bar(self, text: &str) -> String {
        self.paint(text, |t| t.cyan().to_string())
    }
}

/// What stands before and after a text to colour it.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Before it.
    pub before: String,
    /// After it.
    pub after: String,
}

/// The colours as codes, for views that write too often for a `String` each time.
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
    /// The codes; `None` without colour.
    pub fn codes(self) -> Option<Codes> {
        let around = |paint: fn(Self, &str) -> String| {
            let painted = paint(self, "|");
            let parts = painted.split_once('|').unwrap_or_default();
            Around {
                before: parts.0.to_owned(),
                after: parts.1.to_owned(),
            }
        };
        self.color.then(|| Codes {
            head: around(Self::head),
            dim: around(Self::dim),
            warn: around(Self::warn),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_paint_as_the_theme_does() {
        let theme = Theme { color: true };
        let codes = theme.codes().unwrap();
        let around = |a: &Around| format!("{}text{}", a.before, a.after);
        assert_eq!(around(&codes.head), theme.head("text"));
        assert_eq!(around(&codes.dim), theme.dim("text"));
        assert_eq!(around(&codes.warn), theme.warn("text"));
        assert!(Theme { color: false }.codes().is_none());
    }
}
