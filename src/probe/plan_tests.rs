// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planner with made-up kernels. tests/plan.rs has the facts of real ones.

use super::super::catalog::{AttachKind, Home, MECHANISMS};
use super::super::facts::{Lockdown, TypeSource};
use super::{plan as planned, *};

/// A kernel with everything that the catalog names.
pub fn everything() -> KernelFacts {
    let mut facts = KernelFacts {
        release: "test".into(),
        vmlinux_btf: true,
        nvme_core_types: TypeSource::Module,
        nvme_pci_types: TypeSource::Module,
        may_use_module_btf: true,
        rdonly_cast: true,
        misses_counted: true,
        recovers: true,
        events: Some(BTreeMap::new()),
        ..KernelFacts::default()
    };
    let structs = MECHANISMS.iter().flat_map(|m| m.structs);
    facts.structs = structs.map(|name| (*name).to_owned()).collect();
    for hook in CATALOG {
        let target = hook.target.name().to_owned();
        match hook.kind {
            AttachKind::TpBtf => facts.tracepoints.insert(target),
            AttachKind::Fentry | AttachKind::Fexit => facts.functions.insert(target),
            _ => false,
        };
        if let (AttachKind::Tracepoint | AttachKind::RawTp, Some(events)) =
            (hook.kind, &mut facts.events)
        {
            events.insert(format!("nvme/{}", hook.target.name()), BTreeMap::new());
        }
    }
    facts
}

/// 5.10: BTF of the kernel image, but not of modules.
fn without_module_btf() -> KernelFacts {
    let mut facts = everything();
    facts.nvme_core_types = TypeSource::Shipped("5.10".into());
    facts.nvme_pci_types = TypeSource::Shipped("5.10".into());
    facts.functions.clear();
    for name in ["nvme_setup_cmd", "nvme_sq", "nvme_complete_rq", "block_io_start"] {
        facts.tracepoints.remove(name);
    }
    facts.rdonly_cast = false;
    facts.command_is_argument = true;
    facts.recovers = false;
    facts
}

pub fn programs(plan: &AttachPlan) -> Vec<&'static str> {
    plan.hooks().iter().map(|&h| CATALOG[h].program).collect()
}

pub fn auto(stage_set: StageSet, facts: &KernelFacts) -> AttachPlan {
    planned(stage_set, facts, &Policy::default()).unwrap()
}

fn only(method: Method) -> Policy {
    Policy { only: Some(method), ..Policy::default() }
}

#[test]
fn without_the_pci_driver_there_is_no_doorbell_and_a_reason() {
    let mut facts = everything();
    facts.nvme_pci_types = TypeSource::None;
    let why = |facts: &KernelFacts| {
        let plan = auto(StageSet::Fine, facts);
        plan.point(Point::Doorbell).unwrap().rejected[0].why.to_string()
    };
    facts.built_in = [Home::NvmePci].into();
    assert!(why(&facts).starts_with("nvme is built in, and"), "{}", why(&facts));
    facts.built_in.clear();
    facts.functions.retain(|f| f == "nvme_setup_cmd");
    facts.symbols = Some(["nvme_setup_cmd".to_owned()].into());
    assert!(why(&facts).contains("nvme is not loaded"), "{}", why(&facts));
    let plan = auto(StageSet::Fine, &facts);
    assert!(!plan.has(Point::Doorbell) && !plan.has(Point::Irq));
    assert!(plan.has(Point::Cqe) && plan.has(Point::SetupIn));
}

/// tests/plan.rs has arm64 without PREEMPT_RT.
#[test]
fn on_a_real_time_arm64_nothing_but_kprobes_is_exact() {
    let mut facts = everything();
    facts.kprobes_are_exceptions = true;
    facts.preemption = Preemption::RealTime;
    let plan = auto(StageSet::Fine, &facts);
    assert_eq!(plan.method_of(Point::Doorbell), Some(Method::Kprobe));
    // only clones are left of a function that was inlined
    facts = everything();
    facts.functions.remove("nvme_irq");
    facts.symbols = Some(["nvme_irq.part.0".to_owned(), "nvme_queue_rq".to_owned()].into());
    let plan = auto(StageSet::Fine, &facts);
    let irq = plan.point(Point::Irq).unwrap();
    assert!(irq.rejected[0].why.to_string().contains("only nvme_irq.part.0"), "{irq:?}");
    facts = everything();
    facts.traceable = Some(["nvme_queue_rq".to_owned()].into());
    let plan = auto(StageSet::Fine, &facts);
    let irq = plan.point(Point::Irq).unwrap();
    assert!(irq.rejected[0].why.to_string().contains("notrace"), "{irq:?}");
}

