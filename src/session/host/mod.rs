// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces a target of this machine: the kernel's nvmet by its tracepoints, QEMU and SPDK by uprobes and
//! USDT probes.

mod attach;
mod record;
mod usdt;

use std::collections::BTreeMap;
use std::mem::take;
use std::os::fd::OwnedFd;
use std::time::Instant;

use bytemuck::try_pod_read_unaligned;
use libbpf_rs::{Link, MapCore, MapFlags};

pub use self::attach::target;
use self::record::{CtrlKey, Record};
use self::usdt::UsdtHit;
use super::read;
use super::rings::SortedRings;
use crate::abi::{nd_host_count as Count, nd_usdt_count as UsdtCount};
use crate::error::{Failure, Kind, failed};
use crate::machine::clock::monotonic_ns;
use crate::machine::process::Memory;
use crate::model::ledger::{HookLine, Ledger, OwnCost, ProgramCost};
use crate::model::target::{HostController, TargetInfo, TargetKind};
use crate::model::text::Text;
use crate::session::load::Loaded;
use crate::settings::ToEvents;
use crate::target::functions::Wanted;
use crate::target::qemu::Reader;
use crate::target::spdk::{self, Release};
use crate::target::{HostEvent, Skip};
use anyhow::Result;

/// What the programs pass on, and how it becomes events.
enum Decoder {
    /// Records of commands, from these programs of bpf/host.bpf.c as far as they are loaded.
    Records(&'static [Wanted]),
    /// Hits of QEMU's USDT probes (bpf/usdt.bpf.c).
    Qemu(Box<Reader>),
    /// Hits of SPDK's USDT probes: changes of state.
    States(Option<Release>),
    /// A map with the counts of SPDK's messages, from these programs.
    Calls(&'static [Wanted]),
}

impl Decoder {
    /// The programs of bpf/host.bpf.c.
    fn programs(&self) -> &'static [Wanted] {
        match self {
            Self::Records(programs) | Self::Calls(programs) => programs,
            Self::Qemu(_) | Self::States(_) => &[],
        }
    }
}

/// A target that is traced. Dropping it detaches everything.
pub struct HostSession {
    loaded: Loaded,
    links: Vec<Link>,
    /// `None`: the events are in a map.
    rings: Option<SortedRings>,
    decoder: Decoder,
    target: TargetInfo,
    /// The memory of the process; `None` for the kernel.
    memory: Option<Memory>,
    controllers: Vec<HostController>,
    /// Numbers of the controllers of records; `None`: another device.
    numbers: BTreeMap<CtrlKey, Option<u32>>,
    ledger: Ledger,
    /// Records of another size.
    lost: u64,
    begun: Instant,
    /// The kernel measures run times while this file is open.
    stats: Option<OwnedFd>,
}

impl HostSession {
    /// Takes over the loaded and attached programs. `memory`: of the process. `measure`: also the run times of
    /// the programs.
    fn new(
        (loaded, links): (Loaded, Vec<Link>),
        target: TargetInfo,
        memory: Option<Memory>,
        decoder: Decoder,
        measure: bool,
    ) -> Result<Self> {
        let open = |map, time_of| SortedRings::open([&loaded.map(map)?], time_of);
        let rings = match decoder {
            Decoder::Records(_) => Some(open("host_events", Record::time_of)?),
            Decoder::Qemu(_) | Decoder::States(_) => Some(open("usdt_events", UsdtHit::time_of)?),
            Decoder::Calls(_) => None,
        };
        Ok(Self {
            loaded,
            links,
            rings,
            decoder,
            target,
            memory,
            controllers: Vec::new(),
            numbers: BTreeMap::new(),
            ledger: Ledger::of_target(false),
            lost: 0,
            begun: Instant::now(),
            stats: measure.then(read::enable_stats).flatten(),
        })
    }

    /// The target.
    pub const fn target(&self) -> &TargetInfo {
        &self.target
    }

    /// The number of places that programs are attached to.
    pub const fn probes(&self) -> usize {
        self.links.len()
    }

    /// The controllers that were seen so far.
    pub fn controllers(&self) -> &[HostController] {
        &self.controllers
    }

    /// Fails if the target has ended: there will be no more events.
    pub fn alive(&self) -> Result<()> {
        self.memory.as_ref().map_or(Ok(()), Memory::alive)
    }

    /// Passes on new events by time, except the latest: earlier ones may still arrive. Returns true if
    /// there may be more.
    pub fn take(&mut self, to: ToEvents<'_>) -> Result<bool> {
        self.pass_on(false, to)
    }

