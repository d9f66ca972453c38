// SPDX-License-Identifier: MIT OR Apache-2.0
//! What production looks like: shapes of healthy runs. No rule may name a cause in any of them.

use fastrand::Rng;
use nvme_deep::model::machine::Class;
use nvme_deep::model::point::Pattern;

use super::draft::{DEVICE, QUEUE, SUBMIT};
use super::load::Load;
use super::places::{Arrivals, Place};

/// A value between two, all orders of magnitude alike.
fn between(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least * (most / least).powf(rng.f64())
}

/// One of these.
fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(0..of.len())]
}

/// A machine of any size, with a device of 20 us to 5 ms, and nothing that is submitted yet.
fn machine(seed: u64, rng: &mut Rng) -> Load {
    let cpus = rng.u16(1..=8);
    let mut load = Load {
        seed,
        cpus,
        queues: cpus,
        jobs: 0,
        depth: 0,
        seconds: between(rng, 5.0, 60.0),
        writes: rng.f64() * 0.9,
        sigmas: [0.05 + 0.3 * rng.f64(), 0.1 + 0.5 * rng.f64()],
        memory_s: between(rng, 0.01, 1.0),
        bursts: (0.5 * rng.f64(), 0.1, 2.0 + 3.0 * rng.f64()),
        idle: 0.1 + 0.8 * rng.f64(),
        idle_follows: 0.2 * rng.f64(),
        softirq: 0.4 * rng.f64(),
        remote: 0.6 * rng.f64(),
        sizes: one(rng, &[&[4096][..], &[4096, 65536], &[4096, 16384, 131_072]]),
        ..Load::default()
    };
    load.stages[DEVICE] = between(rng, 20e3, 5e6);
    load
}

/// Threads that wait for their commands: this many in flight, with pauses for at most as many commands as are wanted.
fn closed(load: &mut Load, rng: &mut Rng, part: f64) {
    load.jobs = rng.u16(1..=2 * load.cpus);
    load.depth = (between(rng, 1.0, 64.0) as u16 / load.jobs).max(1);
    let slots = f64::from(load.jobs) * f64::from(load.depth);
    let pause = load.seconds * 1e9 * slots / (load.commands * part);
    load.pause_ns = (pause - load.stages[DEVICE]).max(10e3);
}

/// A rate for commands that come by themselves, and a time that makes at most as many commands as are wanted of them.
fn open(load: &mut Load, rng: &mut Rng, part: f64) -> f64 {
    let rate = between(rng, 10.0, 100_000.0);
    load.seconds = load.seconds.min(load.commands * part / rate).max(0.05);
    (load.commands * part / load.seconds).min(rate)
}

/// No doorbell, no interrupt, no CQE: as over a network.
const FABRICS: Pattern = 0b0100_0111;
/// No interrupt.
const POLLED: Pattern = 0b0110_1111;
/// No doorbell.
const NO_DOORBELL: Pattern = 0b0111_0111;

/// A shape, and how its runs are made.
pub struct Shape {
    pub name: &'static str,
    make: fn(&mut Load, &mut Rng),
}

impl Shape {
    /// A run of it, of at most so many commands.
    pub fn load(&self, seed: u64, commands: f64) -> Load {
        let name = self.name.bytes().fold(0_u64, |sum, b| sum.wrapping_mul(31) + u64::from(b));
        let mut rng = Rng::with_seed(seed ^ name);
        let mut load = machine(rng.u64(..), &mut rng);
        load.commands = commands;
        (self.make)(&mut load, &mut rng);
        load
    }
}

const fn shape(name: &'static str, make: fn(&mut Load, &mut Rng)) -> Shape {
    Shape { name, make }
}

