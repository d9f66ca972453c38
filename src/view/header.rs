// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a report: which file, machine and time it shows, and how far to trust it.

use super::json::typed_line;
use super::theme::Theme;
use crate::model::ledger::{Accuracy, Ledger};
use crate::model::origin::Who;
use crate::model::text::Text;
use crate::recording::RunInfo;
use crate::units::counted;
use crate::when::{RunClock, utc};
use serde::Serialize;
use std::io;
use std::io::Write;
use std::time::Duration;

/// Separates the parts of a header.
const GAP: &str = "  ";

/// What a header shows. It leaves out what is not known.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// `None`: this machine is traced.
    pub file: Option<Text>,
    /// The name of the machine.
    pub host: Option<Text>,
    /// `uname -r`
    pub kernel: Option<Text>,
    /// Where the part that is shown begins, in nanoseconds since 1970.
    pub begin_ns: Option<i64>,
    /// The same since the start of the run.
    pub from: Duration,
    /// The time that is covered.
    pub length: Option<Duration>,
    /// Commands that are shown.
    pub commands: Option<u64>,
    /// Whether the counts are exact.
    pub accuracy: Option<Accuracy>,
    /// Whose process and cgroup the groups or the filter go by, if they do.
    pub who: Option<Who>,
}

impl Header {
    /// Adds what is known at the end of a run.
    pub fn end(&mut self, length: Duration, commands: u64, ledger: &Ledger) {
        self.length = Some(length);
        self.commands = Some(commands);
        self.accuracy = Some(ledger.accuracy());
    }

    /// The parts as they are written without colour.
    fn parts(&self) -> impl Iterator<Item = String> {
        let accuracy = self.accuracy.as_ref().map(|accuracy| match accuracy {
            Accuracy::Exact => "exact",
            Accuracy::Unknown => "accuracy NOT KNOWN",
            Accuracy::Degraded(_) => "DEGRADED",
        });
        let parts = [
            self.file.as_ref().map(ToString::to_string),
            self.host.as_ref().map(ToString::to_string),
            self.kernel.as_ref().map(|kernel| format!("Linux {kernel}")),
            self.begin_ns.map(|ns| utc(ns, "%Y-%m-%d %H:%M:%S UTC")),
            self.length.map(|length| format!("{:.1} s", length.as_secs_f64())),
            self.commands.map(|n| counted(n, "command")),
            accuracy.map(str::to_owned),
            self.who.map(|who| who.text().to_owned()),
        ];
        parts.into_iter().flatten()
    }

    /// One line, or more if it is too long. Each ends with a newline.
    pub fn text(&self, theme: Theme, width: usize) -> String {
        let (mut text, mut column) = (String::new(), 0);
        for part in self.parts() {
            let size = part.chars().count();
            if column > 0 {
                let fits = column + GAP.len() + size <= width;
                text.push_str(if fits { GAP } else { "\n" });
                column = if fits { column + GAP.len() } else { 0 };
            }
            column += size;
            let doubtful = part == "DEGRADED" || part == "accuracy NOT KNOWN";
            text += &if doubtful { theme.warn(&part) } else { theme.head(&part) };
        }
        if column > 0 {
            text.push('\n');
        }
        text
    }
}

impl Header {
    /// Above a report during a run: the time of day, the time since the start, and what is covered.
    pub fn interval(&self, at: Duration, covers: Duration, theme: Theme) -> String {
        let since = at.saturating_sub(self.from).as_nanos();
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let day = self.begin_ns.map(|ns| utc(ns.saturating_add(since), "%H:%M:%S UTC  "));
        let mut text = format!("{}{:.1} s", day.unwrap_or_default(), at.as_secs_f64());
        if covers != at {
            text += &format!(", the last {:.1} s", covers.as_secs_f64());
        }
        theme.head(&text) + "\n"
    }
}

#[derive(Serialize)]
struct RecordingLine<'a> {
    file: &'a Text,
    host: Option<&'a Text>,
    kernel: Option<&'a Text>,
    arch: &'a Text,
    boot_id: Option<&'a Text>,
    begin_ns: u64,
    begin: Option<String>,
}

/// The same for programs that read several recordings: an object of type `recording`.
///
/// # Errors
/// Errors of the writer.
pub fn json(file: &Text, info: &RunInfo, clock: RunClock, out: &mut dyn Write) -> io::Result<()> {
    let object = RecordingLine {
        file,
        host: info.host.as_ref(),
        kernel: info.kernel.as_ref(),
        arch: &info.arch,
        boot_id: info.boot_id.as_ref(),
        begin_ns: info.begin_ns,
        begin: clock.rfc3339(info.begin_ns),
    };
    typed_line("recording", &object, out)
}

/// Maximum width of a line. Only a single long word may exceed it.
pub(crate) const WIDTH: usize = 80;
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
    hang(WIDTH, &format!("{label:<column$}"), text, str::to_owned, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    #[test]
    fn reports_of_intervals_have_the_time() {
        let theme = Theme { color: false };
        let begin_ns = Some(1_700_000_000_000_000_000);
        let mut header = Header { begin_ns, from: Duration::from_secs(7), ..Header::default() };
        let [at, covers] = [9, 1].map(Duration::from_secs);
        assert_eq!(header.interval(at, at, theme), "22:13:22 UTC  9.0 s\n");
        header.begin_ns = None;
        assert_eq!(header.interval(at, covers, theme), "9.0 s, the last 1.0 s\n");
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
