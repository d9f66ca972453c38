// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares of time and ratios of medians, with intervals: by bootstrap over slices of time, because
//! commands that follow each other are alike.

use std::cmp::Ordering;

use super::command::Command;
use super::facts::{ClassFacts, Facts, Stages};
use super::verdict::{Share, Subject};
use crate::model::command_class::CommandClass;
use crate::model::histogram::Histogram;
use crate::stats::intervals::{Ratio, Resamples};
use crate::stats::sample::{Sample, empty_slice};

/// Length of a slice of a short recording, in nanoseconds.
const MIN_SLICE_NS: u64 = 250_000_000;
/// Most slices.
const MAX_SLICES: u64 = 64;
/// Fewest commands of each side of a comparison.
pub const NEEDED: u64 = 30;
/// Fewest slices with commands of each side.
const MIN_SLICES: usize = 4;
/// Index of the median in the statistics.
const MEDIAN: usize = 0;
/// Index of the mean.
const MEAN: usize = 3;
const SEED: u64 = 1;
/// The fastest tenth.
const FASTEST: f64 = 0.1;
/// A real cost slows these by this part of it, at least.
const PART: f64 = 0.3;
/// A ratio above this says only that it is large.
const LARGE: f64 = 100.0;

/// A comparison of the commands with a condition and those without it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Median with the condition, by that without it; `None`: too few commands of either side.
    pub ratio: Option<Ratio>,
    /// The class that was compared. Of several classes, the one in which the condition explains most.
    pub class: Option<CommandClass>,
    /// Commands with the condition.
    pub with: u64,
    /// Commands without it.
    pub without: u64,
    /// It also slows the fastest commands, and commands beside faster ones, as a real cost does.
    pub may_cause: bool,
    /// The part of the time that the commands with the condition took longer, on average.
    pub explains: f64,
    /// The part of the time that commands with the condition took.
    pub at_most: f64,
    /// The part of the time that commands with the condition took, and that could not be compared.
    pub unjudged: f64,
    /// The classes with a longer time, and the part of their time that this explains.
    pub classes: Vec<(CommandClass, f64)>,
}

impl Comparison {
    /// Whether the condition goes with a longer time: by a tenth surely, and for this part of all time
    /// at least.
    pub fn goes_with(&self, least: f64) -> bool {
        self.ratio.is_some_and(|ratio| ratio.low > 1.1) && self.explains >= least
    }

    /// Whether the interval spans both no effect and twice the time.
    pub fn is_vague(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio.low <= 1.1 && ratio.high >= 2.0)
    }

    /// The part of the time that commands with the condition took and that nothing is known about.
    fn open(&self) -> f64 {
        let is_open = self.ratio.is_none() || self.is_vague();
        self.unjudged + if is_open { self.at_most } else { 0.0 }
    }
}

/// `1.42x [1.31, 1.55]`
pub fn ratio_text(Ratio { ratio, low, high, .. }: Ratio) -> String {
    let high = if high < LARGE { format!("{high:.2}") } else { format!("above {LARGE}") };
    format!("{ratio:.2}x [{low:.2}, {high}]")
}

/// A quantile; `None`: there are no values.
pub fn quantile<T: PartialOrd>(values: impl Iterator<Item = T>, q: f64) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let last = values.len().saturating_sub(1) as f64;
    values.into_iter().nth((last * q).round() as usize)
}

/// The slices of a recording.
#[derive(Clone, Debug)]
pub struct TimeSlices {
    origin_ns: u64,
    /// Length of a slice in nanoseconds.
    pub width_ns: u64,
    count: usize,
    resamples: Resamples,
}

impl Default for TimeSlices {
    fn default() -> Self {
        Self::of(&[])
    }
}

