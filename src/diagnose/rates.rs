// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions and completions of a controller over time, in bounded memory, and what they show of a
//! limit.
//!
//! Little's law (time = number in flight / rate) holds for every device, so it shows nothing. A limit
//! shows in three facts together:
//! - The completions of windows of time vary far less than independent ones would. Those of random
//!   arrivals vary as much as independent ones.
//! - The number in flight changes, and the rate does not.
//! - Submissions changed that number. Where a slower device did, as below a load that paces itself, the
//!   completions changed first.
//!
//! There is no limit near this rate if it rises with the number in flight, or if completions vary as
//! independent ones do. A load that always has the same number in flight shows none of this.

use super::compare::quantile;
use super::verdict::{Reason, open, out};
use crate::units::{rate, size_text};

/// Width of a bin at first, in nanoseconds.
const FIRST_WIDTH_NS: u64 = 250_000;
/// Most bins. If more are needed, each two become one.
const MOST_BINS: usize = 8192;
/// The number in flight varies if its 90 % quantile is this many times its 10 % quantile.
const VARIES: f64 = 1.5;
/// Variance by mean; 1 for independent completions.
const EVEN: f64 = 0.5;
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

/// What is counted in a bin or a window.
type Counts = [f64; 3];
// its parts
const SUBMITTED: usize = 0;
const COMPLETED: usize = 1;
const BYTES: usize = 2;

fn sum(bins: &[Counts]) -> Counts {
    std::array::from_fn(|part| bins.iter().map(|bin| bin[part]).sum())
}

/// Submissions and completions by time.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    origin_ns: Option<u64>,
    /// log2 of how many first widths a bin has.
    doublings: u32,
    bins: Vec<Counts>,
    /// Submitted before the first bin.
    before: u64,
    commands: u64,
    time_ns: f64,
    /// Sum of bytes, and of their squares.
    bytes: [f64; 2],
}

/// A rate that does not change with the number in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flat {
    /// Bytes per second; otherwise commands per second.
    pub is_bytes: bool,
    /// Per second.
    pub rate: f64,
    /// 10 % and 90 % quantile of the number in flight.
    pub in_flight: (f64, f64),
}

impl Flat {
    /// `150 IOPS`, or `125M/s`
    pub fn limit(&self) -> String {
        match self.is_bytes {
            false => format!("{} IOPS", rate(self.rate)),
            true => format!("{}/s", size_text(self.rate as u64)),
        }
    }
}

impl Rates {
    /// Adds a command.
    pub fn add(&mut self, (begin_ns, end_ns): (u64, u64), bytes: u32) {
        self.origin_ns.get_or_insert(begin_ns);
        self.commands += 1;
        self.time_ns += end_ns.saturating_sub(begin_ns) as f64;
        self.bytes[0] += f64::from(bytes);
        self.bytes[1] += f64::from(bytes).powi(2);
        match self.bin(begin_ns) {
            Some(bin) => bin[SUBMITTED] += 1.0,
            None => self.before += 1,
        }
        if let Some(bin) = self.bin(end_ns) {
            bin[COMPLETED] += 1.0;
            bin[BYTES] += f64::from(bytes);
        }
    }

    const fn width_ns(&self) -> u64 {
        FIRST_WIDTH_NS << self.doublings
    }

    /// The bin of a time; `None` before the first one.
    fn bin(&mut self, at_ns: u64) -> Option<&mut Counts> {
        let since = at_ns.checked_sub(self.origin_ns?)?;
        while since / self.width_ns() >= MOST_BINS as u64 {
            self.bins = self.bins.chunks(2).map(sum).collect();
            self.doublings += 1;
        }
        let at = (since / self.width_ns()) as usize;
        if at >= self.bins.len() {
            self.bins.resize(at + 1, Counts::default());
        }
        self.bins.get_mut(at)
    }

