// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of slow commands, as they are planted into synthetic runs.

use std::collections::BTreeMap;

use fastrand::Rng;
use nvme_deep::model::activity::{Activity, Gap, UpperBios, Volume};
use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::model::machine::{
    ControllerLogs, IoCost, IoLimit, IoLimits, MachineInfo, UpperDisk,
};

use super::draft::{
    BLOCK, COMPLETE, DEVICE, DISCARD, Draft, FLUSH, FREEZE, IOCOST, IRQ, MAP, QUEUE, SUBMIT, TAG,
    THROTTLE, WBT,
};
use super::load::{BEGIN, Load, SECOND, calm_gaps};

const MS: f64 = 1e6;
const US: f64 = 1e3;
/// The timeout of the driver.
const TIMEOUT_NS: u64 = 2 * SECOND;

/// A cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    LostInterrupt,
    DoorbellUnseen,
    HeldByDevice,
    PathFailover,
    Errors,
    VcpuStolen,
    /// 6 % of the CPU time; no timer that shows gaps.
    SomeSteal,
    /// One command that fails with a media error, without a retry.
    OneError,
    /// Settings and counters alone, as of the causes below.
    SetScheduler,
    CountBounces,
    CountMappings,
    CompleteOnOne,
    /// A cgroup has a limit.
    Throttle,
    /// The queue is frozen now and then.
    Freeze,
    /// io.cost holds bios back.
    IoCost,
    /// Writeback throttling.
    Wbt,
    /// There are few tags, and the waits for them are measured.
    FewTags,
    /// A wait without a name.
    OtherWait,
    /// Waits for tags, counted with all waits.
    TagWait,
    /// Waits that are not for a tag, counted with all waits.
    RequestWait,
    Scheduler,
    /// The queues have room for 7 commands: others wait for that in the scheduler.
    FullDevice,
    Split,
    Bounce,
    Iommu,
    FewQueues,
    DoorbellExit,
    /// Only doorbells that are rung take long.
    DoorbellRung,
    OneIrqCpu,
    RemoteCompletion,
    Softirq,
    IdleWake,
    NotPolling,
    FlushCost,
    /// Writes with FUA take long.
    FuaCost,
    DiscardStorm,
    Unaligned,
    /// The controller is too hot.
    Thermal,
    RateCap,
    /// The volume's log shows time beyond its IOPS.
    LoggedCap,
    Device,
    /// Bios of dm-0 take three times as long as the commands below.
    Above,
}

/// What has happened so far in a run.
pub struct State {
    rng: Rng,
    pub events: Vec<Event>,
    pub commands: u64,
    /// Time of all commands.
    pub total_ns: u64,
    pub gaps: Vec<Gap>,
    /// Long gaps by CPU, in order.
    away: BTreeMap<u16, Vec<Gap>>,
    /// Last setup by queue: time and CPU.
    set_up: BTreeMap<u16, (u64, u16)>,
    /// The latest end by opcode, and by queue.
    code_until: BTreeMap<u8, u64>,
    queue_until: BTreeMap<u16, u64>,
    /// Commands that wait for the next submission, by queue.
    unseen: BTreeMap<u16, Draft>,
    /// When the commands end that wait or are in flight, by queue.
    ends: BTreeMap<u16, Vec<u64>>,
    /// When a device with a limit is free.
    free_ns: u64,
    /// The last timeout.
    timeout_ns: u64,
}

/// 8 ms in which a CPU is away, about every 40 ms.
fn away(load: &Load) -> BTreeMap<u16, Vec<Gap>> {
    let mut rng = Rng::with_seed(load.seed ^ 0x57ea1);
    let end = BEGIN + (load.seconds * 1e9) as u64;
    let mut of = |cpu: u16| {
        let mut gaps = Vec::new();
        let mut at = BEGIN + rng.u64(0..40_000_000);
        while at < end {
            gaps.push(Gap { cpu: cpu.into(), begin_ns: at, end_ns: at + 8_000_000 });
            at += 8_000_000 + rng.u64(10_000_000..54_000_000);
        }
        (cpu, gaps)
    };
    (0..load.cpus).map(&mut of).collect()
}

