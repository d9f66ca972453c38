//! Colour, and the only place that knows of it.

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