    /// The limit that they show; otherwise why there is none near this rate, or why that is not known.
    pub fn limit(&self) -> Result<Flat, Reason> {
        let windows = Windows::of(self);
        if windows.busy.len() < ENOUGH {
            return Err(open("needs more time with at least two commands in flight"));
        }
        let (low, high) = windows.in_flight;
        let text = format!("{low:.1} to {high:.1} in flight");
        if high < low * VARIES {
            let even = windows.even(&windows.busy).map_or(String::new(), |flat| {
                let limit = flat.limit();
                format!("; completions are as even as under a limit of {limit}, or from an evenly paced program")
            });
            return Err(open(format!(
                "the number in flight did not vary ({text}){even}: needs another depth within the run"
            )));
        }
        // a limit may hold only in the windows with most commands in flight
        let mut top = windows.busy.clone();
        top.retain(|w| w.in_flight >= high / 2.0);
        let response = windows.response();
        let is_flat =
            response.is_some_and(|(_, most, _)| most <= 1.0 + UNMOVED * (high / low - 1.0));
        if is_flat
            // slow changes show in longer windows
            && [1, 4, 16].into_iter().any(|n| windows.are_moved_by_submissions(n))
            && let Some(flat) = windows.even(&windows.busy).or_else(|| windows.even(&top))
        {
            return Ok(flat);
        }
        // at least half of the way
        let follows = response.filter(|(least, _, number)| *least > number.sqrt());
        Err(match follows {
            Some((rate, _, number)) => out(format!(
                "the rate follows the number in flight: {rate:.1} times at {number:.1} times as many"
            )),
            None if windows.are_independent(&windows.busy) && windows.are_independent(&top) => {
                out("completions vary as independent ones do")
            }
            None => open(format!(
                "the rate is not flat, and does not follow the number ({text}): needs other depths, for longer"
            )),
        })
    }
}

/// What a window of time has.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    counts: Counts,
    /// Mean and least number in flight.
    in_flight: f64,
    least: f64,
}

/// The windows of a run.
#[derive(Debug)]
struct Windows {
    all: Vec<Window>,
    busy: Vec<Window>,
    seconds: f64,
    /// Mean bytes of a byte's command: the unit in which bytes of independent commands have a variance
    /// equal to the mean.
    unit: f64,
    /// 10 % and 90 % quantile of the mean number in flight, of busy windows.
    in_flight: (f64, f64),
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

/// Factor for a bound of a variance of this many values, if they are normal: the lower one for [`Z`], the
/// upper one for -Z. The quantiles of chi-squared follow Wilson and Hilferty.
fn bound(count: usize, z: f64) -> f64 {
    let degrees = (count as f64 - 1.0).max(1.0);
    let part = 2.0 / (9.0 * degrees);
    1.0 / (1.0 - part + z * part.sqrt()).max(0.05).powi(3)
}

/// Values of some windows.
fn pick(windows: &[Window], value: impl Fn(&Window) -> f64) -> Vec<f64> {
    windows.iter().map(value).collect()
}

impl Windows {
    /// The windows of a run. The first and the last are left out: commands in flight then are not seen.
    fn of(rates: &Rates) -> Self {
        // at the start of each bin, and at the end
        let mut in_flight = vec![rates.before as f64];
        for bin in &rates.bins {
            let last = in_flight[in_flight.len() - 1];
            in_flight.push(last + bin[SUBMITTED] - bin[COMPLETED]);
        }
        let bins = rates.bins.len();
        let occupied = in_flight.windows(2).filter(|n| n[0] + n[1] > 0.0).count();
        let width = rates.width_ns() as f64;
        let per_bin = rates.commands as f64 / (occupied as f64).max(1.0);
        let usual = rates.time_ns / (rates.commands as f64).max(1.0) / width;
        let length = f64::max(COMPLETIONS / per_bin.max(1e-9), TIMES * usual);
        let length = (length.ceil() as usize).clamp(1, bins.max(1));
        let starts = (length..bins.saturating_sub(2 * length)).step_by(length);
        let window = |start: usize| {
            let bins = rates.bins.get(start..start + length).unwrap_or_default();
            let numbers = in_flight.get(start..=start + length).unwrap_or_default();
            Window {
                counts: sum(bins),
                in_flight: mean(numbers),
                least: numbers.iter().copied().fold(f64::INFINITY, f64::min),
            }
        };
        let all: Vec<Window> = starts.map(window).collect();
        // not the first one after an idle time: many limits let a burst pass then
        let is_busy = |w: &Window| w.least >= DEPTH;
        let busy = all.windows(2).filter(|pair| pair.iter().all(is_busy));
        let busy: Vec<Window> = busy.map(|pair| pair[1]).collect();
        let number = |q| quantile(busy.iter().map(|w| w.in_flight), q).unwrap_or(0.0);
        let [bytes, squares] = rates.bytes;
        Self {
            seconds: width * length as f64 / 1e9,
            unit: squares / bytes.max(1.0),
            in_flight: (number(0.1), number(0.9)),
            all,
            busy,
        }
    }

