// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running BPF side: load what the plan says, attach it, read the maps, detach. The only place
//! (with the generated skeleton) that names libbpf_rs.

mod bring_up;
mod builds;
mod command_ring;
mod configure;
mod event_ring;
mod layout;
mod libbpf_log;
mod live;
mod load;
mod loaded;
mod read;
mod reorder;
mod service;
pub mod settings;

use std::collections::BTreeMap;
use std::fs::File;
use std::mem::take;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use libbpf_rs::Link;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::MapHandle;

pub use self::bring_up::attach;
pub use self::bring_up::no_method;
pub use self::command_ring::CommandRing;
pub use self::event_ring::EventRing;
pub use self::layout::Layout;
pub use self::libbpf_log::install as take_over_log;
pub use self::live::LiveEvents;
pub use self::load::Trouble;
pub use self::load::not_allowed;
use self::loaded::Loaded;
pub use self::read::CounterReader;
pub use self::reorder::Reorder;
use crate::abi::MAX_CTRLS;
use crate::abi::SERVE_FORGET;
use crate::abi::ctrl_value;
use crate::abi::namespace_entry;
use crate::error::Failure;
use crate::error::Kind;
use crate::machine::sysfs::Controller;
use crate::machine::types::CustomBtf;
use crate::model::milestone::Milestone;
use crate::model::nvme_latency::LatBuckets;
use crate::probe::catalog::AttachKind;
use crate::probe::catalog::CATALOG;
use crate::probe::facts::KernelFacts;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::Pairing;
use crate::session::settings::Filter;
use crate::session::settings::Tracing;

/// CPUs that this machine may ever have.
///
/// # Errors
/// Where the kernel does not say.
pub fn possible_cpus() -> Result<u32> {
    let cpus = libbpf_rs::num_possible_cpus().context("failed to count the CPUs")?;
    Ok(u32::try_from(cpus)?)
}

/// What the BPF side is to do.
#[derive(Clone, Copy)]
pub struct Config<'a> {
    /// Which commands.
    pub filter: &'a Filter,
    /// nvme_latency's buckets, if wanted.
    pub lat: Option<LatBuckets>,
    /// Rows by size class.
    pub split_size: bool,
    /// A record per command.
    pub commands: bool,
    /// Single commands instead of histograms.
    pub trace: Option<&'a Tracing>,
    /// Where in the kernel interrupts come in, if stacks are taken and that is known.
    pub irq_entry: Option<(u64, u64)>,
    /// Have the kernel measure what we cost.
    pub measure: bool,
    /// Tests only: programs that ignore every 97th of their events.
    pub ignore: &'a [String],
    /// The kernel.
    pub facts: &'a KernelFacts,
    /// Type information for libbpf to use instead of the kernel's.
    pub custom_btf: Option<&'a CustomBtf>,
}

struct Maps {
    cpus: MapHandle,
    rows: MapHandle,
    cells: MapHandle,
    slots: MapHandle,
    ctrls: MapHandle,
    ring: MapHandle,
    stacks: MapHandle,
    stack_sums: MapHandle,
    /// Only where commands are followed by tag.
    namespaces: Option<MapHandle>,
}

/// A loaded object and its links. Dropping it detaches everything.
pub struct Session {
    loaded: Loaded,
    maps: Maps,
    plan: AttachPlan,
    layout: Layout,
    links: Vec<(usize, Link)>,
    /// What the kernel said of links that are gone, by hook number.
    missed: Vec<u64>,
    knows_verdicts: bool,
    /// The kernel measures run times while this is open, and does since.
    stats: Option<(OwnedFd, Instant)>,
    /// How long it had when everything was detached.
    detached_after: Option<Duration>,
    /// What the kernel said of programs when the run began, by hook number.
    missed_before: Vec<u64>,
    /// By instance: where its slots lie, and whether its driver rings a doorbell.
    placed: BTreeMap<u32, (layout::Place, bool)>,
}

