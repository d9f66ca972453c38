// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule says of a subject.

use super::affected::{Affected, Who, times_text};
use super::command::Command;
use super::facts::{ClassFacts, Facts, Stages};
use super::rules::{Rule, Tier};
use crate::model::command_class::CommandClass;
use crate::model::ids::NamespaceId;
use crate::model::machine::{Class, MachineController, MachineDisk};
use crate::model::report::latency::Evidence;
use crate::units::{nanos, percent};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Display;

/// What it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It takes a share of the time, or commands were lost, held or failed.
    #[default]
    Found,
    /// It is true, but takes no measured share of the time.
    Noted,
    /// It was measured, and is not the cause.
    RuledOut,
    /// What the rule looks for is not there.
    NotPresent,
    /// It could not be judged.
    Inconclusive,
    /// It needs an option.
    NotObserved,
}

/// Why a rule finds nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub Status, pub String);

/// It was measured, and is not the cause.
pub fn out(why: impl Into<String>) -> Reason {
    Reason(Status::RuledOut, why.into())
}

/// What the rule looks for is not there.
pub fn absent(why: impl Into<String>) -> Reason {
    Reason(Status::NotPresent, why.into())
}

/// It could not be judged.
pub fn open(why: impl Into<String>) -> Reason {
    Reason(Status::Inconclusive, why.into())
}

/// It needs this option.
pub fn needs(option: &str) -> Reason {
    Reason(Status::NotObserved, option.into())
}

/// What a rule says of a subject.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    /// The id of the rule.
    pub rule: &'static str,
    /// The controller, the disk, or `machine`.
    pub subject: String,
    /// What it comes to.
    pub status: Status,
    /// The sentence that says what was found, or why nothing was.
    pub text: String,
    /// The share of the time of the subject's commands that it explains; `None`: not measured.
    pub share: Option<Share>,
    /// What it was seen by. `impact`, `when` and `setting` have lines of their own in text.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// What that may cost.
    pub risk: Option<&'static str>,
    /// The single commands that it is about; at the end the first hundred: a stall may delay thousands.
    #[serde(rename = "where")]
    pub(super) affected: Vec<Affected>,
    /// Who issued the commands.
    #[serde(flatten)]
    pub who: Who,
    /// What the rule is about.
    #[serde(skip)]
    pub tier: Tier,
    /// What the rule was applied to.
    #[serde(skip)]
    pub of: Subject,
    /// The stages that have the share.
    #[serde(skip)]
    pub(super) stages: Option<Stages>,
    /// The classes that it makes longer, and by which part of their time. Empty: all alike.
    #[serde(skip)]
    pub(super) classes: Vec<(CommandClass, f64)>,
    /// The values of the names in braces.
    #[serde(skip)]
    names: Vec<(&'static str, String)>,
}

impl Verdict {
    /// A verdict in the making.
    pub(super) fn new(rule: &Rule, facts: &Facts, of: Subject) -> Self {
        let subject = facts.subject_name(of);
        Self {
            rule: rule.id,
            tier: rule.tier,
            names: vec![("name", subject.clone())],
            subject,
            of,
            ..Self::default()
        }
    }

    /// Adds evidence, if there is any.
    pub(super) fn shows(&mut self, name: impl Into<String>, value: impl Display) {
        let value = value.to_string();
        if !value.is_empty() {
            self.evidence.push(Evidence { name: name.into(), value });
        }
    }

    /// The same, if there is a value.
    pub(super) fn shows_if(&mut self, name: &str, value: Option<impl Display>) {
        value.into_iter().for_each(|value| self.shows(name, value));
    }

    /// A setting: `queue/nr_requests = 4`.
    pub(super) fn setting(&mut self, name: &str, value: Option<impl Display>) {
        self.shows_if("setting", value.map(|value| format!("{name} = {value}")));
    }

    /// Gives a name in braces its value.
    pub(super) fn name(&mut self, name: &'static str, value: impl Display) {
        self.names.retain(|(old, _)| *old != name);
        self.names.push((name, value.to_string()));
    }

    /// It explains this share of the time.
    pub(super) fn explains(&mut self, share: f64) {
        self.share = Some(Share::of(share));
        self.name("share", percent(share));
    }

    /// These stages have this share of the time.
    pub(super) fn has_share(&mut self, share: Share, stages: Stages) {
        (self.share, self.stages) = (Some(share), Some(stages));
        self.name("share", share.range());
        self.shows(stages.name(), format!("{} of the time", share.text()));
    }

    /// `2414 of 9334 commands waited; mean 20.3ms, longest 62.9ms`
    pub(super) fn impact(&mut self, waited: u64, all: u64, mean_ns: f64, longest_ns: u64) {
        let (mean, longest) = (nanos(mean_ns), nanos(longest_ns as f64));
        let text = format!("{waited} of {all} commands waited; mean {mean}, longest {longest}");
        self.shows("impact", text);
    }

