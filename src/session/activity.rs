// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine does besides the commands, with conditions: the counters of the BPF side, and those
//! of the kernel.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::configure::shown_origin;
use super::read::lookup;
use super::{Config, Session};
use crate::abi::{
    DecodeError, GAP_NS, GapSum, TICK_NS, Volumes, add_activity, add_counters, add_disk, add_upper,
    disk_name,
};
use crate::machine::System;
use crate::machine::clock::monotonic_ns;
use crate::machine::watch::CpuTimes;
use crate::model::activity::{Activity, CpuActivity, Splits, TagWaits, UpperBios};
use crate::model::counters::Counters;
use crate::model::ids::NamespaceId;
use crate::model::machine::Pairing;
use crate::model::point::Point;
use crate::probe::catalog::{CATALOG, Role};
use crate::session::AttachPlan;
use crate::session::load::Loaded;
use crate::settings::OriginDetail;
use anyhow::{Result, anyhow};
use libbpf_sys::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_TYPE_SOFTWARE, perf_event_attr,
};

/// The kernel stops a timer that exceeds its limit until the next tick of the scheduler: with a lower
/// limit than this, timers of 1 kHz would show gaps that are none.
const LEAST_RATE: u32 = 2000;

/// The maps of bpf/include/activity.bpf.h.
struct Maps {
    activities: MapHandle,
    disks: MapHandle,
}

/// What the readings of a run have in common.
pub(super) struct ActivityReader {
    system: System,
    /// `None` with classic tracepoints, whose object has none of these programs.
    maps: Option<Maps>,
    /// The timers, by CPU.
    timers: BTreeMap<u32, Timer>,
    /// Why no CPU gets a timer.
    no_timer: Option<String>,
    /// Whether CPUs get timers.
    has_timers: bool,
    /// Whether bios of disks above NVMe are followed.
    follows_submitters: bool,
    /// CPUs that must not be interrupted by a timer.
    isolated: BTreeSet<u32>,
    /// CPUs with commands but no timer: the user was told about these.
    told: BTreeSet<u32>,
    state: RefCell<State>,
}

/// What changes with each reading.
#[derive(Default)]
struct State {
    /// The times of each CPU when the run began, or when the CPU was first seen online.
    begin: BTreeMap<u32, CpuTimes>,
    /// Gaps read so far, by CPU.
    gaps: BTreeMap<u32, u64>,
    /// Gaps that found no room so far.
    lost: u64,
    /// Namespace by name of the disk.
    names: BTreeMap<String, NamespaceId>,
}

/// The controller in the name of a disk that is gone: 2 for `nvme2n1` and `nvme0c2n1`. Its namespace
/// is not known.
fn by_name(name: &str) -> Option<NamespaceId> {
    let (head, _) = name.strip_prefix("nvme")?.split_once('n')?;
    let instance = head.split_once('c').map_or(head, |(_, path)| path);
    Some(NamespaceId::new(instance.parse().ok()?, 0))
}

impl State {
    /// The namespace of a disk.
    fn disk(&mut self, name: &str, system: &System) -> Option<NamespaceId> {
        if !self.names.contains_key(name) {
            for ctrl in system.controllers() {
                for ns in ctrl.disks {
                    self.names.insert(
                        ns.name.as_str().to_owned(),
                        NamespaceId::new(ctrl.instance, ns.nsid),
                    );
                }
            }
            if let (false, Some(disk)) = (self.names.contains_key(name), by_name(name)) {
                self.names.insert(name.to_owned(), disk);
            }
        }
        self.names.get(name).copied()
    }
}

/// Whether the hits of such a hook show that the CPU submits or completes commands.
const fn passes_a_cpu(role: Role) -> bool {
    matches!(role, Role::Point(Point::SetupOut | Point::Cqe | Point::Complete))
}

/// When a timer of this CPU fired last.
fn tick_of(activities: &MapHandle, cpu: u32) -> Result<u64> {
    let (mut sum, mut to) = (Volumes::default(), Activity::default());
    let gaps = add_activity(cpu, &lookup(activities, cpu)?, 0, &mut sum, &mut to)
        .map_err(|DecodeError| anyhow!("the counters of a CPU of the wrong size"))?;
    Ok(gaps.tick_ns)
}

/// The counters of a CPU since the start.
fn since(begin: &mut BTreeMap<u32, CpuTimes>, now: &CpuTimes, gaps: Option<GapSum>) -> CpuActivity {
    // a CPU that came online counts from then on
    let before = begin.entry(now.cpu).or_insert(*now);
    // the kernel may correct a time downwards
    CpuActivity {
        cpu: now.cpu,
        steal_ns: now.steal_ns.saturating_sub(before.steal_ns),
        irq_ns: now.irq_ns.saturating_sub(before.irq_ns),
        softirq_ns: now.softirq_ns.saturating_sub(before.softirq_ns),
        idle_ns: now.idle_ns.saturating_sub(before.idle_ns),
        gaps: gaps.map(|g| g.count),
        gap_ns: gaps.map_or(0, |g| g.ns),
        timed_from_ns: gaps.map_or(0, |g| g.timed_ns),
        timed_to_ns: gaps.map_or(0, |g| g.tick_ns),
    }
}

