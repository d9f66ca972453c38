// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules, one file each. docs/diagnose.md describes how to add one.

mod before;
mod bounce;
mod cgroup_throttle;
mod condition;
mod crowd;
mod device;
mod discard_storm;
mod doorbell_exit;
mod doorbell_unseen;
mod errors_timeout;
mod few_queues;
mod flush_cost;
mod held_by_device;
mod idle_wake;
mod io_cost;
mod iommu;
mod lost_interrupt;
mod not_polling;
mod one_irq_cpu;
mod overlap;
mod path_failover;
mod queue_freeze;
mod rate_cap;
mod remote_completion;
mod request_wait;
mod scheduler;
mod softirq;
mod split;
mod stray;
mod tag_wait;
mod thermal;
mod unaligned;
mod vcpu_stolen;
mod waits;
mod wbt;

pub use self::before::FULL;
pub use self::device::of as device;

use crate::diagnose::report::{Answer, Facts, Rule, Scope, Subject, Tier};
use crate::model::conditions::Conditions;
use crate::model::stage::StageSet;

macro_rules! rules {
    ($($name:literal $noun:literal $tier:ident $scope:ident $module:ident;)*) => {
        /// Every rule.
        pub const RULES: &[Rule] = &[$(Rule {
            name: $name,
            noun: $noun,
            tier: Tier::$tier,
            scope: Scope::$scope,
            check: $module::check,
        }),*];
    };
}

rules! {
    "lost-interrupt"    "lost interrupts"         Incident  Controller lost_interrupt;
    "doorbell-unseen"   "missed doorbells"        Incident  Controller doorbell_unseen;
    "held-by-device"    "held commands"           Incident  Controller held_by_device;
    "path-failover"     "failed paths"            Incident  Controller path_failover;
    "errors-timeout"    "failed commands"         Incident  Controller errors_timeout;
    "vcpu-stolen"       "stolen CPU time"         Machine   Machine    vcpu_stolen;
    "cgroup-throttle"   "limits of cgroups"       Mechanism Disk       cgroup_throttle;
    "queue-freeze"      "frozen queues"           Mechanism Disk       queue_freeze;
    "io-cost"           "io.cost"                 Mechanism Disk       io_cost;
    "wbt"               "writeback throttling"    Mechanism Disk       wbt;
    "tag-wait"          "the wait for tags"       Mechanism Disk       tag_wait;
    "request-wait"      "waits before the request" Mechanism Disk      request_wait;
    "scheduler"         "the I/O scheduler"       Mechanism Disk       scheduler;
    "split"             "splits"                  Mechanism Disk       split;
    "bounce"            "bounce buffers"          Mechanism Machine    bounce;
    "iommu"             "the IOMMU"               Mechanism Controller iommu;
    "few-queues"        "shared queues"           Mechanism Controller few_queues;
    "doorbell-exit"     "doorbell exits"          Mechanism Controller doorbell_exit;
    "one-irq-cpu"       "a busy interrupt CPU"    Mechanism Controller one_irq_cpu;
    "remote-completion" "remote completion"       Mechanism Controller remote_completion;
    "softirq"           "soft interrupts"         Mechanism Controller softirq;
    "idle-vcpu-wake"    "the wake of idle CPUs"   Mechanism Controller idle_wake;
    "not-polling"       "unused polled queues"    Mechanism Controller not_polling;
    "flush-cost"        "flushes"                 Mechanism Controller flush_cost;
    "discard-storm"     "discards"                Mechanism Controller discard_storm;
    "unaligned"         "unaligned commands"      Mechanism Disk       unaligned;
    "thermal"           "the temperature"         Limit     Controller thermal;
    "rate-cap"          "a rate limit"            Limit     Controller rate_cap;
    "device"            "the device"              Device    Controller device;
}

/// A part in percent: `71 %`.
fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// The answer of a rule about the interrupts of a controller for which this was not observed; `None`: it
/// was.
fn unseen(
    facts: &Facts,
    subject: Subject,
    of: fn(Conditions) -> Option<bool>,
    what: &str,
) -> Option<Answer> {
    if let Some(transport) = subject.ctrl().and_then(|ctrl| facts.fabric(ctrl)) {
        return Some(Answer::Open(format!("{transport} has no interrupt of its own to observe")));
    }
    let mut own = facts.of_subject(subject);
    if own.any(|c| of(c.conditions).is_some()) {
        return None;
    }
    Some(match (&facts.activity, facts.stage_set) {
        (Some(_), StageSet::Basic) => Answer::NotLooked("record --stages=fine".into()),
        _ => not_observed(facts, what),
    })
}

/// Why an observation of the machine is missing.
fn not_observed(facts: &Facts, what: &str) -> Answer {
    match facts.activity {
        Some(_) => Answer::Open(format!("this kernel does not show {what}")),
        None => Answer::NotLooked(FULL.into()),
    }
}
