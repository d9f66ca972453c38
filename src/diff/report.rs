// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two recordings, or two groups of them: the ratio of each latency in each class and
//! stage, with its interval, and what can be claimed. docs/dev/methods.md explains the method.

pub use crate::diff::compare::compare;
use crate::model::command_class::{BlockSizes, CommandClass};
use crate::model::event::{Event, Finished, Intervals};
use crate::model::histogram::Histogram;
use crate::model::ids::NamespaceId;
use crate::model::ledger::Accuracy;
use crate::model::machine::ControllerInfo;
use crate::model::point::Point;
use crate::model::stage::{StageRun, StageSet};
use crate::model::text::Text;
use crate::recording::RunInfo;
use crate::stats::intervals::Ratio;
use crate::stats::sample::{STATISTICS, Slices, Values};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Probability of any false claim in a comparison.
pub const FALSE_ALARM: f64 = 0.05;

/// Factors of rate and commands in flight beyond which the load is another one.
const SAME_LOAD: f64 = 1.25;
/// Part of the commands that may be in other classes.
pub(crate) const SAME_MIX: f64 = 0.05;

/// The mean is the last statistic.
pub const MEAN: usize = STATISTICS.len() - 1;

/// One number of each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Both<T> {
    pub a: T,
    pub b: T,
}

impl<T> Both<T> {
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Both<U> {
        Both { a: f(self.a), b: f(self.b) }
    }
}

/// Whether a statistic differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// Proven, over all comparisons together.
    Changed,
    /// It may differ: its own interval excludes 1, or the two sides observed different commands.
    Unsure,
    Same,
}

/// The comparison of a statistic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    #[serde(flatten)]
    pub ratio: Ratio,
    /// Its probability, adjusted for the number of comparisons.
    pub adjusted_p: f64,
    pub finding: Finding,
}

/// The values of a row on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    pub count: u64,
    /// The statistics, in nanoseconds.
    pub values: Values,
}

/// A stage, or the total, of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow {
    /// `device`, `submit+device`, `total`; a total that lacks an end is `total of` its stages.
    pub name: String,
    pub from: Point,
    pub to: Point,
    pub is_total: bool,
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
    pub scope: Scope,
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
        ctrl: u32,
        /// The class whose share differs most.
        class: CommandClass,
        share: Both<f64>,
    },
    /// Both the rate and the number of commands in flight differ.
    Depth { ctrl: u32, load: Both<Load> },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Classes that both sides have, then controllers.
    pub groups: Vec<Group>,
    /// Classes that only one side has, with their commands.
    pub only: Both<Vec<(CommandClass, u64)>>,
    pub load_changes: Vec<LoadChange>,
    /// Number of statistics that were compared.
    pub comparisons: usize,
}

/// The change of a group in one number.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'d> {
    pub group: &'d Group,
    /// The total; if that is not proven to have changed, the stage that changed most.
    pub row: &'d DiffRow,
    /// Index of the statistic: the mean, if it changed.
    pub statistic: usize,
    pub compared: Compared,
    /// The stage that explains most of a change of the total.
    pub stage: Option<&'d DiffRow>,
}

impl Claim<'_> {
    pub fn is_slower(&self) -> bool {
        self.compared.ratio.ratio > 1.0
    }
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
    /// The statistics that changed.
    pub fn changed(&self) -> impl Iterator<Item = (usize, Compared)> {
        let all = self.compared.into_iter().enumerate();
        let all = all.filter_map(|(n, compared)| Some((n, compared?)));
        all.filter(|(_, compared)| compared.finding == Finding::Changed)
    }

    /// By how much the mean grew.
    fn growth(&self) -> f64 {
        self.sides.b.values[MEAN] - self.sides.a.values[MEAN]
    }
}

impl Group {
    /// The total of most commands.
    pub fn total(&self) -> Option<&DiffRow> {
        let totals = self.rows.iter().filter(|row| row.is_total);
        totals.max_by_key(|row| row.sides.a.count)
    }

    /// What changed, if anything did.
    pub fn claim(&self) -> Option<Claim<'_>> {
        let has_changed = |row: &&DiffRow| row.changed().next().is_some();
        let largest = |growth: &dyn Fn(&DiffRow) -> f64| {
            let stages = self.rows.iter().filter(|row| !row.is_total && has_changed(row));
            stages.max_by(|x, y| growth(x).total_cmp(&growth(y)))
        };
        let total = self.total().filter(has_changed);
        let any = || self.rows.iter().find(has_changed);
        let row = total.or_else(|| largest(&|row| row.growth().abs())).or_else(any)?;
        let sure = |(statistic, compared): &(usize, Compared)| {
            let Ratio { low, high, .. } = compared.ratio;
            if *statistic == MEAN { f64::INFINITY } else { low.ln().abs().min(high.ln().abs()) }
        };
        let (statistic, compared) = row.changed().max_by(|x, y| sure(x).total_cmp(&sure(y)))?;
        let sign = if compared.ratio.ratio > 1.0 { 1.0 } else { -1.0 };
        let stage = total.and_then(|_| largest(&|row| sign * row.growth()));
        let stage = stage.filter(|stage| sign * stage.growth() > 0.0);
        Some(Claim { group: self, row, statistic, compared, stage })
    }
}

