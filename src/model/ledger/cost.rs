// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the tool's programs (`-v`): their run times, as the kernel measures them
//! (BPF_ENABLE_STATS).

use serde::{Deserialize, Serialize};

use crate::model::text::Text;

/// The cost of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramCost {
    /// `tp_btf`, `fentry`, ...
    pub kind: Text,
    /// Function or tracepoint.
    pub target: Text,
    /// Number of runs, for any request.
    pub runs: u64,
    /// Sum of their times, in nanoseconds.
    pub run_ns: u64,
}

/// The cost of all programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredCost")]
pub struct OwnCost {
    /// The programs, in the order of the hooks.
    pub programs: Vec<ProgramCost>,
    /// Sum of their run times, in nanoseconds.
    pub run_ns: u64,
    /// Run time per command seen.
    pub ns_per_command: Option<f64>,
    /// Share of one CPU's time; 1 is the whole time of one CPU, more is possible.
    pub share_of_a_cpu: f64,
}

/// A cost as read from JSON: the last digit of a fraction may be off, because serde_json reads
/// fractions fast and not exactly.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredCost {
    programs: Vec<ProgramCost>,
    run_ns: u64,
    ns_per_command: Option<f64>,
    share_of_a_cpu: f64,
}

/// The exact value of a fraction that was read from JSON. The fraction is `run_ns` divided by a
/// whole number, so that number is found and the division repeated. This is exact for numbers up to
/// 2^50, which is 13 days in nanoseconds. A fraction that does not fit is left as it is.
fn exact(run_ns: u64, read: f64) -> f64 {
    let whole = (run_ns as f64 / read).round();
    let again = run_ns as f64 / whole;
    if (again - read).abs() <= 4.0 * f64::EPSILON * read { again } else { read }
}

impl From<StoredCost> for OwnCost {
    fn from(stored: StoredCost) -> Self {
        let run_ns = stored.run_ns;
        Self {
            programs: stored.programs,
            run_ns,
            ns_per_command: stored.ns_per_command.map(|ns| exact(run_ns, ns)),
            share_of_a_cpu: exact(run_ns, stored.share_of_a_cpu),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str, from_value, to_string};

    use super::*;

    #[test]
    fn fractions_are_read_back_exactly() {
        let mut random = 1_u64;
        let mut next = |bits: u32| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 14) >> (50 - bits)
        };
        let mut off = 0;
        for bits in (1..=50).cycle().take(20_000) {
            let (run_ns, elapsed_ns, commands) = (next(50), next(bits), next(bits));
            let cost = OwnCost {
                programs: Vec::new(),
                run_ns,
                ns_per_command: (commands > 0).then(|| run_ns as f64 / commands as f64),
                share_of_a_cpu: run_ns as f64 / (elapsed_ns as f64).max(1.0),
            };
            let json = to_string(&cost).unwrap();
            let stored: StoredCost = from_str(&json).unwrap();
            off += usize::from(stored.share_of_a_cpu.to_bits() != cost.share_of_a_cpu.to_bits());
            assert_eq!(from_str::<OwnCost>(&json).unwrap(), cost);
            // a recording holds the ledger as a value
            let value: Value = from_str(&json).unwrap();
            assert_eq!(from_value::<OwnCost>(value).unwrap(), cost);
        }
        assert!(off > 0, "serde_json is exact: `exact` is not needed");
    }

    #[test]
    fn a_fraction_of_no_whole_number_is_left_alone() {
        for (run_ns, read) in [(0, 0.0), (0, 0.5), (7, 0.0), (7, 20.0), (10, 3.0), (3, 0.7)] {
            assert_eq!(exact(run_ns, read).to_bits(), f64::to_bits(read));
        }
    }
}
