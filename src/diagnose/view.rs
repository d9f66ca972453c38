// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as text and as JSON.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use serde_json::json;

use super::affected::{first_of, listed};
use super::facts::{Facts, Stages};
use super::judge::{Diagnosis, Expectation, Outcome, obstacle};
use super::rules::{FULL, RULES, Tier};
use super::verdict::{Status, Subject, Verdict};
use crate::model::report::latency::{Diagnosed, Evidence, Explained};
use crate::units::{counted, nanos};
use crate::view::header::{Header, hang};
use crate::view::json::typed_line;
use crate::view::table::Table;
use crate::view::theme::Theme;

/// Classes in the table; more only with detail.
const CLASSES: usize = 6;
/// Column of the text after a label.
const LABEL: usize = 10;

/// Verdicts that found nothing, and what that means.
const NOTHING_FOUND: [(Status, &str); 4] = [
    (Status::RuledOut, "Ruled out"),
    (Status::NotPresent, "Not present"),
    (Status::Inconclusive, "Not judged"),
    (Status::NotObserved, "Not observed: needs an option"),
];

/// The labels of what a verdict shows, in this order.
const LABELS: [&str; 9] =
    ["found", "impact", "seen by", "when", "who", "cgroup", "setting", "fix", "risk"];

/// Writes a diagnosis.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosisView<'a> {
    /// The facts.
    pub facts: &'a Facts,
    /// Where they come from.
    pub header: &'a Header,
    /// What the rules say.
    pub diagnosis: &'a Diagnosis,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Colours.
    pub theme: Theme,
    /// Width of a line.
    pub width: usize,
    /// All classes, and the reasons of all rules.
    pub detail: bool,
}

fn line(label: &str, text: impl Into<String>) -> Evidence {
    Evidence { name: label.into(), value: text.into() }
}

/// Writes lines. Each label is written once; a line without one begins at the margin.
fn write_lines(width: usize, lines: &[Evidence], out: &mut dyn Write) -> io::Result<()> {
    let mut last = "";
    for Evidence { name, value } in lines {
        let first = match &**name {
            "" => String::new(),
            name if name == last => " ".repeat(LABEL),
            name => format!("{name:LABEL$}"),
        };
        hang(width, &first, value, str::to_owned, out)?;
        last = name;
    }
    Ok(())
}