impl Diff {
    /// What changed, by group: first the class with most time added or saved, over all its commands.
    pub fn claims(&self) -> Vec<Claim<'_>> {
        let mut claims: Vec<Claim<'_>> = self.groups.iter().filter_map(Group::claim).collect();
        let weight = |claim: &Claim<'_>| {
            let is_pooled = matches!(claim.group.scope, Scope::Controller(_));
            (is_pooled, -claim.row.growth().abs() * claim.row.sides.a.count as f64)
        };
        claims.sort_by(|x, y| {
            let (x, y) = (weight(x), weight(y));
            x.0.cmp(&y.0).then(x.1.total_cmp(&y.1))
        });
        claims
    }

    /// Number of rows with a change.
    pub fn changed_rows(&self) -> usize {
        let rows = self.groups.iter().flat_map(|g| &g.rows);
        rows.filter(|row| row.changed().next().is_some()).count()
    }
}

/// A recording that was read.
#[derive(Clone, Debug)]
pub struct Origin {
    pub path: Text,
    /// The start of the part that is compared, in nanoseconds since 1970.
    pub begin_ns: Option<i64>,
    pub info: RunInfo,
    /// The controllers, under the numbers of the comparison.
    pub controllers: Vec<ControllerInfo>,
    pub commands: u64,
    /// The time that they cover.
    pub covers: Duration,
    pub accuracy: Accuracy,
    /// Whether the file is read to its end. If not, it is damaged, or was interrupted.
    pub is_whole: bool,
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
    pub commands: u64,
    /// Sum of the totals that were measured, in nanoseconds.
    pub total_ns: u128,
    /// The time, in nanoseconds.
    pub covers_ns: u128,
}

impl Load {
    pub fn iops(&self) -> f64 {
        self.commands as f64 * 1e9 / self.covers_ns.max(1) as f64
    }

    /// Mean number of commands that wait or are in flight: arrival rate times total (Little's law).
    pub fn in_flight(&self) -> f64 {
        self.total_ns as f64 / self.covers_ns.max(1) as f64
    }

    /// Adds the load of other commands in the same time.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.total_ns += other.total_ns;
        self.covers_ns = other.covers_ns;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Values by row and slice.
    pub slices: Rows,
    loads: BTreeMap<CommandClass, (u64, u128)>,
    /// All values by row.
    values: BTreeMap<(CommandClass, Interval), Histogram>,
    covers: Duration,
}

impl Counted {
    pub fn command(&mut self, class: CommandClass, total_ns: u64) {
        let (commands, sum_ns) = self.loads.entry(class).or_default();
        *commands += 1;
        *sum_ns += u128::from(total_ns);
    }

    /// Counts an interval of a command, at the time of its completion.
    pub fn interval(&mut self, class: CommandClass, interval: Interval, at_ns: u64, ns: u64) {
        self.slices.record((class, interval), at_ns, ns);
        self.values.entry((class, interval)).or_default().record(ns);
    }

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
#[derive(Clone, Debug, Default)]
pub struct Counter {
    stage_set: StageSet,
    block_sizes: BlockSizes,
    /// Controllers that are counted under the other side's number.
    renamed: BTreeMap<u32, u32>,
    counted: Counted,
    /// Whether there are more classes than are counted.
    pub is_crowded: bool,
}

impl Counter {
    pub fn new(stage_set: StageSet, renamed: BTreeMap<u32, u32>) -> Self {
        Self { stage_set, renamed, ..Self::default() }
    }

    pub fn block_sizes(&mut self, sizes: impl IntoIterator<Item = (NamespaceId, u32)>) {
        self.block_sizes.extend(sizes);
    }

    /// Counts an event if it is a finished command. Returns whether it is. The slices of time cover
    /// unselected commands, too: two controllers of one recording have the same slices.
    pub fn add(&mut self, event: &Event, is_selected: bool) -> bool {
        let Some(command) = Finished::of(event) else {
            return false;
        };
        self.counted.slices.reach(event.at_ns);
        if !is_selected {
            return false;
        }
        let mut class = self.block_sizes.class(command.id, command.submission);
        class.ctrl = self.renamed.get(&class.ctrl).copied().unwrap_or(class.ctrl);
        let loads = &self.counted.loads;
        if loads.len() >= MOST_CLASSES && !loads.contains_key(&class) {
            self.is_crowded = true;
            return false;
        }
        let Intervals { stages, total } =
            command.observed_by(self.stage_set).intervals(self.stage_set);
        self.counted.command(class, total.map_or(0, |total| total.ns));
        for (is_total, segments) in [(false, stages.as_slice()), (true, total.as_slice())] {
            for segment in segments {
                let interval = Interval { is_total, run: segment.run };
                self.counted.interval(class, interval, event.at_ns, segment.ns);
            }
        }
        true
    }

    /// Ends the recording, which covers this time.
    pub fn finish(self, covers: Duration) -> Counted {
        self.counted.covering(covers)
    }
}

/// The recordings of a side.
#[derive(Clone, Debug, Default)]
pub struct Side {
    pub recordings: Vec<Counted>,
}

impl Side {
    /// The classes and their loads, over all recordings.
    pub fn loads(&self) -> BTreeMap<CommandClass, Load> {
        let covers_ns = self.recordings.iter().map(|r| r.covers.as_nanos()).sum();
        let mut all: BTreeMap<CommandClass, Load> = BTreeMap::new();
        for (class, (commands, total_ns)) in self.recordings.iter().flat_map(|r| &r.loads) {
            let load = all.entry(*class).or_default();
            load.commands += commands;
            load.total_ns += total_ns;
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

    /// Numbers of slices of the recordings.
    pub fn slices(&self) -> Vec<usize> {
        self.recordings.iter().map(|r| r.slices.count()).collect()
    }
}