#[test]
fn a_point_needs_all_its_hooks() {
    let mut facts = everything();
    facts.no_kprobes = Some("off".into());
    facts.functions.remove("nvme_queue_rqs");
    let doorbell = auto(StageSet::Basic, &facts);
    let doorbell = doorbell.point(Point::Doorbell).unwrap();
    assert_eq!(doorbell.hooks.len(), 2, "5.15 has no nvme_queue_rqs");
    facts.functions.remove("nvme_commit_rqs");
    let broken = auto(StageSet::Basic, &facts);
    assert!(!broken.has(Point::Doorbell));
    assert!(broken.has(Point::Cqe));
}

#[test]
fn a_refused_program_takes_its_way_with_it_and_the_next_is_taken() {
    let mut policy = Policy::default();
    let refuse = |policy: &mut Policy, program: &str| {
        let number = number_of(program).unwrap();
        policy.refused.insert(number, "the kernel says no".into());
    };
    refuse(&mut policy, "cqe_btf");
    refuse(&mut policy, "irq_out_fexit");
    let plan = planned(StageSet::Fine, &everything(), &policy).unwrap();
    assert_eq!(plan.method_of(Point::Cqe), Some(Method::RawTp));
    assert_eq!(plan.method_of(Point::Irq), Some(Method::Kprobe));
    let cqe = plan.point(Point::Cqe).unwrap();
    assert!(cqe.rejected[0].tried && cqe.rejected[0].why == "the kernel says no".to_owned().into());
    refuse(&mut policy, "cqe_raw");
    refuse(&mut policy, "cqe_kprobe");
    let plan = planned(StageSet::Fine, &everything(), &policy).unwrap();
    assert!(!plan.has(Point::Cqe) && plan.has(Point::Complete));
}

#[test]
fn without_the_drivers_types_controllers_are_known_by_name() {
    let mut facts = without_module_btf();
    facts.nvme_core_types = TypeSource::None;
    facts.nvme_pci_types = TypeSource::None;
    assert_eq!(auto(StageSet::Fine, &facts).method_of(Point::SetupOut), Some(Method::RawTp));
    let kprobes = planned(StageSet::Fine, &facts, &only(Method::Kprobe)).unwrap();
    assert!(!kprobes.has(Point::Cqe) && kprobes.has(Point::SetupIn));
    facts.command_is_argument = false;
    assert!(planned(StageSet::Fine, &facts, &only(Method::Kprobe)).is_err());
}

#[test]
fn without_any_btf_classic_tracepoints_are_left_with_one_stage() {
    let mut facts = without_module_btf();
    facts.nvme_core_types = TypeSource::None;
    facts.nvme_pci_types = TypeSource::None;
    facts.vmlinux_btf = false;
    facts.tracepoints.clear();
    let plan = auto(StageSet::Fine, &facts);
    assert_eq!((plan.pairing, plan.start), (Pairing::Tag, StartSource::None));
    assert_eq!(programs(&plan), ["setup_out_tp", "complete_tp"]);
    assert_eq!(plan.span(), (Point::SetupOut, Point::Complete));
    let setup = plan.point(Point::SetupOut).unwrap();
    let methods: Vec<_> = setup.rejected.iter().map(|r| r.method).collect();
    assert_eq!(methods, [Method::Fentry, Method::RawTp, Method::Kprobe]);
}

#[test]
fn a_method_that_is_insisted_on_may_be_missing() {
    let error = planned(StageSet::Basic, &without_module_btf(), &only(Method::Fentry));
    let error = error.unwrap_err();
    assert_eq!(error.point, Point::SetupOut);
    assert!(error.reasons().contains("5.11"), "{}", error.reasons());
    let mut facts = everything();
    facts.events.as_mut().unwrap().remove("nvme/nvme_complete_rq");
    let error = planned(StageSet::Total, &facts, &only(Method::Tracepoint)).unwrap_err();
    assert_eq!(error.point, Point::Complete);
    assert!(error.reasons().contains("nvme_complete_rq"), "{error:?}");
    // without CAP_SYS_ADMIN, no trampolines in modules
    let mut facts = everything();
    facts.may_use_module_btf = false;
    let plan = auto(StageSet::Basic, &facts);
    let methods = [Point::SetupOut, Point::Start, Point::Doorbell].map(|p| plan.method_of(p));
    assert_eq!(methods, [Method::RawTp, Method::Fentry, Method::Kprobe].map(Some));
    // before 6.1 programs nest
    facts = everything();
    assert!(!auto(StageSet::Basic, &facts).needs_atomics());
    facts.release = "5.15.0-105-generic".into();
    let old = auto(StageSet::Basic, &facts);
    assert!(old.nests && old.needs_atomics());
}

