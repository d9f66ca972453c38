// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as text and as JSON.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use serde::Serialize;

use super::affected::first_of;
use super::facts::{Facts, Stages};
use super::judge::{Diagnosis, Expectation, Outcome, obstacle};
use super::rules::{FULL, RULES, Tier};
use super::verdict::{Status, Subject, Verdict};
use crate::model::machine::MachineInfo;
use crate::model::report::latency::{Diagnosed, Evidence, Explained};
use crate::model::text::Text;
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

/// Evidence with a line of its own.
const LABELS: [&str; 3] = ["impact", "when", "setting"];

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

/// A text being written.
struct Printer<'w> {
    look: Look,
    out: &'w mut dyn Write,
}

impl Printer<'_> {
    fn head(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.look.theme.head(text))
    }

    fn plain(&mut self, text: &str) -> io::Result<()> {
        hang(self.look.width, "", text, str::to_owned, self.out)
    }

    fn labelled(&mut self, label: &str, text: &str) -> io::Result<()> {
        hang(self.look.width, &format!("{label:LABEL$}"), text, str::to_owned, self.out)
    }
}

impl DiagnosisView<'_> {
    /// Writes it as text.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Printer { look, out };
        let Diagnosis { outcome, headline, .. } = self.diagnosis;
        let paint = |line: &str| match outcome {
            Outcome::Cause => look.theme.warn(line),
            Outcome::Nothing => look.theme.good(line),
            Outcome::Unknown => look.theme.head(line),
        };
        hang(look.width, "", headline, paint, text.out)?;
        let shown = self.diagnosed();
        for cause in shown.causes.into_iter().filter(|cause| !cause.is_note) {
            text.head(&cause.title)?;
            let mut last = String::new();
            for Evidence { name, value } in cause.lines {
                text.labelled(if name == last { "" } else { &name }, &value)?;
                last = name;
            }
        }
        for (n, note) in self.diagnosis.of(Status::Noted).enumerate() {
            if n == 0 {
                writeln!(text.out)?;
            }
            let Verdict { rule, text: what, advice, .. } = note;
            text.labelled("note", &format!("{rule}: {what}. {}", capital(advice)))?;
        }
        self.times(&mut text)?;
        self.next(&mut text)?;
        for (head, rows) in shown.others.iter().filter(|(_, rows)| look.detail && !rows.is_empty())
        {
            text.head(head)?;
            rows.iter()
                .try_for_each(|[rule, of, why]| text.plain(&format!("  {rule} {of}: {why}")))?;
        }
        writeln!(text.out)?;
        if let Some(options) = self.facts.selection.text() {
            text.plain(&format!("Selected by {options}."))?;
        }
        write!(text.out, "{}", self.header.text(look.theme, look.width))
    }

    /// What a verdict shows, with labels.
    fn lines(&self, verdict: &Verdict) -> Vec<Evidence> {
        let line = |name: &str, value: String| Evidence { name: name.into(), value };
        let evidence =
            |label: &'static str| verdict.evidence.iter().filter(move |e| e.name == label).cloned();
        let others = verdict.evidence.iter().filter(|e| !LABELS.contains(&&*e.name));
        let found = (!self.diagnosis.says(&verdict.text)).then(|| verdict.text.clone());
        let mut all = Vec::from_iter(found.map(|text| line("found", text)));
        all.extend(evidence("impact"));
        all.extend(others.map(|e| line("seen by", format!("{}: {}", e.name, e.value))));
        all.extend(evidence("when"));
        all.extend(verdict.who.text().map(|text| line("who", text)));
        all.extend(verdict.who.cgroups_text().map(|text| line("cgroup", text)));
        all.extend(evidence("setting"));
        all.push(line("fix", capital(&verdict.advice)));
        all.extend(verdict.risk.map(|risk| line("risk", capital(risk))));
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
    fn times(&self, text: &mut Printer<'_>) -> io::Result<()> {
        let Look { theme, width, detail } = text.look;
        let classes = &self.facts.classes.all;
        if classes.is_empty() {
            return Ok(());
        }
        writeln!(text.out)?;
        let shown = if detail { classes.len() } else { CLASSES };
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
        table.write(theme, width, text.out)?;
        if classes.len() > shown {
            let more = classes.len() - shown;
            let what = if more == 1 { "class" } else { "classes" };
            text.plain(&format!("{more} more {what} of commands (-v)"))?;
        }
        let ctrls: BTreeSet<u32> = classes.iter().map(|c| c.class.ctrl).collect();
        for ctrl in ctrls {
            if let Some(joined) = self.facts.joined(ctrl) {
                text.plain(&format!("nvme{ctrl}: {joined}"))?;
            }
        }
        Ok(())
    }

    /// What to do next, and what was not judged.
    fn next(&self, text: &mut Printer<'_>) -> io::Result<()> {
        if self.diagnosis.outcome == Outcome::Unknown {
            return Ok(());
        }
        writeln!(text.out)?;
        let causes = || self.diagnosis.causes();
        match (self.diagnosis.outcome, self.facts.classes.all.first()) {
            (Outcome::Cause, _) if causes().any(|v| v.share.is_some()) => {
                let before = self.header.file.as_ref().map_or("before.nvd", |file| file.as_str());
                text.labelled(
                    "check",
                    &format!("Record again after a change, then: nvme-deep diff {before} after.nvd"),
                )?;
            }
            (Outcome::Nothing, Some(own)) if matches!(self.facts.expectation, Expectation::None) => text.plain(&format!(
                "If {} is too slow, look at the device or what is behind it (hypervisor, array, provider). To have that \
                 judged: --expect 200us or --baseline good.nvd.",
                nanos(own.p50_ns as f64)
            ))?,
            _ => {}
        }
        if let Some(why) = obstacle(self.facts, Subject::Machine) {
            return text.plain(&format!("Not checked: other causes ({why})."));
        }
        let open = self.not_checked();
        if !open.is_empty() {
            text.plain(&format!("Not checked: {}.", open.join("; ")))?;
        }
        let few = self.facts.classes.subjects().filter_map(|subject| {
            let why = obstacle(self.facts, subject)?;
            Some(format!("{} ({why})", self.facts.subject_name(subject)))
        });
        let few = first_of(few);
        if !few.is_empty() {
            text.plain(&format!("Other causes were not checked: {few}."))?;
        }
        let is_out = |v: &Verdict| matches!(v.status, Status::RuledOut | Status::NotPresent);
        let of = |id| self.diagnosis.verdicts.iter().filter(move |v| v.rule == id);
        let out = RULES.iter().filter(|rule| of(rule.id).all(is_out)).count();
        let hint = if text.look.detail { "" } else { " (-v)" };
        if out == 0 {
            return Ok(());
        }
        text.plain(&format!("Ruled out: {}{hint}.", counted(out as u64, "other cause")))
    }

    /// The rules that could not judge subjects of many commands: with the reason, or the option.
    fn not_checked(&self) -> Vec<String> {
        let (mut lacking, mut others) = (Vec::new(), Vec::new());
        for rule in RULES.iter() {
            let open = [Status::NotObserved, Status::Inconclusive].into_iter().find_map(|status| {
                self.diagnosis
                    .of(status)
                    .find(|v| v.rule == rule.id && obstacle(self.facts, v.of).is_none())
            });
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

#[derive(Serialize)]
struct Line<'a> {
    file: &'a Option<Text>,
    kernel: &'a Option<Text>,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    whole: bool,
    covers_s: f64,
    commands: u64,
    machine: Option<&'a MachineInfo>,
}

impl DiagnosisView<'_> {
    /// Writes it as one JSON object.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let object = Line {
            file: &self.header.file,
            kernel: &self.header.kernel,
            diagnosis: self.diagnosis,
            whole: !self.facts.is_cut,
            covers_s: self.facts.covers.as_secs_f64(),
            commands: self.facts.commands.seen,
            machine: self.facts.machine.as_ref(),
        };
        typed_line("diagnosis", &object, out)
    }
}
