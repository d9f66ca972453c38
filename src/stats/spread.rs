// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spread of the logarithms of statistics over resamples, of one sample, or of the difference of
//! two samples from the same recordings.

use super::dependence::{effective_number, variance_factor};
use super::sample::{STATISTICS, Values};

/// Part of a variance, and its degrees of freedom.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variance {
    /// The variance of a logarithm.
    pub value: f64,
    /// Degrees of freedom.
    pub degrees: f64,
}

/// Logarithms of the statistics over resamples.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Of resamples of slices within their recordings.
    pub within: Vec<Values>,
    /// Of resamples of whole recordings.
    pub between: Vec<Values>,
    /// By statistic: the part of each slice in the deviation of the logarithm.
    pub influence: [Vec<f64>; STATISTICS.len()],
    /// Number of slices with values.
    pub slices: usize,
    /// Number of recordings.
    pub recordings: usize,
}

/// The variance of a statistic.
fn variance(logs: &[Values], statistic: usize) -> f64 {
    let n = logs.len().max(2) as f64;
    let mean = logs.iter().map(|l| l[statistic]).sum::<f64>() / n;
    let squares = logs.iter().map(|l| (l[statistic] - mean).powi(2));
    squares.sum::<f64>() / (n - 1.0)
}

fn differences(from: &[Values], what: &[Values]) -> Vec<Values> {
    let pairs = from.iter().zip(what);
    pairs.map(|(a, b)| [0, 1, 2, 3].map(|n| a[n] - b[n])).collect()
}

impl Spread {
    /// Scales the influences: the sum of their squares becomes the variance.
    #[must_use]
    pub fn scaled(mut self) -> Self {
        for (n, influence) in self.influence.iter_mut().enumerate() {
            let squares: f64 = influence.iter().map(|u| u * u).sum();
            let scale = (variance(&self.within, n) / squares.max(f64::MIN_POSITIVE)).sqrt();
            influence.iter_mut().for_each(|u| *u *= scale);
        }
        self
    }

    /// The spread of the difference to another sample from the same resamples. What both have in
    /// common, such as a busy machine, cancels out.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let influence = [0, 1, 2, 3].map(|n| {
            let pairs = self.influence[n].iter().zip(&other.influence[n]);
            pairs.map(|(a, b)| a - b).collect()
        });
        Self {
            within: differences(&self.within, &other.within),
            between: differences(&self.between, &other.between),
            influence,
            slices: self.slices.min(other.slices),
            recordings: self.recordings,
        }
    }

    /// The variances of a statistic: within recordings, and between them if there are several.
    pub fn variances(&self, statistic: usize) -> Vec<Variance> {
        let (slices, recordings) = (self.slices as f64, self.recordings as f64);
        let influence = &self.influence[statistic];
        let factor = variance_factor(influence);
        let degrees = (slices / factor - recordings).min(1.5 * effective_number(influence));
        // a resample varies less than the whole: by (n - 1) / n
        let free = (slices - recordings).max(1.0);
        let mut parts = vec![Variance {
            value: variance(&self.within, statistic) * factor * slices / free,
            degrees: degrees.max(1.0),
        }];
        if self.recordings > 1 {
            let degrees = recordings - 1.0;
            let value = variance(&self.between, statistic) * recordings / degrees;
            parts.push(Variance { value, degrees });
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample whose logarithms move with these deviations.
    fn spread(deviations: &[f64]) -> Spread {
        let all: Vec<Values> = deviations.iter().map(|d| [*d; 4]).collect();
        let spread = Spread {
            within: all,
            between: vec![],
            influence: [0; 4].map(|_| deviations.to_vec()),
            slices: deviations.len(),
            recordings: 1,
        };
        spread.scaled()
    }

    #[test]
    fn what_two_samples_have_in_common_cancels_out() {
        let a = spread(&[0.3, -0.2, 0.1, -0.4, 0.2, 0.0]);
        let none = a.minus(&a).variances(0);
        assert_eq!(none[0].value, 0.0);
        assert!(a.variances(0)[0].value > 0.05);
        let against = spread(&[-0.3, 0.2, -0.1, 0.4, -0.2, 0.0]);
        let sum = a.minus(&against).variances(0)[0].value;
        assert!(sum > 3.9 * a.variances(0)[0].value, "{sum}");
    }
}
