// SPDX-License-Identifier: MIT OR Apache-2.0
//! From two sides to the rows of a comparison.

use crate::diff::report::{
    Both, Compared, Counted, Diff, DiffRow, FALSE_ALARM, Finding, Group, Interval, Load,
    LoadChange, MEAN, Rows, SAME_MIX, Scope, Side, Summary,
};
use crate::model::command_class::CommandClass;
use crate::model::histogram::Histogram;
use crate::nvme::opcode::QueueKind;
use crate::stats::intervals::{Ratio, Resamples, adjust};
use crate::stats::sample::{
    QUANTILES, RESOLUTION, STATISTICS, Sample, Values, Variance, empty_slice,
};
use std::array::from_fn;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest commands of a side for each statistic: ten beyond a quantile, and 50.
const MIN_COMMANDS: [u64; STATISTICS.len()] = [50, 100, 1000, 50];
/// Fewest slices of a side with commands.
pub(super) const MIN_SLICES: usize = 8;
/// Difference of the observed parts of the commands that makes them other commands.
const SAME_COMMANDS: f64 = 0.1;
/// Seeds of the resamples of each side.
pub(super) const SEEDS: Both<u64> = Both { a: 1, b: 2 };

/// What the comparison of each row needs.
struct Comparer<'s> {
    sides: Both<&'s Side>,
    resamples: Both<Resamples>,
    /// Of the slices for rates.
    rates: Both<Resamples>,
    paired: bool,
}

/// The classes of a group, and their load.
struct Members {
    scope: Scope,
    classes: Vec<CommandClass>,
    load: Both<Load>,
}

/// Compares two sides that were counted with the same stage set. Differences below `least` (0.02 is 2 %)
/// are not claimed, nor those below this part of the total. `paired`: both sides are different controllers in
/// the same recordings; the same slices of both are drawn.
pub fn compare(a: &Side, b: &Side, least: f64, paired: bool) -> Diff {
    let loads = Both { a: a.loads(), b: b.loads() };
    let missing = |of: &BTreeMap<CommandClass, Load>, from: &BTreeMap<CommandClass, Load>| {
        let all = of.iter().filter(|(class, _)| !from.contains_key(class));
        all.map(|(class, load)| (*class, load.commands)).collect()
    };
    let only = Both { a: missing(&loads.a, &loads.b), b: missing(&loads.b, &loads.a) };
    let (pooled, load_changes) = controllers(&loads);
    let common = loads.a.iter().filter_map(|(class, a)| {
        Some(Members {
            scope: Scope::CommandClass(*class),
            classes: vec![*class],
            load: Both { a: *a, b: *loads.b.get(class)? },
        })
    });
    let comparer = Comparer {
        sides: Both { a, b },
        resamples: Both {
            a: Resamples::new(&a.slices(), SEEDS.a),
            b: Resamples::new(&b.slices(), if paired { SEEDS.a } else { SEEDS.b }),
        },
        rates: rate_resamples(Both { a, b }, paired),
        paired,
    };
    let groups = common.chain(pooled).map(|members| comparer.group(&members));
    let mut diff = Diff { groups: groups.collect(), only, load_changes, comparisons: 0 };
    judge(&mut diff, least);
    diff
}

/// Controllers whose classes can be compared together, and what differs in the load of the others.
fn controllers(loads: &Both<BTreeMap<CommandClass, Load>>) -> (Vec<Members>, Vec<LoadChange>) {
    let is_io = |s: &&CommandClass| s.opcode.queue == QueueKind::Io;
    let classes = loads.a.keys().chain(loads.b.keys()).filter(is_io);
    let mut by_ctrl: BTreeMap<u32, BTreeSet<CommandClass>> = BTreeMap::new();
    classes.for_each(|s| {
        by_ctrl.entry(s.ctrl).or_default().insert(*s);
    });
    let (mut pooled, mut changes) = (Vec::new(), Vec::new());
    for (ctrl, classes) in by_ctrl {
        let sum = |of: &BTreeMap<CommandClass, Load>| {
            let mut sum = Load::default();
            let found = classes.iter().filter_map(|s| of.get(s));
            found.for_each(|load| sum.add(load));
            sum
        };
        let load = Both { a: sum(&loads.a), b: sum(&loads.b) };
        if load.a.commands == 0 || load.b.commands == 0 {
            continue;
        }
        let before = changes.len();
        changes.extend(mix(ctrl, &classes, loads, &load));
        if load.a.differs_from(&load.b) {
            changes.push(LoadChange::Depth { ctrl, load });
        }
        if changes.len() == before && classes.len() > 1 {
            pooled.push(Members {
                scope: Scope::Controller(ctrl),
                classes: classes.into_iter().collect(),
                load,
            });
        }
    }
    (pooled, changes)
}

