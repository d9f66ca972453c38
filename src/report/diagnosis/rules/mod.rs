// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules, one file each. docs/diagnose.md describes how to add one.

mod bounce;
mod device;
mod discard_storm;
mod doorbell_exit;
mod doorbell_unseen;
mod errors_timeout;
mod few_queues;
mod flush_cost;
mod held_by_device;
mod idle_wake;
mod iommu;
mod lost_interrupt;
mod not_polling;
mod one_irq_cpu;
mod path_failover;
mod rate_cap;
mod remote_completion;
mod scheduler;
mod softirq;
mod split;
mod stray;
mod tag_wait;
mod thermal;
mod unaligned;
mod vcpu_stolen;

use super::Answer;
use super::Rule;
use super::Tier;
use super::measure::Comparison;

macro_rules! rules {
    ($($name:literal $tier:ident $module:ident;)*) => {
        /// Every rule.
        pub const RULES: &[Rule] = &[$(Rule {
            name: $name,
            tier: Tier::$tier,
            check: $module::check,
        }),*];
    };
}

rules! {
    "lost-interrupt"    Incident  lost_interrupt;
    "doorbell-unseen"   Incident  doorbell_unseen;
    "held-by-device"    Incident  held_by_device;
    "path-failover"     Incident  path_failover;
    "errors-timeout"    Incident  errors_timeout;
    "vcpu-stolen"       Machine   vcpu_stolen;
    "tag-wait"          Mechanism tag_wait;
    "scheduler"         Mechanism scheduler;
    "split"             Mechanism split;
    "bounce"            Mechanism bounce;
    "iommu"             Mechanism iommu;
    "few-queues"        Mechanism few_queues;
    "doorbell-exit"     Mechanism doorbell_exit;
    "one-irq-cpu"       Mechanism one_irq_cpu;
    "remote-completion" Mechanism remote_completion;
    "softirq"           Mechanism softirq;
    "idle-vcpu-wake"    Mechanism idle_wake;
    "not-polling"       Mechanism not_polling;
    "flush-cost"        Mechanism flush_cost;
    "discard-storm"     Mechanism discard_storm;
    "unaligned"         Mechanism unaligned;
    "thermal"           Limit     thermal;
    "rate-cap"          Limit     rate_cap;
    "device"            Device    device;
}

/// A part in percent: `71 %`.
fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// The answer for a comparison that does not show a cause. One whose interval allows no effect and
/// twice the time rules nothing out.
fn not_shown(what: &str, comparison: &Comparison) -> Answer {
    let text = format!("{what}: {}", comparison.text());
    match comparison.is_vague() {
        true => Answer::Unknown(format!("too uncertain: {text}")),
        false => Answer::Out(text),
    }
}