impl ActivityReader {
    /// Reads what the kernel has counted before.
    pub(super) fn begin(loaded: &Loaded, plan: &AttachPlan, config: &Config<'_>) -> Result<Self> {
        let (system, has_timers) = (config.system, config.settings.has_timers());
        let begin = system.cpu_times().into_iter();
        let state =
            State { begin: begin.map(|times| (times.cpu, times)).collect(), ..State::default() };
        let mut watch = Self {
            system: system.clone(),
            maps: None,
            timers: BTreeMap::new(),
            no_timer: None,
            has_timers,
            follows_submitters: plan.has(Point::Bio)
                && shown_origin(plan, config).0 == OriginDetail::Submitters,
            isolated: system.isolated_cpus(),
            told: BTreeSet::new(),
            state: RefCell::new(state),
        };
        if plan.pairing == Pairing::Tag {
            let is_told = has_timers && !config.settings.leaves_out();
            watch.no_timer = is_told.then(|| "the kernel has no BTF".into());
            return Ok(watch);
        }
        watch.maps =
            Some(Maps { activities: loaded.map("activities")?, disks: loaded.map("disks")? });
        let rate = system.sample_rate().filter(|rate| has_timers && *rate < LEAST_RATE);
        if let Some(rate) = rate {
            watch.no_timer = Some(format!(
                "kernel.perf_event_max_sample_rate is {rate}; it must be {LEAST_RATE} or more"
            ));
        }
        Ok(watch)
    }

    /// Gives a timer to each CPU with commands: a CPU without any may sleep as deeply as without us.
    /// Returns a remark on those that must do without.
    fn tend_timers(
        &mut self,
        loaded: &Loaded,
        has_commands: &dyn Fn(u32) -> Result<bool>,
    ) -> Result<Option<String>> {
        let Some(maps) = self.maps.as_ref().filter(|_| self.has_timers && self.no_timer.is_none())
        else {
            return Ok(None);
        };
        let program = loaded.program(TICK)?;
        let (mut without, mut why) = (Vec::new(), String::new());
        for CpuTimes { cpu, .. } in self.system.cpu_times() {
            let now_ns = monotonic_ns();
            if let Some(timer) = self.timers.get(&cpu) {
                if !timer.has_ended(tick_of(&maps.activities, cpu)?, now_ns) {
                    continue;
                }
                self.timers.remove(&cpu);
            }
            if !has_commands(cpu)? {
                continue;
            }
            let started = match self.isolated.contains(&cpu) {
                true => Err("isolated, or without a tick (nohz_full)".to_owned()),
                false => Timer::start(program.as_fd(), cpu, now_ns).map_err(|e| e.to_string()),
            };
            match started {
                Ok(timer) => {
                    self.timers.insert(cpu, timer);
                }
                Err(reason) if self.told.insert(cpu) => {
                    without.push(cpu.to_string());
                    why = reason;
                }
                Err(_) => {}
            }
        }
        let cpus = without.join(", ");
        Ok((!without.is_empty()).then(|| format!("gaps are not observed on CPU {cpus}: {why}")))
    }

    /// Stops the timers.
    pub(super) fn end(&mut self) {
        self.timers.clear();
    }

    /// Why no CPU gets a timer.
    pub(super) fn no_timer(&self) -> Option<&str> {
        self.no_timer.as_deref()
    }

    /// The counters by disk: waits before the request, splits; and of the disks above NVMe.
    fn disks(&self, disks: &MapHandle) -> Result<(Vec<TagWaits>, Vec<Splits>, Vec<UpperBios>)> {
        let wrong = |DecodeError| anyhow!("the counters of a disk of the wrong size");
        let mut all: BTreeMap<NamespaceId, (TagWaits, Splits)> = BTreeMap::new();
        let mut above = Vec::new();
        let mut state = self.state.borrow_mut();
        for key in disks.keys() {
            let values = disks.lookup_percpu(&key, MapFlags::ANY)?;
            let name = disk_name(&key);
            if !name.starts_with("nvme") {
                let mut upper = UpperBios { name: (&name).into(), ..UpperBios::default() };
                for value in values.into_iter().flatten() {
                    add_upper(&mut upper, &value).map_err(wrong)?;
                }
                above.push(upper);
                continue;
            }
            let Some(disk) = state.disk(&name, &self.system) else {
                continue;
            };
            let (waits, splits) = all.entry(disk).or_default();
            let NamespaceId { ctrl, nsid } = disk;
            (waits.ctrl, waits.nsid) = (ctrl, nsid);
            (splits.ctrl, splits.nsid) = (ctrl, nsid);
            for value in values.into_iter().flatten() {
                add_disk(waits, splits, &value).map_err(wrong)?;
            }
        }
        let (waits, splits) = all.into_values().unzip();
        Ok((waits, splits, above))
    }

