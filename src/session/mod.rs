//! The running BPF side: load what the plan says, attach it, read the maps, detach. The only place
//! (with the generated skeleton) that names libbpf_rs.

mod layout;
mod libbpf_log;
mod load;
mod read;
mod rings;

use std::collections::BTreeMap;
use std::mem::take;

use anyhow::Context;
use anyhow::Result;
use libbpf_rs::Link;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::skel::Skel;

pub use self::layout::Layout;
pub use self::libbpf_log::install as take_over_log;
pub use self::load::Slot;
pub use self::load::not_allowed;
pub use self::rings::CommandRing;
use crate::abi::ctrl_value;
use crate::abi::skel::NvmeDeepSkel;
use crate::host::sysfs::Controller;
use crate::lat_buckets::LatBuckets;
use crate::options::Filter;
use crate::path::milestone::Milestone;
use crate::probe::catalog::CATALOG;
use crate::probe::plan::AttachPlan;

/// CPUs that this machine may ever have.
///
/// # Errors
/// Where the kernel does not say.
pub fn possible_cpus() -> Result<u32> {
    let cpus = libbpf_rs::num_possible_cpus().context("failed to count the CPUs")?;
    Ok(u32::try_from(cpus)?)
}

/// What the BPF side is to do.
#[derive(Clone, Debug)]
pub struct Config<'a> {
    /// Which commands.
    pub filter: &'a Filter,
    /// nvme_latency's buckets, if wanted.
    pub lat: Option<LatBuckets>,
    /// Rows by size class.
    pub split_size: bool,
    /// A record per command.
    pub commands: bool,
}

/// A loaded object and its links. Dropping it detaches everything.
pub struct Session<'obj> {
    skel: NvmeDeepSkel<'obj>,
    plan: AttachPlan,
    layout: Layout,
    links: Vec<(usize, Link)>,
    /// By instance: where its slots lie, and whether its driver rings a doorbell.
    placed: BTreeMap<u32, (layout::Place, bool)>,
}

impl<'obj> Session<'obj> {
    /// Loads the programs of the plan. Nothing is attached yet.
    ///
    /// # Errors
    /// Not allowed, or refused by the kernel; each with its exit code.
    pub fn load(
        slot: &'obj mut Slot,
        plan: AttachPlan,
        layout: Layout,
        config: &Config<'_>,
    ) -> Result<Self> {
        let skel = load::load(slot, &plan, &layout, config)?;
        Ok(Self {
            skel,
            plan,
            layout,
            links: Vec::new(),
            placed: BTreeMap::new(),
        })
    }

    /// The plan as it stands: hooks that could not be attached have moved to the rejected.
    pub const fn plan(&self) -> &AttachPlan {
        &self.plan
    }

    /// Gives a controller its slots, if it has none yet or has outgrown them. False: no room left,
    /// its commands will be counted as untracked.
    ///
    /// # Errors
    /// Where the map can't be written.
    pub fn place(&mut self, controller: &Controller) -> Result<bool> {
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
        self.skel
            .maps
            .ctrls
            .update(&controller.instance.to_ne_bytes(), &value, MapFlags::ANY)
            .with_context(|| format!("failed to give {} its slots", controller.name()))?;
        self.placed.insert(controller.instance, (place, doorbell));
        Ok(true)
    }

    /// Attaches the plan. The hook that begins a command comes last, so that every command which is
    /// counted is seen to its end.
    ///
    /// # Errors
    /// Where a hook can't be attached that every cut needs, or that the programs were loaded to
    /// finish commands at. Others become rejections.
    pub fn attach(&mut self) -> Result<()> {
        let mut order = self.plan.hooks.clone();
        order.sort_by_key(|&h| CATALOG[h].milestone == Some(Milestone::SetupOut));
        for number in order {
            if !self.plan.hooks.contains(&number) {
                continue;
            }
            let hook = &CATALOG[number];
            match self.attach_one(hook.program) {
                Ok(link) => self.links.push((number, link)),
                Err(error)
                    if matches!(
                        hook.milestone,
                        Some(Milestone::SetupOut | Milestone::Complete | Milestone::End)
                    ) =>
                {
                    return Err(load::attach_failure(hook, &error));
                }
                Err(error) => {
                    let why = format!("{} can't be attached: {error:#}", hook.target);
                    self.plan.reject_point(number, &why);
                    // what was attached for the same point goes, too
                    let wanted = &self.plan.hooks;
                    self.links.retain(|(number, _)| wanted.contains(number));
                }
            }
        }
        Ok(())
    }

    fn attach_one(&self, program: &str) -> Result<Link> {
        let found = self.skel.object().progs_mut().find(|p| p.name() == program);
        let found = found.with_context(|| format!("the object has no program `{program}`"))?;
        Ok(found.attach()?)
    }

    /// Detaches everything; the hook that begins a command first, so that none begins unseen.
    pub fn detach(&mut self) {
        let mut links = take(&mut self.links);
        while let Some((_, link)) = links.pop() {
            drop(link);
        }
    }

    /// The ring of single commands; its records go to the closure, which must not panic.
    ///
    /// # Errors
    /// Where the ring can't be mapped.
    pub fn command_ring(&self) -> Result<CommandRing<'_>> {
        CommandRing::new(&self.skel.maps.ring)
    }
}