/// The end of the gap that this time is in.
fn back(gaps: &[Gap], at_ns: u64) -> Option<u64> {
    let next = gaps.partition_point(|g| g.end_ns < at_ns);
    let gap = gaps.get(next)?;
    (gap.begin_ns <= at_ns).then_some(gap.end_ns)
}

impl State {
    pub fn new(load: &Load) -> Self {
        Self {
            rng: Rng::with_seed(load.seed ^ 0xca05e),
            events: Vec::new(),
            commands: 0,
            total_ns: 0,
            gaps: calm_gaps(load),
            away: away(load),
            set_up: BTreeMap::new(),
            code_until: BTreeMap::new(),
            queue_until: BTreeMap::new(),
            unseen: BTreeMap::new(),
            ends: BTreeMap::new(),
            free_ns: 0,
            timeout_ns: 0,
        }
    }

    /// Submits a command. Returns those that now have an end.
    pub fn submit(&mut self, draft: Draft) -> Vec<Draft> {
        let set_up = draft.setup_ns();
        self.set_up.insert(draft.qid, (set_up, draft.cpu));
        let mut done = Vec::new();
        if let Some(mut freed) = self.unseen.remove(&draft.qid) {
            let passed = set_up.saturating_sub(freed.point(DEVICE)) as f64;
            freed.stages[DEVICE] += passed;
            done.push(freed);
        }
        if draft.unseen {
            self.unseen.insert(draft.qid, draft);
        } else {
            done.push(draft);
        }
        done
    }

    /// Takes in a command that has an end.
    pub fn done(&mut self, draft: &Draft) {
        let end = draft.end_ns();
        self.commands += 1;
        self.total_ns += end - draft.begin_ns;
        let code_until = self.code_until.entry(draft.code).or_default();
        *code_until = end.max(*code_until);
        let queue_until = self.queue_until.entry(draft.qid).or_default();
        *queue_until = end.max(*queue_until);
        self.events.push(draft.event(true));
    }

    fn in_flight(&self, code: u8, at_ns: u64) -> bool {
        self.code_until.get(&code).is_some_and(|end| *end > at_ns)
    }

    /// With this probability.
    fn once_in(&mut self, times: f64) -> bool {
        self.rng.f64() < 1.0 / times
    }

    /// The interrupt of queue 1 is lost for two of five seconds.
    fn lose_interrupt(&mut self, draft: &mut Draft) {
        let irq = draft.point(IRQ);
        let lost = irq / (5 * SECOND) * 5 * SECOND + SECOND;
        let polled = lost + TIMEOUT_NS;
        if draft.qid != 1 || irq < lost || irq >= polled {
            return;
        }
        draft.stages[DEVICE] += (polled - irq) as f64;
        if self.timeout_ns != polled {
            self.timeout_ns = polled;
            self.events.push(Event {
                at_ns: polled - 1000,
                what: EventKind::Timeout { id: draft.id(), age_ns: TIMEOUT_NS },
            });
        }
    }

    fn fail(&mut self, draft: &mut Draft) {
        draft.status = 0x281;
        self.events.push(Event {
            at_ns: draft.end_ns() + 1,
            what: EventKind::Retry { id: draft.id(), retries: Some(1) },
        });
    }

    /// A command waits in the scheduler until a queue of 7 has room.
    fn wait_for_room(&mut self, draft: &mut Draft) {
        let ends = self.ends.entry(draft.qid).or_default();
        let left = draft.point(MAP);
        ends.retain(|end| *end > left);
        ends.sort_unstable();
        if let Some(n) = ends.len().checked_sub(7) {
            draft.stages[QUEUE] += (ends[n] - left) as f64 + 1000.0;
        }
        ends.push(draft.end_ns());
    }

    /// Whether another CPU has just submitted to its queue.
    fn is_beside(&self, draft: &Draft) -> bool {
        let at = draft.setup_ns();
        let other = self.set_up.get(&draft.qid);
        other.is_some_and(|(last, cpu)| at.abs_diff(*last) < 20_000 && *cpu != draft.cpu)
    }

