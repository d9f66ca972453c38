// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rules look at: the commands and their classes, the incidents, the activity and the settings of the machine;
//! and how these are collected, event by event.

use super::command::{Command, Commands};
use super::compare::TimeSlices;
use super::gaps::Gaps;
use super::incidents::{Incidents, Stuck};
use super::rates::Rates;
use crate::diagnose::judge::{Expectation, Selection};
use crate::diagnose::verdict::{Share, Subject};
use crate::model::activity::Activity;
use crate::model::command_class::{BlockSizes, CommandClass};
use crate::model::event::Event;
use crate::model::histogram::Histogram;
use crate::model::ids::NamespaceId;
use crate::model::ledger::Accuracy;
use crate::model::machine::{ControllerInfo, ControllerLogs, MachineInfo};
use crate::model::origin::Cgroups;
use crate::model::point::Point;
use crate::model::report::device_name::DeviceName;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::when::RunClock;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most controllers whose rates are kept.
const MOST_RATES: usize = 256;

/// The facts of a run.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names of disks.
    pub disks: BTreeMap<NamespaceId, DeviceName>,
    /// Transports, by controller.
    pub transports: BTreeMap<u32, Text>,
    /// The commands.
    pub commands: Commands,
    /// Their classes.
    pub classes: Classes,
    /// What left commands out.
    pub selection: Selection,
    /// The stages that were observed.
    pub stage_set: StageSet,
    /// Whether the recording lacks its end.
    pub is_cut: bool,
    /// Rare events.
    pub incidents: Incidents,
    /// I/O commands that were in flight at the end, for a second and more. Recordings have none.
    pub in_flight: Vec<Stuck>,
    /// Log pages of controllers, before and after the run; `None`: not asked for.
    pub logs: Option<Vec<(ControllerLogs, ControllerLogs)>>,
    /// Settings; `None`: not recorded.
    pub machine: Option<MachineInfo>,
    /// The time between the first and the last reading of the activity, in nanoseconds, and what was counted
    /// in it; `None`: not recorded.
    pub activity: Option<(u64, Activity)>,
    /// Gaps in the timers of CPUs.
    pub gaps: Gaps,
    /// The time that the commands cover.
    pub covers: Duration,
    /// Accuracy of the ledger; `None`: no ledger.
    pub accuracy: Option<Accuracy>,
    /// How long commands should take.
    pub expectation: Expectation,
    /// Slices of time.
    pub slices: TimeSlices,
    /// How times become times of day.
    pub clock: RunClock,
    /// Paths of cgroups.
    pub cgroups: Cgroups,
    /// Submissions and completions over time, by controller.
    pub rates: BTreeMap<u32, Rates>,
}

/// Collects the facts of a run.
#[derive(Debug, Default)]
pub struct Collector {
    /// What is known so far. Settings and the like are set here.
    pub facts: Facts,
    block_sizes: BlockSizes,
    first: Option<Activity>,
}

impl Collector {
    /// Adds the controllers: names of disks, and sizes of logical blocks.
    pub fn controllers(&mut self, all: &[ControllerInfo]) {
        self.block_sizes.extend(all.iter().flat_map(ControllerInfo::block_sizes));
        for ControllerInfo { instance, disks, transport, .. } in all {
            for disk in disks {
                let id = NamespaceId::new(*instance, disk.nsid);
                self.facts.disks.insert(id, DeviceName::of(&disk.name));
            }
            self.facts.transports.insert(*instance, transport.clone());
        }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event) {
        let Facts { commands, rates, incidents, .. } = &mut self.facts;
        if let Some(command) = commands.read(event, &self.block_sizes) {
            let ctrl = command.class.ctrl;
            if rates.contains_key(&ctrl) || rates.len() < MOST_RATES {
                let rates = rates.entry(ctrl).or_default();
                rates.add((command.at.begin_ns, command.at.end_ns), command.bytes);
            }
            commands.add(command);
        }
        incidents.add(event);
    }

    /// Adds the activity up to a time.
    pub fn activity(&mut self, mut activity: Activity) {
        self.facts.gaps.add(&activity);
        activity.gaps.clear();
        let first = self.first.get_or_insert_with(|| activity.clone());
        let passed = activity.at_ns.saturating_sub(first.at_ns);
        self.facts.activity = Some((passed, activity.since(first)));
    }

    /// The facts.
    pub fn finish(self) -> Facts {
        let mut facts = self.facts;
        facts.gaps.sort();
        facts.classes = Classes::of(&facts.commands);
        facts.slices = TimeSlices::of(&facts.commands.kept);
        facts
    }
}

impl Facts {
    /// The commands of a class.
    pub fn of_class(&self, class: &ClassFacts) -> impl Iterator<Item = &Command> + Clone {
        class.places.iter().filter_map(|place| self.commands.kept.get(*place as usize))
    }

    /// The commands of a subject in memory, class after class.
    pub fn of(&self, subject: Subject) -> impl Iterator<Item = &Command> + Clone {
        self.classes.of_subject(subject).flat_map(|class| self.of_class(class))
    }