    /// Detaches everything, and returns the ledger. Passes on the events that are left, and the
    /// commands in flight.
    pub fn end(&mut self, to: ToEvents<'_>) -> Result<Ledger> {
        let runs = read::program_runs(&self.loaded.0);
        self.links.clear();
        self.pass_on(true, to)?;
        match &mut self.decoder {
            Decoder::Records(programs) => {
                let programs = *programs;
                self.in_flight(to)?;
                self.count_records(programs, &runs)?;
            }
            Decoder::Calls(_) => {
                // the map was full, or the kernel skipped the program
                let skipped: u64 = runs.values().map(|run| run.misses).sum();
                let no_room = self.host_count(Count::ND_HOST_NO_ROOM)?;
                self.ledger.lose(no_room + skipped);
            }
            Decoder::Qemu(reader) => {
                reader.commands.finish();
                for event in &reader.commands.events {
                    to(&HostEvent::Nvme(event), &self.controllers)?;
                }
                self.ledger = take(&mut reader.commands.ledger);
                self.count_hits()?;
            }
            Decoder::States(_) => self.count_hits()?,
        }
        Ok(take(&mut self.ledger))
    }

    /// Passes on new events. With `all`, also the latest.
    fn pass_on(&mut self, all: bool, to: ToEvents<'_>) -> Result<bool> {
        let more = match &mut self.rings {
            Some(rings) => rings.fetch(all)?,
            None => false,
        };
        match self.decoder {
            Decoder::Records(_) => self.records(to)?,
            Decoder::Qemu(_) | Decoder::States(_) => self.hits(to)?,
            Decoder::Calls(programs) => self.calls(programs, to)?,
        }
        Ok(more)
    }

    /// The next record; one of another size is counted. `None`: there is none yet.
    fn next<T>(&mut self, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let rings = self.rings.as_mut()?;
        loop {
            match rings.next(&read)? {
                Some(record) => return Some(record),
                None => self.lost += 1,
            }
        }
    }

    fn records(&mut self, to: ToEvents<'_>) -> Result<()> {
        self.check()?;
        while let Some(record) = self.next(Record::read) {
            if let Some(number) = self.number(record.ctrl)? {
                let event = record.event(number, self.is_kernel());
                self.ledger.count(&event);
                to(&HostEvent::Nvme(&event), &self.controllers)?;
            }
        }
        Ok(())
    }

