// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running BPF side: loads the programs of the plan, attaches them, reads the maps, detaches.
//! Only this module and the generated skeleton name libbpf_rs.

mod activity;
mod attach;
mod build_table;
mod builds;
mod configure;
mod control;
mod groups;
mod host;
mod layout;
mod libbpf_log;
mod load;
mod mapping;
mod queues;
mod read;
mod rings;

use std::collections::BTreeMap;
use std::fs::File;
use std::mem::take;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use self::activity::ActivityReader;
pub use self::attach::attach;
use self::groups::Grouping;
pub use self::host::{HostSession, target};
use self::layout::MIN_STRIDE;
pub use self::layout::{Capacity, Layout, Rings};
use self::load::create_rings;
pub use self::load::{Refusal, StartError};
use self::rings::SortedRings;
use crate::abi::{
    ALL_QUEUES, MAX_CTRLS, NO_SLOT, ctrl_value, event_time, namespace_entry, nd_control,
};
use crate::error::{failed, no_cgroup, unreadable_cgroup};
use crate::machine::System;
use crate::machine::types::CustomBtf;
use crate::model::machine::{ControllerInfo, Pairing, Transport};
use crate::model::point::{Pattern, Point};
use crate::probe::catalog::{AttachKind, CATALOG};
use crate::probe::facts::KernelFacts;
use crate::probe::plan::AttachPlan;
use crate::session::load::Loaded;
pub use crate::session::load::{KernelMemory, kernel_facts};
pub use crate::session::read::LiveEvents;
use crate::settings::{OriginDetail, Settings};
use anyhow::Result;

/// Before anything else: takes over the log of libbpf, and copies it if that is asked for.
///
/// # Errors
/// Never: see offline.rs.
pub fn prepare(copy_to: Option<fn(&str)>) -> Result<()> {
    libbpf_log::install(copy_to);
    Ok(())
}

/// The configuration of the BPF side.
#[derive(Clone, Copy)]
pub struct Config<'a> {
    /// The settings of the run.
    pub settings: &'a Settings,
    /// The machine, for what the kernel counts of it.
    pub system: &'a System,
    /// The kernel's interrupt entry code, if stacks are taken and it is known.
    pub irq_entry: Option<(u64, u64)>,
    /// The facts of the kernel.
    pub facts: &'a KernelFacts,
    /// BTF for libbpf: of the types that the programs read.
    pub custom_btf: Option<&'a CustomBtf>,
}

struct Maps {
    cpus: MapHandle,
    rows: MapHandle,
    rowless: MapHandle,
    cells: MapHandle,
    slots: MapHandle,
    ctrls: MapHandle,
    rings: Vec<MapHandle>,
    stacks: MapHandle,
    stack_sums: MapHandle,
    /// Only if commands are identified by tag.
    namespaces: Option<MapHandle>,
    /// Only if the run counts failed commands.
    failures: Option<MapHandle>,
    /// Only if the run counts the commands of each queue: by its first slot, divided by the least number of
    /// slots.
    queue_counts: Option<MapHandle>,
}

impl Maps {
    fn of(
        loaded: &Loaded,
        plan: &AttachPlan,
        layout: &Layout,
        config: &Config<'_>,
    ) -> Result<Self> {
        let if_used = |used: bool, name| used.then(|| loaded.map(name)).transpose();
        Ok(Self {
            cpus: loaded.map("cpus")?,
            rows: loaded.map("rows")?,
            rowless: loaded.map("rowless")?,
            cells: loaded.map("cells")?,
            slots: loaded.map("slots")?,
            ctrls: loaded.map("ctrls")?,
            rings: create_rings(loaded, layout)?,
            stacks: loaded.map("stacks")?,
            stack_sums: loaded.map("stack_sums")?,
            namespaces: if_used(plan.pairing == Pairing::Tag, "namespaces")?,
            failures: if_used(configure::counts_status(plan, config), "failures")?,
            queue_counts: if_used(configure::has_top_counters(plan, config), "queue_counts")?,
        })
    }
}