    /// The sum of a value of these commands, and of those that they stand for.
    pub fn sum<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        value: impl Fn(&Command) -> u64,
    ) -> f64 {
        commands.map(|c| value(c) as f64 * self.commands.weight(c) as f64).sum()
    }

    /// How many commands a subject had.
    pub fn count(&self, subject: Subject) -> u64 {
        self.classes.of_subject(subject).map(|class| class.commands).sum()
    }

    /// The time of all commands of a subject, in nanoseconds.
    pub fn total(&self, subject: Subject) -> f64 {
        self.classes.of_subject(subject).map(|class| class.total_ns as f64).sum()
    }

    /// The share of the time of these commands that is in these stages.
    pub fn share<'c>(&self, commands: impl Iterator<Item = &'c Command>, stages: Stages) -> Share {
        self.share_of(commands, |command| command.time_bounds(stages))
    }

    /// The share of the time of these commands, and of those that they stand for, that `part` has: at least, and
    /// at most.
    pub fn share_of<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        part: impl Fn(&Command) -> (u64, u64),
    ) -> Share {
        self.slices.share(commands, |command| {
            let ((least, most), weight) = (part(command), self.commands.weight(command) as f64);
            [command.total(), least, most].map(|ns| ns as f64 * weight)
        })
    }

    /// Whether not all commands of a controller are in memory.
    pub fn is_thinned(&self, ctrl: u32) -> bool {
        self.of(Subject::Controller(ctrl)).any(|c| self.commands.weight(c) > 1)
    }

    /// The activity, if this part of it was observed.
    pub fn counted<'f, T: 'f>(&'f self, part: impl FnOnce(&'f Activity) -> Option<T>) -> Option<T> {
        self.activity.as_ref().and_then(|(_, counted)| part(counted))
    }

    /// The transport of a controller, if it is a network or the kernel's own loop: there the driver has
    /// neither doorbells nor interrupts.
    pub fn fabric(&self, ctrl: u32) -> Option<&'static str> {
        let setting = self.controller(ctrl).and_then(|c| c.transport.as_ref());
        let transport = setting.or_else(|| self.transports.get(&ctrl))?;
        ["tcp", "rdma", "fc", "loop"].into_iter().find(|name| transport == name)
    }

    /// The first polled queue of a controller. The driver puts them last.
    pub fn first_polled(&self, ctrl: u32) -> Option<u32> {
        // of the PCI driver
        let is_pci = self.fabric(ctrl).is_none();
        let polled = self.machine.as_ref()?.poll_queues.filter(|n| *n > 0 && is_pci)?;
        Some(self.controller(ctrl)?.io_queues?.checked_sub(polled)? + 1)
    }

    /// Whether the completions of a queue are polled: it has no interrupt.
    pub fn is_polled(&self, ctrl: u32) -> impl Fn(u16) -> bool + use<> {
        let first = self.first_polled(ctrl);
        move |qid| first.is_some_and(|first| u32::from(qid) >= first)
    }

    /// What the bounds of the device's share contain, if it was not observed apart; `None`: it was.
    pub fn joined(&self, ctrl: u32) -> Option<String> {
        let subject = Subject::Controller(ctrl);
        let share = self.share(self.of(subject), Stages::AT_DEVICE);
        if share.most - share.least < 0.05 {
            return None;
        }
        let what = match self.fabric(ctrl) {
            Some(transport) => format!(
                "contains the network, the target and its storage: {transport} has neither doorbell nor CQE point"
            ),
            None if self.stage_set == StageSet::Basic => {
                "was recorded as one stage with others: --stages=fine separates it".into()
            }
            None => "contains stages of commands with points that were not observed".into(),
        };
        Some(format!("the upper bound of DEVICE {what}"))
    }
}

/// The commands of a class.
#[derive(Clone, Debug)]
pub struct ClassFacts {
    /// The class.
    pub class: CommandClass,
    /// Commands; an estimate, if not all are in memory.
    pub commands: u64,
    /// Sum of their times in nanoseconds, likewise.
    pub total_ns: u64,
    /// How many commands one in memory stands for.
    pub weight: u64,
    /// Median of their times in nanoseconds.
    pub p50_ns: u64,
    /// 99 % quantile.
    pub p99_ns: u64,
    /// Median of their times from the request on.
    pub begun_p50_ns: u64,
    /// Whether bios were observed: times contain the waits before the request.
    pub has_waits: bool,
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
        // the same for all commands of a class
        let (mut weight, mut has_waits) = (1, false);
        for command in places.iter().filter_map(|place| commands.kept.get(*place as usize)) {
            weight = commands.weight(command);
            totals.record(command.total());
            begun.record(command.at.time_ns());
            has_waits |= command.has_waits();
        }
        let percentile = |hist: &Histogram, p| hist.percentile(p).unwrap_or(0);
        let total_ns = u64::try_from(totals.sum()).unwrap_or(u64::MAX);
        Self {
            class,
            commands: totals.count().saturating_mul(weight),
            weight,
            total_ns: total_ns.saturating_mul(weight),
            p50_ns: percentile(&totals, 50.0),
            p99_ns: percentile(&totals, 99.0),
            begun_p50_ns: percentile(&begun, 50.0),
            has_waits,
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
            for subject in [Subject::Machine, Subject::Controller(ctrl), Subject::Disk(ctrl, nsid)]
            {
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
        self.by_subject.get(&subject).into_iter().flatten().filter_map(|n| self.all.get(*n))
    }

    /// The subjects: the machine, controllers, and their disks.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.by_subject.keys().copied()
    }
}