impl TimeSlices {
    /// Slices from the first to the last of these commands.
    pub fn of(commands: &[Command]) -> Self {
        let first = commands.iter().map(|c| c.at.end_ns).min().unwrap_or(0);
        let last = commands.iter().map(|c| c.at.end_ns).max().unwrap_or(0);
        let width_ns = ((last - first) / MAX_SLICES + 1).max(MIN_SLICE_NS);
        let count = ((last - first) / width_ns + 1) as usize;
        Self { origin_ns: first, width_ns, count, resamples: Resamples::new(&[count], SEED) }
    }

    /// The slice of a time.
    pub fn slice(&self, at_ns: u64) -> usize {
        let at = at_ns.saturating_sub(self.origin_ns) / self.width_ns;
        (at as usize).min(self.count - 1)
    }

    /// The share that a part has of the time of commands. `values`: the time of a command, and the part of it, at
    /// least and at most.
    pub fn share<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        values: impl Fn(&Command) -> [f64; 3],
    ) -> Share {
        let mut slices = vec![[0.0; 3]; self.count];
        for command in commands {
            let slice = &mut slices[self.slice(command.at.end_ns)];
            slice.iter_mut().zip(values(command)).for_each(|(sum, value)| *sum += value);
        }
        let shares = |weight: &dyn Fn(usize) -> f64| {
            let sum = |part: usize| -> f64 {
                slices.iter().enumerate().map(|(n, slice)| weight(n) * slice[part]).sum()
            };
            let whole = sum(0).max(1.0);
            (sum(1) / whole, sum(2) / whole)
        };
        let (least, most) = shares(&|_| 1.0);
        let drawn = self.resamples.within.iter();
        let drawn: Vec<f64> = drawn.map(|weights| shares(&|n| f64::from(weights[n])).0).collect();
        let at = |q| quantile(drawn.iter().copied(), q).unwrap_or(least);
        Share { least, most, low: at(0.025), high: at(0.975) }
    }

    /// Compares the time of commands of a class in these stages with a condition and without. Parts are parts of
    /// `total`.
    pub fn compare<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        total: f64,
        stages: Stages,
        when: impl Fn(&Command) -> Option<bool>,
    ) -> Comparison {
        // as long as needed: most classes of a recording may have a command or two
        let mut sides: [Vec<Histogram>; 2] = Default::default();
        let mut counts = [0_u64; 2];
        let (mut at_most, mut unjudged) = (0.0, 0.0);
        let (mut last, mut ratios) = (None, Vec::new());
        for command in commands {
            let Some(with) = when(command) else { continue };
            let Some(ns) = command.time_in(stages) else {
                unjudged += f64::from(u8::from(with)) * command.time_bounds(stages).1 as f64;
                continue;
            };
            at_most += if with { ns as f64 } else { 0.0 };
            // the time of one with the condition, divided by its neighbour's without it
            let ratio = match last.replace((with, ns as f64)) {
                Some((false, other)) if with => ns as f64 / other,
                Some((true, other)) if !with => other / ns as f64,
                _ => f64::NAN,
            };
            ratios.extend(Some(ratio).filter(|ratio| ratio.is_finite()));
            let (side, slice) = (usize::from(with), self.slice(command.at.end_ns));
            counts[side] += 1;
            if sides[side].len() <= slice {
                sides[side].resize_with(slice + 1, empty_slice);
            }
            sides[side][slice].record(ns);
        }
        let part = |ns: f64| ns / total.max(1.0);
        let few = Comparison {
            with: counts[1],
            without: counts[0],
            at_most: part(at_most),
            unjudged: part(unjudged),
            ..Comparison::default()
        };
        if counts[0].min(counts[1]) < NEEDED {
            return few;
        }
        let [without, with] = sides.map(|slices| Sample::new(&[(slices.as_slice(), self.count)]));
        if with.slices().min(without.slices()) < MIN_SLICES {
            return few;
        }
        let (a, b) = (without.values(), with.values());
        let spread = with.spread(&self.resamples).minus(&without.spread(&self.resamples));
        let ratio = Ratio::new(a[MEDIAN], b[MEDIAN], spread.variances(MEDIAN));
        // if commands take long for another reason, and this brings the condition about, then the fastest ones are as
        // fast, or their neighbours as slow
        let faster = with.quantile_of_all(FASTEST) - without.quantile_of_all(FASTEST);
        let shifts_all = faster >= PART * (b[MEDIAN] - a[MEDIAN]);
        let is_enough = ratios.len() as u64 >= NEEDED;
        let beside = quantile(ratios.into_iter(), 0.5).filter(|_| is_enough);
        let is_own = |beside: f64| beside - 1.0 >= PART * (ratio.ratio - 1.0);
        Comparison {
            explains: part((b[MEAN] - a[MEAN]) * with.count() as f64),
            may_cause: shifts_all && beside.is_none_or(is_own),
            ratio: Some(ratio),
            ..few
        }
    }
}