    fn hits(&mut self, to: ToEvents<'_>) -> Result<()> {
        while let Some(hit) = self.next(UsdtHit::read) {
            match &mut self.decoder {
                Decoder::Qemu(reader) => {
                    let read = reader.hit(hit.number, hit.at_ns, &hit.args);
                    match read {
                        Err(Skip::Second) => {
                            return Err(usdt::several_controllers(self.target.pid));
                        }
                        Err(Skip::Malformed) => reader.commands.ledger.not_read(1),
                        _ => {}
                    }
                    for event in reader.commands.events.drain(..) {
                        to(&HostEvent::Nvme(&event), &self.controllers)?;
                    }
                }
                Decoder::States(release) => {
                    if let Some(probe) = spdk::PROBES.get(hit.number) {
                        let change = probe.decode(*release, hit.at_ns, &hit.args, &hit.texts);
                        to(&HostEvent::State(change), &[])?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn calls(&self, programs: &[Wanted], to: ToEvents<'_>) -> Result<()> {
        let map = self.loaded.map("messages")?;
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(failed("read map `messages`"))?;
            let key = try_pod_read_unaligned::<[u64; 2]>(&key).ok();
            let count = value.and_then(|value| try_pod_read_unaligned::<u64>(&value).ok());
            let Some(([function, call], count)) = key.zip(count) else { continue };
            let program = usize::try_from(call).ok().and_then(|n| programs.get(n));
            if let Some(by) = program.and_then(|wanted| wanted.functions.first()) {
                to(&HostEvent::Call { by, function, count }, &[])?;
            }
        }
        Ok(())
    }

    fn is_kernel(&self) -> bool {
        self.target.kind == TargetKind::Nvmet
    }

    /// The number of a controller, a new one at its first event. `None`: an interrupt of another
    /// device.
    fn number(&mut self, key: CtrlKey) -> Result<Option<u32>> {
        if let Some(known) = self.numbers.get(&key) {
            return Ok(*known);
        }
        let found = match self.target.kind {
            TargetKind::Nvmet | TargetKind::Spdk => Some(self.noted_controller(key)?),
            _ => {
                let serial = self.memory.as_ref().and_then(|m| m.nvme_serial(key.address));
                serial.map(|serial| HostController::of_qemu(&serial))
            }
        };
        let number = found.map(|found| self.add_controller(found));
        self.numbers.insert(key, number);
        Ok(number)
    }

    /// The number of a controller, which may be known: one that connects again may have another address.
    fn add_controller(&mut self, mut found: HostController) -> u32 {
        let same = |c: &&HostController| {
            (c.cntlid, &c.nqn, &c.serial) == (found.cntlid, &found.nqn, &found.serial)
        };
        if let Some(known) = self.controllers.iter().find(same) {
            return known.number;
        }
        found.number = self.controllers.len() as u32;
        if self.controllers.iter().any(|c| c.name == found.name) {
            found.name = Text::from_escaped(&format!("{}/{}", found.name, found.number));
        }
        self.controllers.push(found);
        self.controllers.len() as u32 - 1
    }

    /// A controller of nvmet or of SPDK, with the name that its program has noted.
    fn noted_controller(&self, key: CtrlKey) -> Result<HostController> {
        let kind = self.target.kind.name();
        if key.address == 0 {
            return Ok(HostController::named(format!("{kind}:-")));
        }
        let names = self.loaded.map("host_ctrls")?;
        let name = names.lookup(&key.to_bytes(), MapFlags::ANY);
        let name = name.map_err(failed("read map `host_ctrls`"))?;
        Ok(HostController {
            cntlid: u16::try_from(key.cntlid).ok(),
            nqn: name.and_then(|bytes| record::nqn(&bytes)),
            ..HostController::named(format!("{kind}:{}", key.cntlid))
        })
    }

    /// Fails if the target has another layout.
    fn check(&self) -> Result<()> {
        let failed = self.host_count(Count::ND_HOST_FAILED_CHECK)?;
        if failed > 0 {
            let text = format!(
                "{failed} hits failed the check of the request's fields: this target has another layout, \
                 and its records would be wrong. Import its log or its trace instead (`import`)"
            );
            return Err(Failure::error(Kind::Run, text));
        }
        Ok(())
    }

    /// Passes on the commands in flight.
    fn in_flight(&mut self, to: ToEvents<'_>) -> Result<()> {
        let flying = self.loaded.map("flying")?;
        let values = flying.keys().filter_map(|key| flying.lookup(&key, MapFlags::ANY).ok()?);
        for record in values.filter_map(|bytes| Record::read(&bytes)) {
            if let Some(number) = self.number(record.ctrl)? {
                let command = record.command(number, self.is_kernel());
                let event = command.unfinished(monotonic_ns());
                self.ledger.count(&event);
                to(&HostEvent::Nvme(&event), &self.controllers)?;
            }
        }
        Ok(())
    }

    fn count_records(
        &mut self,
        programs: &[Wanted],
        runs: &BTreeMap<String, read::ProgramRuns>,
    ) -> Result<()> {
        let lost =
            self.host_count(Count::ND_HOST_NO_ROOM)? + self.host_count(Count::ND_HOST_LOST)?;
        self.ledger.lose(lost + self.lost);
        self.ledger.orphan_completions = self.host_count(Count::ND_HOST_WITHOUT_BEGIN)?;
        self.ledger.overwritten = self.host_count(Count::ND_HOST_WITHOUT_END)?;
        let mut costs = Vec::new();
        for Wanted { program, hook, .. } in programs {
            let counter = HITS.iter().position(|end| program.ends_with(end));
            if let Some((run, counter)) = runs.get(*program).zip(counter) {
                let hits = self.count("host_counts", counter as u32)?;
                self.add_hook(hook, hits, run.misses);
                let (kind, target) = (self.method(), (*hook).into());
                costs.push(ProgramCost { kind, target, runs: run.count, run_ns: run.ns });
            }
        }
        let elapsed_ns = self.begun.elapsed().as_nanos() as u64;
        let cost = OwnCost::of(costs, elapsed_ns, self.ledger.seen);
        self.ledger.own_cost = self.stats.is_some().then_some(cost);
        Ok(())
    }

    /// `uprobe`, `tracepoint`, `usdt`.
    fn method(&self) -> Text {
        self.target.by.trim_end_matches('s').into()
    }

    fn add_hook(&mut self, hook: &str, hits: u64, recursion_misses: u64) {
        self.ledger.recursion_misses += recursion_misses;
        let (kind, target) = (self.method(), hook.into());
        let misses_known = true;
        let hook =
            HookLine { kind, target, hits, recursion_misses, misses_known, ..<_>::default() };
        self.ledger.hooks.push(hook);
    }

    fn count_hits(&mut self) -> Result<()> {
        let hits = self.count("usdt_counts", UsdtCount::ND_USDT_HITS.0)?;
        self.add_hook("all probes", hits, 0);
        let lost = self.count("usdt_counts", UsdtCount::ND_USDT_LOST.0)?;
        self.ledger.lose(lost + self.lost);
        Ok(())
    }

    /// A count of bpf/host.bpf.c.
    fn host_count(&self, what: Count) -> Result<u64> {
        self.count("host_counts", what.0)
    }

    /// A count of the programs, over all CPUs.
    fn count(&self, map: &str, number: u32) -> Result<u64> {
        let values = self.loaded.map(map)?.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(failed(format!("read map `{map}`")))?.unwrap_or_default();
        let of_cpu = |bytes: Vec<u8>| bytes.try_into().map_or(0, u64::from_ne_bytes);
        Ok(values.into_iter().map(of_cpu).sum())
    }
}

/// The programs of bpf/host.bpf.c by the ends of their names, in the order of their counters
/// (`enum nd_host_count`).
const HITS: [&str; 7] = ["init", "complete", "fetch", "submit", "done", "interrupt", "free"];
const _: () = assert!(Count::ND_HOST_HIT_FREE.0 as usize == HITS.len() - 1);
