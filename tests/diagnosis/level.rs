// SPDX-License-Identifier: MIT OR Apache-2.0
//! The level of device times, and random values.

use std::f64::consts::TAU;

use fastrand::Rng;

use super::load::Load;

/// A value of the normal distribution.
pub fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

/// A value of the exponential distribution.
pub fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

/// The level of device times: moves slowly, and has bursts.
pub struct Level {
    pub at_ns: u64,
    pub level: f64,
    pub burst_until: u64,
    pub next_burst: u64,
}

impl Level {
    pub fn factor(&mut self, load: &Load, at_ns: u64, rng: &mut Rng) -> f64 {
        let passed = at_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        self.at_ns = at_ns;
        let keeps = (-passed / load.memory_s).exp();
        self.level = keeps * self.level + (1.0 - keeps * keeps).sqrt() * normal(rng);
        let (rate, length_s, factor) = load.bursts;
        while rate > 0.0 && at_ns >= self.next_burst {
            self.burst_until = self.next_burst + exponential(rng, length_s * 1e9) as u64;
            self.next_burst += 1 + exponential(rng, 1e9 / rate) as u64;
        }
        let burst = if at_ns < self.burst_until { factor } else { 1.0 };
        burst * (load.sigmas[0] * self.level).exp()
    }
}