/// A loaded object and its links. Dropping it detaches everything.
pub struct Session {
    loaded: Loaded,
    maps: Maps,
    plan: AttachPlan,
    layout: Layout,
    links: Vec<(usize, Link)>,
    /// Events that detached kprobes missed, by hook number.
    missed: Vec<u64>,
    can_read_status: bool,
    origin: OriginDetail,
    /// The kernel measures run times while this file is open; with the time at which it was opened.
    stats: Option<(OwnedFd, Instant)>,
    /// The time from then until everything was detached.
    detached_after: Option<Duration>,
    /// Runs that the kernel skipped outside the run of the session, by hook number.
    missed_before: Vec<u64>,
    /// The observation of the machine, with `context`.
    watch: Option<ActivityReader>,
    /// By instance: the slots and the transport of a controller.
    placed: BTreeMap<u32, (layout::SlotRange, Transport)>,
    /// The points before the request that the run observes.
    before: Pattern,
    /// The groups, if commands are grouped.
    grouping: Option<Grouping>,
    /// Slots that a controller had before it needed more. Commands in flight still have them.
    former: Vec<(u32, layout::SlotRange)>,
}

/// Whether this hook observes the setup of commands.
fn begins(hook: usize) -> bool {
    CATALOG[hook].role.point() == Some(Point::SetupOut)
}

impl Session {
    /// Loads the programs of the plan, gives the controllers their slots, and attaches. Afterwards
    /// either all programs of the plan are attached, or none.
    ///
    /// # Errors
    /// If the kernel refuses a program, or for a reason that no other plan avoids.
    pub fn start(
        mut plan: AttachPlan,
        layout: Layout,
        config: &Config<'_>,
        controllers: &[ControllerInfo],
    ) -> Result<Self, StartError> {
        plan.shares_cells = layout.cells.are_shared();
        let loaded = load::load(&plan, &layout, config)?;
        let maps = Maps::of(&loaded, &plan, &layout, config)?;
        let grouping = Grouping::of(&loaded, config)?;
        let before = configure::waits_of(&plan);
        let mut session = Self {
            grouping,
            can_read_status: configure::status_is_known(&plan, config.facts),
            origin: configure::shown_origin(&plan, config).0,
            loaded,
            maps,
            plan,
            layout,
            links: Vec::new(),
            missed: vec![0; CATALOG.len()],
            stats: None,
            detached_after: None,
            missed_before: vec![0; CATALOG.len()],
            watch: None,
            placed: BTreeMap::new(),
            before,
            former: vec![],
        };
        for controller in controllers {
            session.place(controller)?;
        }
        session.leave_out()?;
        session.reserve()?;
        let cgroup = config.settings.filter.cgroup.as_ref();
        cgroup.map_or(Ok(()), |path| session.only_cgroup(path))?;
        if config.settings.attaching.verbose > 0 {
            session.measure();
        }
        session.attach()?;
        if config.settings.context() {
            session.watch = Some(ActivityReader::begin(&session.loaded, &session.plan, config)?);
        }
        session.begin()?;
        Ok(session)
    }

    /// Sets the cgroup of the filter.
    fn only_cgroup(&self, path: &Path) -> Result<()> {
        let dir = File::open(path).map_err(|error| unreadable_cgroup(path, &error))?;
        let cgroups = self.loaded.map("cgroups")?;
        cgroups
            .update(&0_u32.to_ne_bytes(), &dir.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(|_| no_cgroup(path, "is not a cgroup of version 2"))
    }

    /// The attach plan: what is attached, and why not more.
    pub const fn plan(&self) -> &AttachPlan {
        &self.plan
    }

    /// The rings of events.
    pub const fn rings(&self) -> Rings {
        self.layout.rings
    }

    /// Whether the status and the result of commands can be read.
    pub const fn can_read_status(&self) -> bool {
        self.can_read_status
    }

    /// What is observed of who caused each command.
    pub const fn origin(&self) -> OriginDetail {
        self.origin
    }

    /// Commands of controllers that the filter leaves out count as filtered, also if such a controller appears
    /// later.
    fn leave_out(&self) -> Result<()> {
        let value = ctrl_value(NO_SLOT, MIN_STRIDE, ALL_QUEUES, Transport::named(""));
        let out = (0..MAX_CTRLS).filter(|n| self.layout.leaves_out(*n));
        out.into_iter().try_for_each(|instance| self.assign(instance, &value))
    }

    /// Gives slots to the number that the next controller will have, if there is room: its first
    /// commands come before user space can react.
    fn reserve(&mut self) -> Result<()> {
        let is_free = |n: &u32| !self.placed.contains_key(n) && !self.layout.leaves_out(*n);
        let Some(next) = (0..MAX_CTRLS).find(is_free) else {
            return Ok(());
        };
        let unknown = ControllerInfo { instance: next, ..ControllerInfo::default() };
        self.place(&unknown).map(|_| ())
    }

    /// Gives a controller its slots, if it has none yet or needs more. Returns false if there is no
    /// room left; its commands are then counted as untracked.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn place(&mut self, controller: &ControllerInfo) -> Result<bool> {
        if let Some(namespaces) = &self.maps.namespaces {
            for ns in &controller.disks {
                let (key, value) = namespace_entry(controller.instance, ns.nsid, ns.lba_bytes);
                // if the map is full, the namespace's commands count no bytes
                let _ = namespaces.update(&key, &value, MapFlags::ANY);
            }
        }
        let transport = Transport::named(controller.transport.as_str());
        if self.layout.leaves_out(controller.instance) {
            return Ok(true);
        }
        let size = self.layout.size_of(controller);
        let known = self.placed.get(&controller.instance).copied();
        let held = known.filter(|(place, _)| place.holds(&size));
        let new = match held {
            Some(_) => None,
            None => self.layout.take(&size),
        };
        let fits = held.is_some() || new.is_some();
        // without room, the queues that have slots keep them
        let Some(place) = new.or(known.map(|(place, _)| place)) else {
            return Ok(false);
        };
        if known == Some((place, transport)) {
            return Ok(fits);
        }
        let value = ctrl_value(place.base, place.size.stride, place.size.queues, transport);
        self.assign(controller.instance, &value)?;
        if !self.links.is_empty() && self.plan.pairing == Pairing::Request {
            self.control(nd_control::ND_CONTROL_FORGET, 0)?;
        }
        let before = self.placed.insert(controller.instance, (place, transport));
        let moved = before.filter(|(before, _)| before.base != place.base);
        self.former.extend(moved.map(|(before, _)| (controller.instance, before)));
        Ok(fits)
    }

