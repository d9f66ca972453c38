// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic runs: places that submit one command after the other, and a device whose times are
//! autocorrelated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fastrand::Rng;
use nvme_deep::diagnose::{Collector, Expectation, Facts};
use nvme_deep::model::activity::{Activity, CpuActivity, Gap, Splits, TagWaits, Volume};
use nvme_deep::model::event::Event;
use nvme_deep::model::ledger::Accuracy;
use nvme_deep::model::machine::{
    ControllerInfo, ControllerLogs, DiskInfo, MachineController, MachineDisk, MachineInfo,
};
use nvme_deep::nvme::log::{EbsStats, Smart};

use super::causes::{Cause, State};
use super::draft::{DEVICE, DISCARD, Draft, FLUSH, READ, WRITE};
use super::level::{Level, exponential, normal};
use super::places::{Arrivals, Place};

pub const SECOND: u64 = 1_000_000_000;
/// The begin of each run.
pub const BEGIN: u64 = SECOND;
/// In the place of a slot: the next command that comes by itself.
const ARRIVAL: usize = usize::MAX;
/// From the submission of a bio to its request, without a wait.
const CALM_NS: u64 = 800;
/// The period of a CPU limit.
const PERIOD_NS: u64 = 100_000_000;

/// A load, and the machine on which it runs.
#[derive(Clone, Debug)]
pub struct Load {
    pub seed: u64,
    /// How many commands a shape aims at.
    pub commands: f64,
    pub seconds: f64,
    pub cpus: u16,
    /// I/O queues.
    pub queues: u16,
    /// Threads, on one CPU after the other.
    pub jobs: u16,
    /// Commands in flight of each thread.
    pub depth: u16,
    /// The number in flight differs from second to second.
    pub varies: bool,
    /// For every second quarter of a second only this part of them is in flight.
    pub alternates: Option<f64>,
    /// Mean pause before the next command, in nanoseconds.
    pub pause_ns: f64,
    /// Parts of the commands.
    pub writes: f64,
    pub flushes: f64,
    /// Part of the writes.
    pub fua: f64,
    pub discards: f64,
    /// Sizes of reads and writes, in bytes.
    pub sizes: &'static [u32],
    /// Commands off the physical blocks.
    pub unaligned: f64,
    /// Medians of the stages, in nanoseconds.
    pub stages: [f64; 8],
    /// Standard deviation of the logarithm of device times: of their level, and of each.
    pub sigmas: [f64; 2],
    /// The level is forgotten to 37 % in this time.
    pub memory_s: f64,
    /// Bursts per second, their mean length in seconds, and the factor of device times in them.
    pub bursts: (f64, f64, f64),
    /// Probabilities that the CPU is idle at the interrupt, and that it is in a soft interrupt.
    pub idle: f64,
    pub softirq: f64,
    /// How far the first of these rises with the logarithm of device times: a CPU that waits is idle.
    pub idle_follows: f64,
    /// Part of the commands that another CPU than the queue's completes.
    pub remote: f64,
    pub expectation: Expectation,
    /// Commands that come by themselves, beside the threads'.
    pub arrivals: Arrivals,
    /// Probability of a command that takes many times as long, and how many.
    pub slow: (f64, f64),
    /// Threads run only for this part of each 100 ms.
    pub runs: f64,
    /// The first command after this idle time takes so much longer, in nanoseconds.
    pub wakes: (u64, f64),
    /// What is observed, and on which machine.
    pub place: Place,
}

impl Default for Load {
    /// 4 CPUs with a queue each, 8 commands in flight, 100 us.
    fn default() -> Self {
        Self {
            seed: 1,
            commands: 0.0,
            seconds: 12.0,
            cpus: 4,
            queues: 4,
            jobs: 4,
            depth: 2,
            varies: false,
            alternates: None,
            pause_ns: 15e6,
            writes: 0.3,
            flushes: 0.0,
            fua: 0.0,
            discards: 0.0,
            sizes: &[4096],
            unaligned: 0.0,
            stages: [3e3, 1e3, 2e3, 4e3, 100e3, 3e3, 4e3, 2e3],
            sigmas: [0.2, 0.2],
            memory_s: 0.05,
            bursts: (0.3, 0.1, 3.0),
            idle: 0.5,
            softirq: 0.1,
            idle_follows: 0.0,
            remote: 0.05,
            expectation: Expectation::None,
            arrivals: Arrivals::None,
            slow: (0.0, 1.0),
            runs: 1.0,
            wakes: (u64::MAX, 0.0),
            place: Place::default(),
        }
    }
}

