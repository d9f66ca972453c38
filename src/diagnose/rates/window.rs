// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows of time, and the statistics of their counts.

use super::{EVEN, Flat, Rates};

/// Fewest windows.
const ENOUGH: usize = 12;
/// Mean completions of a window, at least.
const COMPLETIONS: f64 = 16.0;
/// A window is this many mean times long, at least: what a long command delays stays in it.
const TIMES: f64 = 3.0;
/// A window is busy if never fewer commands are in flight.
const DEPTH: f64 = 2.0;
/// A flat rate moves by less than this part of what the number in flight does.
const UNMOVED: f64 = 0.25;
/// A change of the number in flight within a window is large from this part of its mean.
const CHANGE: f64 = 0.2;
/// Fewest large changes.
const CHANGES: usize = 3;
/// Submissions make this part of them, at least.
const MOVED: f64 = 0.6;
/// Or this part of fewer changes, if these make up the mean number in flight.
const SURELY_MOVED: f64 = 0.8;
/// Quantile of the normal distribution for the bounds of variances: one in 1000 outside on each side.
const Z: f64 = 3.09;

/// What a window has.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    completed: f64,
    submitted: f64,
    bytes_completed: f64,
    /// Mean and least number in flight.
    in_flight: f64,
    least: f64,
}

/// The windows of a run.
#[derive(Debug)]
pub struct Windows {
    all: Vec<Window>,
    busy: Vec<Window>,
    seconds: f64,
    /// Mean size in bytes, by bytes.
    unit: f64,
    /// Part of the time with a command in flight.
    pub busy_part: f64,
    /// 10 % and 90 % quantile of the mean number in flight, of busy windows.
    pub in_flight: (f64, f64),
}

fn quantile(values: impl Iterator<Item = f64>, q: f64) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * q).round() as usize).copied().unwrap_or(0.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

/// Variance of a sample.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    squares / (values.len() as f64 - 1.0).max(1.0)
}

/// Factors for the bounds of a variance of this many values, if they are normal. The quantiles of
/// chi-squared follow Wilson and Hilferty.
fn bounds(count: usize) -> (f64, f64) {
    let degrees = (count as f64 - 1.0).max(1.0);
    let chi = |z: f64| {
        let part = 2.0 / (9.0 * degrees);
        degrees * (1.0 - part + z * part.sqrt()).max(0.05).powi(3)
    };
    (degrees / chi(Z), degrees / chi(-Z))
}

/// Variance by mean, in units of this size.
fn dispersion(completed: &[f64], unit: f64) -> f64 {
    variance(completed) / (mean(completed) * unit.max(1.0)).max(f64::MIN_POSITIVE)
}

/// Values of some windows.
fn pick(windows: &[Window], value: fn(&Window) -> f64) -> Vec<f64> {
    windows.iter().map(value).collect()
}

impl Windows {
    /// The windows of a run. The first and the last are left out: commands in flight then are not seen.
    pub fn of(rates: &Rates) -> Self {
        let in_flight = rates.in_flight();
        let bins = rates.bins.len();
        let occupied = in_flight.windows(2).filter(|n| n[0] + n[1] > 0.0).count();
        let width = rates.width_ns as f64;
        let per_bin = rates.commands as f64 / (occupied as f64).max(1.0);
        let usual = rates.time_ns / (rates.commands as f64).max(1.0) / width;
        let length = f64::max(COMPLETIONS / per_bin.max(1e-9), TIMES * usual);
        let length = (length.ceil() as usize).clamp(1, bins.max(1));
        let starts = (length..bins.saturating_sub(2 * length)).step_by(length);
        let window = |start: usize| {
            let bins = rates.bins.get(start..start + length).unwrap_or_default();
            let numbers = in_flight.get(start..=start + length).unwrap_or_default();
            let sum = |value: fn(&super::Bin) -> f64| bins.iter().map(value).sum::<f64>();
            Window {
                completed: sum(|b| f64::from(b.completed)),
                submitted: sum(|b| f64::from(b.submitted)),
                bytes_completed: sum(|b| b.bytes_completed as f64),
                in_flight: mean(numbers),
                least: numbers.iter().copied().fold(f64::INFINITY, f64::min),
            }
        };
        let all: Vec<Window> = starts.map(window).collect();
        // not the first one after an idle time: many limits let a burst pass then
        let is_busy = |w: &Window| w.least >= DEPTH;
        let busy = all.windows(2).filter(|pair| pair.iter().all(is_busy));
        let busy: Vec<Window> = busy.map(|pair| pair[1]).collect();
        let number = |q| quantile(busy.iter().map(|w| w.in_flight), q);
        Self {
            seconds: width * length as f64 / 1e9,
            unit: rates.unit(),
            busy_part: occupied as f64 / (bins as f64).max(1.0),
            in_flight: (number(0.1), number(0.9)),
            all,
            busy,
        }
    }

    /// Whether there are enough busy windows.
    pub const fn is_enough(&self) -> bool {
        self.busy.len() >= ENOUGH
    }

    /// Whether hardly any window is busy: there are no bursts in which a limit could hold.
    pub const fn are_seldom_busy(&self) -> bool {
        self.busy.len() < CHANGES
    }

    /// The busy windows with most commands in flight: a limit may hold in these only.
    fn top(&self) -> Vec<Window> {
        let least = self.in_flight.1 / 2.0;
        let top = self.busy.iter().filter(|w| w.in_flight >= least);
        top.copied().collect()
    }

