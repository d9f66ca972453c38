// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two recordings, or two groups of them: the ratio of each latency in each class and
//! stage, with its interval, and what can be claimed. docs/diff.md explains the method.

pub use crate::diff::compare::compare;
use crate::model::activity::{Activity, TagWaits};
use crate::model::command_class::{BlockSizes, CommandClass};
use crate::model::controller::ControllerInfo;
use crate::model::event::Event;
use crate::model::finished::{Finished, Intervals};
use crate::model::histogram::Histogram;
use crate::model::ids::NamespaceId;
use crate::model::ledger::Accuracy;
use crate::model::point::Point;
use crate::model::stage::{StageRun, StageSet};
use crate::model::text::Text;
use crate::recording::RunInfo;
use crate::stats::intervals::Ratio;
use crate::stats::sample::{STATISTICS, Slices, Values};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Probability of any false claim in a comparison.
pub const FALSE_ALARM: f64 = 0.05;

/// Factors of rate and commands in flight beyond which the load is another one.
const SAME_LOAD: f64 = 1.25;
/// Part of the commands that may be in other classes.
pub(crate) const SAME_MIX: f64 = 0.05;

/// One number of each side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Both<T> {
    /// Of the first side.
    pub a: T,
    /// Of the second side.
    pub b: T,
}

impl<T> Both<T> {
    /// The same of each side.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Both<U> {
        Both { a: f(self.a), b: f(self.b) }
    }
}

/// Whether, and how, a statistic differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// It differs.
    Changed,
    /// The difference is within noise, or too small to be claimed.
    Noise,
}

/// The comparison of a statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The ratio.
    pub ratio: Ratio,
    /// Its probability, adjusted for the number of comparisons.
    pub adjusted_p: f64,
    /// What can be claimed.
    pub finding: Finding,
}

/// The values of a row on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Commands with this interval.
    pub count: u64,
    /// The statistics, in nanoseconds.
    pub values: Values,
}

/// A stage, or the total, of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow {
    /// `device`, `submit+device`, `total`; a total that lacks an end is `total of` its stages.
    pub name: String,
    /// The point at which it begins.
    pub from: Point,
    /// The point at which it ends.
    pub to: Point,
    /// Whether it is a total.
    pub is_total: bool,
    /// The values.
    pub sides: Both<Summary>,
    /// By statistic. `None`: too few commands.
    pub compared: [Option<Compared>; STATISTICS.len()],
    /// Parts of the class's commands for which the interval was observed, if they differ so much
    /// that the commands of the two sides are different ones. Nothing is claimed then.
    pub observed: Option<Both<f64>>,
}

/// What a group of rows is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Commands that are alike.
    CommandClass(CommandClass),
    /// All I/O commands of a controller.
    Controller(u32),
}

/// The rows of a class, or of all I/O commands of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What it is about.
    pub scope: Scope,
    /// Its load.
    pub load: Both<Load>,
    /// The ratio of the rates of commands; `None`: too few slices of time.
    pub iops: Option<Ratio>,
    /// Its stages, then its totals.
    pub rows: Vec<DiffRow>,
}

/// A difference of the load of a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadChange {
    /// The classes have other shares of the commands.
    Mix {
        /// The controller.
        ctrl: u32,
        /// The class whose share differs most.
        class: CommandClass,
        /// Its shares.
        share: Both<f64>,
    },
    /// Both the rate and the number of commands in flight differ.
    Depth {
        /// The controller.
        ctrl: u32,
        /// The loads.
        load: Both<Load>,
    },
}

/// Waits before the request of a disk, on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitChange {
    /// The controller.
    pub ctrl: u32,
    /// The namespace; 0: any.
    pub nsid: u32,
    /// The waits. The longest is not known.
    pub waits: Both<TagWaits>,
}

/// A comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Classes that both sides have, then controllers.
    pub groups: Vec<Group>,
    /// Classes that only one side has, with their commands.
    pub only: Both<Vec<(CommandClass, u64)>>,
    /// What differs in the load.
    pub load_changes: Vec<LoadChange>,
    /// Waits before the request, if both sides observed them.
    pub waits: Vec<WaitChange>,
    /// Number of statistics that were compared.
    pub comparisons: usize,
}

/// A claim: a row, and one of its statistics.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'d> {
    /// The class or controller.
    pub group: &'d Group,
    /// The stage.
    pub row: &'d DiffRow,
    /// Index of the statistic.
    pub statistic: usize,
    /// The comparison.
    pub compared: Compared,
}