    /// The rate of completions in some windows, and of bytes; variance by mean of each, in units of its size.
    fn dispersions(&self, windows: &[Window]) -> [(Flat, f64); 2] {
        [(COMPLETED, 1.0), (BYTES, self.unit)].map(|(part, unit)| {
            let done = pick(windows, |w| w.counts[part]);
            let rate = mean(&done) / self.seconds;
            let flat = Flat { is_bytes: part == BYTES, rate, in_flight: self.in_flight };
            (flat, variance(&done) / (mean(&done) * unit.max(1.0)).max(f64::MIN_POSITIVE))
        })
    }

    /// Completions that are more even than independent ones.
    fn even(&self, windows: &[Window]) -> Option<Flat> {
        let high = bound(windows.len(), -Z);
        let (flat, dispersion) =
            self.dispersions(windows).into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        (windows.len() >= ENOUGH && dispersion * high < EVEN).then_some(flat)
    }

    /// Whether completions and bytes vary as independent ones do.
    fn are_independent(&self, windows: &[Window]) -> bool {
        let low = bound(windows.len(), Z);
        let all = self.dispersions(windows);
        windows.len() >= ENOUGH && all.iter().all(|(_, dispersion)| dispersion * low > EVEN)
    }

    /// Whether submissions made most of the large changes of the number in flight, and not completions: the limit of a
    /// device leaves completions as they are, a slower device does not. `windows`: so many are taken together.
    fn are_moved_by_submissions(&self, windows: usize) -> bool {
        let usual = mean(&pick(&self.busy, |w| w.counts[COMPLETED])) * windows as f64;
        let number = mean(&pick(&self.busy, |w| w.in_flight));
        let least = f64::max(DEPTH, CHANGE * number);
        let chunks = self.all.chunks_exact(windows);
        let busy = chunks.filter(|chunk| chunk.iter().all(|w| w.least >= DEPTH));
        let (mut count, mut all, mut own) = (0, 0.0, 0.0);
        for chunk in busy {
            let submitted: f64 = chunk.iter().map(|w| w.counts[SUBMITTED]).sum();
            let completed: f64 = chunk.iter().map(|w| w.counts[COMPLETED]).sum();
            let change = submitted - completed;
            if change.abs() >= least {
                count += 1;
                all += change.abs();
                own += (submitted - usual) * change.signum();
            }
        }
        let part = own / f64::max(all, 1.0);
        let is_enough = count >= CHANGES && part >= MOVED;
        is_enough || (all >= number && part >= SURELY_MOVED)
    }

    /// How the rate answers to the number in flight: bounds of the ratio of the rates of the windows with more
    /// and with fewer commands in flight, and the ratio of these numbers. `None`: too few windows.
    fn response(&self) -> Option<(f64, f64, f64)> {
        let middle = f64::midpoint(self.in_flight.0, self.in_flight.1);
        let (more, fewer): (Vec<Window>, Vec<Window>) =
            self.busy.iter().copied().partition(|w| w.in_flight > middle);
        if more.len().min(fewer.len()) < ENOUGH / 3 {
            return None;
        }
        let number = |side: &[Window]| mean(&pick(side, |w| w.in_flight)).max(f64::MIN_POSITIVE);
        // the mean rate, and the square of its relative error
        let rate = |side: &[Window]| {
            let rates = pick(side, |w| w.counts[COMPLETED]);
            let mean = mean(&rates).max(f64::MIN_POSITIVE);
            (mean, variance(&rates) / rates.len() as f64 / mean.powi(2).max(f64::MIN_POSITIVE))
        };
        let ((a, error_a), (b, error_b)) = (rate(&more), rate(&fewer));
        let factor = (Z * (error_a + error_b).sqrt()).exp();
        Some((a / b / factor, a / b * factor, number(&more) / number(&fewer)))
    }
}

#[cfg(test)]
mod tests;