    /// A rate that stays the same while submissions change the number in flight.
    pub fn flat(&self) -> Option<Flat> {
        if self.response_bounds()?.1 > 1.0 + UNMOVED * (self.in_flight.1 / self.in_flight.0 - 1.0) {
            return None;
        }
        // slow changes show in longer windows
        let by_submissions = [1, 4, 16].into_iter().find_map(|n| self.moved_by_submissions(n))?;
        let top = self.top();
        let sets = [self.busy.as_slice(), top.as_slice()];
        let flat = sets.into_iter().find_map(|windows| self.even_in(windows))?;
        Some(Flat { by_submissions, ..flat })
    }

    /// Completions that are more even than independent ones.
    fn even_in(&self, windows: &[Window]) -> Option<Flat> {
        if windows.len() < ENOUGH {
            return None;
        }
        let (_, high) = bounds(windows.len());
        let measures = [
            (pick(windows, |w| w.completed), 1.0, false),
            (pick(windows, |w| w.bytes_completed), self.unit, true),
        ];
        let even = measures.into_iter().filter_map(|(done, unit, is_bytes)| {
            let dispersion = dispersion(&done, unit);
            (dispersion * high < EVEN).then(|| Flat {
                is_bytes,
                rate: mean(&done) / self.seconds,
                dispersion,
                by_submissions: 0.0,
                in_flight: self.in_flight,
            })
        });
        even.min_by(|a, b| a.dispersion.total_cmp(&b.dispersion))
    }

    /// Completions at a constant number in flight that are more even than independent ones.
    pub fn even(&self) -> Option<Flat> {
        self.even_in(&self.busy)
    }

    /// The part of large changes of the number in flight that submissions made, and not completions: the
    /// limit of a device leaves completions as they are, a slower device does not. `windows`: so many are taken
    /// together. `None`: too few changes, or a small part.
    fn moved_by_submissions(&self, windows: usize) -> Option<f64> {
        let usual = mean(&pick(&self.busy, |w| w.completed)) * windows as f64;
        let number = mean(&pick(&self.busy, |w| w.in_flight));
        let least = f64::max(DEPTH, CHANGE * number);
        let chunks = self.all.chunks_exact(windows);
        let busy = chunks.filter(|chunk| chunk.iter().all(|w| w.least >= DEPTH));
        let (mut count, mut all, mut own) = (0, 0.0, 0.0);
        for chunk in busy {
            let submitted: f64 = chunk.iter().map(|w| w.submitted).sum();
            let completed: f64 = chunk.iter().map(|w| w.completed).sum();
            let change = submitted - completed;
            if change.abs() >= least {
                count += 1;
                all += change.abs();
                own += (submitted - usual) * change.signum();
            }
        }
        let part = own / f64::max(all, 1.0);
        let is_enough = count >= CHANGES && part >= MOVED;
        (is_enough || (all >= number && part >= SURELY_MOVED)).then_some(part)
    }

    /// The ratio of the rates of the windows with more and with fewer commands in flight: its bounds, and
    /// the ratio of these numbers. `None`: too few windows.
    fn response_bounds(&self) -> Option<(f64, f64, f64)> {
        let middle = f64::midpoint(self.in_flight.0, self.in_flight.1);
        let split = |above: bool| -> (Vec<f64>, f64) {
            let side = self.busy.iter().filter(|w| (w.in_flight > middle) == above);
            let rates: Vec<f64> = side.clone().map(|w| w.completed).collect();
            let numbers: Vec<f64> = side.map(|w| w.in_flight).collect();
            (rates, mean(&numbers))
        };
        let ((more, high), (fewer, low)) = (split(true), split(false));
        if more.len().min(fewer.len()) < ENOUGH / 3 {
            return None;
        }
        let number = high / low.max(f64::MIN_POSITIVE);
        let (a, b) = (mean(&more), mean(&fewer).max(f64::MIN_POSITIVE));
        let error = |values: &[f64], mean: f64| {
            variance(values) / values.len() as f64 / mean.powi(2).max(f64::MIN_POSITIVE)
        };
        let error = (error(&more, a) + error(&fewer, b)).sqrt();
        let ratio = a / b;
        Some((ratio * (-Z * error).exp(), ratio * (Z * error).exp(), number))
    }

    /// How the rate answers to the number in flight: the ratio of the rates of the windows with more and
    /// with fewer commands, at least, and of these numbers. `None`: less than half of the way, or not sure.
    pub fn response(&self) -> Option<(f64, f64)> {
        let (least, _, number) = self.response_bounds()?;
        (least > number.sqrt()).then_some((least, number))
    }

    /// Whether completions vary as independent ones do, in all busy windows and in those with most in
    /// flight.
    pub fn varies_when_busy(&self) -> bool {
        let top = self.top();
        self.are_independent(&self.busy) && self.are_independent(&top)
    }

    /// The same in all windows, busy or not.
    pub fn varies_like_independent(&self) -> bool {
        self.are_independent(&self.all)
    }

    fn are_independent(&self, windows: &[Window]) -> bool {
        if windows.len() < ENOUGH {
            return false;
        }
        let (low, _) = bounds(windows.len());
        let counts = dispersion(&pick(windows, |w| w.completed), 1.0);
        let bytes = dispersion(&pick(windows, |w| w.bytes_completed), self.unit);
        counts * low > EVEN && bytes * low > EVEN
    }
}