impl Load {
    /// Whether the other load has another rate and another number of commands in flight. With only
    /// one of them, the difference follows from the latency.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        let differs = |a: f64, b: f64| a > b * SAME_LOAD || b > a * SAME_LOAD;
        differs(self.iops(), other.iops()) && differs(self.in_flight(), other.in_flight())
    }
}

impl DiffRow {
    /// The statistics that differ.
    pub fn changed(&self) -> impl Iterator<Item = (usize, Compared)> {
        let all = self.compared.into_iter().enumerate();
        let all = all.filter_map(|(n, compared)| Some((n, compared?)));
        all.filter(|(_, compared)| compared.finding == Finding::Changed)
    }
}

impl Diff {
    /// The change that explains most: of the changed stages that with the largest difference of
    /// means, over all its commands; of its statistics that with the largest sure change.
    pub fn main_claim(&self) -> Option<Claim<'_>> {
        let rows = self.groups.iter().flat_map(|group| {
            let rows = group.rows.iter().filter(|row| row.changed().next().is_some());
            rows.map(move |row| (group, row))
        });
        let weight = |(group, row): &(&Group, &DiffRow)| {
            let Both { a, b } = row.sides.map(|side| side.values[3]);
            let is_class = matches!(group.scope, Scope::CommandClass(_));
            let size = (b - a).abs() * row.sides.a.count as f64;
            (is_class, !row.is_total, size)
        };
        let (group, row) = rows.max_by(|x, y| {
            let (x, y) = (weight(x), weight(y));
            (x.0, x.1).cmp(&(y.0, y.1)).then(x.2.total_cmp(&y.2))
        })?;
        let sure = |compared: &Compared| {
            let Ratio { low, high, .. } = compared.ratio;
            low.ln().abs().min(high.ln().abs())
        };
        let (statistic, compared) =
            row.changed().max_by(|(_, x), (_, y)| sure(x).total_cmp(&sure(y)))?;
        Some(Claim { group, row, statistic, compared })
    }

    /// Number of rows with a change.
    pub fn changed_rows(&self) -> usize {
        let rows = self.groups.iter().flat_map(|g| &g.rows);
        rows.filter(|row| row.changed().next().is_some()).count()
    }

    /// Whether the sides have no class in common.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// A recording that was read.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Its path.
    pub path: Text,
    /// What was recorded, where and when.
    pub info: RunInfo,
    /// The controllers, under the numbers of the comparison.
    pub controllers: Vec<ControllerInfo>,
    /// Commands that were read.
    pub commands: u64,
    /// The time that they cover.
    pub covers: Duration,
    /// Accuracy by its ledger.
    pub accuracy: Accuracy,
    /// Whether the file is read to its end. If not, it is damaged, or was interrupted.
    pub is_whole: bool,
}

/// The distinct values of a side, as text: `6.1.0` or `6.1.0, 6.12.1`.
fn distinct<'o>(side: &'o [Origin], of: impl Fn(&'o Origin) -> Option<&'o Text>) -> Option<String> {
    let all: BTreeSet<String> = side.iter().filter_map(of).map(ToString::to_string).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

fn model(origin: &Origin, instance: u32) -> Option<&Text> {
    let mut all = origin.controllers.iter();
    let found = all.find(|c| c.instance == instance)?;
    Some(&found.model).filter(|model| !model.trim().is_empty())
}

const fn stages(set: StageSet) -> &'static str {
    match set {
        StageSet::Total => "no",
        StageSet::Basic => "basic",
        StageSet::Fine => "fine",
        StageSet::Full => "full",
    }
}

/// One sentence for each circumstance that limits what the comparison shows. `used` is the stage set
/// of the comparison.
pub fn remarks(sides: Both<&[Origin]>, used: StageSet) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut differs = |what: &str, a: Option<String>, b: Option<String>| {
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            remarks.push(format!("{what}: {a} in A, {b} in B"));
        }
    };
    let of_both = |of: fn(&Origin) -> Option<&Text>| sides.map(|side| distinct(side, of));
    let kernels = of_both(|o| o.info.kernel.as_ref());
    differs("the kernels differ", kernels.a, kernels.b);
    let machines = of_both(|o| o.info.machine.as_ref());
    differs("the hypervisors differ", machines.a, machines.b);
    let instances: BTreeSet<u32> =
        (sides.a.iter().flat_map(|o| &o.controllers)).map(|c| c.instance).collect();
    for instance in instances {
        let models = sides.map(|side| distinct(side, |o| model(o, instance)));
        let what = format!("nvme{instance} is another model");
        differs(&what, models.a, models.b);
    }
    let filters = of_both(|o| Some(&o.info.filter));
    if filters.a != filters.b {
        remarks.push("the recordings were made with different filters".into());
    }
    for (name, side) in [("A", sides.a), ("B", sides.b)] {
        if let Some(more) = side.iter().find(|o| o.info.stage_set != used) {
            remarks.push(format!(
                "{name} has {} stages, and the other side {}: compared by {}",
                stages(more.info.stage_set),
                stages(used),
                match used {
                    StageSet::Total => "latency only",
                    _ => "the basic ones",
                }
            ));
        }
        remarks.extend(side.iter().flat_map(accuracy));
    }
    remarks
}

