// SPDX-License-Identifier: MIT OR Apache-2.0
//! For each rule, a cause and a load that shows it.

use nvme_deep::diagnose::{Diagnosis, Expectation, Facts, Status, Verdict, diagnose};
use nvme_deep::model::ledger::Accuracy;

use super::causes::Cause;
use super::draft::DEVICE;
use super::load::{Load, Run};

/// A rule, the cause that it must name, and what the load needs.
pub struct Plant {
    pub rule: &'static str,
    pub cause: Cause,
    pub load: fn(&mut Load),
}

const fn plant(rule: &'static str, cause: Cause, load: fn(&mut Load)) -> Plant {
    Plant { rule, cause, load }
}

const fn any(_: &mut Load) {}

pub const PLANTS: &[Plant] = &[
    plant("lost-interrupt", Cause::LostInterrupt, any),
    plant("doorbell-unseen", Cause::DoorbellUnseen, |load| {
        load.pause_ns = 400e6;
        load.seconds = 60.0;
    }),
    plant("held-by-device", Cause::HeldByDevice, any),
    plant("path-failover", Cause::PathFailover, any),
    plant("errors-timeout", Cause::Errors, any),
    plant("vcpu-stolen", Cause::VcpuStolen, |load| {
        load.stages[DEVICE] = 1e6;
    }),
    plant("above-nvme", Cause::Above, any),
    plant("cgroup-throttle", Cause::Throttle, any),
    plant("queue-freeze", Cause::Freeze, any),
    plant("io-cost", Cause::IoCost, any),
    plant("wbt", Cause::Wbt, any),
    plant("tag-wait", Cause::FewTags, any),
    plant("tag-wait", Cause::TagWait, |load| {
        load.place.has_waits = false;
        (load.depth, load.pause_ns, load.seconds) = (8, 1e3, 1.0);
        load.stages[DEVICE] = 2e6;
    }),
    plant("request-wait", Cause::OtherWait, any),
    plant("request-wait", Cause::RequestWait, |load| {
        load.place.has_waits = false;
    }),
    plant("scheduler", Cause::Scheduler, any),
    plant("split", Cause::Split, |load| load.sizes = &[131_072]),
    plant("bounce", Cause::Bounce, any),
    plant("iommu", Cause::Iommu, any),
    plant("few-queues", Cause::FewQueues, |load| {
        (load.queues, load.pause_ns, load.seconds) = (1, 1e6, 4.0);
    }),
    plant("doorbell-exit", Cause::DoorbellExit, any),
    plant("doorbell-exit", Cause::DoorbellRung, any),
    plant("one-irq-cpu", Cause::OneIrqCpu, any),
    plant("remote-completion", Cause::RemoteCompletion, |load| {
        load.remote = 0.5;
    }),
    plant("softirq", Cause::Softirq, |load| load.softirq = 0.3),
    plant("idle-vcpu-wake", Cause::IdleWake, |load| load.depth = 1),
    plant("not-polling", Cause::NotPolling, any),
    plant("flush-cost", Cause::FlushCost, |load| load.flushes = 0.05),
    plant("fua-cost", Cause::FuaCost, |load| load.fua = 0.5),
    // every write: a note
    plant("fua-cost", Cause::FuaCost, |load| load.fua = 1.0),
    plant("discard-storm", Cause::DiscardStorm, |load| {
        load.discards = 0.02;
        load.stages[DEVICE] = 1e6;
    }),
    plant("unaligned", Cause::Unaligned, |load| load.unaligned = 0.3),
    plant("thermal", Cause::Thermal, any),
    plant("rate-cap", Cause::LoggedCap, any),
    plant("rate-cap", Cause::RateCap, |load| {
        (load.varies, load.depth, load.pause_ns) = (true, 4, 1e3);
        (load.stages[DEVICE], load.seconds) = (1e6, 5.0);
    }),
    plant("device", Cause::Device, |load| {
        load.expectation = Expectation::Median(300_000);
    }),
];

impl Plant {
    pub fn load(&self, seed: u64) -> Load {
        let mut load = Load { seed, ..Load::default() };
        (self.load)(&mut load);
        load
    }
}

/// The facts of a load with these causes.
pub fn facts(load: &Load, causes: &[Cause]) -> Facts {
    load.run(causes).facts(Accuracy::Exact)
}

/// What is said of a run whose counts are exact.
pub fn judged(run: Run) -> Diagnosis {
    diagnose(&run.facts(Accuracy::Exact))
}

/// The names of the rules that found a cause, or something to note, in the order of the report.
pub fn named(diagnosis: &Diagnosis) -> Vec<&'static str> {
    let all = diagnosis.causes().chain(diagnosis.of(Status::Noted));
    all.map(|v| v.rule).collect()
}

/// What a rule says of its only subject.
pub fn said<'d>(diagnosis: &'d Diagnosis, rule: &str) -> &'d Verdict {
    diagnosis.verdicts.iter().find(|v| v.rule == rule).unwrap()
}

/// The rules that name a cause or a note.
pub fn found(load: &Load, causes: &[Cause]) -> Vec<&'static str> {
    named(&diagnose(&facts(load, causes)))
}