    /// It is about these commands: shows when and which they were.
    pub(super) fn about(&mut self, facts: &Facts, affected: Vec<Affected>) {
        let times = affected.iter().map(|a| (a.begin_ns, a.end_ns));
        self.shows("when", times_text(facts.clock, times));
        self.shows("blocks", facts.blocks_of(&affected));
        self.affected = affected;
    }

    /// Replaces the names in braces by their values.
    fn named(&self, text: &str) -> String {
        let replace = |text: String, (name, value): &(&str, String)| {
            text.replace(&format!("{{{name}}}"), value)
        };
        self.names.iter().fold(text.to_owned(), replace)
    }

    /// Completes it with the result of its rule.
    pub(super) fn finish(&mut self, facts: &Facts, rule: &Rule, result: Result<(), Reason>) {
        if let Err(Reason(status, why)) = result {
            *self = Self { status, text: why, ..Self::new(rule, facts, self.of) };
            return;
        }
        if self.status == Status::Noted {
            self.share = None;
        }
        self.who = self.issued_by(facts);
        self.affected.truncate(100);
        let cgroup = self.who.cgroups.first().map(|cgroup| format!("the cgroup {}", cgroup.name));
        self.name("cgroup", cgroup.unwrap_or("the cgroup".into()));
        let own = |own: &str, usual| self.named(if own.is_empty() { usual } else { own });
        (self.text, self.advice) = (own(&self.text, rule.text), own(&self.advice, rule.advice));
        self.risk = self.risk.or(Some(rule.risk)).filter(|risk| !risk.is_empty());
    }

    /// The share of the time that it explains, at least.
    pub(super) fn least(&self) -> f64 {
        self.share.map_or(0.0, |share| share.least)
    }

    /// The part of a class's time that it explains; 0: not measured.
    pub(super) fn share_of(&self, facts: &Facts, class: &ClassFacts) -> f64 {
        if self.share.is_none() || !self.of.has(class.class) {
            return 0.0;
        }
        let times = facts.of_class(class).map(|c| (self.time_of(c), c.total() as f64));
        let (own, all) = times.fold((0.0, 0.0), |(own, all), (a, b)| (own + a, all + b));
        own / f64::max(all, 1.0)
    }

    /// The time of a command that it explains, in nanoseconds; without a measured share, all of it.
    fn time_of(&self, command: &Command) -> f64 {
        let of_class = || self.classes.iter().find(|(class, _)| *class == command.class);
        let part = match self.stages {
            Some(stages) => return command.time_bounds(stages).0 as f64,
            None if self.classes.is_empty() => self.share.map_or(1.0, |share| share.least),
            None => of_class().map_or(0.0, |(_, part)| *part),
        };
        part * command.total() as f64
    }

    fn issued_by(&self, facts: &Facts) -> Who {
        if !self.affected.is_empty() {
            let times = self.affected.iter().map(|a| (a.issuer, (a.time_ns() as f64).max(1.0)));
            return facts.who(times);
        }
        let weight = |command: &Command| facts.commands.weight(command) as f64;
        facts.who(facts.of(self.of).map(|c| (c.at.issuer, self.time_of(c) * weight(c))))
    }
}

/// A share above this is most of the time.
pub const MOST: f64 = 0.5;

/// A share of the time, 0 to 1. If its stages were not observed apart from others, it is between two
/// bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// At least this.
    pub least: f64,
    /// At most this.
    pub most: f64,
    /// Lower end of the 95 % interval of `least`.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Share {
    /// A share without an interval.
    pub const fn of(share: f64) -> Self {
        Self { least: share, most: share, low: share, high: share }
    }

    /// Whether the stages were observed apart from others: bounds this close are one number.
    pub fn is_exact(&self) -> bool {
        self.most - self.least < 0.005
    }

    /// Whether it is at least this, and surely half of it (two thirds, if it has to be most of the time).
    /// `None`: the bounds do not decide, or the interval is too wide.
    pub fn reaches(&self, least: f64) -> Option<bool> {
        let surely = if least >= MOST { 2.0 / 3.0 } else { 0.5 };
        match self.least >= least && self.low >= least * surely {
            true => Some(true),
            false if self.most > least => None,
            false => Some(false),
        }
    }

    /// `71% [65, 77]`, or `0 to 99%`
    pub fn text(&self) -> String {
        let has_interval = self.is_exact() && self.low != self.high;
        let interval = format!(" [{:.0}, {:.0}]", self.low * 100.0, self.high * 100.0);
        self.range() + if has_interval { &interval } else { "" }
    }

    /// `71%`, or `0 to 99%`
    pub fn range(&self) -> String {
        let [least, most] = [self.least, self.most].map(|share| (share * 100.0).round());
        match self.is_exact() || least >= most {
            true => percent(self.least),
            false => format!("{least} to {most}%"),
        }
    }
}

/// What a rule is applied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// All of it.
    #[default]
    Machine,
    /// The controller with this instance.
    Controller(u32),
    /// The namespace of a controller.
    Disk(u32, u32),
}

/// The kind of subject that a rule has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The machine.
    Machine,
    /// Each controller.
    Controller,
    /// Each namespace.
    Disk,
}