    fn assign(&self, instance: u32, value: &[u8]) -> Result<()> {
        let ctrls = &self.maps.ctrls;
        ctrls
            .update(&instance.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(failed(format!("assign slots to nvme{instance}")))
    }

    /// Attaches the programs in this order. The hook at the setup comes last, so that every
    /// counted command is observed to its end; the hook that keeps its arguments comes before it.
    /// The hook at the completion comes second to last, after functions, which take long to attach:
    /// what it observes before the hook at the setup is attached has no setup. A second instance
    /// comes after the first, because tracepoints run programs in the order in which they were
    /// attached.
    fn attach(&mut self) -> Result<(), StartError> {
        let mut order = self.plan.hooks();
        order.sort_by_key(|&h| {
            let hook = &CATALOG[h];
            let rank = match (hook.role.point(), hook.kind) {
                (Some(Point::SetupOut), _) => 3,
                (Some(Point::Complete), _) => 2,
                (_, AttachKind::TpBtf | AttachKind::RawTp) => 1,
                _ => 0,
            };
            (rank, hook.is_second())
        });
        for number in order {
            libbpf_log::forget();
            let hook = &CATALOG[number];
            match self.attach_one(hook.program) {
                Ok(link) => self.links.push((number, link)),
                Err(error) => {
                    let log = libbpf_log::last_complaint();
                    return Err(StartError::Refused(number, Refusal::Attach { error, log }));
                }
            }
        }
        Ok(())
    }

    fn attach_one(&self, program: &str) -> Result<Link> {
        Ok(self.loaded.program(program)?.attach()?)
    }

    /// Detaches the hook at the setup: no further command begins.
    fn detach_setup(&mut self) {
        let (setup, rest): (Vec<_>, Vec<_>) =
            take(&mut self.links).into_iter().partition(|(hook, _)| begins(*hook));
        self.links = setup;
        self.missed = self.missed();
        self.links = rest;
    }

    /// Detaches everything that is left.
    fn detach(&mut self) {
        self.missed = self.missed();
        self.detached_after = self.stats.as_ref().map(|(_, begin)| begin.elapsed());
        self.watch.iter_mut().for_each(ActivityReader::end);
        let mut links = take(&mut self.links);
        while let Some((_, link)) = links.pop() {
            drop(link);
        }
    }

    /// The events of all rings. They can be read independently of the session, but by one reader
    /// only.
    ///
    /// # Errors
    /// If no file descriptor is left, or a ring cannot be mapped.
    pub fn events(&self) -> Result<LiveEvents> {
        Ok(LiveEvents {
            rings: SortedRings::open(&self.maps.rings, event_time)?,
            before: self.before,
        })
    }
}

#[cfg(test)]
mod every_run_tests;
