//! The planner: facts and a cut in, hooks and reasons out. Pure.
//!
//! Two points can't be done without: setup_out (a command begins to count) and complete (it ends).
//! Every other one may be missing; its stages are then merged with their neighbours'.

use std::fmt;

use super::catalog::CATALOG;
use super::catalog::Home;
use super::catalog::Hook;
use super::facts::KernelFacts;
use crate::path::milestone::Milestone;
use crate::path::stage::Cut;

/// A hook that the cut wants and the kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its number in the catalog.
    pub hook: usize,
    /// Why, in a few words.
    pub why: String,
}

/// How the start of a request is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSource {
    /// The cut has no use for it.
    None,
    /// `block_io_start`: an own clock reading, for every request.
    Hook,
    /// The request's `start_time_ns`: before 6.5 it is a clock reading of its own, unless iostats
    /// are off.
    Field,
}

/// What will be attached, by number in the catalog, and what not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachPlan {
    /// The cut that it is for.
    pub cut: Cut,
    /// Hooks to load and attach.
    pub hooks: Vec<usize>,
    /// Hooks that can't be had.
    pub rejected: Vec<Rejection>,
    /// Where the start comes from.
    pub start: StartSource,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPlan {
    /// The kernel image has no BTF.
    NoBtf,
    /// nvme_core is not there, or has no BTF.
    NoNvmeBtf,
    /// A tracepoint that can't be done without is missing.
    Missing(&'static str),
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBtf => f.write_str(
                "this kernel has no BTF (/sys/kernel/btf/vmlinux), which the probes need: boot a \
                 kernel built with CONFIG_DEBUG_INFO_BTF=y",
            ),
            Self::NoNvmeBtf => f.write_str(
                "nvme_core is not loaded or has no BTF (/sys/kernel/btf/nvme_core), which the \
                 probes need: load the driver, or boot a kernel built with \
                 CONFIG_DEBUG_INFO_BTF_MODULES=y (5.11 and later)",
            ),
            Self::Missing(name) => write!(
                f,
                "this kernel has no tracepoint `{name}`, without which no command can be \
                 followed: boot a kernel with CONFIG_TRACEPOINTS=y and the stock NVMe driver"
            ),
        }
    }
}

impl AttachPlan {
    /// Whether any hook for this point is in the plan.
    pub fn has(&self, point: Milestone) -> bool {
        (point == Milestone::Start && self.start == StartSource::Field)
            || self
                .hooks
                .iter()
                .any(|&h| CATALOG[h].milestone == Some(point))
    }

    /// Takes a hook out, and with it all hooks of its point: a doorbell or an interrupt that is
    /// seen on some paths only would be taken for that of another command.
    pub fn reject_point(&mut self, hook: usize, why: &str) {
        let point = CATALOG[hook].milestone;
        let (gone, kept) = self
            .hooks
            .iter()
            .partition(|&&h| h == hook || (point.is_some() && CATALOG[h].milestone == point));
        self.hooks = kept;
        let gone: Vec<usize> = gone;
        self.rejected.extend(gone.into_iter().map(|hook| Rejection {
            hook,
            why: why.to_owned(),
        }));
    }
}

fn why_not(hook: &Hook, facts: &KernelFacts) -> String {
    match hook.home {
        Home::NvmePci if !facts.nvme_pci_btf => {
            "the PCI driver is not loaded, or has no BTF".to_owned()
        }
        _ => format!("this kernel has no `{}`", hook.target),
    }
}