/// The difference of the mix, if it is more than [`SAME_MIX`].
fn mix(
    ctrl: u32,
    classes: &BTreeSet<CommandClass>,
    loads: &Both<BTreeMap<CommandClass, Load>>,
    sum: &Both<Load>,
) -> Option<LoadChange> {
    let part = |of: &BTreeMap<CommandClass, Load>, all: &Load, class| {
        let commands = of.get(class).map_or(0, |load| load.commands);
        commands as f64 / all.commands as f64
    };
    let shares = classes.iter().map(|class| {
        let share = Both { a: part(&loads.a, &sum.a, class), b: part(&loads.b, &sum.b, class) };
        (class, share)
    });
    let shares: Vec<_> = shares.collect();
    let moved = |share: &Both<f64>| (share.a - share.b).abs();
    let elsewhere = shares.iter().map(|(_, share)| moved(share)).sum::<f64>() / 2.0;
    let most = shares.iter().max_by(|x, y| moved(&x.1).total_cmp(&moved(&y.1)));
    let (class, share) = most.filter(|_| elsewhere > SAME_MIX)?;
    Some(LoadChange::Mix { ctrl, class: **class, share: *share })
}

impl Comparer<'_> {
    fn group(&self, members: &Members) -> Group {
        let of_group = |side: &Side| -> BTreeSet<Interval> {
            let rows = side.recordings.iter().flat_map(|r| r.slices.rows());
            let rows = rows.filter(|(class, _)| members.classes.contains(class));
            rows.map(|(_, interval)| interval).collect()
        };
        let (a, b) = (of_group(self.sides.a), of_group(self.sides.b));
        let common: Vec<Interval> = a.intersection(&b).copied().collect();
        let rows = common.into_iter().map(|interval| self.row(members, interval));
        let mut rows: Vec<DiffRow> = rows.collect();
        // an interval of a few odd commands is no row
        let most = rows.iter().map(|r| r.sides.a.count.max(r.sides.b.count));
        let most = most.max().unwrap_or(0);
        rows.retain(|r| r.sides.a.count.max(r.sides.b.count) * 100 >= most);
        Group {
            scope: members.scope,
            load: members.load,
            iops: iops(self.sides, &members.classes, &self.rates, self.paired),
            rows,
        }
    }

    fn row(&self, members: &Members, interval: Interval) -> DiffRow {
        let samples = self.sides.map(|side| sample(side, &members.classes, interval));
        let a = samples.a.spread(&self.resamples.a);
        let b = samples.b.spread(&self.resamples.b);
        let spreads = if self.paired { vec![b.minus(&a)] } else { vec![a, b] };
        let summary = |side: &Side, sample: &Sample| {
            let all = side.values(&members.classes, interval);
            let mut values = sample.values();
            for (value, q) in values.iter_mut().zip(QUANTILES) {
                *value = all.percentile(100.0 * q).unwrap_or(0) as f64;
            }
            Summary { count: sample.count(), values }
        };
        let sides =
            Both { a: summary(self.sides.a, &samples.a), b: summary(self.sides.b, &samples.b) };
        let compared = from_fn(|n| {
            let enough = |s: &Sample| s.count() >= MIN_COMMANDS[n] && s.slices() >= MIN_SLICES;
            if !enough(&samples.a) || !enough(&samples.b) {
                return None;
            }
            let parts = spreads.iter().flat_map(|s| s.variances(n));
            let ratio = Ratio::new(sides.a.values[n], sides.b.values[n], parts.chain(rounding(n)));
            Some(Compared { ratio, adjusted_p: ratio.p, finding: Finding::Same })
        });
        let observed = Both {
            a: sides.a.count as f64 / members.load.a.commands.max(1) as f64,
            b: sides.b.count as f64 / members.load.b.commands.max(1) as f64,
        };
        let Interval { is_total, run } = interval;
        DiffRow {
            name: name(interval),
            from: run.from,
            to: run.to,
            is_total,
            sides,
            compared,
            observed: Some(observed).filter(|o| (o.a - o.b).abs() > SAME_COMMANDS),
        }
    }
}

/// The name of an interval.
fn name(interval: Interval) -> String {
    let Interval { is_total, run } = interval;
    let (first, last) = run.stage_set.span();
    match (is_total, run.from <= first && run.to >= last) {
        (false, _) => run.name(),
        (true, true) => run.stage_set.whole().into(),
        (true, false) => format!("total of {}", run.name()),
    }
}

/// The variance that the width of the buckets adds to the logarithm of a quantile of each side.
fn rounding(statistic: usize) -> Option<Variance> {
    let of_one = RESOLUTION.powi(2) / 12.0;
    (statistic < QUANTILES.len()).then_some(Variance { value: 2.0 * of_one, degrees: 200.0 })
}

