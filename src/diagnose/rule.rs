// SPDX-License-Identifier: MIT OR Apache-2.0
//! A rule is a row of one of three kinds. Each kind has one function that evaluates its rows.

use super::command::Command;
use super::compare::{Comparison, NEEDED};
use super::facts::{Facts, Stages};
use super::rules::observed_waits;
use super::verdict::{Reason, Scope, Share, Subject, Verdict, absent, open, out};
use crate::model::machine::{MachineController, MachineDisk};
use crate::units::percent;

/// What a rule is about. Incidents come first in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Commands were lost, held or failed.
    Incident,
    /// The CPUs themselves were taken away: all times grow.
    Machine,
    /// Above NVMe: this is said before what is below.
    Above,
    /// A mechanism or a setting.
    #[default]
    Mechanism,
    /// A limit of the device.
    Limit,
    /// The device, and nothing more specific.
    Device,
}

/// A rule. Its texts have names in braces: `{name}` is the subject, `{share}` its share of the time, `{disk}`
/// the disk of the class that was compared, `{times}` how many times as long its commands take; rules add others.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its stable name.
    pub id: &'static str,
    /// What it looks for, as in "Not checked: a rate limit".
    pub noun: &'static str,
    /// What it is about.
    pub tier: Tier,
    /// The subjects that it is applied to.
    pub scope: Scope,
    /// How it is evaluated.
    pub kind: Kind,
    /// When it is found, for the table in docs/diagnose.md.
    pub found: &'static str,
    /// The sentence that says what was found.
    pub text: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// What that may cost; empty: nothing.
    pub risk: &'static str,
}

/// Looks at a case, and adds to the verdict in the making.
pub type Check = fn(&Case<'_>, &mut Verdict) -> Result<(), Reason>;

/// The three kinds of rules.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A condition coincides with longer times.
    Longer(Condition),
    /// Stages have a large share of the time.
    Large(Wait),
    /// Something happened.
    Event(Check),
}

/// Whether a command has a condition; `None`: not known, or it does not count.
pub type Test<'f> = Box<dyn Fn(&Command) -> Option<bool> + 'f>;