/// A set of stages of [`StageSet::Full`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages(u32);

impl Stages {
    /// Limits of cgroups (blk-throttle).
    pub const THROTTLE: Self = Self::from(Point::Submit);
    /// Before the request, but no wait that was measured.
    pub const BLOCK: Self = Self::from(Point::Bio);
    /// A frozen queue.
    pub const FREEZE: Self = Self::from(Point::Freeze);
    /// A zone that takes one write at a time.
    pub const ZONE: Self = Self::from(Point::Zone);
    /// io.cost.
    pub const IOCOST: Self = Self::from(Point::Iocost);
    /// Writeback throttling.
    pub const WBT: Self = Self::from(Point::Wbt);
    /// No free tag.
    pub const TAG: Self = Self::from(Point::Tag);
    /// blk-mq and the scheduler.
    pub const QUEUE: Self = Self::from(Point::Start);
    /// DMA mapping.
    pub const MAP: Self = Self::from(Point::SetupOut);
    /// To the submission queue, and the doorbell.
    pub const SUBMIT: Self = Self::from(Point::Issue);
    /// From the doorbell to the interrupt.
    pub const DEVICE: Self = Self::from(Point::Doorbell);
    /// From the interrupt to the CQE.
    pub const IRQ: Self = Self::from(Point::Irq);
    /// From the CQE to the completion by the driver.
    pub const COMPLETE: Self = Self::from(Point::Cqe);
    /// To the end by blk-mq.
    pub const END: Self = Self::from(Point::Complete);
    /// The block layer's: waits before the request, the scheduler, the setup of the command.
    pub const BLOCK_LAYER: Self = Self::range(0, StageSet::Full.before() + 2);
    /// The driver's.
    pub const DRIVER: Self = Self::MAP.with(Self::SUBMIT).with(Self::COMPLETE).with(Self::END);
    /// The device's, until its interrupt is handled.
    pub const AT_DEVICE: Self = Self::DEVICE.with(Self::IRQ);
    /// All from the request on.
    pub const ALL: Self = Self::range(StageSet::Full.before(), StageSet::Full.stages().len());

    /// The stage that begins at this point.
    const fn from(point: Point) -> Self {
        let (stages, mut n) = (StageSet::Full.stages(), 0);
        while stages[n].from as usize != point as usize {
            n += 1;
        }
        Self::range(n, n + 1)
    }

    /// The stages `first..end`, by number.
    pub const fn range(first: usize, end: usize) -> Self {
        Self(((1_u64 << end) - (1_u64 << first)) as u32)
    }

    /// All stages of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has all stages of the other.
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether they have a stage in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The names; more than three joined stages are shortened to the first and the last.
    pub fn short(self) -> String {
        let all = self.name();
        let names: Vec<&str> = all.split('+').collect();
        match names.as_slice() {
            [first, _, _, .., last] => format!("{first}..{last}"),
            _ => all,
        }
    }

    /// `queue.wait has 71% [65, 77] of the time`
    pub fn have(self, share: Share) -> String {
        let have = if self.0.count_ones() > 1 { "have" } else { "has" };
        format!("{} {have} {} of the time", self.short(), share.text())
    }

    /// The names, joined by `+`. All parts of a group have the name of the group.
    pub fn name(self) -> String {
        if self == Self::ALL {
            return "total".into();
        }
        let all = StageSet::Full.stages().iter().enumerate();
        let stages = all.filter(|(n, _)| self.0 & 1 << n != 0).map(|(_, stage)| *stage);
        StageSet::Full.name_of(&stages.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_names_of_its_stages() {
        assert_eq!(Stages::range(11, 13), Stages::DEVICE.with(Stages::IRQ));
        assert_eq!(Stages::THROTTLE.with(Stages::TAG).name(), "throttle+tag");
        assert_eq!(Stages::IRQ.with(Stages::COMPLETE).name(), "device.irq+complete");
        assert_eq!(Stages::DEVICE.with(Stages::IRQ).name(), "device");
        assert_eq!(Stages::range(7, 15).name(), "total");
        assert!(!Stages::ALL.meets(Stages::THROTTLE.with(Stages::TAG)));
        assert!(Stages::ALL.covers(Stages::MAP) && !Stages::MAP.covers(Stages::ALL));
    }

    #[test]
    fn there_is_room_for_32_stages() {
        let (all, last) = (Stages::range(0, 32), Stages::range(31, 32));
        assert!(all.covers(last) && all.covers(Stages::ALL) && !Stages::ALL.meets(last));
    }
}
