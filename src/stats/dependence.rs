// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the slices of a recording are from an independent sample of a well-behaved quantity.

/// Numbers of neighbouring slices that are added up to one value.
const BLOCKS: [usize; 2] = [1, 2];
/// Largest correlation of neighbours that is used; a larger estimate is reduced to it.
const MOST: f64 = 0.95;

/// By how much the variance of the sum of these values, whose mean is zero, exceeds that of
/// independent values: (1 + r) / (1 - r), where r is the correlation of neighbours; at least 1. The
/// same with pairs in place of values finds dependence that reaches farther.
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
    fn values_that_resemble_their_neighbours_count_for_less() {
        let alternating: Vec<f64> = (0..60).map(|n| [1.0, -1.0][n % 2]).collect();
        assert_eq!(variance_factor(&alternating), 1.0);
        // a slow swing: three waves of 20
        let swing: Vec<f64> = (0..60).map(|n| (f64::from(n) * 0.314).sin()).collect();
        assert!(variance_factor(&swing) > 10.0);
        assert_eq!(variance_factor(&[0.0; 9]), 1.0);
        assert_eq!(variance_factor(&[]), 1.0);
    }

    #[test]
    fn a_few_large_values_are_few_values() {
        let mut values = vec![0.1; 60];
        assert!((effective_number(&values) - 60.0).abs() < 1e-9);
        values[3] = 50.0;
        values[40] = -50.0;
        assert!(effective_number(&values) < 2.1);
        assert_eq!(effective_number(&[0.0; 5]), 5.0);
    }
}
