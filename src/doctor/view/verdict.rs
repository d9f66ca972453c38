// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict of `doctor`: one sentence if everything works, or a line for all commands that lack the
//! same.

use std::io;

use crate::doctor::report::{Readiness, Verdict};
use crate::view::page::{Page, fill};

/// Indentation of the further lines of an item.
const INDENT: usize = 4;

/// What a command can do, as the begin of a sentence about it.
fn state(command: &Readiness) -> String {
    match &command.missing {
        Some(missing) => format!("not ready ({missing})"),
        None if command.unobserved.is_empty() => "ready".into(),
        None => format!("ready without {}", command.unobserved.join(", ")),
    }
}

/// The states, each with its commands, in the order of the commands.
fn states(verdict: &Verdict) -> Vec<(String, Vec<&str>)> {
    let mut states: Vec<(String, Vec<&str>)> = vec![];
    for command in &verdict.commands {
        let state = state(command);
        match states.iter_mut().find(|(other, _)| *other == state) {
            Some((_, commands)) => commands.push(command.command),
            None => states.push((state, vec![command.command])),
        }
    }
    states
}

impl Page<'_> {
    /// Writes the verdict. Its first word is `ready`, or `not` if nothing can be traced.
    pub(super) fn verdict(&mut self, verdict: &Verdict) -> io::Result<()> {
        let states = states(verdict);
        let all = states.len() == 1;
        for (state, commands) in states {
            let commands = if all { "all commands that trace".into() } else { commands.join(", ") };
            let text = format!("{state}: {commands}");
            for (n, line) in fill(&text, INDENT).into_iter().enumerate() {
                let line = if n == 0 { line } else { format!("{:INDENT$}{line}", "") };
                let line =
                    if state == "ready" { self.theme.good(&line) } else { self.theme.warn(&line) };
                writeln!(self.out, "{line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::theme::Theme;

    fn command(command: &'static str, missing: Option<&str>, points: &[&'static str]) -> Readiness {
        Readiness {
            command,
            ready: missing.is_none(),
            missing: missing.map(Into::into),
            unobserved: points.to_vec(),
        }
    }

    fn written(commands: Vec<Readiness>) -> String {
        let (mut out, theme) = (Vec::new(), Theme { color: false });
        let mut page = Page { theme, out: &mut out };
        let ready = commands.iter().all(|c| c.ready);
        page.verdict(&Verdict { ready, commands }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_sentence_if_all_commands_are_in_one_state() {
        let ready = ["top", "latency"].map(|name| command(name, None, &[]));
        assert_eq!(written(ready.into()), "ready: all commands that trace\n");
        let lacks =
            ["top", "latency"].map(|name| command(name, Some("no CAP_BPF: run as root"), &[]));
        assert_eq!(
            written(lacks.into()),
            "not ready (no CAP_BPF: run as root): all commands that trace\n"
        );
    }

    #[test]
    fn commands_that_lack_the_same_are_together() {
        let commands = vec![
            command("top", None, &["doorbell"]),
            command("latency", None, &[]),
            command("latency --stages", None, &["doorbell"]),
            command("trace", None, &[]),
            command("inflight", Some("no types"), &[]),
        ];
        assert_eq!(
            written(commands),
            "ready without doorbell: top, latency --stages\nready: latency, trace\n\
             not ready (no types): inflight\n"
        );
    }
}
