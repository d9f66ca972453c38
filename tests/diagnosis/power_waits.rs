// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases of power.rs for waits before the request: measured one by one, or counted together.

use super::draft::{BLOCK, DEVICE, FREEZE, IOCOST, TAG, THROTTLE, WBT, ZONE};
use super::load::Run;
use super::power::{Case, Effect, load, total};

/// Waits of this part of the time, waits included.
fn waiting(seed: u64, part: f64, tags: Option<u32>) -> Run {
    let mut load = load(seed);
    load.place.has_waits = false;
    if tags.is_some() {
        (load.depth, load.pause_ns, load.seconds) = (8, 1e3, 1.0);
        load.stages[DEVICE] = 2e6;
    }
    let mut run = load.run(&[]);
    let all: u64 = run.events.iter().map(total).sum();
    for waits in run.activity.waits.iter_mut().flatten() {
        waits.waited = waits.requests / 2;
        waits.sum_ns = (all as f64 * part / (1.0 - part)) as u64;
    }
    if let Some(tags) = tags {
        run.machine.controllers[0].disks[0].nr_requests = Some(tags);
    }
    run
}

pub const WAITS: &[Case] = &[
    Case {
        rule: "cgroup-throttle",
        threshold: "throttle has 30 % of the time",
        run: Effect::Wait { wait: THROTTLE, least: 0.3 },
    },
    Case {
        rule: "queue-freeze",
        threshold: "freeze has 10 % of the time",
        run: Effect::Wait { wait: FREEZE, least: 0.1 },
    },
    Case {
        rule: "io-cost",
        threshold: "iocost has 30 % of the time",
        run: Effect::Wait { wait: IOCOST, least: 0.3 },
    },
    Case {
        rule: "wbt",
        threshold: "wbt has 30 % of the time",
        run: Effect::Wait { wait: WBT, least: 0.3 },
    },
    Case {
        rule: "tag-wait",
        threshold: "tag has 30 % of the time",
        run: Effect::Wait { wait: TAG, least: 0.3 },
    },
    Case {
        rule: "tag-wait",
        threshold: "30 % of the time, waits included, and full queues (counted waits)",
        run: Effect::Made(|seed, times| waiting(seed, 0.3 * times, Some(8))),
    },
    Case {
        rule: "request-wait",
        threshold: "block has 30 % of the time",
        run: Effect::Wait { wait: BLOCK, least: 0.3 },
    },
    Case {
        rule: "request-wait",
        threshold: "zone has 30 % of the time",
        run: Effect::Wait { wait: ZONE, least: 0.3 },
    },
    Case {
        rule: "request-wait",
        threshold: "30 % of the time, waits included (counted waits)",
        run: Effect::Made(|seed, times| waiting(seed, 0.3 * times, None)),
    },
];
