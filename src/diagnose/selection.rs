// SPDX-License-Identifier: MIT OR Apache-2.0
//! What left commands out of a run: filters, and options that keep only some commands. Rates, numbers in
//! flight and neighbours concern all commands, so rules about these need all of them.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::subject::Subject;

/// Options that leave out some I/O commands of a controller.
const SOME: [&str; 6] = ["--nsid", "--qid", "--opcode", "--process", "--cgroup", "--lba"];
/// Options that keep or leave out whole controllers, no I/O command, or the end of a run.
const WHOLE: [&str; 3] = ["--ctrl", "--no-admin", "-n"];
/// Options that keep commands by how they ended.
const BY_END: [&str; 2] = ["--slow", "--errors"];

/// The options that left commands out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    some: BTreeSet<&'static str>,
    /// Only some controllers.
    controllers: bool,
    by_end: BTreeSet<&'static str>,
    /// A filter whose text was removed from the recording, or is not known here.
    unknown: bool,
}

impl Selection {
    /// Takes in the text of options, quoted for a shell. Only names that are known here are kept.
    pub fn add(&mut self, options: &str) {
        let known = |names: &'static [&'static str]| {
            let words: BTreeSet<&str> = options.split_whitespace().collect();
            names.iter().copied().filter(move |name| words.contains(name))
        };
        self.some.extend(known(&SOME));
        self.by_end.extend(known(&BY_END));
        self.controllers |= known(&WHOLE).any(|name| name == "--ctrl");
        let is_known = |names: &'static [&'static str]| known(names).next().is_some();
        let any = is_known(&SOME) || is_known(&BY_END) || is_known(&WHOLE);
        self.unknown |= !options.trim().is_empty() && !any;
    }

    /// What left out commands of a subject: `--opcode`; `None`: nothing that is known.
    fn of(&self, subject: Subject) -> Option<String> {
        let names = self.some.iter().chain(&self.by_end).copied();
        let machine = self.controllers && subject == Subject::Machine;
        let names: Vec<&str> = names.chain(machine.then_some("--ctrl")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// All options that left commands out, for the report; `None`: there are none.
    pub fn text(&self) -> Option<String> {
        let unknown = self
            .unknown
            .then(|| "a filter that is not known here (--redact removes its text)".to_owned());
        self.of(Subject::Machine).or(unknown)
    }

    /// Why the times of these commands do not represent all commands: they were chosen by how they ended.
    pub fn bias(&self) -> Option<String> {
        let names: Vec<&str> = self.by_end.iter().copied().collect();
        (!names.is_empty()).then(|| {
            format!(
                "the recording has only commands that {} chose: their times do not represent all commands",
                names.join(" and ")
            )
        })
    }
}

impl Facts {
    /// Whether the requests of all commands of a subject were counted.
    fn counts_requests(&self, subject: Subject) -> bool {
        let waits = self.counted(|a| a.waits.as_deref()).unwrap_or_default();
        let is_counted = |ctrl: u32| waits.iter().any(|w| w.ctrl == ctrl);
        match subject.ctrl() {
            Some(ctrl) => is_counted(ctrl),
            None => !waits.is_empty(),
        }
    }

    /// Why not all commands of a subject are known; `None`: they are.
    pub fn lacks(&self, subject: Subject) -> Option<String> {
        if let Some(what) = self.selection.of(subject) {
            return Some(format!("needs all commands, and {what} left some out"));
        }
        // a filter whose text was removed: the requests that were counted show whether commands lack
        if self.selection.unknown && !self.counts_requests(subject) {
            return Some("needs all commands, and a filter may have left some out".into());
        }
        self.lacks_requests(subject.ctrl()).then(|| {
            "needs all commands, and some requests of a disk are not among them, as with a filter".into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(options: &str) -> Selection {
        let mut selection = Selection::default();
        selection.add(options);
        selection
    }

    #[test]
    fn a_filter_by_controller_leaves_the_commands_of_the_others() {
        let selection = of("--ctrl nvme0 --no-admin");
        assert_eq!(selection.of(Subject::Controller(0)), None);
        assert_eq!(selection.of(Subject::Machine), Some("--ctrl".into()));
        assert_eq!(of("").of(Subject::Machine), None);
        assert_eq!(of("--no-admin").text(), None);
    }

    #[test]
    fn other_filters_leave_commands_out() {
        let selection = of("--opcode io:read --process 'x --errors2'");
        let all = Some("--opcode, --process".to_owned());
        assert_eq!(selection.of(Subject::Disk(0, 1)), all);
        assert_eq!(selection.bias(), None);
        let redacted = of("redacted").text().unwrap();
        assert!(redacted.starts_with("a filter that is not known"), "{redacted}");
    }

    #[test]
    fn slow_commands_are_no_sample_of_all() {
        let bias = of("--slow 1ms").bias().unwrap();
        assert!(bias.contains("--slow chose"), "{bias}");
        assert_eq!(of("-n 5").bias(), None);
    }
}