/// A run, as the collector gets it.
pub struct Run {
    pub events: Vec<Event>,
    pub machine: MachineInfo,
    pub activity: Activity,
    /// Before the run and after it.
    pub logs: (ControllerLogs, ControllerLogs),
    pub covers: Duration,
    pub expectation: Expectation,
}

impl Load {
    /// Its bios are not observed: waits before the request are counted together.
    pub fn without_bios(mut self) -> Self {
        self.place.has_waits = false;
        self
    }

    fn slots(&self) -> usize {
        usize::from(self.jobs) * usize::from(self.depth)
    }

    /// Whether a place submits at this time.
    fn is_active(&self, slot: usize, at_ns: u64) -> bool {
        let part = at_ns % PERIOD_NS;
        if part as f64 > self.runs * PERIOD_NS as f64 {
            return false;
        }
        if let Some(part) = self.alternates {
            let is_low = (at_ns / (SECOND / 4)).is_multiple_of(2);
            return !is_low || (slot as f64) < self.slots() as f64 * part;
        }
        if !self.varies {
            return true;
        }
        let phase = at_ns / SECOND;
        let part = Rng::with_seed(phase ^ self.seed << 20).f64();
        slot < 4 + (part * self.slots().saturating_sub(4) as f64) as usize
    }

    fn opcode(&self, rng: &mut Rng) -> u8 {
        let at = rng.f64();
        let ends = [
            (self.flushes, FLUSH),
            (self.flushes + self.discards, DISCARD),
            (self.flushes + self.discards + self.writes, WRITE),
        ];
        let found = ends.into_iter().find(|(end, _)| at < *end);
        found.map_or(READ, |(_, code)| code)
    }

    fn draft(&self, slot: usize, begin_ns: u64, factor: f64, rng: &mut Rng) -> Draft {
        let places = self.jobs.max(self.cpus * u16::from(self.jobs == 0));
        let cpu = (slot % usize::from(places)) as u16 % self.cpus;
        let queue = match self.place.poll_queues {
            (_, true) => self.queues,
            _ => cpu % self.queues,
        };
        let code = self.opcode(rng);
        let is_sized = matches!(code, READ | WRITE);
        let mut stages = self.stages.map(|ns| ns * (0.25 * normal(rng)).exp());
        stages[DEVICE] = self.stages[DEVICE] * factor * (self.sigmas[1] * normal(rng)).exp();
        if code == DISCARD {
            stages[DEVICE] *= 20.0;
        }
        if self.slow.0 > 0.0 && rng.f64() < self.slow.0 {
            stages[DEVICE] *= self.slow.1;
        }
        let off = u64::from(rng.f64() < self.unaligned);
        let home = if self.queues < self.cpus { queue } else { cpu };
        let is_remote = rng.f64() < self.remote;
        Draft {
            begin_ns,
            slot,
            cpu,
            end_cpu: (home + u16::from(is_remote)) % self.cpus,
            qid: queue + 1,
            code,
            bytes: if is_sized { self.sizes[rng.usize(0..self.sizes.len())] } else { 0 },
            slba: rng.u64(0..1 << 24) * 8 + off,
            waits: self.place.has_waits.then_some([0, CALM_NS, 0, 0, 0, 0, 0]),
            stages,
            idle: rng.f64() < self.idle + self.idle_follows * factor.ln(),
            softirq: rng.f64() < self.softirq,
            rung: rng.bool(),
            fua: self.fua > 0.0 && code == WRITE && rng.f64() < self.fua,
            status: 0,
            unseen: false,
            pattern: self.place.pattern,
            ctrl: self.place.ctrl,
            has_conditions: self.place.has_conditions,
        }
    }

