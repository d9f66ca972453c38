// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resampling of recordings and slices. A resample is a weight per slice: how often it was drawn.

use fastrand::Rng;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        let again = Resamples::new(&[40, 7], 1);
        assert_eq!(resamples.within, again.within);
        let other = Resamples::new(&[40, 7], 2);
        assert_ne!(resamples.within, other.within);
    }
}
