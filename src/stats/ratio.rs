// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ratio of a statistic of two sides, with its interval.

use super::spread::Variance;
use super::student::{critical, two_sided};

/// Probability that an interval does not contain the true ratio.
const OUTSIDE: f64 = 0.05;

/// A ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_excludes_one_if_the_probability_is_small() {
        let part = |value| Variance { value, degrees: 30.0 };
        for (b, error) in [(1100.0, 0.03), (1100.0, 0.06), (700.0, 0.1), (1000.0, 0.1)] {
            let found = Ratio::new(1000.0, b, [part(error * error)]);
            assert!((found.ratio - b / 1000.0).abs() < 1e-12);
            let excludes = found.low > 1.0 || found.high < 1.0;
            assert_eq!(excludes, found.p < OUTSIDE, "{found:?}");
        }
    }

    #[test]
    fn two_equal_values_without_spread_are_equal() {
        let none = Variance { value: 0.0, degrees: 1.0 };
        let found = Ratio::new(5.0, 5.0, [none, none]);
        assert_eq!((found.ratio, found.p), (1.0, 1.0));
    }
}