    /// Reads the counters of all CPUs.
    fn read(&self, cpus: u32, to: &mut Activity) -> Result<Volumes> {
        let mut volumes = Volumes::default();
        let mut gaps: BTreeMap<u32, GapSum> = BTreeMap::new();
        let mut state = self.state.borrow_mut();
        let maps = self.maps.iter();
        for (cpu, maps) in maps.flat_map(|maps| (0..cpus).map(move |cpu| (cpu, maps))) {
            let value = lookup(&maps.activities, cpu)?;
            let from = state.gaps.get(&cpu).copied().unwrap_or(0);
            let sum = add_activity(cpu, &value, from, &mut volumes, to)
                .map_err(|DecodeError| anyhow!("the counters of a CPU of the wrong size"))?;
            state.gaps.insert(cpu, sum.count);
            gaps.insert(cpu, sum);
        }
        state.lost += to.gaps_lost;
        to.gaps_lost = state.lost;
        to.gaps.sort_by_key(|gap| gap.begin_ns);
        let now = self.system.cpu_times();
        to.cpus.extend(now.iter().map(|times| {
            let gaps = gaps.get(&times.cpu).copied();
            since(&mut state.begin, times, gaps.filter(|g| g.timed_ns != 0))
        }));
        Ok(volumes)
    }
}

impl Session {
    /// What the machine did besides the commands since the start of the run, and the gaps since the
    /// last reading. `None` without [`super::Config::context`].
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn activity(&self) -> Result<Option<Activity>> {
        let Some(watch) = &self.watch else {
            return Ok(None);
        };
        let has = |role| self.plan.has_role(role);
        let mut activity = Activity {
            at_ns: monotonic_ns(),
            bounce_pool: watch.system.bounce_pool(),
            ..Activity::default()
        };
        let volumes = watch.read(self.layout.cpus, &mut activity)?;
        activity.bounces = has(Role::Bounce).then_some(volumes.bounced);
        activity.iommu_maps = has(Role::IommuMap).then_some(volumes.mapped);
        activity.iommu_unmaps = has(Role::IommuUnmap).then_some(volumes.unmapped);
        activity.early_interrupts = self.plan.has(Point::Irq).then_some(volumes.early_interrupts);
        let has_waits = self.plan.has(Point::Bio);
        if let (true, Some(maps)) = (has_waits || has(Role::Split), &watch.maps) {
            let (waits, splits, above) = watch.disks(&maps.disks)?;
            activity.upper = watch.follows_submitters.then_some(above);
            activity.waits = has_waits.then_some(waits);
            activity.splits = has(Role::Split).then_some(splits);
        }
        let misses = self.misses();
        let hooks = CATALOG.iter().zip(&misses);
        let skipped = hooks.filter(|(hook, _)| hook.role.is_context());
        activity.skipped = skipped.map(|(_, n)| n).sum();
        Ok(Some(activity))
    }

    /// Starts the timers of CPUs that have submitted or completed commands by now, with
    /// [`super::Config::context`]. Call this once a second. Returns a remark for the user.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn tend_timers(&mut self) -> Result<Option<String>> {
        let Some(watch) = &mut self.watch else {
            return Ok(None);
        };
        let cpus = &self.maps.cpus;
        watch.tend_timers(&self.loaded, &|cpu| {
            let mut counters = Counters::default();
            add_counters(&mut counters, &lookup(cpus, cpu)?)
                .map_err(|DecodeError| anyhow!("the counters of a CPU of the wrong size"))?;
            let mut hooks = CATALOG.iter().zip(&counters.hits);
            Ok(hooks.any(|(hook, hits)| *hits > 0 && passes_a_cpu(hook.role)))
        })
    }

    /// Why the gaps of no CPU are observed, with [`super::Config::context`].
    pub fn no_timer(&self) -> Option<&str> {
        self.watch.as_ref().and_then(ActivityReader::no_timer)
    }
}

/// The program (bpf/nvme_deep.bpf.c).
pub const TICK: &str = "tick";

/// PERF_FLAG_FD_CLOEXEC of linux/perf_event.h.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// PERF_EVENT_IOC_SET_BPF of linux/perf_event.h: `_IOW('$', 8, __u32)`.
const SET_PROGRAM: libc::Ioctl = 0x4004_2408;

