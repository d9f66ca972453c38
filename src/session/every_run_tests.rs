// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any kernel, any run: the plan is complete or says what is missing, and the chosen object has all of its
//! programs. It takes the kernels of tests/kernels, removes things and changes facts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use libbpf_rs::ObjectBuilder;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

use super::Config;
use super::attach::events;
use super::builds::tests::objects;
use super::layout::{Capacity, Layout};
use super::load::prepare;
use crate::error::{Kind, kind_of};
use crate::machine::System;
use crate::machine::process::MapMemory;
use crate::model::filter::Filter;
use crate::model::group::By;
use crate::model::nvme_latency::LatBuckets;
use crate::model::point::Point;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::probe::catalog::{CATALOG, MECHANISMS, Method, Role};
use crate::probe::facts::{KernelFacts, Lockdown, Preemption, TypeSource};
use crate::probe::plan::{AttachPlan, Policy, StartSource, plan_with};
use crate::settings::{
    Attaching, Detail, Events, ExtraEvents, Histograms, Mode, Outcome, Settings, StackSample,
};

/// The facts of recorded kernels.
static KERNELS: LazyLock<Vec<KernelFacts>> = LazyLock::new(|| {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let facts = files.map(|file| {
        let text = std::fs::read(file).unwrap();
        let mut found: serde_json::Value = serde_json::from_slice(&text).unwrap();
        serde_json::from_value(found["facts"].take()).unwrap()
    });
    facts.collect()
});

/// The programs of each object, as libbpf reads it.
static PROGRAMS: LazyLock<BTreeMap<&str, BTreeSet<String>>> = LazyLock::new(|| {
    let programs = |object: &[u8]| {
        let open = ObjectBuilder::default().open_memory(object).unwrap();
        let names = open.progs().map(|p| p.name().to_str().unwrap().to_owned());
        names.collect()
    };
    objects().map(|(name, object)| (name, programs(&object))).collect()
});

/// All that can be taken away from a kernel: functions, tracepoints, events, structs.
fn all_names() -> Vec<&'static str> {
    let targets = CATALOG.iter().map(|hook| hook.target.name());
    let structs = MECHANISMS.iter().flat_map(|m| m.structs).copied();
    let names: BTreeSet<_> = targets.chain(structs).collect();
    names.into_iter().collect()
}

fn without(facts: &mut KernelFacts, names: &[&str]) {
    for name in names {
        facts.functions.remove(*name);
        facts.tracepoints.remove(*name);
        facts.structs.remove(*name);
        let lists = [&mut facts.symbols, &mut facts.traceable];
        lists.into_iter().flatten().for_each(|list| _ = list.remove(*name));
        let event = format!("nvme/{name}");
        facts.events.iter_mut().for_each(|events| _ = events.remove(&event));
    }
}

/// Changes of the facts that are no lists.
const CHANGES: [fn(&mut KernelFacts); 24] = [
    |f| f.nvme_core_types = TypeSource::None,
    |f| f.nvme_core_types = TypeSource::BuiltIn,
    |f| f.nvme_core_types = TypeSource::Module,
    |f| f.nvme_core_types = TypeSource::File("x".into()),
    |f| f.nvme_pci_types = TypeSource::None,
    |f| f.nvme_pci_types = TypeSource::BuiltIn,
    |f| f.nvme_pci_types = TypeSource::File("x".into()),
    |f| f.lockdown = Lockdown::Confidentiality,
    |f| f.preemption = Preemption::Voluntary,
    |f| f.preemption = Preemption::Full,
    |f| f.preemption = Preemption::RealTime,
    |f| (f.vmlinux_btf, f.functions, f.tracepoints, f.structs) = <_>::default(),
    |f| (f.vmlinux_btf, f.nvme_core_types) = (false, TypeSource::File("x".into())),
    |f| (f.events, f.symbols, f.traceable) = (None, None, None),
    |f| f.may_use_module_btf ^= true,
    |f| f.no_kprobes = Some("off".into()),
    |f| f.no_trampolines = Some("off".into()),
    |f| f.kprobes_are_exceptions ^= true,
    |f| f.rdonly_cast ^= true,
    |f| f.misses_counted ^= true,
    |f| f.preemptible_tracepoints ^= true,
    |f| f.polled ^= true,
    |f| f.command_is_argument ^= true,
    |f| f.no_generation ^= true,
];

/// A kernel.
fn kernels() -> impl Strategy<Value = KernelFacts> {
    let names = all_names();
    let changes = prop::collection::vec(select(&CHANGES[..]), 0..4);
    let gone = prop_oneof![
        4 => prop::sample::subsequence(names.clone(), 0..4),
        1 => prop::sample::subsequence(names.clone(), 0..names.len()),
    ];
    (any::<Index>(), gone, changes).prop_map(|(kernel, gone, changes)| {
        let mut facts = kernel.get(&KERNELS).clone();
        without(&mut facts, &gone);
        changes.iter().for_each(|change| change(&mut facts));
        facts.recovers = facts.can_recover();
        facts
    })
}

fn histograms(change: impl Fn(&mut Histograms)) -> Mode {
    let mut histograms = Histograms::default();
    change(&mut histograms);
    Mode::Histograms(histograms)
}

fn traced(change: impl Fn(&mut Events)) -> Mode {
    let mut events = Events::default();
    change(&mut events);
    Mode::Events(events)
}

