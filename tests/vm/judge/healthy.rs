// SPDX-License-Identifier: MIT OR Apache-2.0
//! Healthy runs: how often `diagnose` names a cause where there is none. The host must be idle.

use serde_json::Value;

use super::guest::Suite;
use crate::planted::causes;

/// Kernels, one after the other.
const KERNELS: [&str; 3] = ["6.12", "6.1", "7.x"];
const BOOTS: usize = 20;
/// Most verdicts in five runs of each boot.
const MOST: usize = 2;

#[test]
#[ignore = "boots a guest"]
fn only_in_test_all_hundred_healthy_runs_get_two_verdicts_at_most() {
    let mut runs = 0;
    let mut named = Vec::new();
    for boot in 1..=BOOTS {
        let suite = Suite {
            script: "healthy",
            variant: format!("-{boot}").leak(),
            smp: "2",
            controllers: &["nvme_null nvme0 4000000"],
            append: format!("lab.seed={boot}").leak(),
            env: &[],
        };
        let outcome = suite.run(KERNELS[boot % KERNELS.len()]);
        for run in 1..=5 {
            let object = outcome.text("healthy", &format!("{run}.out"));
            let object: Value = serde_json::from_str(&object).unwrap();
            let load = outcome.text("healthy", &format!("{run}.load"));
            assert_ne!(object["outcome"], "not_known", "{load}: {object}");
            runs += 1;
            if !causes(&object).is_empty() {
                named.push(format!("{load}{}", object["verdict"]));
            }
        }
    }
    assert!(named.len() <= MOST, "{} of {runs} runs: {named:#?}", named.len());
}
