// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of labels and texts, for what is read once and not compared line by line.

use std::io;
use std::io::Write;

use super::theme::Theme;

/// No line is wider, but for words that can't be divided.
const WIDTH: usize = 80;
/// Where the text of an entry begins.
const INDENT: usize = 15;
/// A blank that ends no line; written as a blank.
pub(super) const TIE: char = '\u{a0}';

/// Words in lines that fit between `indent` and the edge. An empty text is one empty line.
fn fill(text: &str, indent: usize) -> Vec<String> {
    let mut lines = vec![];
    let mut line = String::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let wide = indent + line.chars().count() + 1 + word.chars().count() > WIDTH;
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

/// Where it is written.
pub(super) struct Page<'w> {
    pub(super) theme: Theme,
    pub(super) out: &'w mut dyn Write,
}

impl Page<'_> {
    /// What the entries below are about.
    pub(super) fn head(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", self.theme.head(text))
    }

    /// A label, and its text over as many lines as it needs.
    pub(super) fn entry(&mut self, label: &str, text: &str) -> io::Result<()> {
        self.painted(label, text, |_, text| text.to_owned())
    }

    /// The same, in a colour.
    pub(super) fn painted(
        &mut self,
        label: &str,
        text: &str,
        paint: impl Fn(Theme, &str) -> String,
    ) -> io::Result<()> {
        let label = format!("  {label:<12} ");
        let mut first = if label.trim().is_empty() {
            label.clone()
        } else {
            self.theme.dim(&label)
        };
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

    /// A heading and its items; nothing where there are none.
    pub(super) fn list<'t>(
        &mut self,
        head: &str,
        items: impl Iterator<Item = &'t str>,
    ) -> io::Result<()> {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return Ok(());
        }
        self.head(head)?;
        for item in items {
            for (n, text) in fill(item, 4).iter().enumerate() {
                writeln!(self.out, "  {} {text}", if n == 0 { '*' } else { ' ' })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::any;
    use proptest::prop_assert;
    use proptest::proptest;

    #[test]
    fn a_long_label_has_a_line_of_its_own_and_ties_hold() {
        let mut out = Vec::new();
        let theme = Theme { color: false };
        let mut page = Page {
            theme,
            out: &mut out,
        };
        let words = "word ".repeat(12);
        page.entry("nvme0c0n1234567", &format!("{words}name{TIE}value"))
            .unwrap();
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