impl Subject {
    const fn scope(self) -> Scope {
        match self {
            Self::Machine => Scope::Machine,
            Self::Controller(_) => Scope::Controller,
            Self::Disk(..) => Scope::Disk,
        }
    }

    /// The controller; `None`: the machine.
    pub const fn ctrl(self) -> Option<u32> {
        match self {
            Self::Machine => None,
            Self::Controller(ctrl) | Self::Disk(ctrl, _) => Some(ctrl),
        }
    }

    /// Whether a class is one of its own.
    pub fn has(self, class: CommandClass) -> bool {
        match self {
            Self::Machine => true,
            Self::Controller(ctrl) => class.ctrl == ctrl,
            Self::Disk(ctrl, nsid) => (class.ctrl, class.nsid) == (ctrl, nsid),
        }
    }
}

impl Facts {
    /// The name of a subject: `machine`, `nvme0`, `nvme0n1`.
    pub fn subject_name(&self, subject: Subject) -> String {
        match subject {
            Subject::Machine => "machine".into(),
            Subject::Controller(ctrl) => format!("nvme{ctrl}"),
            Subject::Disk(ctrl, nsid) => self.disk_name(ctrl, nsid),
        }
    }

    /// The name of a namespace's disk, else of its controller. Sentences and advice have it, so it is a
    /// name of the kernel, or `DISK`.
    pub fn disk_name(&self, ctrl: u32, nsid: u32) -> String {
        let disk = self.disks.get(&NamespaceId::new(ctrl, nsid));
        disk.map_or_else(|| format!("nvme{ctrl}"), ToString::to_string)
    }

    /// `read 4K nvme0n1`
    pub fn class_name(&self, class: CommandClass) -> String {
        let CommandClass { ctrl, nsid, opcode, size } = class;
        let name = opcode.name().map_or_else(|| opcode.to_string(), str::to_owned);
        let size = if size.bytes() == 0 { String::new() } else { format!(" {size}") };
        format!("{name}{size} {}", self.disk_name(ctrl, nsid))
    }

    /// The subjects of a scope: those with commands, incidents or stuck commands. Flushes and other commands
    /// without blocks have their namespace, too.
    pub fn subjects(&self, scope: Scope) -> Vec<Subject> {
        let stuck = self.in_flight.iter().map(|s| s.affected.disk.ctrl);
        let ctrls = self.incidents.ctrls().chain(stuck).map(Subject::Controller);
        let mut all: BTreeSet<Subject> = self.classes.subjects().chain(ctrls).collect();
        all.insert(Subject::Machine);
        all.into_iter().filter(|subject| subject.scope() == scope).collect()
    }

    /// The settings of a controller.
    pub fn controller(&self, ctrl: u32) -> Option<&MachineController> {
        self.machine.as_ref()?.controllers.iter().find(|c| c.instance == ctrl)
    }

    /// The settings of a namespace.
    pub fn disk(&self, ctrl: u32, nsid: u32) -> Option<&MachineDisk> {
        self.controller(ctrl)?.disks.iter().find(|d| d.nsid == nsid)
    }

    /// Whether there is no hypervisor, as far as this is known.
    pub fn is_metal(&self) -> bool {
        self.machine.as_ref().and_then(|m| m.is_virtual) == Some(false)
    }

    /// Where to look behind a controller, by its kind.
    pub fn behind(&self, ctrl: u32) -> String {
        let log = format!("device's own log (`nvme smart-log /dev/nvme{ctrl}`)");
        if let Some(transport) = self.fabric(ctrl) {
            return format!("look at the network ({transport}), the target and its storage");
        }
        match self.controller(ctrl).map(|c| c.class) {
            Some(Class::Physical | Class::Passthrough) => {
                format!("read the {log}, compare with its data sheet, and see what else uses it")
            }
            Some(Class::Cloud) => {
                "compare with the provider's metrics and limits of the volume".into()
            }
            _ => format!(
                "look behind the controller: the storage of the virtual machine, the provider's metrics, the {log}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(least: f64, most: f64) -> Share {
        Share { most, ..Share::of(least) }
    }

    #[test]
    fn bounds_decide_or_leave_it_open() {
        assert_eq!(between(0.6, 0.9).reaches(MOST), Some(true));
        assert_eq!(between(0.0, 0.9).reaches(MOST), None);
        assert_eq!(between(0.0, 0.4).reaches(MOST), Some(false));
        assert_eq!(between(0.1, 0.3).reaches(0.2), None);
        let wide = Share { least: 0.7, most: 0.7, low: 0.05, high: 0.88 };
        assert_eq!(wide.reaches(MOST), None);
        assert_eq!(wide.text(), "70% [5, 88]");
    }

    #[test]
    fn bounds_are_printed_as_a_range() {
        assert_eq!(between(0.0, 0.99).text(), "0 to 99%");
        assert_eq!(between(0.98, 0.982).text(), "98%");
        assert_eq!(between(0.947, 0.953).range(), "95%");
    }
}
