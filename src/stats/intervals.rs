// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ratio of a statistic of two sides, with its interval.

use crate::stats::sample::Variance;
use fastrand::Rng;
use serde::Serialize;
use std::f64::consts::FRAC_2_PI;

/// Probability that an interval does not contain the true ratio.
const OUTSIDE: f64 = 0.05;

/// A ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// B / A.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability of a ratio at least as far from 1, if nothing differs.
    pub p: f64,
}

impl Ratio {
    /// The ratio of two statistics, with the parts of the variances of their logarithms.
    pub fn new(a: f64, b: f64, parts: impl IntoIterator<Item = Variance>) -> Self {
        let log = (b.max(1.0) / a.max(1.0)).ln();
        let (mut sum, mut squares) = (0.0, 0.0);
        for part in parts {
            sum += part.value;
            squares += part.value.powi(2) / part.degrees;
        }
        // Welch and Satterthwaite
        let degrees = if squares > 0.0 { sum.powi(2) / squares } else { 1.0 };
        let error = sum.sqrt();
        let reach = critical(OUTSIDE, degrees) * error;
        let p = if log == 0.0 { 1.0 } else { two_sided(log / error, degrees) };
        Self { ratio: log.exp(), low: (log - reach).exp(), high: (log + reach).exp(), p }
    }
}

/// The probability of a value at least as far from zero as `t`, on either side. Degrees of freedom
/// are rounded down, which makes it larger.
///
/// Finite series for whole degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4.
pub fn two_sided(t: f64, degrees: f64) -> f64 {
    let degrees = degrees.clamp(1.0, 200.0).floor() as u32;
    let angle = (t.abs() / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = degrees % 2 == 1;
    let (mut term, mut sum) = (if is_odd { cosine } else { 1.0 }, 0.0);
    let mut n = if is_odd { 3 } else { 2 };
    while n <= degrees {
        sum += term;
        term *= cosine * cosine * f64::from(n - 1) / f64::from(n);
        n += 2;
    }
    let inside = if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    (1.0 - inside).clamp(0.0, 1.0)
}

/// The distance from zero that is exceeded, on either side, with this probability.
pub fn critical(probability: f64, degrees: f64) -> f64 {
    let (mut near, mut far) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = f64::midpoint(near, far);
        if two_sided(middle, degrees) > probability {
            near = middle;
        } else {
            far = middle;
        }
    }
    far
}

pub fn adjust(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut least: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        let tests = (probabilities.len() - rank) as f64;
        least = least.max((probabilities[at] * tests).min(1.0));
        adjusted[at] = least;
    }
    adjusted
}

/// Resamples of each kind. The standard error of a standard error from this many is 5 %.
const RESAMPLES: usize = 200;

/// Weights of the slices of a side, recording after recording.
#[derive(Clone, Debug)]
pub struct Resamples {
    /// Slices drawn from each recording.
    pub within: Vec<Vec<u32>>,
    /// Whole recordings drawn. Empty if there is one.
    pub between: Vec<Vec<u32>>,
}

/// How often each of `n` is drawn, in `n` draws.
fn draw(n: usize, rng: &mut Rng) -> Vec<u32> {
    let mut times = vec![0; n];
    (0..n).for_each(|_| times[rng.usize(0..n)] += 1);
    times
}

impl Resamples {
    /// Resamples of recordings with these numbers of slices. The same seed gives the same resamples.
    pub fn new(slices: &[usize], seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut within = |_| slices.iter().flat_map(|&n| draw(n, &mut rng)).collect();
        let within = (0..RESAMPLES).map(&mut within).collect();
        let between = |_| {
            let times = draw(slices.len(), &mut rng);
            let spread = times.iter().zip(slices);
            spread.flat_map(|(&times, &n)| vec![times; n]).collect()
        };
        let several = if slices.len() > 1 { RESAMPLES } else { 0 };
        Self { within, between: (0..several).map(between).collect() }
    }
}

const BLOCKS: [usize; 2] = [1, 2];
/// Largest correlation of neighbours that is used; a larger estimate is reduced to it.
const MOST: f64 = 0.95;

