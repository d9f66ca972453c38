// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every output must keep to, whatever the texts are.

use std::collections::BTreeMap;

use super::plant::{Planted, marks};
use super::strings::{FOREIGN_COLOURS, FORGED, is_forbidden};

/// The failures of a view: one per kind, with the first evidence.
#[derive(Default)]
pub struct Findings {
    all: BTreeMap<(String, &'static str), String>,
}

impl Findings {
    pub fn add(&mut self, view: &str, what: &'static str, evidence: String) {
        self.all.entry((view.to_owned(), what)).or_insert(evidence);
    }

    pub fn extend(&mut self, other: Self) {
        for (key, evidence) in other.all {
            self.all.entry(key).or_insert(evidence);
        }
    }

    /// The same, with the case in the evidence.
    pub fn of(mut self, case: &str) -> Self {
        for evidence in self.all.values_mut() {
            *evidence = format!("case {case}: {evidence}");
        }
        self
    }

    /// Fails with a list of all findings.
    pub fn assert_none(&self) {
        let lines = self.all.iter();
        let lines: Vec<String> =
            lines.map(|((view, what), evidence)| format!("{view}: {what}: {evidence}")).collect();
        assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
    }
}

/// A part of a text around a byte, readable, and the fields that it is from.
pub fn evidence(text: &str, at: usize, planted: &[Planted]) -> String {
    let from = text[..at].char_indices().rev().nth(30).map_or(0, |c| c.0);
    let to = text[at..].char_indices().nth(90).map_or(text.len(), |c| at + c.0);
    let fields = marks(&text[at..])
        .first()
        .and_then(|&n| planted.get(n))
        .map_or_else(String::new, |p| format!(" (from {})", p.place));
    format!("`{}`{fields}", text[from..to].escape_debug())
}

/// Removes the colours of the program: sequences that set graphic renditions.
pub fn without_colours(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        plain.push_str(before);
        let parameters = sequence[2..].find(|c: char| !c.is_ascii_digit() && c != ';');
        let end = parameters.map(|n| n + 2);
        let is_colour = end.is_some_and(|end| sequence[end..].starts_with('m'))
            && !FOREIGN_COLOURS.iter().any(|foreign| sequence.starts_with(foreign));
        let len = match end {
            Some(end) if is_colour => end + 1,
            _ => {
                plain.push('\u{1b}');
                1
            }
        };
        rest = &sequence[len..];
    }
    plain + rest
}

/// Checks a text that a terminal or a program for lines reads.
pub fn text(
    view: &str,
    what: &'static str,
    bytes: &[u8],
    planted: &[Planted],
    findings: &mut Findings,
) -> String {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) => {
            let text = String::from_utf8_lossy(bytes);
            let at = error.valid_up_to().min(text.len());
            findings.add(view, "not UTF-8", evidence(&text, at, planted));
            text.into_owned()
        }
    };
    let plain = without_colours(&text);
    if let Some(at) = plain.find(is_forbidden) {
        findings.add(view, what, evidence(&plain, at, planted));
    }
    let forged = plain.lines().find(|l| l.trim_start().starts_with(FORGED));
    if let Some(line) = forged {
        findings.add(view, "a forged line", evidence(line, 0, planted));
    }
    plain
}

/// The lines that state the accuracy.
pub fn accuracy(text: &str) -> Vec<&str> {
    let lines = text.split(['\n', '\r']);
    lines.filter(|l| l.starts_with("accuracy")).collect()
}

/// Compares with the output for harmless texts of the same recording.
pub fn same_lines(
    view: &str,
    text: &str,
    harmless: &str,
    planted: &[Planted],
    findings: &mut Findings,
) {
    let (lines, want) = (text.lines().count(), harmless.lines().count());
    if lines != want {
        let mut pairs = text.lines().zip(harmless.lines());
        let differs = |(a, b): &(&str, &str)| marks(a) != marks(b);
        let first = pairs.find(differs);
        let line = first.map_or("", |(line, _)| line);
        let evidence = evidence(line, 0, planted);
        findings.add(view, "another number of lines", format!("{lines} for {want}: {evidence}"));
    }
    accuracy_is_true(view, text, harmless, findings);
}

/// The accuracy lines must be those of the harmless recording, as far as no text is in them.
pub fn accuracy_is_true(view: &str, text: &str, harmless: &str, findings: &mut Findings) {
    let (found, want) = (accuracy(text), accuracy(harmless));
    let same = |(a, b): (&&str, &&str)| a == b || !marks(a).is_empty() && marks(a) == marks(b);
    if found.len() != want.len() || !found.iter().zip(&want).all(same) {
        let text = format!("{:?} for {want:?}", found);
        findings.add(view, "another accuracy", text.chars().take(300).collect());
    }
}