pub const SHAPES: &[Shape] = &[
    shape("open loop, Poisson, 10 to 100,000 IOPS", |load, rng| {
        load.arrivals = Arrivals::Poisson(open(load, rng, 1.0));
    }),
    shape("open loop, a device whose time drifts", |load, rng| {
        load.arrivals = Arrivals::Poisson(open(load, rng, 1.0));
        (load.sigmas, load.memory_s) = ([0.3, 0.1], 1.0);
    }),
    shape("open loop, bursts on and off", |load, rng| {
        let rate = open(load, rng, 1.0);
        load.arrivals = Arrivals::OnOff(rate * 1.8, rate * 0.2);
    }),
    shape("open loop, the rate doubles or halves", |load, rng| {
        let rate = open(load, rng, 1.0);
        let (first, second) = one(rng, &[(0.66, 1.33), (1.33, 0.66)]);
        load.arrivals = Arrivals::Steps(rate * first, rate * second);
    }),
    shape("open loop that paces itself", |load, rng| {
        load.arrivals = Arrivals::Paced(open(load, rng, 1.0));
    }),
    shape("open and closed loops together", |load, rng| {
        load.arrivals = Arrivals::Poisson(open(load, rng, 0.5));
        closed(load, rng, 0.5);
    }),
    shape("closed loops of all sizes", |load, rng| closed(load, rng, 1.0)),
    shape("closed loops with flushes and discards, off the physical blocks", |load, rng| {
        closed(load, rng, 1.0);
        (load.flushes, load.discards, load.unaligned) =
            (0.05 * rng.f64(), 0.03 * rng.f64(), 0.7 * rng.f64());
    }),
    shape("closed loops, the number in flight varies", |load, rng| {
        closed(load, rng, 1.0);
        (load.varies, load.depth) = (true, load.depth.max(4));
    }),
    shape("a device of a fixed time, depth 4 to 32", |load, rng| {
        (load.sigmas, load.bursts) = ([0.0, 0.01], (0.0, 0.0, 1.0));
        (load.jobs, load.depth) = (4, rng.u16(1..=8));
        (load.varies, load.pause_ns) = (rng.bool(), 1e3);
        load.stages[DEVICE] = 4e6;
        load.seconds = 3.0_f64.min(load.commands * 4e-3 / f64::from(4 * load.depth));
    }),
    shape("a bimodal device", |load, rng| {
        closed(load, rng, 1.0);
        load.stages[DEVICE] = load.stages[DEVICE].min(1e6);
        // beyond 100 ms it holds commands
        let most = f64::min(50.0, 10e6 / load.stages[DEVICE]);
        load.slow = (between(rng, 0.001, 0.2), between(rng, 5.0, most));
    }),
    shape("writeback: batches of merged 1 MiB writes", |load, rng| {
        (load.sizes, load.writes) = (&[1 << 20], 1.0);
        load.arrivals = Arrivals::Batches(rng.u32(8..64), 2.0);
        load.stages[DEVICE] = between(rng, 300e3, 5e6);
    }),
    shape("a database: small fsync writes beside reads", |load, rng| {
        closed(load, rng, 1.0);
        (load.writes, load.flushes) = (0.2, 0.05);
    }),
    shape("TCP: no doorbell, interrupt or CQE", |load, rng| {
        closed(load, rng, 1.0);
        load.place = Place {
            class: Class::Target,
            transport: "tcp",
            pattern: FABRICS,
            has_conditions: false,
            ..Place::default()
        };
    }),
    shape("polled queues in use", |load, rng| {
        closed(load, rng, 1.0);
        load.place.pattern = POLLED;
        load.place.poll_queues = (1, true);
    }),
    shape("no doorbell observed", |load, rng| {
        load.arrivals = Arrivals::Poisson(open(load, rng, 1.0));
        load.place.pattern = NO_DOORBELL;
    }),
    shape("bare metal: 10 us, batches of 32", |load, rng| {
        load.place = Place {
            class: Class::Physical,
            hypervisor: None,
            shadow_doorbells: None,
            iommu_group: one(rng, &[Some("identity"), Some("DMA-FQ"), None]),
            ..Place::default()
        };
        load.stages[SUBMIT] = 16e3;
        load.stages[DEVICE] = 10e3;
        load.seconds = 5.0;
        load.arrivals = Arrivals::Batches(32, load.commands / 5.0 / 32.0);
    }),
    shape("Nitro: a cloud's controller, doorbells to hardware", |load, rng| {
        closed(load, rng, 1.0);
        load.place = Place {
            class: Class::Cloud,
            hypervisor: Some("Amazon EC2 (Nitro)"),
            shadow_doorbells: None,
            ..Place::default()
        };
        (load.stages[DEVICE], load.stages[SUBMIT]) =
            (between(rng, 200e3, 1e6), between(rng, 1e3, 400e3));
    }),
    shape("Azure: Hyper-V, a disk passed through", |load, rng| {
        load.arrivals = Arrivals::Poisson(open(load, rng, 1.0));
        load.place = Place {
            class: one(rng, &[Class::Cloud, Class::Passthrough]),
            hypervisor: Some("Hyper-V (Azure)"),
            ..Place::default()
        };
    }),
    shape("a CPU limit: threads stop in each 100 ms", |load, rng| {
        closed(load, rng, 1.0);
        load.runs = 0.3 + 0.6 * rng.f64();
    }),
    shape("power states: slower after an idle time", |load, rng| {
        load.arrivals = Arrivals::Poisson(open(load, rng, 1.0).min(500.0));
        load.seconds = load.seconds.max(4.0);
        load.wakes = (1_000_000, load.stages[DEVICE] * 0.1);
    }),
    shape("NUMA: remote completions cost a little more", |load, rng| {
        closed(load, rng, 1.0);
        (load.remote, load.cpus) = (0.5, 8);
        load.stages[DEVICE] = load.stages[DEVICE].max(100e3);
    }),
    shape("poll_queues set and unused, a scheduler that does no harm", |load, rng| {
        closed(load, rng, 1.0);
        load.place.poll_queues = (1, false);
        load.place.scheduler = one(rng, &["mq-deadline", "kyber", "bfq"]);
        load.stages[QUEUE] = load.stages[DEVICE] * 0.2;
    }),
    shape("two commands", |load, rng| {
        load.arrivals = Arrivals::Batches(1, 0.2);
        load.seconds = 5.0 + rng.f64();
    }),
];