/// Opens the perf event. It counts for all tasks, also while the CPU is idle.
fn open(cpu: u32) -> io::Result<File> {
    // SAFETY: a C struct of integers and bit fields, for which zero is a valid value
    let mut attr: perf_event_attr = unsafe { zeroed() };
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.config = PERF_COUNT_SW_CPU_CLOCK.into();
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED.into();
    attr.__bindgen_anon_1.sample_period = TICK_NS;
    let cpu = libc::c_int::try_from(cpu).map_err(io::Error::other)?;
    let (all_tasks, no_group) = (-1, -1);
    // SAFETY: the kernel reads `attr`, which has the size that it names; the other arguments are
    // numbers
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            all_tasks,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new and open, and has no other owner
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Whether the kernel has ended a timer. It was opened at `opened_ns`, fired last at `last_ns`, and
/// the kernel says how long it was enabled. This tells a CPU that does not run from one that was
/// offline: the timer of the former is still enabled.
const fn has_ended(opened_ns: u64, last_ns: u64, now_ns: u64, enabled_ns: u64) -> bool {
    let silent = now_ns.saturating_sub(last_ns);
    silent > GAP_NS && enabled_ns < last_ns.saturating_sub(opened_ns) + silent / 2
}

/// A timer that runs until it is dropped, or its CPU goes offline.
struct Timer {
    event: File,
    opened_ns: u64,
}

impl Timer {
    /// Starts the timer of a CPU.
    ///
    /// # Errors
    /// If the kernel has no perf events, or refuses them.
    fn start(program: BorrowedFd<'_>, cpu: u32, now_ns: u64) -> io::Result<Self> {
        let event = open(cpu)?;
        // SAFETY: both are open, and the argument is a number
        let set = unsafe { libc::ioctl(event.as_raw_fd(), SET_PROGRAM, program.as_raw_fd()) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { event, opened_ns: now_ns })
    }

    /// Whether the kernel has ended it. `tick_ns`: when a timer of this CPU fired last.
    fn has_ended(&self, tick_ns: u64, now_ns: u64) -> bool {
        let last = tick_ns.max(self.opened_ns);
        // do not ask a CPU that does not run, unless it is late: the kernel waits for its answer
        if now_ns.saturating_sub(last) <= GAP_NS {
            return false;
        }
        let mut words = [0; 16];
        let read = (&self.event).read_exact(&mut words);
        let (_, enabled) = words.split_at(8);
        let enabled = enabled.try_into().map_or(0, u64::from_ne_bytes);
        read.is_err() || has_ended(self.opened_ns, last, now_ns, enabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cpu_that_was_offline_has_lost_its_timer() {
        const MS: u64 = 1_000_000;
        let at = |ms| 5000 * MS + ms * MS;
        // enabled for 800 ms, silent for the last 700: the CPU does not run, or was offline
        assert!(!has_ended(at(0), at(100), at(800), 800 * MS));
        assert!(has_ended(at(0), at(100), at(800), 100 * MS));
        assert!(has_ended(at(0), at(100), at(800), 0));
        assert!(!has_ended(at(0), at(798), at(800), 0));
        // a new timer on a CPU that does not run yet
        assert!(!has_ended(at(0), at(0), at(10), 10 * MS));
    }

    #[test]
    fn the_name_of_a_disk_has_its_controller() {
        assert_eq!(by_name("nvme2n1"), Some(NamespaceId::new(2, 0)));
        assert_eq!(by_name("nvme0c12n3"), Some(NamespaceId::new(12, 0)));
        assert_eq!(by_name("nvme"), None);
        assert_eq!(by_name("sda"), None);
    }

    #[test]
    fn times_count_from_the_begin_and_of_a_new_cpu_from_then_on() {
        let times = |cpu, steal_ns| CpuTimes { cpu, steal_ns, idle_ns: 100, ..CpuTimes::default() };
        let begin = [times(0, 5), times(2, 9)];
        let mut begin = begin.into_iter().map(|times| (times.cpu, times)).collect();
        let gaps = GapSum { timed_ns: 50, tick_ns: 90, count: 1, ns: 7 };
        let now = since(&mut begin, &times(0, 30), Some(gaps));
        assert_eq!((now.steal_ns, now.gaps, now.gap_ns), (25, Some(1), 7));
        assert_eq!((now.timed_from_ns, now.timed_to_ns), (50, 90));
        let new = since(&mut begin, &times(1, 30), None);
        assert_eq!((new.cpu, new.steal_ns, new.gaps), (1, 0, None));
        assert_eq!(since(&mut begin, &times(1, 37), None).steal_ns, 7);
        // the kernel's number may go down
        assert_eq!(since(&mut begin, &times(2, 8), None).steal_ns, 0);
    }
}
