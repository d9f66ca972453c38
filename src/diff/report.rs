// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two recordings, or two groups of them: the ratio of each latency in each stratum and
//! stage, with its interval, and what can be claimed. docs/diff.md explains the method.

pub use crate::diff::compare::compare;
pub use crate::diff::origin::{Origin, remarks};
pub use crate::diff::side::{Counted, Counter, Interval, Load, Side};
use crate::model::activity::TagWaits;
use crate::model::command_class::CommandClass;
use crate::model::point::Point;
use crate::stats::ratio::Ratio;
use crate::stats::sample::{STATISTICS, Values};

/// Probability of any false claim in a comparison.
pub const FALSE_ALARM: f64 = 0.05;

/// Factors of rate and commands in flight beyond which the load is another one.
const SAME_LOAD: f64 = 1.25;
/// Part of the commands that may be in other strata.
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

/// A stage, or the total, of a stratum.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
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
    /// Parts of the stratum's commands for which the interval was observed, if they differ so much
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

/// The rows of a stratum, or of all I/O commands of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What it is about.
    pub scope: Scope,
    /// Its load.
    pub load: Both<Load>,
    /// The ratio of the rates of commands; `None`: too few slices of time.
    pub iops: Option<Ratio>,
    /// Its stages, then its totals.
    pub rows: Vec<Row>,
}

/// A difference of the load of a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadChange {
    /// The strata have other shares of the commands.
    Mix {
        /// The controller.
        ctrl: u32,
        /// The stratum whose share differs most.
        stratum: CommandClass,
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
    /// Strata that both sides have, then controllers.
    pub groups: Vec<Group>,
    /// Strata that only one side has, with their commands.
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
    /// The stratum or controller.
    pub group: &'d Group,
    /// The stage.
    pub row: &'d Row,
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

impl Row {
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
        let weight = |(group, row): &(&Group, &Row)| {
            let Both { a, b } = row.sides.map(|side| side.values[3]);
            let is_stratum = matches!(group.scope, Scope::CommandClass(_));
            let size = (b - a).abs() * row.sides.a.count as f64;
            (is_stratum, !row.is_total, size)
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

    /// Whether the sides have no stratum in common.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
