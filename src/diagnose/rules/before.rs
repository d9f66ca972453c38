// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits before the request that were measured one by one (--stages=full): what the rules about them
//! have in common.

use super::waits::{PART, Waits};
use crate::diagnose::affected::times_text;
use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Command, Facts, Portion, Stages, Subject};
use crate::model::ids::NamespaceId;
use crate::model::machine::MachineDisk;
use crate::model::report::cgroup_path::in_shell;
use crate::model::stage::StageSet;
use crate::units::nanos;

/// The bios of this part of the reads and writes must have been observed.
const SEEN: f64 = 0.8;
/// The option that these rules need.
pub const FULL: &str = "record --stages=full";

/// A wait that has a large part of the time.
pub struct Before {
    /// The disk.
    pub disk: NamespaceId,
    /// Its part of the time.
    pub portion: Portion,
    /// Commands that waited.
    pub waited: u64,
    /// The longest wait, in nanoseconds.
    pub longest_ns: u64,
    commands: u64,
    sum_ns: f64,
    /// When commands waited, as text.
    when: String,
}

/// What is known of a wait.
pub enum Wait {
    /// It has a part of the time that is large enough.
    Large(Before),
    /// The answer of its rule: it has not, or that is not known.
    Judged(Answer),
    /// No bio was observed.
    Unseen,
}

/// Whether a part of a command's time may be in these stages.
fn meets(command: &Command, stages: Stages) -> bool {
    command.runs().any(|(run, _)| run.meets(stages))
}

/// When commands waited for most of their time.
fn when<'c>(facts: &Facts, commands: impl Iterator<Item = &'c Command>, stage: Stages) -> String {
    let waited = commands.filter(|c| c.time_within(stage) * 2 > c.total());
    let times = waited.map(|c| (c.end_ns.saturating_sub(c.total()), c.end_ns));
    times_text(facts.clock_of_day, times)
}

impl Before {
    /// What is known of a wait of a subject's commands. `what`: what they wait for.
    pub fn of(facts: &Facts, subject: Subject, stage: Stages, what: &str) -> Wait {
        Self::at_least(facts, subject, stage, what, PART)
    }

    /// The same for a part of the time that is large enough.
    pub fn at_least(facts: &Facts, subject: Subject, stage: Stages, what: &str, part: f64) -> Wait {
        let Subject::Disk(ctrl, nsid) = subject else {
            return Wait::Judged(Answer::Absent("no disk".into()));
        };
        let own = || facts.of_disk(ctrl, nsid);
        let count = |holds: &dyn Fn(&Command) -> bool| facts.sum(own().filter(|c| holds(c)), |_| 1);
        // flushes have no bio
        let moves = count(&Command::is_read_or_write);
        let seen = count(&|c| c.is_read_or_write() && c.has_waits());
        if seen <= 0.0 {
            return Wait::Unseen;
        }
        if seen < SEEN * moves {
            return Wait::Judged(Answer::Open(format!(
                "the bios of {:.0} % of the reads and writes were not observed",
                (1.0 - seen / moves) * 100.0
            )));
        }
        if !own().any(|c| meets(c, stage)) {
            return Wait::Judged(Answer::Open(format!(
                "waits for {what} are not observed on this kernel"
            )));
        }
        let Some(portion) = facts.portion(subject, stage) else {
            return Wait::Judged(Answer::Absent("no commands".into()));
        };
        let answer = match portion.is_at_least(part) {
            Reaches::Yes => {
                return Wait::Large(Self {
                    disk: NamespaceId::new(ctrl, nsid),
                    portion,
                    waited: count(&|c| c.time_within(stage) > 0) as u64,
                    longest_ns: own().map(|c| c.time_within(stage)).max().unwrap_or(0),
                    commands: count(&|_| true) as u64,
                    sum_ns: facts.sum(own(), |c| c.time_within(stage)),
                    when: when(facts, own(), stage),
                });
            }
            Reaches::No if portion.most.part <= 0.0 => {
                Answer::Absent(format!("no command waited for {what}"))
            }
            Reaches::No => Answer::Out(format!("{} has {}", stage.name(), portion.text())),
            Reaches::Open => Answer::Open(portion.undecided()),
        };
        Wait::Judged(answer)
    }

    /// The settings of the disk.
    pub fn settings<'f>(&self, facts: &'f Facts) -> Option<&'f MachineDisk> {
        facts.disk(self.disk.ctrl, self.disk.nsid)
    }

    /// The cgroup whose commands waited most, if one is known: its path, or its id.
    pub fn cgroup(&self, facts: &Facts) -> Option<String> {
        let stages = self.portion.stages;
        let own = facts.of_disk(self.disk.ctrl, self.disk.nsid);
        let who = facts.who_of(own, |c| c.time_within(stages) as f64)?;
        let (id, path) = who.cgroups.into_iter().next()?.of;
        Some(path.map_or_else(|| format!("with id {id}"), |path| path.to_string()))
    }

    /// Adds what the rules show of a wait.
    pub fn shown_in(&self, cause: Cause) -> Cause {
        let Self { portion, waited, longest_ns, commands, sum_ns, when, .. } = self;
        cause
            .explaining_stages(portion)
            .shown_by(&portion.stages.name(), portion.text())
            .shown_by("commands that waited", format!("{waited} of {commands}"))
            .shown_by("mean wait", nanos(sum_ns / (*waited).max(1) as f64))
            .shown_by("longest wait", nanos(*longest_ns as f64))
            .shown_by("when", when)
    }
}

/// The answer of a rule about a wait if no bio was observed. All waits between the bio and its request
/// are counted together: where they have less than `part` of the time, each has.
pub fn of_all_waits(facts: &Facts, subject: Subject, part: f64) -> Answer {
    match Waits::at_least(facts, subject, part) {
        Err(answer @ (Answer::Out(_) | Answer::Absent(_) | Answer::Open(_))) => answer,
        Err(_) | Ok(_) => unseen(facts),
    }
}

/// A file of a cgroup, for advice.
pub fn cgroup_file(facts: &Facts, cgroup: &str, file: &str) -> String {
    let machine = facts.machine.as_ref();
    let mount = machine.and_then(|machine| machine.cgroup_mount.as_ref());
    in_shell(mount, cgroup, file)
}

/// The answer if no bio was observed.
pub fn unseen(facts: &Facts) -> Answer {
    match facts.stage_set {
        StageSet::Full => Answer::Open("bios were not observed on this kernel".into()),
        _ => Answer::NotLooked(FULL.into()),
    }
}