impl Facts {
    /// Compares the time of a subject's commands in these stages with a condition and without, in the
    /// class in which the condition explains most. Parts are parts of the time of all classes: `explains` of
    /// all classes with a longer time, `unjudged` of all that could not be compared.
    pub fn compare(
        &self,
        subject: Subject,
        stages: Stages,
        when: impl Fn(&Command) -> Option<bool>,
    ) -> Comparison {
        let total = self.total(subject).max(1.0);
        let compare = |class: &ClassFacts| {
            let in_memory = total / class.weight as f64;
            let found = self.slices.compare(self.of_class(class), in_memory, stages, &when);
            let explains = found.explains * total / (class.total_ns as f64).max(1.0);
            Comparison { class: Some(class.class), classes: vec![(class.class, explains)], ..found }
        };
        let all: Vec<Comparison> = self.classes.of_subject(subject).map(compare).collect();
        let open: f64 = all.iter().map(Comparison::open).sum();
        let longer = || all.iter().filter(|c| c.goes_with(0.0));
        let explains: f64 = longer().map(|c| c.explains).sum();
        let best = all.iter().filter(|c| c.ratio.is_some()).max_by(|a, b| {
            let order = a.goes_with(0.0).cmp(&b.goes_with(0.0));
            order.then(a.explains.total_cmp(&b.explains))
        });
        let Some(found) = best else {
            let (with, without) = all.iter().fold((0, 0), |n, c| (n.0 + c.with, n.1 + c.without));
            return Comparison { with, without, at_most: open, ..Comparison::default() };
        };
        Comparison {
            explains: explains.max(found.explains),
            unjudged: open - if found.is_vague() { found.at_most } else { 0.0 },
            classes: longer().flat_map(|c| c.classes.clone()).collect(),
            ..found.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use fastrand::Rng;

    use super::*;
    use crate::model::command_class::BlockSizes;
    use crate::testing::{EventBuilder, STAGES};

    /// Runs of each test.
    const RUNS: u64 = 100;
    const COMMANDS: u64 = 2000;
    const STEP_NS: u64 = 5_000_000;

    fn normal(rng: &mut Rng) -> f64 {
        (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
    }

    /// Commands of 10 s whose device times are autocorrelated, for 10 commands or so. `cid` is 1 for those
    /// with the condition, which lasts for some commands; their device time is multiplied.
    fn run(seed: u64, factor: f64) -> Vec<Command> {
        let mut rng = Rng::with_seed(seed);
        let (mut level, mut with) = (normal(&mut rng), false);
        let one = |n| {
            level = 0.9 * level + 0.436 * normal(&mut rng);
            if rng.f64() < 0.2 {
                with = rng.f64() < 0.3;
            }
            let times = if with { factor } else { 1.0 };
            let noise = (0.3 * level + 0.3 * normal(&mut rng)).exp();
            let mut stages = STAGES;
            stages[4] = (100_000.0 * times * noise) as u64;
            let made = EventBuilder::staged(1_000_000_000 + n * STEP_NS, stages);
            let event = made.cid(u16::from(with)).command();
            Command::of(&event, &BlockSizes::default()).unwrap()
        };
        (0..COMMANDS).map(one).collect()
    }

    fn compare(seed: u64, factor: f64) -> Comparison {
        let commands = run(seed, factor);
        let clock = TimeSlices::of(&commands);
        let when = |c: &Command| Some(c.at.cid == Some(1));
        let total = commands.iter().map(Command::total).sum::<u64>() as f64;
        clock.compare(commands.iter(), total, Stages::DEVICE, when)
    }

    #[test]
    fn a_condition_without_effect_is_seldom_seen_to_have_one() {
        let all: Vec<Comparison> = (0..RUNS).map(|seed| compare(seed, 1.0)).collect();
        let of = |ratio: &Ratio| ratio.low > 1.0 || ratio.high < 1.0;
        let excludes = all.iter().filter(|c| of(&c.ratio.unwrap())).count();
        assert!(excludes <= 10, "{excludes}");
        assert_eq!(all.iter().filter(|c| c.goes_with(0.0)).count(), 0);
    }

    #[test]
    fn a_condition_that_adds_a_half_is_seen() {
        let all: Vec<Comparison> = (0..RUNS).map(|seed| compare(seed, 1.5)).collect();
        let seen = all.iter().filter(|c| c.goes_with(0.05)).count();
        assert!(seen >= 95, "{seen}");
        let covers = all.iter().map(|c| c.ratio.unwrap()).filter(|r| r.low < 1.5 && r.high > 1.5);
        assert!(covers.clone().count() >= 88, "{}", covers.count());
        // 30 % of the commands take 50 us longer than 105 us; the other stages take 19 us
        let mean = all.iter().map(|c| c.explains).sum::<f64>() / RUNS as f64;
        assert!((0.08..0.14).contains(&mean), "{mean}");
    }

    #[test]
    fn the_interval_of_a_share_has_the_share() {
        let runs: Vec<Vec<Command>> = (0..RUNS).map(|seed| run(seed, 2.0)).collect();
        let part = |c: &Command| if c.at.cid == Some(1) { c.total() } else { 0 };
        let sum = |value: &dyn Fn(&Command) -> u64| -> f64 {
            let all = runs.iter().flatten();
            all.map(|c| value(c) as f64).sum()
        };
        let truth = sum(&part) / sum(&Command::total);
        let has = |commands: &&Vec<Command>| {
            let clock = TimeSlices::of(commands);
            let times = |c: &Command| [c.total(), part(c), part(c)].map(|ns| ns as f64);
            let share = clock.share(commands.iter(), times);
            assert!(share.low <= share.least && share.least <= share.high);
            share.low < truth && truth < share.high
        };
        let covers = runs.iter().filter(has).count();
        // 95 with very many slices; it has 40
        assert!(covers >= 84, "{covers}");
    }

    #[test]
    fn too_few_commands_or_slices_are_not_compared() {
        let commands = run(1, 1.0);
        let clock = TimeSlices::of(&commands);
        let compare = |most: usize, slices: u64| {
            let mut left = most;
            let mut when = Vec::new();
            for command in &commands {
                let early = command.at.end_ns < 1_000_000_000 + slices * 250_000_000;
                let with = left > 0 && early && command.at.cid == Some(1);
                left -= usize::from(with);
                when.push((command.at.end_ns, with));
            }
            let with = |c: &Command| when.iter().find(|(end, _)| *end == c.at.end_ns).map(|w| w.1);
            let found = clock.compare(commands.iter(), 1.0, Stages::DEVICE, with);
            found.ratio.is_none().then_some(found.with)
        };
        assert!(compare(usize::MAX, 40).is_none());
        assert_eq!(compare(29, 40), Some(29));
        assert!(compare(usize::MAX, 2).is_some());
        assert_eq!(compare(0, 40), Some(0));
    }

    #[test]
    fn nothing_has_no_share() {
        let clock = TimeSlices::of(&[]);
        assert_eq!(clock.share([].iter(), |_| [1.0; 3]), Share::default());
        assert_eq!((clock.count, clock.slice(u64::MAX)), (1, 0));
    }
}
