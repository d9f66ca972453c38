// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as text and as JSON. Every line of the text fits 80 columns.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use serde::Serialize;

use super::json::SCHEMA_VERSION;
use super::json::line as json_line;
use super::page::fill;
use super::theme::Theme;
use crate::recording::MachineController;
use crate::recording::MachineInfo;
use crate::report::diagnosis::Cause;
use crate::report::diagnosis::Diagnosis;
use crate::report::diagnosis::Facts;
use crate::report::diagnosis::Outcome;
use crate::report::diagnosis::StratumFacts;
use crate::report::finding::Finding;
use crate::units::nanos;

/// Strata in the table; more only with detail.
const STRATA: usize = 6;
/// Width of a bar.
const BAR: usize = 24;
/// Smallest part of the time that gets a line.
const SMALL: f64 = 0.02;
/// Column of the text after a rule's name.
const NAME: usize = 20;

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

impl DiagnosisView<'_> {
    /// Writes it as text. `detail`: all strata.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, theme: Theme, detail: bool, out: &mut dyn Write) -> io::Result<()> {
        let Diagnosis {
            outcome, verdict, ..
        } = self.diagnosis;
        for line in fill(verdict, 0) {
            let line = match outcome {
                Outcome::Cause => theme.warn(&line),
                Outcome::Nothing => theme.good(&line),
                Outcome::Unknown => theme.head(&line),
            };
            writeln!(out, "{line}")?;
        }
        for (n, cause) in self.diagnosis.causes.iter().enumerate() {
            self.cause(theme, n, cause, out)?;
        }
        self.machine(theme, out)?;
        self.times(theme, detail, out)?;
        let lists = [
            ("ruled out", &self.diagnosis.ruled_out),
            ("not looked at", &self.diagnosis.not_judged),
        ];
        for (head, rules) in lists {
            list(theme, head, rules, out)?;
        }
        Ok(())
    }

    fn cause(
        &self,
        theme: Theme,
        number: usize,
        cause: &Cause,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Finding {
            rule,
            subject,
            evidence,
            advice,
            ..
        } = &cause.finding;
        let subject = subject.as_deref().unwrap_or_default();
        writeln!(out, "\n{}  {subject}", theme.head(rule))?;
        if number > 0 {
            for line in fill(&cause.sentence, 2) {
                writeln!(out, "  {line}")?;
            }
        }
        for item in evidence {
            // a long name has its own line
            if item.name.chars().count() > 36 {
                for line in fill(&item.name, 2) {
                    writeln!(out, "  {line}")?;
                }
                writeln!(out, "  {:36} {}", "", item.value)?;
            } else {
                writeln!(out, "  {:36} {}", item.name, item.value)?;
            }
        }
        for (label, text) in [("advice", Some(advice.as_str())), ("risk", cause.risk)] {
            let Some(text) = text else { continue };
            for (n, line) in fill(text, 10).iter().enumerate() {
                let label = if n == 0 { label } else { "" };
                writeln!(out, "  {} {line}", theme.head(&format!("{label:7}")))?;
            }
        }
        Ok(())
    }

    /// The machine and the controllers with commands.
    fn machine(&self, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
        let Origin {
            file,
            kernel,
            machine,
        } = self.origin;
        writeln!(out, "\n{}", theme.head("machine"))?;
        let covers = format!(
            "{} I/O commands in {:.1} s",
            self.facts.commands.seen,
            self.facts.covers.as_secs_f64()
        );
        let info = self.facts.machine.as_ref();
        let cpus = info.and_then(|m| m.cpus).map(|n| format!("{n} CPUs"));
        let parts = [
            file.map(str::to_owned),
            kernel.map(|k| format!("Linux {k}")),
            machine.map(str::to_owned),
            cpus,
            Some(covers),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        for line in fill(&parts.join(", "), 2) {
            writeln!(out, "  {line}")?;
        }
        let ctrls: BTreeSet<u32> = self.facts.ctrls().into_iter().collect();
        let all = info.map_or(&[][..], |m: &MachineInfo| m.controllers.as_slice());
        for controller in all.iter().filter(|c| ctrls.contains(&c.instance)) {
            let text = describe(controller);
            for (n, line) in fill(&text, 10).iter().enumerate() {
                let name = if n == 0 {
                    format!("nvme{}", controller.instance)
                } else {
                    String::new()
                };
                writeln!(out, "  {name:7} {line}")?;
            }
        }
        Ok(())
    }

    /// Where the time went.
    fn times(&self, theme: Theme, detail: bool, out: &mut dyn Write) -> io::Result<()> {
        let strata = &self.facts.strata;
        if strata.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", theme.head("where the time went"))?;
        let shown = if detail { strata.len() } else { STRATA };
        for stratum in strata.iter().take(shown) {
            self.stratum(theme, stratum, out)?;
        }
        if strata.len() > shown {
            let more = strata.len() - shown;
            writeln!(out, "  {more} more kinds of commands (-v)")?;
        }
        Ok(())
    }

    fn stratum(&self, theme: Theme, stratum: &StratumFacts, out: &mut dyn Write) -> io::Result<()> {
        let name = self.facts.stratum_name(&stratum.stratum);
        writeln!(
            out,
            "  {name}: p50 {}, p99 {}, {} commands",
            nanos(stratum.p50_ns as f64),
            nanos(stratum.p99_ns as f64),
            stratum.commands
        )?;
        let mut stages = stratum.stages.clone();
        stages.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        for (stage, ns) in stages {
            let part = ns as f64 / stratum.total_ns.max(1) as f64;
            if part < SMALL {
                continue;
            }
            let length = (part * BAR as f64).round() as usize;
            let bar = theme.bar(&"█".repeat(length));
            let mean = nanos(ns as f64 / stratum.commands.max(1) as f64);
            let name = stage.name();
            let blank = " ".repeat(BAR - length);
            writeln!(
                out,
                "    {name:26} {bar}{blank} {:3.0} % {mean:>8}",
                part * 100.0
            )?;
        }
        Ok(())
    }

    /// Writes it as one JSON object.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let reasons = |rules: &[(&'static str, String)]| -> Vec<Reason> {
            let all = rules.iter();
            all.map(|(rule, why)| Reason {
                rule,
                why: why.clone(),
            })
            .collect()
        };
        let Diagnosis {
            outcome,
            verdict,
            causes,
            ruled_out,
            not_judged,
        } = self.diagnosis;
        let object = Line {
            r#type: "diagnosis",
            schema_version: SCHEMA_VERSION,
            file: self.origin.file,
            kernel: self.origin.kernel,
            outcome: match outcome {
                Outcome::Cause => "cause",
                Outcome::Nothing => "nothing_avoidable",
                Outcome::Unknown => "not_known",
            },
            verdict,
            causes: causes.iter().map(cause_line).collect(),
            ruled_out: reasons(ruled_out),
            not_looked_at: reasons(not_judged),
            covers_s: self.facts.covers.as_secs_f64(),
            commands: self.facts.commands.seen,
            machine: self.facts.machine.as_ref(),
            times: self.facts.strata.iter().map(|s| self.times_of(s)).collect(),
        };
        json_line(&object, out)
    }

    fn times_of(&self, stratum: &StratumFacts) -> Times {
        let stages = stratum.stages.iter().map(|(stage, ns)| StageTime {
            stage: stage.name(),
            sum_ns: *ns,
        });
        Times {
            name: self.facts.stratum_name(&stratum.stratum),
            ctrl: format!("nvme{}", stratum.stratum.ctrl),
            nsid: stratum.stratum.nsid,
            commands: stratum.commands,
            p50_ns: stratum.p50_ns,
            p99_ns: stratum.p99_ns,
            sum_ns: stratum.total_ns,
            stages: stages.collect(),
        }
    }
}