    /// A CPU that is away neither submits nor completes.
    fn be_away(&self, draft: &mut Draft) {
        if let Some(back) = back(&self.away[&draft.cpu], draft.begin_ns) {
            draft.begin_ns = back;
        }
        for (stage, cpu) in [(SUBMIT, draft.cpu), (DEVICE, draft.end_cpu)] {
            let at = draft.point(stage + 1);
            if let Some(back) = back(&self.away[&cpu], at) {
                draft.stages[stage] += (back - at) as f64;
            }
        }
    }
}

impl Cause {
    /// Changes the settings of the machine.
    pub fn set(self, machine: &mut MachineInfo) {
        let controller = &mut machine.controllers[0];
        match self {
            Self::Scheduler | Self::SetScheduler => {
                controller.disks[0].scheduler = Some("mq-deadline".into())
            }
            Self::FullDevice => {
                controller.disks[0].scheduler = Some("mq-deadline".into());
                controller.depth = Some(8);
            }
            Self::NotPolling => {
                controller.io_queues = controller.io_queues.map(|n| n + 1);
                machine.poll_queues = Some(1);
            }
            Self::Iommu | Self::CountMappings => controller.iommu_group = Some("DMA".into()),
            Self::TagWait | Self::FewTags => controller.disks[0].nr_requests = Some(8),
            Self::Throttle => {
                let limit = IoLimit {
                    cgroup: "/limited".into(),
                    riops: Some(60),
                    wiops: Some(60),
                    ..IoLimit::default()
                };
                controller.disks[0].limits = Some(IoLimits { cgroups: vec![limit], more: false });
            }
            Self::IoCost => {
                controller.disks[0].io_cost =
                    Some(IoCost { enabled: true, qos: "ctrl=user".into() });
            }
            Self::Wbt => controller.disks[0].wbt_lat_us = Some(2000),
            Self::Above => {
                machine.upper = vec![UpperDisk {
                    name: "dm-0".into(),
                    kind: Some("CRYPT".into()),
                    disks: vec!["nvme0n1".into()],
                    is_top: true,
                    has_others: false,
                }];
            }
            _ => {}
        }
    }

    /// Changes the log pages after the run.
    pub const fn log(self, logs: &mut ControllerLogs) {
        match self {
            Self::Thermal => {
                logs.smart.transitions += 1;
                logs.smart.throttled_seconds += 4;
            }
            Self::LoggedCap => {
                if let Some(ebs) = &mut logs.ebs {
                    ebs.volume_iops_us += 3_000_000;
                }
            }
            _ => {}
        }
    }

