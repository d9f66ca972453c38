// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the tool's programs, from their run times.

use crate::model::ledger::{OwnCost, ProgramCost};
use crate::model::run::Runs;
use crate::probe::catalog::CATALOG;
use crate::probe::plan::AttachPlan;

impl OwnCost {
    /// Computes the cost. `runs` is by hook number, over `elapsed_ns`, for this number of commands.
    pub fn new(plan: &AttachPlan, runs: &[Runs], elapsed_ns: u64, commands: u64) -> Self {
        let of = |&number: &usize| {
            let Runs { count, ns } = runs.get(number).copied().unwrap_or_default();
            ProgramCost {
                kind: CATALOG[number].kind.name().into(),
                target: CATALOG[number].target.name().into(),
                runs: count,
                run_ns: ns,
            }
        };
        let programs: Vec<_> = plan.hooks().iter().map(of).collect();
        let run_ns = programs.iter().map(|p| p.run_ns).sum::<u64>();
        Self {
            programs,
            run_ns,
            ns_per_command: (commands > 0).then(|| run_ns as f64 / commands as f64),
            share_of_a_cpu: run_ns as f64 / (elapsed_ns as f64).max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stage::StageSet;
    use crate::probe::catalog::number_of;
    use crate::probe::plan::tests::everything;
    use crate::probe::plan::{Policy, plan};

    #[test]
    fn programs_add_up() {
        let plan = plan(StageSet::Total, &everything(), &Policy::default()).unwrap();
        let mut runs = vec![Runs::default(); CATALOG.len()];
        runs[number_of("setup_out_btf").unwrap()] = Runs { count: 10, ns: 2000 };
        runs[number_of("complete_btf").unwrap()] = Runs { count: 10, ns: 3000 };
        // not in the plan
        runs[number_of("cqe_btf").unwrap()] = Runs { count: 1, ns: 1 };
        let cost = OwnCost::new(&plan, &runs, 1_000_000, 10);
        assert_eq!(cost.run_ns, 5000);
        assert_eq!(cost.ns_per_command, Some(500.0));
        assert!((cost.share_of_a_cpu - 0.005).abs() < 1e-12);
        assert_eq!(OwnCost::new(&plan, &[], 1, 0).ns_per_command, None);
    }
}
