// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules. A rule is a row with a check. Most checks use [`Case::large`], for stages that have a large share of the
//! time, or [`Case::longer`], for a condition that coincides with longer times. docs/dev/diagnose.md describes how to
//! add a rule.

mod conditions;
mod incidents;
mod machine;
mod waits;

use super::command::Command;
use super::compare::{Comparison, NEEDED, ratio_text};
use super::facts::{Facts, Stages};
use super::verdict::{Reason, Scope, Share, Subject, Verdict, absent, needs, open, out};
use crate::model::machine::{ControllerLogs, MachineController, MachineDisk};
use crate::units::percent;
use std::sync::LazyLock;

/// The option that gives everything that rules look at.
pub const FULL: &str = "record --stages=full";

/// What a rule is about. Incidents come first in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Commands were lost, held or failed.
    Incident,
    /// Above NVMe: this is said before what is below.
    Above,
    /// The CPUs themselves were taken away: all times grow.
    Machine,
    /// A mechanism or a setting.
    #[default]
    Mechanism,
    /// A limit of the device, or the device, and nothing more specific.
    Limit,
}

/// A rule. Its texts have names in braces: `{name}` is the subject, `{share}` its share of the time, `{disk}`
/// the disk of the class that was compared, `{times}` how many times as long its commands take; rules add others.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its stable name.
    pub id: &'static str,
    /// What it is about.
    pub tier: Tier,
    /// The subjects that it is applied to.
    pub scope: Scope,
    /// Looks at a case, and adds to the verdict in the making.
    pub check: fn(&Case<'_>, &mut Verdict) -> Result<(), Reason>,
    /// When it is found, for the table in docs/diagnose.md.
    pub found: &'static str,
    /// The sentence that says what was found.
    pub text: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// What that may cost; empty: nothing.
    pub risk: &'static str,
}

/// Every rule, by tier.
pub static RULES: LazyLock<Vec<&'static Rule>> = LazyLock::new(|| {
    let files = [incidents::RULES, machine::RULES, waits::RULES, conditions::RULES];
    let mut rules: Vec<&Rule> = files.into_iter().flatten().collect();
    rules.sort_by_key(|rule| rule.tier);
    rules
});

/// What most rows have in common.
const RULE: Rule = Rule {
    id: "",
    tier: Tier::Mechanism,
    scope: Scope::Controller,
    check: |_, _| Ok(()),
    found: "",
    text: "",
    advice: "",
    risk: "",
};

/// Why an observation of the machine is missing.
fn not_observed(facts: &Facts, what: &str) -> Reason {
    match facts.activity {
        Some(_) => open(format!("this kernel does not show {what}")),
        None => needs(FULL),
    }
}

/// A subject of a run.
#[derive(Clone, Copy)]
pub struct Case<'f> {
    /// The run.
    pub facts: &'f Facts,
    /// What a rule is applied to.
    pub subject: Subject,
    /// The verdicts of the rules before it.
    pub found: &'f [Verdict],
}

impl<'f> Case<'f> {
    /// The controller. The machine has none; rules about it do not ask.
    pub fn ctrl(&self) -> u32 {
        self.subject.ctrl().unwrap_or(u32::MAX)
    }

    /// The namespace; 0: the subject is no disk.
    pub const fn nsid(&self) -> u32 {
        match self.subject {
            Subject::Disk(_, nsid) => nsid,
            _ => 0,
        }
    }

    /// The subject's commands.
    pub fn commands(&self) -> impl Iterator<Item = &'f Command> + Clone + use<'f> {
        self.facts.of(self.subject)
    }

