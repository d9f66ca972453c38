// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of labels and texts, for reports that are not tables.

use std::io;
use std::io::Write;

use super::theme::Theme;

/// Maximum width of a line. Only a single long word may exceed it.
const WIDTH: usize = 80;
/// Column of the text of an entry.
const INDENT: usize = 15;
/// A no-break space. It is written as a blank.
pub(crate) const TIE: char = '\u{a0}';

/// Wraps a text into lines between `indent` and the edge. An empty text gives one empty line.
pub(crate) fn fill(text: &str, indent: usize) -> Vec<String> {
    fill_to(WIDTH, text, indent)
}

/// [`fill`] for lines of this width.
pub(crate) fn fill_to(width: usize, text: &str, indent: usize) -> Vec<String> {
    let mut lines = vec![];
    let mut line = String::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let wide = indent + line.chars().count() + 1 + word.chars().count() > width;
        if wide && !line.is_empty() {
            lines.push(line);
            line = String::new();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.iter().map(|line| line.replace(TIE, " ")).collect()
}

/// Writes a text after a label. Further lines begin below the text.
pub(crate) fn hang(
    width: usize,
    label: &str,
    text: &str,
    paint: impl Fn(&str) -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    let indent = label.trim_start_matches('\n').chars().count();
    for (n, line) in fill_to(width, text, indent).iter().enumerate() {
        let before = if n == 0 { label.to_owned() } else { " ".repeat(indent) };
        writeln!(out, "{before}{}", paint(line.trim_end()))?;
    }
    Ok(())
}

/// Writes a label and its text, which begins at a column, over as many lines as needed.
pub(crate) fn entry_at(
    column: usize,
    label: &str,
    text: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut first = format!("{label:<column$}");
    for line in fill(text, column) {
        writeln!(out, "{first}{line}")?;
        first = " ".repeat(column);
    }
    Ok(())
}

/// The page and its destination.
pub(crate) struct Page<'w> {
    pub(crate) theme: Theme,
    pub(crate) out: &'w mut dyn Write,
}

impl Page<'_> {
    /// Writes the heading of the entries that follow.
    pub(crate) fn head(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", self.theme.head(text))
    }

    /// Writes a label and its text, over as many lines as needed.
    pub(crate) fn entry(&mut self, label: &str, text: &str) -> io::Result<()> {
        self.painted(label, text, |_, text| text.to_owned())
    }

    /// The same, with a colour.
    pub(crate) fn painted(
        &mut self,
        label: &str,
        text: &str,
        paint: impl Fn(Theme, &str) -> String,
    ) -> io::Result<()> {
        let label = format!("  {label:<12} ");
        let mut first =
            if label.trim().is_empty() { label.clone() } else { self.theme.dim(&label) };
        if label.chars().count() > INDENT {
            writeln!(self.out, "{}", self.theme.dim(label.trim_end()))?;
            first = " ".repeat(INDENT);
        }
        for text in fill(text, INDENT) {
            writeln!(self.out, "{first}{}", paint(self.theme, &text))?;
            first = " ".repeat(INDENT);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    #[test]
    fn a_long_label_has_a_line_of_its_own_and_ties_hold() {
        let mut out = Vec::new();
        let theme = Theme { color: false };
        let mut page = Page { theme, out: &mut out };
        let words = "word ".repeat(12);
        page.entry("nvme0c0n1234567", &format!("{words}name{TIE}value")).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "  nvme0c0n1234567");
        assert_eq!(lines[2], "               name value");
    }

    proptest! {
        #[test]
        fn lines_fit_unless_a_word_does_not(text in any::<String>(), indent in 0..20_usize) {
            for line in fill(&text, indent) {
                let one_word = text.split(' ').any(|w| w.replace(TIE, " ") == line);
                prop_assert!(indent + line.chars().count() <= WIDTH || one_word);
            }
        }
    }
}