    /// Changes a command that is submitted.
    pub fn change(self, draft: &mut Draft, state: &mut State) {
        match self {
            Self::LostInterrupt => state.lose_interrupt(draft),
            Self::DoorbellUnseen => {
                let until = state.queue_until.get(&draft.qid).copied().unwrap_or(0);
                let is_alone = until < draft.begin_ns && !state.unseen.contains_key(&draft.qid);
                draft.unseen = is_alone && state.once_in(20.0);
            }
            Self::HeldByDevice if state.once_in(1000.0) => draft.stages[DEVICE] += 600.0 * MS,
            Self::PathFailover if state.once_in(100.0) => draft.status = 0x303,
            Self::Errors if state.once_in(100.0) => state.fail(draft),
            Self::OneError if state.commands == 100 => draft.status = 0x281,
            Self::VcpuStolen => state.be_away(draft),
            Self::Throttle => draft.wait(THROTTLE, 400_000),
            Self::Freeze if state.once_in(20.0) => draft.wait(FREEZE, 5_000_000),
            Self::IoCost => draft.wait(IOCOST, 400_000),
            Self::Wbt => draft.wait(WBT, 400_000),
            Self::FewTags => draft.wait(TAG, 400_000),
            Self::OtherWait => draft.wait(BLOCK, 400_000),
            Self::Scheduler => draft.stages[QUEUE] += 400.0 * US,
            Self::FullDevice => state.wait_for_room(draft),
            Self::Bounce => {
                draft.stages[MAP] += 50.0 * US;
                draft.stages[COMPLETE] += 20.0 * US;
            }
            Self::Iommu => {
                draft.stages[MAP] += 40.0 * US;
                draft.stages[COMPLETE] += 40.0 * US;
            }
            Self::FewQueues if state.is_beside(draft) => draft.stages[SUBMIT] += 150.0 * US,
            Self::DoorbellExit => {
                draft.rung = true;
                draft.stages[SUBMIT] += 300.0 * US;
            }
            Self::DoorbellRung if draft.rung => draft.stages[SUBMIT] += 60.0 * US,
            Self::CompleteOnOne => draft.end_cpu = 0,
            Self::OneIrqCpu => {
                draft.end_cpu = 0;
                draft.stages[IRQ] += 150.0 * US;
                draft.stages[COMPLETE] += 30.0 * US;
            }
            Self::RemoteCompletion if draft.cpu != draft.end_cpu => {
                draft.stages[COMPLETE] += 80.0 * US
            }
            Self::Softirq if draft.softirq => draft.stages[DEVICE] += 200.0 * US,
            Self::IdleWake if draft.idle => draft.stages[DEVICE] += 80.0 * US,
            Self::FlushCost if draft.code == FLUSH => draft.stages[DEVICE] += 6.0 * MS,
            Self::FuaCost if draft.fua => draft.stages[DEVICE] += 600.0 * US,
            Self::DiscardStorm
                if draft.is_read_or_write() && state.in_flight(DISCARD, draft.begin_ns) =>
            {
                draft.stages[DEVICE] *= 5.0;
            }
            Self::Unaligned if !draft.slba.is_multiple_of(8) => draft.stages[DEVICE] *= 2.5,
            Self::RateCap => {
                state.free_ns = state.free_ns.max(draft.begin_ns) + state.rng.u64(280_000..380_000);
                let wait = state.free_ns.saturating_sub(draft.point(DEVICE));
                draft.stages[DEVICE] = draft.stages[DEVICE].max(wait as f64);
            }
            Self::Device => draft.stages[DEVICE] *= 10.0,
            _ => {}
        }
    }

    /// Changes the counters of the machine at the end.
    pub fn count(self, activity: &mut Activity, state: &State) {
        let commands = state.commands;
        let volume = |count| Some(Volume { count, bytes: 4096 * count });
        match self {
            Self::VcpuStolen => {
                activity.gaps.extend(state.away.values().flatten());
                for cpu in &mut activity.cpus {
                    let gaps = &state.away[&(cpu.cpu as u16)];
                    cpu.gaps = Some(gaps.len() as u64);
                    cpu.gap_ns = gaps.iter().map(|g| g.end_ns - g.begin_ns).sum();
                    cpu.steal_ns = cpu.gap_ns;
                }
            }
            Self::SomeSteal => {
                let length = activity.at_ns - BEGIN;
                for cpu in &mut activity.cpus {
                    (cpu.steal_ns, cpu.gaps) = (length * 6 / 100, None);
                }
            }
            Self::TagWait | Self::RequestWait => {
                for waits in activity.waits.iter_mut().flatten() {
                    waits.waited = waits.requests * 4 / 5;
                    waits.sum_ns = state.total_ns * 3;
                }
            }
            Self::Split => {
                for splits in activity.splits.iter_mut().flatten() {
                    splits.count = commands * 3 / 4;
                }
            }
            Self::Above => {
                activity.upper = Some(vec![UpperBios {
                    name: "dm-0".into(),
                    bios: commands,
                    sum_ns: state.total_ns * 3,
                    max_ns: 30_000_000,
                }]);
            }
            Self::Bounce | Self::CountBounces => activity.bounces = volume(commands),
            Self::Iommu | Self::CountMappings => activity.iommu_maps = volume(commands),
            _ => {}
        }
    }
}