    /// The settings of the controller.
    pub fn controller(&self) -> Option<&'f MachineController> {
        self.facts.controller(self.ctrl())
    }

    /// Shows whether the controller offers shadow doorbells, if that is known.
    pub fn shadow_doorbells(&self, verdict: &mut Verdict) -> Option<bool> {
        let shadow = self.controller().and_then(|c| c.shadow_doorbells);
        verdict.setting("shadow doorbells", shadow.map(|on| if on { "yes" } else { "no" }));
        shadow
    }

    /// The settings of the disk.
    pub fn disk(&self) -> Option<&'f MachineDisk> {
        self.facts.disk(self.ctrl(), self.nsid())
    }

    /// The log pages of the controller, before and after the run.
    pub fn logs(&self) -> Option<&'f (ControllerLogs, ControllerLogs)> {
        self.facts.logs.iter().flatten().find(|(_, last)| last.instance == self.ctrl())
    }

    /// How many requests of a disk were split; `None`: not observed.
    pub fn splits(&self) -> Option<u64> {
        let all = self.facts.counted(|a| a.splits.as_ref())?;
        let is_own = |n: u32| n == self.nsid() || n == 0;
        let own = all.iter().find(|s| s.ctrl == self.ctrl() && is_own(s.nsid));
        Some(own.map_or(0, |s| s.count))
    }

    /// The share of the time that is in these stages.
    pub fn share(&self, stages: Stages) -> Share {
        self.facts.share(self.commands(), stages)
    }

    /// An error on a network and on the kernel's own loop, which lack something: `has no doorbells`.
    pub fn needs_pci(&self, lacks: &str) -> Result<(), Reason> {
        let transport = self.facts.fabric(self.ctrl());
        transport.map_or(Ok(()), |name| Err(absent(format!("{name} {lacks}"))))
    }

    /// An error if not all commands of the subject are known.
    pub fn needs_all(&self) -> Result<(), Reason> {
        self.facts.lacks(self.subject).map_or(Ok(()), |why| Err(open(why)))
    }

    /// The stages have this share of the time, at least; an error if not, or if that is not known.
    pub fn large(&self, verdict: &mut Verdict, stages: Stages, least: f64) -> Result<(), Reason> {
        let share = self.share(stages);
        match share.reaches(least) {
            Some(true) => {}
            Some(false) => return Err(out(stages.have(share))),
            None => return Err(undecided(stages, share)),
        }
        verdict.has_share(share, stages);
        Ok(())
    }

    /// Commands with a condition take longer in these stages, which explains at least this part of the time; an
    /// error if that is not shown. `sides`: commands with it, and without it. `when`: whether a command has it;
    /// `None`: not known, or the command does not count.
    pub fn longer(
        &self,
        verdict: &mut Verdict,
        stages: Stages,
        least: f64,
        [side, other]: [&str; 2],
        when: impl Fn(&Command) -> Option<bool>,
    ) -> Result<Comparison, Reason> {
        let share = self.share(stages);
        if share.most < least {
            return Err(out(stages.have(share)));
        }
        // a CPU that was away has more of everything to do afterwards: all of it would go with longer times
        let found = self.facts.compare(self.subject, stages, |command| {
            let lifetime = (command.at.begin_ns, command.at.end_ns);
            (!self.facts.gaps.met(command, lifetime)).then(|| when(command))?
        });
        let Comparison { with, without, at_most, unjudged, explains, .. } = found;
        let Some((class, ratio)) = found.class.zip(found.ratio) else {
            return Err(match (with, without) {
                (0, 0) if !share.is_exact() => undecided(stages, share),
                // even if they took no time
                (0, 1..) if at_most < least => absent(format!("no {side}")),
                (1.., _) if at_most < least => {
                    out(format!("{side}: {with}, with {} of the time", percent(at_most)))
                }
                _ => open(format!(
                    "{with} {side} and {without} {other}: needs {NEEDED} of each, of the same class, over a second and \
                     more"
                )),
            });
        };
        let name = self.facts.class_name(class);
        if found.goes_with(least) {
            let what = format!("{} of {name}, {side} / {other}", stages.name());
            verdict.shows(what, ratio_text(ratio));
            verdict.shows(side, with);
            verdict.name("disk", self.facts.disk_name(class.ctrl, class.nsid));
            verdict.name("times", format!("{:.1}", ratio.ratio));
            let own = verdict.share.map_or(0.0, |share| share.least);
            verdict.share = Some(Share::of(explains.max(own)));
            verdict.classes.extend(&found.classes);
            return Ok(found);
        }
        let text = format!("{side} take {} the time", ratio_text(ratio));
        if found.is_vague() {
            return Err(open(format!("{text}: too uncertain")));
        }
        let shown = if found.goes_with(0.0) { explains } else { 0.0 };
        // classes that could not be compared may have time enough
        if unjudged > 0.0 && shown + unjudged >= least {
            return Err(open(format!(
                "{text} ({name}); of other classes, {side} have {} of the time: needs {NEEDED} of them and {NEEDED} \
                 {other} of each class",
                percent(unjudged)
            )));
        }
        Err(out(format!("{text}, which explains {} of the time", percent(shown))))
    }
}

fn undecided(stages: Stages, share: Share) -> Reason {
    let why = match share.is_exact() {
        true => "too uncertain",
        false => "not observed apart from other stages",
    };
    open(format!("{}: {why}", stages.have(share)))
}