impl DiagnosisView<'_> {
    /// Writes it as text.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let Look { theme, width, detail } = look;
        let Diagnosis { outcome, headline, .. } = self.diagnosis;
        let paint = |line: &str| match outcome {
            Outcome::Cause => theme.warn(line),
            Outcome::Nothing => theme.good(line),
            Outcome::Unknown => theme.head(line),
        };
        hang(width, "", headline, paint, out)?;
        let shown = self.diagnosed();
        for cause in shown.causes.iter().filter(|cause| !cause.is_note) {
            writeln!(out, "\n{}", theme.head(&cause.title))?;
            write_lines(width, &cause.lines, out)?;
        }
        for (n, Verdict { rule, text, advice, .. }) in self.diagnosis.of(Status::Noted).enumerate()
        {
            write!(out, "{}", if n == 0 { "\n" } else { "" })?;
            let note = line("note", format!("{rule}: {text}. {}", capital(advice)));
            write_lines(width, &[note], out)?;
        }
        self.times(look, out)?;
        if *outcome != Outcome::Unknown {
            writeln!(out)?;
            write_lines(width, &self.next(detail), out)?;
        }
        for (head, rows) in shown.others.iter().filter(|(_, rows)| detail && !rows.is_empty()) {
            writeln!(out, "\n{}", theme.head(head))?;
            let row = |[rule, of, why]: &[String; 3]| line("", format!("  {rule} {of}: {why}"));
            write_lines(width, &rows.iter().map(row).collect::<Vec<_>>(), out)?;
        }
        writeln!(out)?;
        let selected = self.facts.selection.text();
        let selected = selected.map(|options| line("", format!("Selected by {options}.")));
        write_lines(width, selected.as_slice(), out)?;
        write!(out, "{}", self.header.text(theme, width))
    }

    /// What a verdict shows, with labels.
    fn lines(&self, verdict: &Verdict) -> Vec<Evidence> {
        let is_new = !self.diagnosis.says(&verdict.text);
        let evidence = verdict.evidence.iter().map(|e| match LABELS.contains(&&*e.name) {
            true => e.clone(),
            false => line("seen by", format!("{}: {}", e.name, e.value)),
        });
        let mut all = vec![line("found", if is_new { &*verdict.text } else { "" })];
        all.extend(evidence);
        all.push(line("who", verdict.who.text()));
        all.push(line("cgroup", listed(&verdict.who.cgroups)));
        all.push(line("fix", capital(&verdict.advice)));
        all.push(line("risk", capital(verdict.risk.unwrap_or_default())));
        all.retain(|line| !line.value.is_empty());
        all.sort_by_key(|line| LABELS.iter().position(|label| *label == line.name));
        all
    }

    /// The same for a page.
    pub fn diagnosed(&self) -> Diagnosed {
        let shown = [Status::Found, Status::Noted];
        let causes = shown.into_iter().flat_map(|status| self.diagnosis.of(status));
        let causes = causes.map(|verdict| Explained {
            title: format!("{}  {}", verdict.rule, verdict.subject),
            is_note: verdict.status == Status::Noted,
            lines: self.lines(verdict),
        });
        let others = NOTHING_FOUND.into_iter().map(|(status, head)| {
            let row = |v: &Verdict| [v.rule.into(), v.subject.clone(), v.text.clone()];
            (head, self.diagnosis.of(status).map(row).collect())
        });
        Diagnosed {
            headline: self.diagnosis.headline.clone(),
            causes: causes.collect(),
            others: others.collect(),
        }
    }

    /// Where the time went: a line for each class.
    fn times(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let classes = &self.facts.classes.all;
        if classes.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let shown = if look.detail { classes.len() } else { CLASSES };
        let mut table = Table::default();
        for own in classes.iter().take(shown) {
            let share = |stages| self.facts.share(self.facts.of_class(own), stages).range();
            table.row(vec![
                ("<COMMANDS", self.facts.class_name(own.class)),
                ("NUMBER", own.commands.to_string()),
                ("P50", nanos(own.p50_ns as f64)),
                ("P99", nanos(own.p99_ns as f64)),
                ("BLOCK LAYER", share(Stages::BLOCK_LAYER)),
                ("DRIVER", share(Stages::DRIVER)),
                ("DEVICE", share(Stages::AT_DEVICE)),
            ]);
        }
        table.write(look.theme, look.width, out)?;
        let more = match classes.len().saturating_sub(shown) {
            0 => None,
            1 => Some("1 more class of commands (-v)".into()),
            more => Some(format!("{more} more classes of commands (-v)")),
        };
        let ctrls: BTreeSet<u32> = classes.iter().map(|c| c.class.ctrl).collect();
        let joined = |ctrl| Some(format!("nvme{ctrl}: {}", self.facts.joined(ctrl)?));
        let lines = more.into_iter().chain(ctrls.into_iter().filter_map(joined));
        write_lines(look.width, &lines.map(|text| line("", text)).collect::<Vec<_>>(), out)
    }

    /// What to do next, and what was not judged.
    fn next(&self, detail: bool) -> Vec<Evidence> {
        let mut lines = Vec::new();
        let has_share = self.diagnosis.causes().any(|v| v.share.is_some());
        match (self.diagnosis.outcome, &self.facts.expectation, self.facts.classes.all.first()) {
            (Outcome::Cause, ..) if has_share => {
                let before = self.header.file.as_ref().map_or("before.nvd", |file| file.as_str());
                let text =
                    format!("Record again after a change, then: nvme-deep diff {before} after.nvd");
                lines.push(line("check", text));
            }
            (Outcome::Nothing, Expectation::None, Some(own)) => lines.push(line("", format!(
                "If {} is too slow, look at the device or what is behind it (hypervisor, array, provider). To have that \
                 judged: --expect 200us or --baseline good.nvd.",
                nanos(own.p50_ns as f64)
            ))),
            _ => {}
        }
        if let Some(why) = obstacle(self.facts, Subject::Machine) {
            lines.push(line("", format!("Not checked: other causes ({why}).")));
            return lines;
        }
        let open = self.not_checked().join("; ");
        let few = self.facts.classes.subjects().filter_map(|subject| {
            let why = obstacle(self.facts, subject)?;
            Some(format!("{} ({why})", self.facts.subject_name(subject)))
        });
        let is_out = |v: &Verdict| matches!(v.status, Status::RuledOut | Status::NotPresent);
        let of = |id| self.diagnosis.verdicts.iter().filter(move |v| v.rule == id);
        let out = RULES.iter().filter(|rule| of(rule.id).all(is_out)).count();
        let out = if out > 0 { counted(out as u64, "other cause") } else { String::new() };
        let hint = if detail { "" } else { " (-v)" };
        for (head, text, end) in [
            ("Not checked", open, "."),
            ("Other causes were not checked", first_of(few), "."),
            ("Ruled out", out, &format!("{hint}.")),
        ] {
            if !text.is_empty() {
                lines.push(line("", format!("{head}: {text}{end}")));
            }
        }
        lines
    }

    /// The rules that could not judge subjects of many commands: with the reason, or the option.
    fn not_checked(&self) -> Vec<String> {
        let (mut lacking, mut others) = (Vec::new(), Vec::new());
        for rule in RULES.iter() {
            let is_open = |v: &&Verdict| v.rule == rule.id && obstacle(self.facts, v.of).is_none();
            let open = |status| self.diagnosis.of(status).find(is_open);
            let open = open(Status::NotObserved).or_else(|| open(Status::Inconclusive));
            let Some(verdict) = open else { continue };
            match verdict.status {
                Status::NotObserved if verdict.text == FULL => lacking.push(rule.id.to_owned()),
                Status::Inconclusive if rule.tier < Tier::Limit => others.push(rule.id.into()),
                _ => others.push(format!("{} ({})", rule.id, verdict.text)),
            }
        }
        if !lacking.is_empty() {
            others.push(format!("{} ({FULL})", first_of(lacking)));
        }
        others
    }
}

/// The same with a capital letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

impl DiagnosisView<'_> {
    /// Writes it as one JSON object.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { facts, header, diagnosis } = self;
        let object = json!({
            "file": header.file,
            "kernel": header.kernel,
            "outcome": diagnosis.outcome,
            "headline": diagnosis.headline,
            "verdicts": diagnosis.verdicts,
            "whole": !facts.is_cut,
            "covers_s": facts.covers.as_secs_f64(),
            "commands": facts.commands.seen,
            "machine": facts.machine,
        });
        typed_line("diagnosis", &object, out)
    }
}