#[test]
fn lockdown_leaves_what_reads_without_a_helper() {
    let mut facts = everything();
    facts.lockdown = Lockdown::Confidentiality;
    let plan = auto(StageSet::Fine, &facts);
    assert!(plan.hooks().iter().all(|&h| CATALOG[h].kind.method() == Method::Fentry));
    facts.rdonly_cast = false;
    let error = planned(StageSet::Total, &facts, &Policy::default()).unwrap_err();
    assert!(error.reasons().contains("6.2"), "{}", error.reasons());
    facts.lockdown = Lockdown::Integrity;
    assert!(planned(StageSet::Total, &facts, &Policy::default()).is_ok());
}

fn seconds(plan: &AttachPlan) -> Vec<&'static str> {
    let hooks = plan.hooks();
    let seconds = hooks.iter().filter(|&&h| CATALOG[h].is_second());
    seconds.map(|&h| CATALOG[h].program).collect()
}

#[test]
fn where_set_ups_and_completions_may_be_skipped_each_command_is_seen_at_its_cqe() {
    let mut facts = everything();
    facts.polled = true;
    facts.preemption = Preemption::Full;
    let sees_cqe = |facts: &KernelFacts| auto(StageSet::Total, facts).has(Point::Cqe);
    // before 7.0 programs at tracepoints are not preempted: all setups are observed
    assert!(!sees_cqe(&facts));
    assert!(seconds(&auto(StageSet::Fine, &facts)).is_empty());
    facts.preemptible_tracepoints = true;
    for stage_set in [StageSet::Total, StageSet::Basic, StageSet::Fine] {
        assert_eq!(seconds(&auto(stage_set, &facts)), ["cqe_second"]);
        assert!(!auto(stage_set, &facts).needs_atomics());
    }
    assert!(sees_cqe(&facts));
    // without polled queues, interrupts complete all commands, and these are never preempted
    facts.polled = false;
    assert!(!sees_cqe(&facts) && seconds(&auto(StageSet::Fine, &facts)).is_empty());
    // unless they are threads
    facts.threaded_interrupts = true;
    assert!(sees_cqe(&facts));
    assert_eq!(seconds(&auto(StageSet::Total, &facts)), ["cqe_second"]);
}

#[test]
fn on_preempt_rt_kprobes_see_what_others_may_miss() {
    let mut facts = everything();
    facts.preemption = Preemption::RealTime;
    // tests/plan.rs has 6.1; from 7.0 on programs at tracepoints too; all completions must be observed
    facts.preemptible_tracepoints = true;
    for stage_set in [StageSet::Total, StageSet::Fine] {
        let plan = auto(stage_set, &facts);
        assert_eq!(plan.method_of(Point::Complete), Some(Method::Kprobe));
        assert_eq!(plan.method_of(Point::SetupOut), Some(Method::Fentry));
    }
    facts.no_kprobes = Some("off".into());
    let plan = auto(StageSet::Fine, &facts);
    assert_eq!(plan.method_of(Point::Complete), Some(Method::Fentry));
    assert!(seconds(&plan).is_empty());
}

#[test]
fn return_probes_are_left_out_where_they_would_cut_stacks_short() {
    let mut facts = everything();
    facts.functions.remove("nvme_queue_rq");
    let policy = Policy { stacks: true, ..Policy::default() };
    let doorbell = |facts: &KernelFacts| {
        let plan = plan(StageSet::Fine, facts, &policy).unwrap();
        plan.method_of(Point::Doorbell)
    };
    facts.release = "6.1.0".into();
    assert_eq!(doorbell(&facts), Some(Method::Kprobe));
    facts.release = "5.10.0-46-amd64".into();
    assert_eq!(doorbell(&facts), None);
}