/// What limits the numbers of a recording.
fn accuracy(origin: &Origin) -> Vec<String> {
    let path = &origin.path;
    let mut remarks = Vec::new();
    match &origin.accuracy {
        Accuracy::Exact => {}
        Accuracy::Unknown => remarks.push(format!(
            "the accuracy of {path} is not known: its kernel does not count what it missed"
        )),
        Accuracy::Degraded(why) => {
            remarks.push(format!("{path} is DEGRADED: {}", why.join(", ")));
        }
    }
    if !origin.is_whole {
        let seconds = origin.covers.as_secs_f64();
        remarks.push(format!("{path} is incomplete: its first {seconds:.1} s are compared"));
    }
    remarks
}

/// A measured interval of commands: a stage, merged stages, or the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    /// Totals come after the stages.
    pub is_total: bool,
    /// The stages that it covers.
    pub run: StageRun,
}

/// Most classes of a recording.
const MOST_CLASSES: usize = 2048;

/// Values by row and slice.
pub(crate) type Rows = Slices<(CommandClass, Interval)>;

/// The load that a class had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Commands.
    pub commands: u64,
    /// Sum of the latencies that were measured, in nanoseconds.
    pub latency_ns: u128,
    /// The time, in nanoseconds.
    pub covers_ns: u128,
}

impl Load {
    /// Commands per second.
    pub fn iops(&self) -> f64 {
        self.commands as f64 * 1e9 / self.covers_ns.max(1) as f64
    }

    /// Mean number of commands in flight: arrival rate times latency (Little's law).
    pub fn in_flight(&self) -> f64 {
        self.latency_ns as f64 / self.covers_ns.max(1) as f64
    }

    /// Adds the load of other commands in the same time.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.latency_ns += other.latency_ns;
        self.covers_ns = other.covers_ns;
    }
}

/// A recording, counted.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Values by row and slice.
    pub slices: Rows,
    loads: BTreeMap<CommandClass, (u64, u128)>,
    /// All values by row.
    values: BTreeMap<(CommandClass, Interval), Histogram>,
    /// Waits before the request; `None`: not observed.
    pub waits: Option<Vec<TagWaits>>,
    covers: Duration,
}

impl Counted {
    /// Counts a command.
    pub fn command(&mut self, class: CommandClass, latency_ns: u64) {
        let (commands, sum_ns) = self.loads.entry(class).or_default();
        *commands += 1;
        *sum_ns += u128::from(latency_ns);
    }

    /// Counts an interval of a command, at the time of its completion.
    pub fn interval(&mut self, class: CommandClass, interval: Interval, at_ns: u64, ns: u64) {
        self.slices.record((class, interval), at_ns, ns);
        self.values.entry((class, interval)).or_default().record(ns);
    }

    /// All values of a row.
    pub fn values(&self, class: CommandClass, interval: Interval) -> Option<&Histogram> {
        self.values.get(&(class, interval))
    }

    /// Ends the recording, which covers this time.
    #[must_use]
    pub fn covering(self, covers: Duration) -> Self {
        Self { covers, ..self }
    }
}

/// Counts the events of a recording.
#[derive(Clone, Debug)]
pub struct Counter {
    stage_set: StageSet,
    block_sizes: BlockSizes,
    /// The controllers to count, with the numbers to count them under; `None`: all, under their own.
    ctrls: Option<BTreeMap<u32, u32>>,
    counted: Counted,
    /// The first reading of the activity, and the last.
    readings: Option<(Activity, Activity)>,
    /// There are more classes than are counted.
    crowded: bool,
}

impl Counter {
    /// A counter for these stages. `ctrls` has the controllers to count, and the number to count each
    /// under: that of the other side. Without it, all are counted under their own.
    pub fn new(stage_set: StageSet, ctrls: Option<BTreeMap<u32, u32>>) -> Self {
        Self {
            stage_set,
            block_sizes: BlockSizes::default(),
            ctrls,
            counted: Counted::default(),
            readings: None,
            crowded: false,
        }
    }

