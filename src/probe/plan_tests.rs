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
fn before_6_5_the_start_is_the_request_field() {
    let mut facts = everything();
    facts.tracepoints.remove("block_io_start");
    let plan = auto(StageSet::Basic, &facts);
    assert_eq!(plan.start, StartSource::Field);
    assert!(plan.has(Point::Start));
    let start = plan.point(Point::Start).unwrap();
    assert_eq!(start.rejected.len(), 2);
    assert!(start.rejected.iter().all(|r| r.why.to_string().contains("block_io_start")));
    // if the event exists, the field is not used, even if the event is not available
    let kprobes = planned(StageSet::Basic, &everything(), &only(Method::Kprobe)).unwrap();
    assert_eq!(kprobes.start, StartSource::None);
    assert_eq!(kprobes.span().0, Point::SetupOut);
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

#[test]
fn where_kprobes_are_exceptions_they_are_used_on_demand_only() {
    let mut facts = everything();
    facts.kprobes_are_exceptions = true;
    facts.no_trampolines = Some("before 6.4".into());
    let plan = auto(StageSet::Fine, &facts);
    for point in [Point::SetupIn, Point::Doorbell, Point::Irq] {
        assert!(!plan.has(point), "{point:?}");
        let rejected = &plan.point(point).unwrap().rejected;
        let reasons = ["before 6.4".to_owned().into(), Reason::EXCEPTION];
        assert!(rejected.iter().map(|r| &r.why).eq(&reasons), "{rejected:?}");
    }
    // tracepoints need no trampoline
    for point in [Point::SetupOut, Point::Issue, Point::Cqe, Point::Complete] {
        assert_eq!(plan.method_of(point), Some(Method::Fentry), "{point:?}");
    }
    let kprobes = planned(StageSet::Fine, &facts, &only(Method::Kprobe)).unwrap();
    assert!(kprobes.has(Point::Doorbell) && kprobes.has(Point::Irq));
    // nothing else is exact there
    facts.preemption = Preemption::RealTime;
    facts.no_trampolines = None;
    let plan = auto(StageSet::Fine, &facts);
    assert_eq!(plan.method_of(Point::Doorbell), Some(Method::Kprobe));
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
fn without_module_btf_raw_tracepoints_count_and_kprobes_keep_to_the_submitting_side() {
    let plan = auto(StageSet::Fine, &without_module_btf());
    assert_eq!(plan.pairing, Pairing::Request);
    for (point, method) in [
        (Point::SetupIn, Method::Kprobe),
        (Point::SetupOut, Method::RawTp),
        (Point::Issue, Method::Fentry),
        (Point::Doorbell, Method::Kprobe),
        (Point::Cqe, Method::RawTp),
        (Point::Complete, Method::RawTp),
        (Point::End, Method::Fentry),
    ] {
        assert_eq!(plan.method_of(point), Some(method), "{point:?}");
    }
    let irq = plan.point(Point::Irq).unwrap();
    assert_eq!(irq.method, None);
    assert!(irq.rejected[1].why.to_string().contains("miss interrupts"), "{irq:?}");
    assert!(!plan.may_lose_completions());
    let forced = planned(StageSet::Fine, &without_module_btf(), &only(Method::Kprobe)).unwrap();
    assert!(forced.has(Point::Irq) && forced.may_lose_completions());
}

#[test]
fn without_the_drivers_types_controllers_are_known_by_name_and_the_doorbell_is_not_had() {
    let mut facts = without_module_btf();
    facts.nvme_core_types = TypeSource::None;
    facts.nvme_pci_types = TypeSource::None;
    facts.command_is_argument = true;
    let plan = auto(StageSet::Fine, &facts);
    assert_eq!(plan.pairing, Pairing::Request);
    assert_eq!(plan.method_of(Point::SetupOut), Some(Method::RawTp));
    assert!(!plan.has(Point::Doorbell) && plan.has(Point::Cqe));
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
    assert_eq!(plan.pairing, Pairing::Tag);
    assert_eq!(programs(&plan), ["setup_out_tp", "complete_tp"]);
    assert_eq!(plan.span(), (Point::SetupOut, Point::Complete));
    assert_eq!(plan.start, StartSource::None);
    let setup = plan.point(Point::SetupOut).unwrap();
    let methods: Vec<_> = setup.rejected.iter().map(|r| r.method).collect();
    assert_eq!(methods, [Method::Fentry, Method::RawTp, Method::Kprobe]);
}

#[test]
fn a_family_that_is_insisted_on_is_the_only_one() {
    for method in [Method::Fentry, Method::RawTp, Method::Kprobe, Method::Tracepoint] {
        for stage_set in [StageSet::Total, StageSet::Basic, StageSet::Fine] {
            let plan = planned(stage_set, &everything(), &only(method)).unwrap();
            assert!(plan.hooks().iter().all(|&h| CATALOG[h].kind.method() == method));
        }
    }
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

#[test]
fn clones_and_notrace_functions_have_different_reasons() {
    let mut facts = everything();
    facts.functions.remove("nvme_irq");
    facts.symbols = Some(["nvme_irq.part.0".to_owned(), "nvme_queue_rq".to_owned()].into());
    let plan = auto(StageSet::Fine, &facts);
    let irq = plan.point(Point::Irq).unwrap();
    assert!(irq.rejected[0].why.to_string().contains("only nvme_irq.part.0"), "{irq:?}");
    let mut facts = everything();
    facts.traceable = Some(["nvme_queue_rq".to_owned()].into());
    let plan = auto(StageSet::Fine, &facts);
    let irq = plan.point(Point::Irq).unwrap();
    assert!(irq.rejected[0].why.to_string().contains("notrace"), "{irq:?}");
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
    let functions = [Point::SetupIn, Point::Doorbell, Point::Irq];
    let plan = auto(StageSet::Fine, &facts);
    for point in functions {
        assert_eq!(plan.method_of(point), Some(Method::Kprobe), "{point:?}");
    }
    assert_eq!(plan.method_of(Point::Complete), Some(Method::Fentry));
    // from 7.0 on programs at tracepoints too; all completions must be observed
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