    /// The next arrivals of commands that come by themselves. Returns the number of the last one.
    fn arrive(
        &self,
        at_ns: u64,
        number: usize,
        rng: &mut Rng,
        next: &mut BinaryHeap<Reverse<(u64, usize)>>,
    ) -> usize {
        let half_ns = BEGIN + (self.seconds * 0.5e9) as u64;
        let Some((gap, count)) = self.arrivals.next(at_ns, half_ns, rng) else {
            return number;
        };
        next.push(Reverse((at_ns + gap, ARRIVAL)));
        let last = number + count as usize;
        next.extend((number + 1..=last).map(|slot| Reverse((at_ns + gap, slot))));
        last
    }

    /// When a place that does not submit looks again.
    fn wakes_at(&self, at_ns: u64) -> u64 {
        let period = match (self.runs < 1.0, self.alternates) {
            (true, _) => PERIOD_NS,
            (_, Some(_)) => SECOND / 4,
            _ => SECOND,
        };
        (at_ns / period + 1) * period
    }

    /// The run with these causes.
    pub fn run(&self, causes: &[Cause]) -> Run {
        let mut rng = Rng::with_seed(self.seed);
        let mut level =
            Level { at_ns: BEGIN, level: normal(&mut rng), burst_until: 0, next_burst: BEGIN };
        let mut state = State::new(self);
        let end = BEGIN + (self.seconds * 1e9) as u64;
        let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        for slot in 0..self.slots() {
            next.push(Reverse((BEGIN + rng.u64(0..=self.pause_ns as u64), slot)));
        }
        next.push(Reverse((BEGIN, ARRIVAL)));
        let (mut number, mut last_ns) = (self.slots(), BEGIN);
        while let Some(Reverse((at_ns, slot))) = next.pop() {
            if at_ns >= end {
                continue;
            }
            if slot == ARRIVAL {
                number = self.arrive(at_ns, number, &mut rng, &mut next);
                continue;
            }
            if slot < self.slots() && !self.is_active(slot, at_ns) {
                next.push(Reverse((self.wakes_at(at_ns) + rng.u64(0..1000), slot)));
                continue;
            }
            let factor = level.factor(self, at_ns, &mut rng);
            let mut draft = self.draft(slot, at_ns, factor, &mut rng);
            if at_ns.saturating_sub(last_ns) > self.wakes.0 {
                draft.stages[DEVICE] += self.wakes.1;
            }
            last_ns = last_ns.max(draft.end_ns());
            for cause in causes {
                cause.change(&mut draft, &mut state);
            }
            for done in state.submit(draft) {
                let pause = exponential(&mut rng, self.pause_ns) as u64;
                if done.slot < self.slots() {
                    next.push(Reverse((done.end_ns() + pause, done.slot)));
                }
                state.done(&done);
            }
        }
        let machine = self.machine(causes);
        let activity = self.activity(causes, &state);
        let mut events = state.events;
        events.sort_by_key(|e| e.at_ns);
        Run {
            events,
            machine,
            activity,
            logs: Self::logs(causes),
            covers: Duration::from_secs_f64(self.seconds),
            expectation: self.expectation.clone(),
        }
    }

    fn machine(&self, causes: &[Cause]) -> MachineInfo {
        let place = &self.place;
        let disk = MachineDisk {
            name: format!("nvme{}n1", place.ctrl).into(),
            nsid: 1,
            scheduler: Some(place.scheduler.into()),
            nr_requests: Some(1023),
            physical_bytes: Some(4096),
            logical_bytes: Some(512),
            max_bytes: Some(1 << 17),
            max_hw_bytes: Some(1 << 17),
            ..MachineDisk::default()
        };
        let controller = MachineController {
            instance: place.ctrl,
            class: place.class,
            transport: Some(place.transport.into()),
            io_queues: Some(u32::from(self.queues) + place.poll_queues.0),
            iommu_group: place.iommu_group.map(Into::into),
            depth: Some(1024),
            vectors: Some(u32::from(self.queues) + 1),
            shadow_doorbells: place.shadow_doorbells,
            disks: vec![disk],
            ..MachineController::default()
        };
        let mut machine = MachineInfo {
            hypervisor: place.hypervisor.map(Into::into),
            is_virtual: Some(place.hypervisor.is_some()),
            cpus: Some(self.cpus.into()),
            poll_queues: Some(place.poll_queues.0),
            controllers: vec![controller],
            ..MachineInfo::default()
        };
        for cause in causes {
            cause.set(&mut machine);
        }
        machine
    }