/// The values of an interval in these classes.
fn sample(side: &Side, classes: &[CommandClass], interval: Interval) -> Sample {
    let of_recording = |recording: &Counted| -> (Vec<Histogram>, usize) {
        let slices = &recording.slices;
        let mut sum = vec![empty_slice(); slices.count()];
        for class in classes {
            for (sum, one) in sum.iter_mut().zip(slices.of(&(*class, interval))) {
                sum.merge(one);
            }
        }
        (sum, slices.count())
    };
    let recordings: Vec<_> = side.recordings.iter().map(of_recording).collect();
    let borrowed: Vec<_> = recordings.iter().map(|(h, n)| (h.as_slice(), *n)).collect();
    Sample::new(&borrowed)
}

/// Adjusts the probabilities for the number of comparisons, and decides what to claim. A change must
/// have this part at least of the row, and of the total: the few microseconds that a busy machine adds
/// to a stage differ from run to run, and do not matter to a command of milliseconds.
fn judge(diff: &mut Diff, least: f64) {
    let rows = diff.groups.iter_mut().flat_map(|group| {
        let total = group.total().map_or_else(Values::default, |row| row.sides.a.values);
        group.rows.iter_mut().flat_map(move |row| {
            let (Both { a, b }, is_same) = (row.sides.map(|s| s.values), row.observed.is_none());
            let matters: [bool; STATISTICS.len()] =
                from_fn(|n| (b[n] - a[n]).abs() >= least * total[n].max(a[n]));
            let compared = row.compared.iter_mut().zip(matters);
            compared.filter_map(move |(c, matters)| Some((c.as_mut()?, matters, is_same)))
        })
    });
    let (mut all, others): (Vec<_>, Vec<_>) = rows.partition(|(_, _, is_same)| *is_same);
    for (compared, matters, _) in others {
        compared.finding = if matters { Finding::Unsure } else { Finding::Same };
    }
    let probabilities: Vec<f64> = all.iter().map(|(c, ..)| c.ratio.p).collect();
    for ((compared, matters, _), p) in all.iter_mut().zip(adjust(&probabilities)) {
        compared.adjusted_p = p;
        compared.finding = match *matters {
            true if p <= FALSE_ALARM => Finding::Changed,
            true if compared.ratio.p <= FALSE_ALARM => Finding::Unsure,
            _ => Finding::Same,
        };
    }
    diff.comparisons = probabilities.len();
}

/// Rates are in thousandths of a command per second: slices have integers.
const MILLI: u128 = 1000;

/// Resamples of all slices that are whole: the last one of each recording is not.
pub fn rate_resamples(sides: Both<&Side>, paired: bool) -> Both<Resamples> {
    let whole = |side: &Side| -> Vec<usize> {
        let slices = side.slices().into_iter();
        slices.map(|n| n.saturating_sub(1)).collect()
    };
    Both {
        a: Resamples::new(&whole(sides.a), SEEDS.a),
        b: Resamples::new(&whole(sides.b), if paired { SEEDS.a } else { SEEDS.b }),
    }
}

/// The rate of these classes in each slice.
fn rates(side: &Side, classes: &[CommandClass]) -> Sample {
    let of_recording = |slices: &Rows| -> Vec<Histogram> {
        let mut counts = vec![0_u64; slices.count().saturating_sub(1)];
        let rows = slices.rows();
        for row in rows.filter(|(class, i)| i.is_total && classes.contains(class)) {
            for (count, one) in counts.iter_mut().zip(slices.of(&row)) {
                *count += one.count();
            }
        }
        let rate = |count: u64| {
            let width = u128::from(slices.width_ns().max(1));
            let rate = u128::from(count) * 1_000_000_000 * MILLI / width;
            let mut one = empty_slice();
            one.record(u64::try_from(rate).unwrap_or(u64::MAX));
            one
        };
        counts.into_iter().map(rate).collect()
    };
    let all = side.recordings.iter().map(|r| of_recording(&r.slices));
    let all: Vec<Vec<Histogram>> = all.collect();
    let borrowed: Vec<_> = all.iter().map(|h| (h.as_slice(), h.len())).collect();
    Sample::new(&borrowed)
}

/// The ratio of the rates of these classes, if there are enough slices.
pub fn iops(
    sides: Both<&Side>,
    classes: &[CommandClass],
    resamples: &Both<Resamples>,
    paired: bool,
) -> Option<Ratio> {
    let samples = sides.map(|side| rates(side, classes));
    if samples.a.slices().min(samples.b.slices()) < MIN_SLICES {
        return None;
    }
    let a = samples.a.spread(&resamples.a);
    let b = samples.b.spread(&resamples.b);
    let spreads = if paired { vec![b.minus(&a)] } else { vec![a, b] };
    let parts = spreads.iter().flat_map(|s| s.variances(MEAN));
    let means = samples.map(|sample| sample.values()[MEAN]);
    Some(Ratio::new(means.a, means.b, parts))
}