/// Kind, queues, vectors and doorbells of a controller.
fn describe(controller: &MachineController) -> String {
    let MachineController {
        class,
        transport,
        io_queues,
        depth,
        vectors,
        shadow_doorbells,
        iommu_group,
        disks,
        ..
    } = controller;
    let number = |n: &Option<u32>, what: &str| n.map(|n| format!("{n} {what}"));
    let transport = transport.clone().filter(|t| t != "pcie");
    let shadow = shadow_doorbells.map(|s| match s {
        true => "shadow doorbells".to_owned(),
        false => "no shadow doorbells".to_owned(),
    });
    let schedulers: BTreeSet<&str> = disks
        .iter()
        .filter_map(|d| d.scheduler.as_deref())
        .collect();
    let schedulers = schedulers.into_iter().collect::<Vec<_>>().join("/");
    let parts = [
        Some(class.clone()),
        transport,
        number(io_queues, "I/O queues"),
        number(depth, "entries each"),
        number(vectors, "interrupt vectors"),
        shadow,
        Some(format!("scheduler {schedulers}")).filter(|_| !schedulers.is_empty()),
        iommu_group
            .as_ref()
            .map(|group| format!("IOMMU group {group}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Rules with reasons; those with the same reason together.
fn list(
    theme: Theme,
    head: &str,
    rules: &[(&'static str, String)],
    out: &mut dyn Write,
) -> io::Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", theme.head(head))?;
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (rule, why) in rules {
        match groups.iter_mut().find(|(found, _)| found == why) {
            Some((_, names)) => names.push(rule),
            None => groups.push((why, vec![rule])),
        }
    }
    for (why, names) in groups {
        if let [name] = names.as_slice() {
            for (n, line) in fill(why, NAME + 2).iter().enumerate() {
                let name = if n == 0 { name } else { "" };
                writeln!(out, "  {name:NAME$}{line}")?;
            }
        } else {
            for line in fill(&names.join(", "), 2) {
                writeln!(out, "  {line}")?;
            }
            for line in fill(why, NAME + 2) {
                writeln!(out, "  {:NAME$}{line}", "")?;
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    schema_version: u32,
    file: Option<&'a str>,
    kernel: Option<&'a str>,
    outcome: &'static str,
    verdict: &'a str,
    causes: Vec<CauseLine<'a>>,
    ruled_out: Vec<Reason>,
    not_looked_at: Vec<Reason>,
    covers_s: f64,
    commands: u64,
    machine: Option<&'a MachineInfo>,
    times: Vec<Times>,
}

#[derive(Serialize)]
struct CauseLine<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    sentence: &'a str,
    risk: Option<&'static str>,
    explains: Option<f64>,
}

#[derive(Serialize)]
struct Reason {
    rule: &'static str,
    why: String,
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

fn cause_line(cause: &Cause) -> CauseLine<'_> {
    CauseLine {
        finding: &cause.finding,
        sentence: &cause.sentence,
        risk: cause.risk,
        explains: cause.explains,
    }
}
