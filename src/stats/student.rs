// SPDX-License-Identifier: MIT OR Apache-2.0
//! Student's t distribution.

use std::f64::consts::FRAC_2_PI;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (degrees, probability, want) in [
            (1.0, 0.05, 12.706),
            (2.0, 0.05, 4.303),
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
    }

    #[test]
    fn zero_is_certain_and_infinity_impossible() {
        assert_eq!(two_sided(0.0, 7.0), 1.0);
        assert_eq!(two_sided(f64::INFINITY, 8.0), 0.0);
    }
}
