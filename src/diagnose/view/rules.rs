// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that named no cause: ruled out, not judged, not looked at. Most reports have the same of
//! these, so that the reasons are only shown with detail.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::io::Write;

use super::DiagnosisView;
use crate::diagnose::report::{Diagnosis, Judged, Outcome, Scope, Subject};
use crate::view::page::fill;
use crate::view::theme::Theme;

/// Column of the text after a rule's name.
const NAME: usize = 20;
/// Rules that judge only if an option asks for them. Their reasons are always shown.
const ASKED: [&str; 2] = ["device", "thermal"];

/// The names of rules, each once.
fn names(rules: &[Judged]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for judged in rules {
        if !names.contains(&judged.rule) {
            names.push(judged.rule);
        }
    }
    names
}

impl DiagnosisView<'_> {
    /// The rules that named no cause. `detail`: all, each with its reason.
    pub(super) fn rules(&self, theme: Theme, detail: bool, out: &mut dyn Write) -> io::Result<()> {
        let Diagnosis { outcome, ruled_out, not_judged, not_looked_at, .. } = self.diagnosis;
        if detail {
            self.list(theme, "ruled out", ruled_out, out)?;
            self.list(theme, "could not be judged", not_judged, out)?;
            return self.options(theme, out);
        }
        // what a verdict would need
        let is_unknown = *outcome == Outcome::Unknown;
        if is_unknown {
            self.list(theme, "could not be judged", not_judged, out)?;
        }
        if ruled_out.is_empty() && not_judged.is_empty() && not_looked_at.is_empty() {
            return Ok(());
        }
        let head = "other rules (-v: all, with their reasons)";
        writeln!(out, "\n{}", theme.head(head))?;
        let asked: Vec<Judged> = ruled_out
            .iter()
            .chain(not_judged.iter().filter(|_| !is_unknown))
            .filter(|judged| ASKED.contains(&judged.rule))
            .cloned()
            .collect();
        self.reasons(&asked, out)?;
        let open = names(not_judged);
        let (absent, measured): (Vec<_>, Vec<_>) = ruled_out
            .iter()
            .filter(|judged| !open.contains(&judged.rule) && !ASKED.contains(&judged.rule))
            .cloned()
            .partition(|judged| judged.is_absent);
        let measured = names(&measured);
        let mut absent = names(&absent);
        absent.retain(|rule| !measured.contains(rule));
        if !measured.is_empty() || !absent.is_empty() {
            let counts = format!("{} by their times, {} by absence", measured.len(), absent.len());
            group(&counts, &["ruled out"], out)?;
        }
        let is_shown = |rule: &&str| is_unknown || ASKED.contains(rule);
        let open: Vec<&str> = open.into_iter().filter(|rule| !is_shown(rule)).collect();
        if !open.is_empty() {
            group(&open.join(", "), &["could not be judged"], out)?;
        }
        let options: Vec<String> = self.by_option().collect();
        if !options.is_empty() {
            group(&options.join(", "), &["not looked at"], out)?;
        }
        Ok(())
    }

    /// The rules that need an option, with the option.
    fn by_option(&self) -> impl Iterator<Item = String> {
        let all = &self.diagnosis.not_looked_at;
        let options: BTreeSet<&str> = all.iter().map(|judged| judged.why.as_str()).collect();
        options.into_iter().map(|option| {
            let of = all.iter().filter(|judged| judged.why == option);
            let rules: Vec<Judged> = of.cloned().collect();
            format!("{} (needs {option})", names(&rules).join(", "))
        })
    }

    fn options(&self, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
        let options: Vec<String> = self.by_option().collect();
        if !options.is_empty() {
            writeln!(out, "\n{}", theme.head("not looked at"))?;
        }
        for option in options {
            for line in fill(&option, 2) {
                writeln!(out, "  {line}")?;
            }
        }
        Ok(())
    }

    /// Rules with reasons; those with the same reason together.
    fn list(
        &self,
        theme: Theme,
        head: &str,
        rules: &[Judged],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if rules.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", theme.head(head))?;
        self.reasons(rules, out)
    }

    fn reasons(&self, rules: &[Judged], out: &mut dyn Write) -> io::Result<()> {
        let several = self.facts.ctrls().len() > 1;
        let disks = self.facts.subjects(Scope::Disk).len() > 1;
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for judged in rules {
            let why = match judged.subject {
                Subject::Machine => judged.why.clone(),
                Subject::Disk(..) if disks => format!("{}: {}", judged.name, judged.why),
                _ if several => format!("{}: {}", judged.name, judged.why),
                _ => judged.why.clone(),
            };
            let place = *places.entry(why.clone()).or_insert(groups.len());
            match groups.get_mut(place) {
                Some((_, names)) if names.contains(&judged.rule) => {}
                Some((_, names)) => names.push(judged.rule),
                None => groups.push((why, vec![judged.rule])),
            }
        }
        for (why, names) in groups {
            group(&why, &names, out)?;
        }
        Ok(())
    }
}

/// A reason, and the rules that it holds for.
fn group(why: &str, names: &[&str], out: &mut dyn Write) -> io::Result<()> {
    let lines = fill(why, NAME + 2);
    let [name] = names else {
        for line in fill(&names.join(", "), 2) {
            writeln!(out, "  {line}")?;
        }
        for line in lines {
            writeln!(out, "  {:NAME$}{line}", "")?;
        }
        return Ok(());
    };
    for (n, line) in lines.iter().enumerate() {
        let name = if n == 0 { name } else { "" };
        writeln!(out, "  {name:NAME$}{line}")?;
    }
    Ok(())
}