/// Whether this hook begins a command.
fn begins(hook: usize) -> bool {
    CATALOG[hook].role.point() == Some(Milestone::SetupOut)
}

impl Session {
    /// Loads the programs of the plan, gives the controllers their slots and attaches. Either all
    /// that the plan names is attached afterwards, or nothing.
    ///
    /// # Errors
    /// A program that the kernel refuses, or what no other plan can mend.
    pub fn start(
        plan: AttachPlan,
        layout: Layout,
        config: &Config<'_>,
        controllers: &[Controller],
    ) -> Result<Self, Trouble> {
        let loaded = load::load(&plan, &layout, config)?;
        let maps = Maps {
            cpus: loaded.map("cpus")?,
            rows: loaded.map("rows")?,
            cells: loaded.map("cells")?,
            slots: loaded.map("slots")?,
            ctrls: loaded.map("ctrls")?,
            ring: loaded.map("ring")?,
            stacks: loaded.map("stacks")?,
            stack_sums: loaded.map("stack_sums")?,
            namespaces: (plan.pairing == Pairing::Tag)
                .then(|| loaded.map("namespaces"))
                .transpose()?,
        };
        let mut session = Self {
            knows_verdicts: configure::verdict_is_known(&plan, config.facts),
            loaded,
            maps,
            plan,
            layout,
            links: Vec::new(),
            missed: vec![0; CATALOG.len()],
            stats: None,
            detached_after: None,
            missed_before: vec![0; CATALOG.len()],
            placed: BTreeMap::new(),
        };
        for controller in controllers {
            session.place(controller)?;
        }
        session.reserve()?;
        if let Some(path) = &config.filter.cgroup {
            session.only_cgroup(path)?;
        }
        if config.measure {
            session.measure();
        }
        session.attach()?;
        session.begin()?;
        Ok(session)
    }

