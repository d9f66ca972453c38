// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as text and as JSON. Every line of the text fits 80 columns.

mod json;
mod rules;

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use crate::diagnose::report::{Cause, ClassFacts, Diagnosis, Facts, Outcome, Who};
use crate::model::machine::{MachineController, MachineInfo};
use crate::model::report::finding::{Evidence, Finding};
use crate::units::{counted, nanos};
use crate::view::page::fill;
use crate::view::theme::{Theme, block};

/// Strata in the table; more only with detail.
const STRATA: usize = 6;
/// Width of a bar.
const BAR: usize = 24;
/// Smallest part of the time that gets a line.
const SMALL: f64 = 0.02;

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
    /// Writes it as text. `detail`: all strata, and the reasons of all rules.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, theme: Theme, detail: bool, out: &mut dyn Write) -> io::Result<()> {
        let Diagnosis { outcome, verdict, .. } = self.diagnosis;
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
        if !self.diagnosis.notes.is_empty() {
            writeln!(out, "\n{}", theme.head("notes"))?;
        }
        for note in &self.diagnosis.notes {
            self.note(theme, note, out)?;
        }
        self.machine(theme, out)?;
        self.times(theme, detail, out)?;
        self.rules(theme, detail, out)
    }

    fn cause(
        &self,
        theme: Theme,
        number: usize,
        cause: &Cause,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Finding { rule, subject, evidence, advice, .. } = &cause.finding;
        let subject = subject.as_deref().unwrap_or_default();
        writeln!(out, "\n{}  {subject}", theme.head(rule))?;
        if number > 0 {
            for line in fill(&cause.sentence, 2) {
                writeln!(out, "  {line}")?;
            }
        }
        shown_by(evidence, out)?;
        let who = cause.who.as_ref();
        for (label, text) in [
            ("who", who.map(Who::text)),
            ("cgroup", who.and_then(Who::cgroups_text)),
            ("advice", Some(advice.clone())),
            ("risk", cause.risk.map(str::to_owned)),
        ] {
            let Some(text) = text else { continue };
            labelled(theme, label, &text, out)?;
        }
        Ok(())
    }

    /// A note: its sentence, and what may be done, without evidence.
    fn note(&self, theme: Theme, note: &Cause, out: &mut dyn Write) -> io::Result<()> {
        for line in fill(&format!("{}: {}", note.finding.rule, note.sentence), 2) {
            writeln!(out, "  {line}")?;
        }
        labelled(theme, "advice", &note.finding.advice, out)
    }

    /// The machine and the controllers with commands.
    fn machine(&self, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
        let Origin { file, kernel, machine } = self.origin;
        writeln!(out, "\n{}", theme.head("machine"))?;
        let covers = format!(
            "{} I/O commands in {:.1} s",
            self.facts.commands.seen,
            self.facts.covers.as_secs_f64()
        );
        let info = self.facts.machine.as_ref();
        let cpus = info.and_then(|m| m.cpus).map(|n| format!("{n} CPUs"));
        let selected = self.facts.selection.text();
        let selected = selected.map(|options| format!("selected by {options}"));
        let parts = [
            file.map(ToString::to_string),
            kernel.map(|k| format!("Linux {k}")),
            machine.map(ToString::to_string),
            cpus,
            Some(covers),
            selected,
            (!self.facts.is_whole).then(|| "the end of the recording is missing".to_owned()),
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
                let name =
                    if n == 0 { format!("nvme{}", controller.instance) } else { String::new() };
                writeln!(out, "  {name:7} {line}")?;
            }
        }
        for ctrl in ctrls {
            let Some(text) = self.facts.joined(ctrl) else {
                continue;
            };
            for line in fill(&format!("nvme{ctrl}: {text}"), 2) {
                writeln!(out, "  {line}")?;
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
        writeln!(out, "    {:26} {:BAR$} {:>5} {:>8}", "stage", "", "share", "mean")?;
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

    fn stratum(&self, theme: Theme, stratum: &ClassFacts, out: &mut dyn Write) -> io::Result<()> {
        let name = self.facts.stratum_name(&stratum.stratum);
        writeln!(
            out,
            "  {name}: p50 {}, p99 {}, {}",
            nanos(stratum.p50_ns as f64),
            nanos(stratum.p99_ns as f64),
            counted(stratum.commands, "command")
        )?;
        let mut stages = stratum.stages.clone();
        stages.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let part = |ns: u64| ns as f64 / stratum.total_ns.max(1) as f64;
        let (shown, small): (Vec<_>, Vec<_>) =
            stages.into_iter().partition(|(_, ns)| part(*ns) >= SMALL);
        let mut rows: Vec<(String, u64)> = shown.iter().map(|(s, ns)| (s.short(), *ns)).collect();
        if !small.is_empty() {
            let other = small.iter().map(|(_, ns)| ns).sum();
            rows.push(("other".into(), other));
        }
        for (name, ns) in rows {
            let length = (part(ns) * BAR as f64).round() as usize;
            let bar = theme.bar(&block().repeat(length));
            let mean = nanos(ns as f64 / stratum.commands.max(1) as f64);
            let blank = " ".repeat(BAR.saturating_sub(length));
            writeln!(out, "    {name:26} {bar}{blank} {:3.0} % {mean:>8}", part(ns) * 100.0)?;
        }
        Ok(())
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
    let transport = transport.as_ref().filter(|t| **t != "pcie");
    let shadow = shadow_doorbells.map(|s| match s {
        true => "shadow doorbells".to_owned(),
        false => "no shadow doorbells".to_owned(),
    });
    let schedulers: BTreeSet<String> =
        disks.iter().filter_map(|d| Some(d.scheduler.as_ref()?.to_string())).collect();
    let schedulers = schedulers.into_iter().collect::<Vec<_>>().join("/");
    let parts = [
        Some(class.to_string()),
        transport.map(ToString::to_string),
        number(io_queues, "I/O queues"),
        number(depth, "entries each"),
        number(vectors, "interrupt vectors"),
        shadow,
        Some(format!("scheduler {schedulers}")).filter(|_| !schedulers.is_empty()),
        iommu_group.as_ref().map(|group| format!("IOMMU group {group}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Names and values.
fn shown_by(evidence: &[Evidence], out: &mut dyn Write) -> io::Result<()> {
    for item in evidence {
        let mut name = item.name.as_str();
        // a long name has its own line
        if name.chars().count() > 36 {
            for line in fill(name, 2) {
                writeln!(out, "  {line}")?;
            }
            name = "";
        }
        for value in fill(&item.value, 39) {
            writeln!(out, "  {name:36} {value}")?;
            name = "";
        }
    }
    Ok(())
}

/// A text after its label, in several lines.
fn labelled(theme: Theme, label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    for (n, line) in fill(text, 10).iter().enumerate() {
        let label = if n == 0 { label } else { "" };
        writeln!(out, "  {} {line}", theme.head(&format!("{label:7}")))?;
    }
    Ok(())
}