/// The name of some commands, and which they are.
pub type Itself = (&'static str, fn(&Command) -> bool);

/// A condition that coincides with longer times.
#[derive(Clone, Copy)]
pub struct Condition {
    /// The stages that it makes longer.
    pub stages: Stages,
    /// The part of the time that it explains, at least.
    pub least: f64,
    /// Commands with it, and without it.
    pub sides: [&'static str; 2],
    /// Whether a long command can bring the condition about.
    pub follows: bool,
    /// These commands are themselves the cause, if they have the share `alone`.
    pub itself: Option<Itself>,
    /// This share of the time suffices without a comparison: of the commands that are the cause, or of the stages.
    pub alone: f64,
    /// The condition, or why there is none.
    pub when: for<'f> fn(&Case<'f>) -> Result<Test<'f>, Reason>,
    /// Adds what else is known.
    pub then: Check,
    /// What to say if no comparison shows it, for this reason.
    pub otherwise: fn(&Case<'_>, &mut Verdict, Reason) -> Result<(), Reason>,
}

/// Only a comparison shows it.
pub const NEVER: f64 = 2.0;

/// Stages that have a large share of the time.
#[derive(Clone, Copy)]
pub struct Wait {
    /// The stages.
    pub stages: Stages,
    /// Their share, at least.
    pub least: f64,
    /// What they wait for.
    pub what: &'static str,
    /// What has to be there for the rule to apply. If it gives a share, this is the result.
    pub premise: Check,
    /// What to say if no bio was observed, for waits before the request.
    pub unseen: Check,
    /// Adds what else is known.
    pub then: Check,
}

/// Nothing to add or to object.
pub const fn nothing(_: &Case<'_>, _: &mut Verdict) -> Result<(), Reason> {
    Ok(())
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

    /// The share of the time that is in these stages.
    pub fn share(&self, stages: Stages) -> Share {
        self.facts.share(self.commands(), stages)
    }

    /// An error if not all commands of the subject are known.
    pub fn needs_all(&self) -> Result<(), Reason> {
        self.facts.lacks(self.subject).map_or(Ok(()), |why| Err(open(why)))
    }

    /// An error if the stages have less than this share, or if that is not known.
    pub fn large(&self, stages: Stages, least: f64) -> Result<Share, Reason> {
        let share = self.share(stages);
        match share.reaches(least) {
            Some(true) => Ok(share),
            Some(false) => Err(out(format!("{} {} of the time", stages.have(), share.text()))),
            None => Err(self.undecided(stages, share)),
        }
    }

    fn undecided(&self, stages: Stages, share: Share) -> Reason {
        let why = match share.is_exact() {
            true => "too uncertain",
            false => "not observed apart from other stages",
        };
        open(format!("{} {} of the time: {why}", stages.have(), share.text()))
    }

    /// Applies a rule.
    pub fn apply(&self, rule: &Rule, verdict: &mut Verdict) -> Result<(), Reason> {
        match &rule.kind {
            Kind::Longer(condition) => self.longer(condition, verdict),
            Kind::Large(wait) => self.wait(wait, verdict),
            Kind::Event(check) => check(self, verdict),
        }
    }

    /// Whether stages have a large share of the time.
    pub fn wait(&self, wait: &Wait, verdict: &mut Verdict) -> Result<(), Reason> {
        (wait.premise)(self, verdict)?;
        if verdict.share.is_some() {
            return Ok(());
        }
        if wait.stages.are_waits() && !observed_waits(self, wait)? {
            return (wait.unseen)(self, verdict);
        }
        if wait.stages.are_waits() && self.share(wait.stages).most <= 0.0 {
            return Err(absent(format!("no command waited for {}", wait.what)));
        }
        let share = self.large(wait.stages, wait.least)?;
        if wait.stages.are_waits() {
            verdict.waits(self, wait.stages);
        }
        verdict.has_share(share, wait.stages);
        (wait.then)(self, verdict)
    }

    /// Whether commands with a condition take longer, or have a large share of the time by themselves.
    fn longer(&self, condition: &Condition, verdict: &mut Verdict) -> Result<(), Reason> {
        let Condition { stages, sides: [with, without], itself, alone, .. } = *condition;
        let (facts, when) = (self.facts, (condition.when)(self)?);
        let is_alone = |share: Share| share.reaches(alone) == Some(true);
        if let Some((name, is_own)) = itself {
            let own = |c: &Command| if is_own(c) { c.total() } else { 0 };
            let share = facts.share_of(self.commands(), |c| (own(c), own(c)));
            verdict.shows(name, format!("{} of the time", share.text()));
            verdict.name("share", share.range());
            verdict.share = Some(share).filter(|share| is_alone(*share));
            let classes = facts.classes.of_subject(self.subject);
            let classes = classes.filter(|class| facts.of_class(class).all(is_own));
            verdict.classes = classes.map(|class| (class.class, 1.0)).collect();
        } else if is_alone(self.share(stages)) {
            verdict.has_share(self.share(stages), stages);
            return (condition.then)(self, verdict);
        }
        match self.judge(condition, when) {
            Ok(found) => {
                let class = found.class.map(|class| facts.class_name(class)).unwrap_or_default();
                let name = format!("{} of {class}, {with} / {without}", stages.name());
                verdict.shows(name, found.text());
                verdict.shows(with, found.with);
                if let Some(class) = found.class {
                    verdict.name("disk", facts.disk_name(class.ctrl, class.nsid));
                }
                verdict.is_longer(&found, found.ratio.map_or(1.0, |ratio| ratio.ratio));
            }
            Err(_) if verdict.share.is_some() => {}
            Err(reason) => return (condition.otherwise)(self, verdict, reason),
        }
        (condition.then)(self, verdict)
    }

    /// The comparison that shows a condition to go with longer times; otherwise why not.
    fn judge(&self, condition: &Condition, when: Test<'_>) -> Result<Comparison, Reason> {
        let Condition { stages, least, sides: [side, other], follows, .. } = *condition;
        let share = self.share(stages);
        if share.most < least {
            return Err(out(format!("{} {} of the time", stages.have(), share.text())));
        }
        // a CPU that was away has more of everything to do afterwards: all of it would go with longer times
        let found = self.facts.compare(self.subject, stages, |command| {
            let lifetime = (command.begin_ns, command.end_ns);
            (!self.facts.gaps.met(command, lifetime)).then(|| when(command))?
        });
        let Comparison { with, without, at_most, unjudged, explains, .. } = found;
        if found.ratio.is_none() {
            return Err(match (with, without) {
                (0, 0) if !share.is_exact() => self.undecided(stages, share),
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
        }
        let text = format!("{side} take {} the time", found.text());
        let text = match found.goes_with(least) {
            true if follows && !found.may_cause => format!(
                "{text}, but not the fastest ones, or not more than others beside them: the condition follows long times"
            ),
            true => return Ok(found),
            false if found.is_vague() => return Err(open(format!("{text}: too uncertain"))),
            false if found.goes_with(0.0) => {
                format!("{text}, which explains {} of the time", percent(explains))
            }
            false => text,
        };
        // classes that could not be compared may have time enough
        let shown = if found.goes_with(0.0) { explains } else { 0.0 };
        if unjudged <= 0.0 || shown + unjudged < least {
            return Err(out(text));
        }
        let class = found.class.map(|class| self.facts.class_name(class)).unwrap_or_default();
        Err(open(format!(
            "{text} ({class}); of other classes, {side} have {} of the time: needs {NEEDED} of them and {NEEDED} {other} \
             of each class",
            percent(unjudged)
        )))
    }
}
