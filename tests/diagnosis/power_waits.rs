// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases of power.rs for waits before the request: measured one by one, or counted together.

use super::draft::{BLOCK, DEVICE, FREEZE, IOCOST, TAG, THROTTLE, WBT, ZONE};
use super::load::Run;
use super::power::{Case, Effect, case, load, total};

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
    case(
        "cgroup-throttle",
        "throttle has 30 % of the time",
        Effect::Wait { wait: THROTTLE, least: 0.3 },
    ),
    case("queue-freeze", "freeze has 10 % of the time", Effect::Wait { wait: FREEZE, least: 0.1 }),
    case("io-cost", "iocost has 30 % of the time", Effect::Wait { wait: IOCOST, least: 0.3 }),
    case("wbt", "wbt has 30 % of the time", Effect::Wait { wait: WBT, least: 0.3 }),
    case("tag-wait", "tag has 30 % of the time", Effect::Wait { wait: TAG, least: 0.3 }),
    case(
        "tag-wait",
        "30 % of the time, waits included, and full queues (counted waits)",
        Effect::Made(|seed, times| waiting(seed, 0.3 * times, Some(8))),
    ),
    case("request-wait", "block has 30 % of the time", Effect::Wait { wait: BLOCK, least: 0.3 }),
    case("request-wait", "zone has 30 % of the time", Effect::Wait { wait: ZONE, least: 0.3 }),
    case(
        "request-wait",
        "30 % of the time, waits included (counted waits)",
        Effect::Made(|seed, times| waiting(seed, 0.3 * times, None)),
    ),
];