/// What the commands measure.
fn modes() -> Vec<Mode> {
    let stack = StackSample::every(StackAt::Submit);
    let lat = LatBuckets { min_us: 1, shift: 1 };
    vec![
        histograms(|_| ()),
        histograms(|h| h.extra = ExtraEvents::CountErrors),
        histograms(|h| h.extra = ExtraEvents::TopCounters),
        histograms(|h| (h.extra, h.submitters) = (ExtraEvents::TopCounters, true)),
        histograms(|h| h.extra = ExtraEvents::Commands),
        histograms(|h| h.lat = Some(lat)),
        histograms(|h| (h.lat, h.by) = (Some(lat), vec![By::Disk])),
        histograms(|h| h.by = vec![By::Cpu]),
        histograms(|h| h.by = vec![By::Comm, By::Disk]),
        traced(|_| ()),
        traced(|e| e.submits = true),
        traced(|e| (e.sq, e.aen, e.detail.stacks.kstack) = (true, true, Some(StackAt::Submit))),
        traced(|e| e.detail.context = true),
        traced(|e| e.detail.submitters = true),
        traced(|e| (e.detail.context, e.detail.submitters) = (true, true)),
        traced(|e| e.detail = Detail::all()),
        Mode::Stacks(stack, Outcome::default()),
        Mode::Flight(None),
        Mode::Flight(Some(stack)),
    ]
}

/// The settings of a run.
fn runs() -> impl Strategy<Value = Settings> {
    let sets = vec![StageSet::Total, StageSet::Basic, StageSet::Fine, StageSet::Full];
    let methods = [Method::Fentry, Method::RawTp, Method::Kprobe, Method::Tracepoint];
    let only = [None; 3].into_iter().chain(methods.map(Some)).collect::<Vec<_>>();
    let filters = vec![
        Filter::default(),
        Filter { no_admin: true, ..Filter::default() },
        Filter { lba: Some((0, 9)), ..Filter::default() },
        Filter { comms: ["fio".into()].into(), ..Filter::default() },
    ];
    let run = (select(sets), select(modes()), select(only), select(filters));
    let run = run.prop_map(|(stage_set, mode, only, filter)| Settings {
        filter,
        attaching: Attaching { only, ..Attaching::default() },
        ..mode.with(stage_set)
    });
    // the options refuse these
    run.prop_filter("not with --stages=full", |settings| {
        settings.stage_set != StageSet::Full
            || settings.events().is_some()
            || !settings.reports_submitters() && settings.by().is_empty()
    })
}

/// Each wanted point, and each other role, has hooks or a reason.
fn is_explained(plan: &AttachPlan, wanted: &[Role]) -> Result<(), TestCaseError> {
    let points = Point::ALL.into_iter().filter(|p| plan.stage_set.has_point(*p));
    let roles = wanted.iter().copied().chain([Role::Requeue]);
    for role in points.map(Role::Point).chain(roles) {
        if let Some((_, why)) = plan.absent.iter().find(|(p, _)| role == Role::Point(*p)) {
            prop_assert!(!why.to_string().is_empty());
            continue;
        }
        // the table of bios has it
        if role == Role::Submitter && plan.has(Point::Bio) {
            continue;
        }
        let part = plan.of(role);
        prop_assert!(part.is_some(), "{:?} is forgotten", role);
        let part = part.unwrap();
        prop_assert_eq!(part.method.is_some(), !part.hooks.is_empty());
        let by_field = role == Role::Point(Point::Start) && plan.start == StartSource::Field;
        let have_texts = part.rejected.iter().all(|r| !r.why.to_string().is_empty());
        let is_had = part.method.is_some() || by_field;
        prop_assert!(have_texts && (is_had || !part.rejected.is_empty()), "{:?}", part);
    }
    Ok(())
}

/// What a run on this kernel would load: the build and its programs. `None`: it ends before, with an error that
/// says why.
fn loaded(facts: &KernelFacts, settings: &Settings) -> Result<Option<&'static str>, TestCaseError> {
    let stacks = settings.stack().is_some();
    let policy = Policy { only: settings.attaching.only, stacks, ..Policy::default() };
    let events = events(settings);
    let plan = match plan_with(settings.stage_set, &events, facts, &policy) {
        Ok(plan) => plan,
        Err(none) => {
            prop_assert!(!none.reasons().is_empty());
            return Ok(None);
        }
    };
    is_explained(&plan, &events)?;
    let system = &System::at("/nonexistent");
    let config = Config { settings, system, irq_entry: None, facts, custom_btf: None };
    let memory = MapMemory::of(1 << 32, None);
    let cpus = Capacity { possible: 4, online: 4, present: (0..4).collect(), memory };
    let layout = Layout::new(settings, &cpus, &[]);
    let build = match prepare(&plan, &layout, &config) {
        Ok((set, build)) => {
            // groups that nobody reads would mix up the commands
            prop_assert!(set.by == 0 || !settings.kernel_groups().is_empty());
            build
        }
        // each of these has a text for the user
        Err(error) if kind_of(&error) == Kind::Kernel => {
            let text = error.to_string();
            prop_assert!(!text.starts_with("no build of"), "{text}: {plan:?}");
            return Ok(None);
        }
        Err(error) => return Err(TestCaseError::fail(format!("{error}: {plan:?}"))),
    };
    let has = &PROGRAMS[build.name()];
    for hook in plan.hooks() {
        let program = CATALOG[hook].program;
        prop_assert!(has.contains(program), "{} lacks {}", build.name(), program);
    }
    Ok(Some(build.name()))
}

#[test]
fn every_run_has_its_programs_or_an_error_on_any_kernel() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) };
    let mut runner = TestRunner::new(config);
    let used = RefCell::new(BTreeSet::new());
    let result = runner.run(&(kernels(), runs()), |(facts, settings)| {
        used.borrow_mut().extend(loaded(&facts, &settings)?);
        Ok(())
    });
    result.unwrap();
    // it did not miss a kind of run: the builds differ in what a kernel and a run need
    let missed: Vec<_> = PROGRAMS.keys().filter(|name| !used.borrow().contains(*name)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
