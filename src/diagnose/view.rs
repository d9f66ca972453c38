// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::Write;

use serde::Serialize;

use super::facts::{Facts, Stages};
use super::judge::{Diagnosis, Outcome, obstacle};
use super::rule::Tier;
use super::rules::{FULL, RULES};
use super::verdict::{Scope, Status, Subject, Verdict};
use crate::model::machine::MachineInfo;
use crate::model::report::latency::{Diagnosed, Evidence, Explained};
use crate::units::{counted, nanos};
use crate::view::header::{fill_to, hang};
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

/// Where the facts come from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The recording; `None`: this machine, now.
    pub file: Option<&'a str>,
    /// `uname -r`
    pub kernel: Option<&'a str>,
    /// The hypervisor, or that there is none.
    pub machine: Option<&'a str>,
}

/// Writes a diagnosis.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosisView<'a> {
    /// The facts.
    pub facts: &'a Facts,
    /// Their origin.
    pub origin: Origin<'a>,
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
struct Text<'w> {
    look: Look,
    out: &'w mut dyn Write,
}

impl Text<'_> {
    fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    fn head(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.look.theme.head(text))
    }

    fn plain(&mut self, text: &str) -> io::Result<()> {
        hang(self.look.width, "", text, str::to_owned, self.out)
    }

    fn labelled(&mut self, label: &str, text: &str) -> io::Result<()> {
        let Look { theme, width, .. } = self.look;
        for (n, line) in fill_to(width, text, LABEL).iter().enumerate() {
            let label = format!("{:LABEL$}", if n == 0 { label } else { "" });
            let shown = if label.trim().is_empty() { label } else { theme.head(&label) };
            writeln!(self.out, "{shown}{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl DiagnosisView<'_> {
    /// Writes it as text.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Text { look, out };
        let Diagnosis { outcome, headline, .. } = self.diagnosis;
        let paint = |line: &str| match outcome {
            Outcome::Cause => look.theme.warn(line),
            Outcome::Nothing => look.theme.good(line),
            Outcome::Unknown => look.theme.head(line),
        };
        hang(look.width, "", headline, paint, text.out)?;
        for verdict in self.diagnosis.causes() {
            self.cause(verdict, &mut text)?;
        }
        for (n, note) in self.diagnosis.of(Status::Noted).enumerate() {
            if n == 0 {
                text.blank()?;
            }
            let Verdict { rule, text: what, advice, .. } = note;
            text.labelled("note", &format!("{rule}: {what}. {}", capital(advice)))?;
        }
        self.times(&mut text)?;
        self.next(&mut text)?;
        if look.detail {
            NOTHING_FOUND
                .into_iter()
                .try_for_each(|(status, head)| self.group(head, status, &mut text))?;
        } else if *outcome == Outcome::Unknown {
            self.group("Not judged", Status::Inconclusive, &mut text)?;
        }
        text.blank()?;
        text.plain(&self.origin_text())
    }

    /// A cause: what it does, when, whose commands, what to do.
    fn cause(&self, verdict: &Verdict, text: &mut Text<'_>) -> io::Result<()> {
        text.head(&format!("{}  {}", verdict.rule, verdict.subject))?;
        let mut last = String::new();
        for Evidence { name, value } in self.lines(verdict) {
            text.labelled(if name == last { "" } else { &name }, &value)?;
            last = name;
        }
        Ok(())
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
            title: format!("{} {}", verdict.rule, verdict.subject),
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
    fn times(&self, text: &mut Text<'_>) -> io::Result<()> {
        let Look { theme, width, detail } = text.look;
        let classes = &self.facts.classes.all;
        if classes.is_empty() {
            return Ok(());
        }
        text.blank()?;
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
    fn next(&self, text: &mut Text<'_>) -> io::Result<()> {
        if self.diagnosis.outcome == Outcome::Unknown {
            return Ok(());
        }
        text.blank()?;
        let causes = || self.diagnosis.causes();
        match (self.diagnosis.outcome, self.facts.classes.all.first()) {
            (Outcome::Cause, _) if causes().any(|v| v.share.is_some()) => {
                let before = self.origin.file.unwrap_or("before.nvd");
                text.labelled(
                    "check",
                    &format!("Record again after a change, then: nvme-deep diff {before} after.nvd"),
                )?;
            }
            (Outcome::Nothing, Some(own)) => text.plain(&format!(
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
        let is_out = |v: &Verdict| matches!(v.status, Status::RuledOut | Status::NotPresent);
        let mut rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
        self.diagnosis
            .verdicts
            .iter()
            .filter(|v| !is_out(v))
            .for_each(|v| _ = rules.remove(v.rule));
        let out = rules.len();
        let hint = if text.look.detail { "" } else { " (-v)" };
        text.plain(&format!("Ruled out: {}{hint}.", counted(out as u64, "other cause")))
    }

    /// The rules that could not judge, by what they look for: with the reason, or the option.
    fn not_checked(&self) -> Vec<String> {
        let mut lacking = Vec::new();
        let mut others = Vec::new();
        for rule in RULES.iter() {
            let mut own =
                self.diagnosis.verdicts.iter().filter(|v| v.rule == rule.id && !v.is_minor);
            let of = |status| move |v: &&Verdict| v.status == status;
            if let Some(verdict) = own.clone().find(of(Status::NotObserved)) {
                if verdict.text == FULL {
                    lacking.push(rule.noun);
                } else {
                    others.push(format!("{} ({})", rule.noun, verdict.text));
                }
            } else if let Some(verdict) = own.find(of(Status::Inconclusive)) {
                others.push(match rule.tier {
                    Tier::Limit | Tier::Device => format!("{} ({})", rule.noun, verdict.text),
                    _ => rule.noun.to_owned(),
                });
            }
        }
        if (1..4).contains(&lacking.len()) {
            others.push(format!("{} (needs a recording with --stages=full)", lacking.join(", ")));
        } else if !lacking.is_empty() {
            let count = lacking.len();
            others.push(format!("{count} causes that need a recording with --stages=full"));
        }
        others
    }

    /// Rules with a status; those with the same reason together.
    fn group(&self, head: &str, status: Status, text: &mut Text<'_>) -> io::Result<()> {
        let detail = text.look.detail;
        let several = [Scope::Controller, Scope::Disk].map(|s| self.facts.subjects(s).len() > 1);
        let mut groups: BTreeMap<String, (usize, Vec<&str>)> = BTreeMap::new();
        // the first line says it already
        let is_new = |v: &&Verdict| detail || !self.diagnosis.says(&v.text);
        for verdict in self.diagnosis.of(status).filter(is_new) {
            let is_named = match verdict.of {
                Subject::Machine => false,
                Subject::Controller(_) => several[0],
                Subject::Disk(..) => several[1],
            };
            let subject = if is_named { format!("{}: ", verdict.subject) } else { String::new() };
            let why = format!("{subject}{}", verdict.text);
            let place = groups.len();
            let (_, rules) = groups.entry(why).or_insert((place, Vec::new()));
            if !rules.contains(&verdict.rule) {
                rules.push(verdict.rule);
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, (place, _))| *place);
        if !groups.is_empty() {
            text.head(head)?;
        }
        for (why, (_, rules)) in groups {
            text.plain(&format!("  {}: {why}", rules.join(", ")))?;
        }
        Ok(())
    }

    /// The file, the machine, and how much was observed.
    fn origin_text(&self) -> String {
        let Origin { file, kernel, machine } = self.origin;
        let cpus = self.facts.machine.as_ref().and_then(|m| m.cpus);
        let commands = counted(self.facts.commands.seen, "I/O command");
        let parts = [
            file.map(ToString::to_string),
            kernel.map(|k| format!("Linux {k}")),
            machine.map(ToString::to_string),
            cpus.map(|n| counted(n.into(), "CPU")),
            Some(format!("{:.1} s", self.facts.covers.as_secs_f64())),
            Some(commands),
            self.facts.selection.text().map(|options| format!("selected by {options}")),
            self.facts.is_cut.then(|| "the end of the recording is missing".to_owned()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
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
    file: Option<&'a str>,
    kernel: Option<&'a str>,
    outcome: Outcome,
    headline: &'a str,
    verdicts: &'a [Verdict],
    whole: bool,
    covers_s: f64,
    commands: u64,
    machine: Option<&'a MachineInfo>,
    times: Vec<Times>,
}

#[derive(Serialize)]
struct Times {
    name: String,
    ctrl: String,
    nsid: u32,
    commands: u64,
    p50_ns: u64,
    p99_ns: u64,
    sum_ns: u64,
    stages: Vec<StageTime>,
}

#[derive(Serialize)]
struct StageTime {
    stage: String,
    sum_ns: u64,
}

impl DiagnosisView<'_> {
    /// Writes it as one JSON object.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let times = self.facts.classes.all.iter().map(|own| Times {
            name: self.facts.class_name(own.class),
            ctrl: format!("nvme{}", own.class.ctrl),
            nsid: own.class.nsid,
            commands: own.commands,
            p50_ns: own.p50_ns,
            p99_ns: own.p99_ns,
            sum_ns: own.total_ns,
            stages: (own.stages.iter())
                .map(|(stage, ns)| StageTime { stage: stage.name(), sum_ns: *ns })
                .collect(),
        });
        let object = Line {
            file: self.origin.file,
            kernel: self.origin.kernel,
            outcome: self.diagnosis.outcome,
            headline: &self.diagnosis.headline,
            verdicts: &self.diagnosis.verdicts,
            whole: !self.facts.is_cut,
            covers_s: self.facts.covers.as_secs_f64(),
            commands: self.facts.commands.seen,
            machine: self.facts.machine.as_ref(),
            times: times.collect(),
        };
        typed_line("diagnosis", &object, out)
    }
}