/// Decides what to attach for a cut.
///
/// # Errors
/// Where the kernel lacks what every cut needs.
pub fn plan(cut: Cut, facts: &KernelFacts) -> Result<AttachPlan, NoPlan> {
    if !facts.vmlinux_btf {
        return Err(NoPlan::NoBtf);
    }
    if !facts.nvme_core_btf {
        return Err(NoPlan::NoNvmeBtf);
    }
    let mut plan = AttachPlan {
        cut,
        hooks: Vec::new(),
        rejected: Vec::new(),
        start: StartSource::None,
    };
    for (number, hook) in CATALOG
        .iter()
        .enumerate()
        .filter(|(_, h)| h.cuts.contains(&cut))
    {
        if facts.describes(hook) {
            plan.hooks.push(number);
        } else if matches!(
            hook.milestone,
            Some(Milestone::SetupOut | Milestone::Complete)
        ) {
            return Err(NoPlan::Missing(hook.target));
        } else {
            plan.rejected.push(Rejection {
                hook: number,
                why: why_not(hook, facts),
            });
        }
    }
    // before 5.16 there is no nvme_queue_rqs, and nothing passes by the other two
    let broken: Vec<Rejection> = plan
        .rejected
        .iter()
        .filter(|r| CATALOG[r.hook].target != "nvme_queue_rqs")
        .cloned()
        .collect();
    for rejection in broken {
        plan.reject_point(rejection.hook, &rejection.why);
    }
    if cut != Cut::Total {
        // 6.5 brought block_io_start, 6.9 made start_time_ns a time cached per plug: where the
        // field is still true there is no tracepoint, and the other way round.
        plan.start = if plan.has(Milestone::Start) {
            StartSource::Hook
        } else {
            StartSource::Field
        };
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::super::catalog::AttachKind;
    use super::*;

    /// A kernel with all that the catalog names, but for these.
    fn kernel_without(missing: &[&str]) -> KernelFacts {
        let mut facts = KernelFacts {
            release: "test".into(),
            vmlinux_btf: true,
            nvme_core_btf: true,
            nvme_pci_btf: true,
            ..KernelFacts::default()
        };
        for hook in CATALOG.iter().filter(|h| !missing.contains(&h.target)) {
            match hook.kind {
                AttachKind::TpBtf => facts.tracepoints.insert(hook.target.into()),
                _ => facts.functions.insert(hook.target.into()),
            };
        }
        facts
    }

    fn programs(plan: &AttachPlan) -> Vec<&'static str> {
        plan.hooks.iter().map(|&h| CATALOG[h].program).collect()
    }

    #[test]
    fn the_total_needs_two_hooks_and_the_requeue_counter() {
        let plan = plan(Cut::Total, &kernel_without(&[])).unwrap();
        assert_eq!(
            programs(&plan),
            ["setup_out_btf", "complete_btf", "requeue_btf"]
        );
        assert_eq!(plan.start, StartSource::None);
    }

    #[test]
    fn before_6_5_the_start_is_the_request_field() {
        let plan = plan(Cut::Cheap, &kernel_without(&["block_io_start"])).unwrap();
        assert_eq!(plan.start, StartSource::Field);
        assert!(plan.has(Milestone::Start));
        assert_eq!(plan.rejected.len(), 1);
    }

    #[test]
    fn without_the_pci_driver_there_is_no_doorbell_and_the_reason_is_told() {
        let mut facts = kernel_without(&[
            "nvme_queue_rq",
            "nvme_queue_rqs",
            "nvme_commit_rqs",
            "nvme_irq",
        ]);
        facts.nvme_pci_btf = false;
        let plan = plan(Cut::Fine, &facts).unwrap();
        assert!(!plan.has(Milestone::Doorbell) && !plan.has(Milestone::Irq));
        assert!(plan.has(Milestone::Cqe));
        assert_eq!(plan.rejected.len(), 5);
        assert!(plan.rejected.iter().all(|r| r.why.contains("PCI driver")));
    }

    #[test]
    fn a_point_is_had_whole_or_not_at_all() {
        let whole = plan(Cut::Cheap, &kernel_without(&["nvme_queue_rqs"])).unwrap();
        assert!(whole.has(Milestone::Doorbell), "5.15 has no such function");
        let broken = plan(Cut::Cheap, &kernel_without(&["nvme_commit_rqs"])).unwrap();
        assert!(!broken.has(Milestone::Doorbell));
        assert_eq!(broken.rejected.len(), 3);
        let mut fine = plan(Cut::Fine, &kernel_without(&[])).unwrap();
        let irq_out = CATALOG
            .iter()
            .position(|h| h.program == "irq_out_fexit")
            .unwrap();
        fine.reject_point(irq_out, "why");
        assert!(!fine.has(Milestone::Irq) && fine.has(Milestone::Doorbell));
    }

    #[test]
    fn what_every_cut_needs_is_an_error_with_a_remedy() {
        let missing = kernel_without(&["nvme_complete_rq"]);
        assert_eq!(
            plan(Cut::Total, &missing),
            Err(NoPlan::Missing("nvme_complete_rq"))
        );
        let mut facts = kernel_without(&[]);
        facts.nvme_core_btf = false;
        let error = plan(Cut::Fine, &facts).unwrap_err();
        assert!(error.to_string().contains("load the driver"), "{error}");
        facts.vmlinux_btf = false;
        assert_eq!(plan(Cut::Fine, &facts), Err(NoPlan::NoBtf));
    }

    #[test]
    fn every_hook_of_a_plan_is_described_by_the_facts() {
        let facts = kernel_without(&["nvme_queue_rqs", "block_rq_issue"]);
        for cut in [Cut::Total, Cut::Cheap, Cut::Fine] {
            let plan = plan(cut, &facts).unwrap();
            assert!(plan.hooks.iter().all(|&h| facts.describes(&CATALOG[h])));
        }
    }
}