/// How much larger the variance of the sum of these values is than if they were independent: (1 + r) /
/// (1 - r), where r is the correlation of neighbours; at least 1. Their mean is zero. Computed for pairs of
/// values, it finds dependence that reaches farther.
pub fn variance_factor(values: &[f64]) -> f64 {
    let single = mean_square(values);
    if single <= 0.0 {
        return 1.0;
    }
    let factor = |block: usize| {
        let sums: Vec<f64> = values.chunks_exact(block).map(|chunk| chunk.iter().sum()).collect();
        let square = mean_square(&sums);
        let products: f64 = sums.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let n = sums.len() as f64;
        let r = products / (square * n).max(f64::MIN_POSITIVE);
        // in a short series the estimate is too low by about (1 + 3r) / n
        let r = if r > 0.0 { (r + (1.0 + 3.0 * r) / n).min(MOST) } else { 0.0 };
        square / (single * block as f64) * (1.0 + r) / (1.0 - r)
    };
    BLOCKS.into_iter().map(factor).fold(1.0, f64::max)
}

/// Number of values on which the sum of squares depends: all of them if they are alike, few if few
/// are far larger than the others. A third of the number for values with a normal distribution.
pub fn effective_number(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|v| v.powi(2)).sum();
    let fourths: f64 = values.iter().map(|v| v.powi(4)).sum();
    if fourths > 0.0 { squares.powi(2) / fourths } else { values.len() as f64 }
}

fn mean_square(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().map(|v| v * v).sum();
    sum / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_match_the_tables() {
        for (degrees, probability, want) in [
            (1.0, 0.05, 12.706),
            (3.0, 0.01, 5.841),
            (10.0, 0.05, 2.228),
            (10.9, 0.05, 2.228),
            (30.0, 0.001, 3.646),
            (31.0, 0.05, 2.040),
            (120.0, 0.01, 2.617),
        ] {
            let got = critical(probability, degrees);
            assert!((got - want).abs() < 1e-3, "{degrees} {probability}: {got}");
        }
        assert_eq!((two_sided(0.0, 7.0), two_sided(f64::INFINITY, 8.0)), (1.0, 0.0));
    }

    #[test]
    fn the_smallest_is_multiplied_by_all_and_the_order_stays() {
        let adjusted = adjust(&[0.04, 0.001, 0.03, 0.9]);
        for (got, want) in adjusted.iter().zip([0.09, 0.004, 0.09, 0.9]) {
            assert!((got - want).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(adjust(&[]).is_empty());
    }

    #[test]
    fn each_recording_keeps_its_number_of_slices_and_the_seed_decides() {
        let resamples = Resamples::new(&[40, 7], 1);
        for weights in &resamples.within {
            assert_eq!(weights[..40].iter().sum::<u32>(), 40);
            assert_eq!(weights[40..].iter().sum::<u32>(), 7);
        }
        for weights in &resamples.between {
            assert_eq!(weights[0] + weights[46], 2);
            assert!(weights[..40].iter().all(|w| *w == weights[0]));
        }
        let [again, other] = [1, 2].map(|seed| Resamples::new(&[40, 7], seed).within);
        assert!(resamples.within == again && resamples.within != other);
    }

    #[test]
    fn values_that_resemble_their_neighbours_count_for_less() {
        let alternating: Vec<f64> = (0..60).map(|n| [1.0, -1.0][n % 2]).collect();
        assert_eq!(variance_factor(&alternating), 1.0);
        // a slow swing: three waves of 20
        let swing: Vec<f64> = (0..60).map(|n| (f64::from(n) * 0.314).sin()).collect();
        assert!(variance_factor(&swing) > 10.0);
        assert_eq!((variance_factor(&[0.0; 9]), variance_factor(&[])), (1.0, 1.0));
        // a few large values are few values
        let mut values = vec![0.1; 60];
        assert!((effective_number(&values) - 60.0).abs() < 1e-9);
        (values[3], values[40]) = (50.0, -50.0);
        assert!(effective_number(&values) < 2.1);
        assert_eq!(effective_number(&[0.0; 5]), 5.0);
    }
}
