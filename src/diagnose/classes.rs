// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of commands that are alike, with the commands of each; and the classes of each subject.

use std::collections::BTreeMap;

use super::command::{Command, Commands};
use super::facts::{Facts, Stages};
use super::verdict::Subject;
use crate::model::command_class::CommandClass;
use crate::model::histogram::Histogram;

/// The commands of a class.
#[derive(Clone, Debug)]
pub struct ClassFacts {
    /// The class.
    pub class: CommandClass,
    /// Commands; an estimate, if not all are in memory.
    pub commands: u64,
    /// Sum of their times in nanoseconds, likewise.
    pub total_ns: u64,
    /// Median of their times in nanoseconds.
    pub p50_ns: u64,
    /// 99 % quantile.
    pub p99_ns: u64,
    /// Median of their times from the request on.
    pub begun_p50_ns: u64,
    /// Whether bios were observed: times contain the waits before the request.
    pub has_waits: bool,
    /// Time by merged stages, in nanoseconds, as `total_ns`.
    pub stages: Vec<(Stages, u64)>,
    /// Where its commands are in memory.
    places: Vec<u32>,
}

/// All classes, those with most time first. A recording may have as many subjects and classes as commands: no
/// rule may look at all of them for each of them.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// All of them.
    pub all: Vec<ClassFacts>,
    by_class: BTreeMap<CommandClass, usize>,
    by_subject: BTreeMap<Subject, Vec<usize>>,
}

impl ClassFacts {
    /// The commands of a class: those at these places.
    fn of(commands: &Commands, class: CommandClass, places: Vec<u32>) -> Self {
        let (mut totals, mut begun) = (Histogram::default(), Histogram::default());
        let mut stages: Vec<(Stages, u64)> = Vec::new();
        // the same for all commands of a class
        let (mut weight, mut has_waits) = (1, false);
        for command in places.iter().filter_map(|place| commands.kept.get(*place as usize)) {
            weight = commands.weight(command);
            totals.record(command.total());
            begun.record(command.since_begin());
            has_waits |= command.has_waits();
            for (run, ns) in command.runs() {
                let ns = ns.saturating_mul(weight);
                match stages.iter_mut().find(|(found, _)| *found == run) {
                    Some((_, sum)) => *sum = sum.saturating_add(ns),
                    None => stages.push((run, ns)),
                }
            }
        }
        let percentile = |hist: &Histogram, p| hist.percentile(p).unwrap_or(0);
        let total_ns = u64::try_from(totals.sum()).unwrap_or(u64::MAX);
        Self {
            class,
            commands: totals.count().saturating_mul(weight),
            total_ns: total_ns.saturating_mul(weight),
            p50_ns: percentile(&totals, 50.0),
            p99_ns: percentile(&totals, 99.0),
            begun_p50_ns: percentile(&begun, 50.0),
            has_waits,
            stages,
            places,
        }
    }
}

impl Classes {
    /// The classes of these commands.
    pub fn of(commands: &Commands) -> Self {
        let mut places: BTreeMap<CommandClass, Vec<u32>> = BTreeMap::new();
        for (place, command) in (0..).zip(&commands.kept) {
            places.entry(command.class).or_default().push(place);
        }
        let all = places.into_iter();
        let all = all.map(|(class, places)| ClassFacts::of(commands, class, places));
        let mut classes = Self { all: all.collect(), ..Self::default() };
        classes.all.sort_by_key(|c| std::cmp::Reverse(c.total_ns));
        for (n, own) in classes.all.iter().enumerate() {
            let CommandClass { ctrl, nsid, .. } = own.class;
            classes.by_class.insert(own.class, n);
            for subject in [Subject::Controller(ctrl), Subject::Disk(ctrl, nsid)] {
                classes.by_subject.entry(subject).or_default().push(n);
            }
        }
        classes
    }

    /// A class.
    pub fn get(&self, class: CommandClass) -> Option<&ClassFacts> {
        self.all.get(*self.by_class.get(&class)?)
    }

    /// The classes of a subject, those with most time first.
    pub fn of_subject(&self, subject: Subject) -> impl Iterator<Item = &ClassFacts> + Clone {
        let all = if subject == Subject::Machine { self.all.as_slice() } else { &[] };
        let own = self.by_subject.get(&subject).into_iter().flatten();
        all.iter().chain(own.filter_map(|n| self.all.get(*n)))
    }

    /// The subjects: controllers, and their disks.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.by_subject.keys().copied()
    }
}

impl Facts {
    /// The commands of a class.
    pub fn of_class<'f>(
        &'f self,
        class: &'f ClassFacts,
    ) -> impl Iterator<Item = &'f Command> + Clone {
        class.places.iter().filter_map(|place| self.commands.kept.get(*place as usize))
    }

    /// The commands of a subject in memory, class after class.
    pub fn of(&self, subject: Subject) -> impl Iterator<Item = &Command> + Clone {
        self.classes.of_subject(subject).flat_map(|class| self.of_class(class))
    }
}
