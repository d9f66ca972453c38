// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many tests at once: with 100 rows, five would seem to differ by chance alone.

/// Adjusts probabilities by Holm's method. If the ones up to 0.05 are taken as findings, the
/// probability of any false one is at most 5 %, however the tests depend on each other.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_is_multiplied_by_all_and_the_order_stays() {
        let adjusted = adjust(&[0.04, 0.001, 0.03, 0.9]);
        let want = [0.09, 0.004, 0.09, 0.9];
        for (got, want) in adjusted.iter().zip(want) {
            assert!((got - want).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(adjust(&[]).is_empty());
    }
}