    /// The log pages of a volume of 40 degrees Celsius, and what the causes change.
    fn logs(causes: &[Cause]) -> (ControllerLogs, ControllerLogs) {
        let first = ControllerLogs {
            smart: Smart { kelvins: 313, transitions: 3, ..Smart::default() },
            ebs: Some(EbsStats { volume_iops_us: 5_000_000, ..EbsStats::default() }),
            ..ControllerLogs::default()
        };
        let mut last = first;
        for cause in causes {
            cause.log(&mut last);
        }
        (first, last)
    }

    /// The activity of a calm machine, and what the causes add.
    fn activity(&self, causes: &[Cause], state: &State) -> Activity {
        let commands = state.commands;
        let length = (self.seconds * 1e9) as u64;
        let cpus = (0..u32::from(self.cpus)).map(|cpu| CpuActivity {
            cpu,
            steal_ns: length / 500,
            irq_ns: length / 100,
            softirq_ns: length / 50,
            idle_ns: length / 2,
            gaps: Some(3),
            gap_ns: length / 1000,
            timed_from_ns: 0,
            timed_to_ns: 0,
        });
        let waits = TagWaits {
            ctrl: self.place.ctrl,
            nsid: 1,
            requests: commands,
            waited: commands / 500,
            sum_ns: commands * 300,
            max_ns: 40_000,
        };
        let splits = Splits { ctrl: self.place.ctrl, nsid: 1, ..Splits::default() };
        let mut activity = Activity {
            at_ns: BEGIN + length,
            cpus: cpus.collect(),
            waits: Some(vec![waits]),
            bounces: Some(Volume::default()),
            iommu_maps: Some(Volume::default()),
            iommu_unmaps: Some(Volume::default()),
            splits: Some(vec![splits]),
            gaps: state.gaps.clone(),
            ..Activity::default()
        };
        for cause in causes {
            cause.count(&mut activity, state);
        }
        activity
    }
}

/// Gaps of all CPUs: rare and short.
pub fn calm_gaps(load: &Load) -> Vec<Gap> {
    let mut rng = Rng::with_seed(load.seed ^ 0x9a9);
    let length = (load.seconds * 1e9) as u64;
    let gap = |cpu: u16, rng: &mut Rng| {
        let begin_ns = BEGIN + rng.u64(0..length);
        Gap { cpu: cpu.into(), begin_ns, end_ns: begin_ns + 2_000_000 }
    };
    let cpus = (0..load.cpus).flat_map(|cpu| [cpu; 3]);
    cpus.map(|cpu| gap(cpu, &mut rng)).collect()
}

impl Run {
    /// Its facts.
    pub fn facts(self, accuracy: Accuracy) -> Facts {
        self.collect(Collector::default(), accuracy)
    }

    /// The controllers and their disks.
    pub fn controllers() -> [ControllerInfo; 1] {
        let disk = DiskInfo { name: "nvme0n1".into(), nsid: 1, lba_bytes: 512, csi: 0 };
        [ControllerInfo { disks: vec![disk], ..ControllerInfo::default() }]
    }

    /// The activity at the start.
    pub fn first_activity(&self) -> Activity {
        let zero = |cpu: &CpuActivity| CpuActivity {
            cpu: cpu.cpu,
            gaps: cpu.gaps.map(|_| 0),
            ..CpuActivity::default()
        };
        Activity {
            at_ns: BEGIN,
            cpus: self.activity.cpus.iter().map(zero).collect(),
            ..Activity::default()
        }
    }

    /// Its facts, of this collector.
    pub fn collect(self, mut collector: Collector, accuracy: Accuracy) -> Facts {
        collector.controllers(&Self::controllers());
        collector.activity(self.first_activity());
        collector.facts.machine = Some(self.machine);
        collector.facts.logs = Some(vec![self.logs]);
        for event in &self.events {
            collector.event(event);
        }
        collector.activity(self.activity);
        let facts = &mut collector.facts;
        (facts.covers, facts.accuracy) = (self.covers, Some(accuracy));
        facts.expectation = self.expectation;
        collector.finish()
    }
}
