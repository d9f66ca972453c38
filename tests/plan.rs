// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planner on real kernels. tests/kernels has the `facts` that `nvme-deep doctor --json`
//! reported in guests of tests/vm; the snapshots have the plan for each stage set and attach
//! method. A changed plan changes a snapshot, which must be reviewed.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use nvme_deep::model::stage::StageSet;
use nvme_deep::probe::catalog::{CATALOG, Method, Role};
use nvme_deep::probe::facts::KernelFacts;
use nvme_deep::probe::plan::{AttachPlan, Policy, plan_with};
use serde_json::{Value, from_value};

use crate::binary::docs_have;

const KERNELS: &str = "5.10 6.1 6.1-rt 6.12 6.12-cloud 7.x 5.10-arm64 6.1-arm64 6.12-arm64 6.12-arm64-16k \
    7.x-arm64 builtin-5.10 builtin-6.1 nomodulebtf-6.1 bare-6.12 notrace-6.12 builtin-7.x";
const CUTS: [StageSet; 3] = [StageSet::Total, StageSet::Basic, StageSet::Fine];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn found(kernel: &str) -> Value {
    serde_json::from_str(&read(&format!("tests/kernels/{kernel}.json"))).unwrap()
}

fn facts(kernel: &str) -> KernelFacts {
    from_value(found(kernel)["facts"].clone()).unwrap()
}

fn describe(plan: &AttachPlan) -> String {
    let mut text = format!("{:?}, start {:?}\n", plan.pairing, plan.start);
    for point in &plan.points {
        let hooks: Vec<_> = point.hooks.iter().map(|&h| CATALOG[h].program).collect();
        let hooks = if hooks.is_empty() { "-".into() } else { hooks.join(" ") };
        writeln!(text, "  {:<12}{hooks}", point.name()).unwrap();
        for r in &point.rejected {
            writeln!(text, "    not {}: {}", r.hook, r.why).unwrap();
        }
    }
    text
}

fn table(facts: &KernelFacts) -> String {
    let mut text = String::new();
    for only in [
        None,
        Some(Method::Fentry),
        Some(Method::RawTp),
        Some(Method::Kprobe),
        Some(Method::Tracepoint),
    ] {
        // a forced method: only the finest stage set, which contains the others
        for stage_set in CUTS.into_iter().filter(|c| only.is_none() || *c == StageSet::Fine) {
            let way = only.map_or("auto", Method::name);
            write!(text, "== {way} {stage_set:?}: ").unwrap();
            let policy = Policy { only, ..Policy::default() };
            // the finest stage set includes the additional events of a trace
            let events: &[Role] = if stage_set == StageSet::Fine { &Role::EVENTS } else { &[] };
            match plan_with(stage_set, events, facts, &policy) {
                Ok(plan) => text += &describe(&plan),
                Err(none) => writeln!(text, "none, {}", none.reasons()).unwrap(),
            }
        }
    }
    text
}

#[test]
fn each_kernel_has_the_plan_that_it_had() {
    for kernel in KERNELS.split_whitespace() {
        insta::assert_snapshot!(kernel, table(&facts(kernel)));
    }
}

/// The stages of `--stages=fine` where every point is observed.
const PARTS: &str =
    "queue.wait queue.setup submit.map submit.ring device.run device.irq complete end";

/// The results of `make table`, a row per kernel: the stages that are not split, or what was lost.
fn docs_table() -> String {
    let mut text = String::from(
        "| kernel | auto | fentry | rawtp | kprobe | tracepoint |\n|---|---|---|---|--:|--:|\n",
    );
    for kernel in KERNELS.split_whitespace() {
        let found = found(kernel);
        write!(text, "| {} |", found["facts"]["release"].as_str().unwrap()).unwrap();
        for way in ["auto", "fentry", "rawtp", "kprobe", "tracepoint"] {
            let result = &found["results"][way];
            let n = |field: &str| result[field].as_u64().unwrap();
            let cell = if result["refused"] == true {
                "refused".to_owned()
            } else if way == "kprobe" || way == "tracepoint" {
                let counted = if result["misses_known"] == true { "" } else { " ?" };
                format!("{} of {}{counted}", n("seen") - n("matched"), n("seen"))
            } else {
                assert_eq!(n("matched"), n("seen"), "{kernel}, {way}");
                let stages = result["stages"].as_array().unwrap().iter();
                let stages: Vec<_> = stages.map(|s| s.as_str().unwrap()).collect();
                let is_part = |stage: &&str| PARTS.split(' ').any(|part| part == *stage);
                let whole: Vec<_> = stages.iter().copied().filter(|s| !is_part(s)).collect();
                assert_eq!(whole.is_empty(), stages.join(" ") == PARTS, "{kernel}, {way}");
                if whole.is_empty() { "all".to_owned() } else { whole.join(", ") }
            };
            write!(text, " {cell} |").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_table_in_the_docs_is_what_the_guests_found() {
    docs_have("dev/kernels.md", "<!-- made by `make table` -->\n", &docs_table());
}

/// A target that no recorded kernel has is new: the plans would silently drop its candidate.
#[test]
fn every_target_is_on_a_recorded_kernel() {
    let all: Vec<KernelFacts> = KERNELS.split_whitespace().map(facts).collect();
    for hook in CATALOG {
        let name = hook.target.name();
        let event = format!("nvme/{name}");
        let known = all.iter().any(|f| {
            f.functions.contains(name)
                || f.tracepoints.contains(name)
                || f.symbols.as_ref().is_some_and(|s| s.contains(name))
                || f.events.as_ref().is_some_and(|e| e.contains_key(&event))
        });
        assert!(known, "{name} is on no recorded kernel: make table records them");
    }
}