    /// Takes in a reading of the activity.
    pub fn activity(&mut self, activity: Activity) {
        match &mut self.readings {
            Some((_, last)) => *last = activity,
            None => self.readings = Some((activity.clone(), activity)),
        }
    }

    /// The waits between the first reading and the last, under the numbers of the controllers.
    fn waits(&self) -> Option<Vec<TagWaits>> {
        let (first, last) = self.readings.as_ref()?;
        let mut all = last.since(first).waits?;
        if let Some(ctrls) = &self.ctrls {
            all.retain_mut(|waits| {
                let number = ctrls.get(&waits.ctrl);
                waits.ctrl = number.copied().unwrap_or_default();
                number.is_some()
            });
        }
        Some(all)
    }

    /// Takes in sizes of logical blocks.
    pub fn block_sizes(&mut self, sizes: impl IntoIterator<Item = (NamespaceId, u32)>) {
        self.block_sizes.extend(sizes);
    }

    /// Whether it has more kinds of commands than can be compared. Those were not counted.
    pub const fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Counts an event, if it is a finished command of these controllers. Returns whether it is.
    pub fn add(&mut self, event: &Event) -> bool {
        let Some(command) = Finished::of(event) else {
            return false;
        };
        // the slices do not depend on the controllers
        self.counted.slices.reach(event.at_ns);
        let mut class = self.block_sizes.class(command.id, command.submission);
        if let Some(ctrls) = &self.ctrls {
            let Some(number) = ctrls.get(&class.ctrl) else {
                return false;
            };
            class.ctrl = *number;
        }
        let loads = &self.counted.loads;
        if loads.len() >= MOST_CLASSES && !loads.contains_key(&class) {
            self.crowded = true;
            return false;
        }
        let latency = command.latency_ns.unwrap_or(0);
        self.counted.command(class, latency);
        let Intervals { stages, total } =
            command.observed_by(self.stage_set).intervals(self.stage_set);
        for (is_total, segments) in [(false, stages.as_slice()), (true, total.as_slice())] {
            for segment in segments {
                let run = segment.run;
                let interval = Interval { is_total, run };
                let at_ns = event.at_ns;
                self.counted.interval(class, interval, at_ns, segment.ns);
            }
        }
        true
    }

    /// Ends the recording, which covers this time.
    pub fn finish(mut self, covers: Duration) -> Counted {
        self.counted.waits = self.waits();
        self.counted.covering(covers)
    }
}

/// The recordings of a side.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// At least one.
    pub recordings: Vec<Counted>,
}

impl Side {
    /// The classes and their loads, over all recordings.
    pub fn loads(&self) -> BTreeMap<CommandClass, Load> {
        let covers_ns = self.recordings.iter().map(|r| r.covers.as_nanos()).sum();
        let mut all: BTreeMap<CommandClass, Load> = BTreeMap::new();
        for (class, (commands, latency_ns)) in self.recordings.iter().flat_map(|r| &r.loads) {
            let load = all.entry(*class).or_default();
            load.commands += commands;
            load.latency_ns += latency_ns;
            load.covers_ns = covers_ns;
        }
        all
    }

    /// All values of these classes, in all recordings.
    pub fn values(&self, classes: &[CommandClass], interval: Interval) -> Histogram {
        let mut all = Histogram::new();
        for recording in &self.recordings {
            let of = |class: &CommandClass| recording.values(*class, interval);
            classes.iter().filter_map(of).for_each(|one| all.merge(one));
        }
        all
    }

    /// Waits before the request by namespace; `None` if a recording lacks them.
    pub fn waits(&self) -> Option<BTreeMap<NamespaceId, TagWaits>> {
        let mut sums: BTreeMap<NamespaceId, TagWaits> = BTreeMap::new();
        for recording in &self.recordings {
            for waits in recording.waits.as_ref()? {
                let key = NamespaceId::new(waits.ctrl, waits.nsid);
                let sum = sums.entry(key).or_insert(TagWaits {
                    ctrl: waits.ctrl,
                    nsid: waits.nsid,
                    ..TagWaits::default()
                });
                sum.requests += waits.requests;
                sum.waited += waits.waited;
                sum.sum_ns += waits.sum_ns;
            }
        }
        Some(sums)
    }

    /// Numbers of slices of the recordings.
    pub fn slices(&self) -> Vec<usize> {
        self.recordings.iter().map(|r| r.slices.count()).collect()
    }
}