    /// The cgroup that the filter looks at.
    fn only_cgroup(&self, path: &Path) -> Result<()> {
        let usage = |why: String| {
            Failure::error(
                Kind::Usage,
                format!(
                    "`--cgroup {}` {why}: give a directory of the unified hierarchy, as in \
                     `--cgroup /sys/fs/cgroup/system.slice`",
                    path.display()
                ),
            )
        };
        let dir = File::open(path).map_err(|e| usage(format!("can't be opened ({e})")))?;
        let cgroups = self.loaded.map("cgroups")?;
        cgroups
            .update(
                &0_u32.to_ne_bytes(),
                &dir.as_raw_fd().to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(|_| usage("is not a cgroup of version 2".into()))
    }

    /// What is attached, and why not more.
    pub const fn plan(&self) -> &AttachPlan {
        &self.plan
    }

    /// The size of the ring of events.
    pub const fn ring_bytes(&self) -> u32 {
        self.layout.ring_bytes
    }

    /// Whether the status and the result of a command can be read.
    pub const fn knows_verdicts(&self) -> bool {
        self.knows_verdicts
    }

    /// Gives slots to the number that the next controller will have, if there is room: its first
    /// commands come before anybody can look.
    fn reserve(&mut self) -> Result<()> {
        let Some(next) = (0..MAX_CTRLS).find(|n| !self.placed.contains_key(n)) else {
            return Ok(());
        };
        let unknown = Controller {
            instance: next,
            model: String::new(),
            transport: String::new(),
            queues: None,
            depth: None,
            namespaces: vec![],
        };
        self.place(&unknown).map(|_| ())
    }

    /// Gives a controller its slots, if it has none yet or has outgrown them. False: no room left,
    /// its commands will be counted as untracked.
    ///
    /// # Errors
    /// Where the map can't be written.
    pub fn place(&mut self, controller: &Controller) -> Result<bool> {
        if let Some(namespaces) = &self.maps.namespaces {
            for ns in &controller.namespaces {
                let (key, value) = namespace_entry(controller.instance, ns.nsid, ns.lba_bytes);
                // full: the namespace's commands count no bytes
                let _ = namespaces.update(&key, &value, MapFlags::ANY);
            }
        }
        let size = self.layout.size_of(controller);
        let doorbell = controller.transport == "pcie";
        let known = self.placed.get(&controller.instance).copied();
        let place = match known.filter(|(place, _)| place.holds(&size)) {
            Some((_, rings)) if rings == doorbell => return Ok(true),
            // another transport's controller has taken the number over
            Some((place, _)) => place,
            None => match self.layout.take(&size) {
                Some(place) => place,
                None => return Ok(false),
            },
        };
        let value = ctrl_value(place.base, place.size.stride, place.size.queues, doorbell);
        self.maps
            .ctrls
            .update(&controller.instance.to_ne_bytes(), &value, MapFlags::ANY)
            .with_context(|| format!("failed to give {} its slots", controller.name()))?;
        if !self.links.is_empty() && self.plan.pairing == Pairing::Request {
            self.serve(SERVE_FORGET, 0)?;
        }
        self.placed.insert(controller.instance, (place, doorbell));
        Ok(true)
    }

    /// The hook that begins a command comes last, so that every command which is counted is seen
    /// to its end; what keeps its arguments before it. Shortly before that the one that ends
    /// commands, after functions, which take long to attach: what it sees until then has no start.
    /// A second instance is to run second: tracepoints run what was attached last, last.
    fn attach(&mut self) -> Result<(), Trouble> {
        let mut order = self.plan.hooks();
        order.sort_by_key(|&h| {
            let hook = &CATALOG[h];
            let rank = match (hook.role.point(), hook.kind) {
                (Some(Milestone::SetupOut), _) => 3,
                (Some(Milestone::Complete), _) => 2,
                (_, AttachKind::TpBtf | AttachKind::RawTp) => 1,
                _ => 0,
            };
            (rank, hook.is_twin())
        });
        for number in order {
            libbpf_log::forget();
            let hook = &CATALOG[number];
            match self.attach_one(hook.program) {
                Ok(link) => self.links.push((number, link)),
                Err(error) => {
                    let said = libbpf_log::last_complaint()
                        .map_or_else(|| format!("{error:#}"), |l| format!("{error:#} ({l})"));
                    return Err(Trouble::Refused(
                        number,
                        format!("the kernel does not attach it: {said}"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn attach_one(&self, program: &str) -> Result<Link> {
        let found = self.loaded.0.progs_mut().find(|p| p.name() == program);
        let found = found.with_context(|| format!("the object has no program `{program}`"))?;
        Ok(found.attach()?)
    }

    /// Detaches the hook that begins a command: no other begins from now on.
    fn detach_setup(&mut self) {
        let (setup, rest): (Vec<_>, Vec<_>) = take(&mut self.links)
            .into_iter()
            .partition(|(hook, _)| begins(*hook));
        self.links = setup;
        self.missed = self.missed();
        self.links = rest;
    }

    /// Detaches everything that is left.
    fn detach(&mut self) {
        self.missed = self.missed();
        self.detached_after = self.stats.as_ref().map(|(_, begin)| begin.elapsed());
        let mut links = take(&mut self.links);
        while let Some((_, link)) = links.pop() {
            drop(link);
        }
    }

    /// The ring of single commands.
    ///
    /// # Errors
    /// Where the ring can't be mapped.
    pub fn command_ring(&self) -> Result<CommandRing<'_>> {
        CommandRing::new(&self.maps.ring)
    }

    /// The ring of events, to be read independently of the session, and by one reader only.
    ///
    /// # Errors
    /// Where there is no file descriptor left, or the ring can't be mapped.
    pub fn events(&self) -> Result<LiveEvents> {
        let map = &self.maps.ring;
        let ring = map.as_fd().try_clone_to_owned()?;
        EventRing::new(ring, map.max_entries() as usize).map(LiveEvents::new)
    }
}
