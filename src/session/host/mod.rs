// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces a target of this machine: the kernel's nvmet by its tracepoints, QEMU and SPDK by uprobes.

mod attach;
mod messages;
mod process;
mod record;
mod usdt;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use self::messages::Messages;
use self::record::{CtrlKey, Record};
pub use self::usdt::state_changes;
use super::read;
use super::rings::SortedRings;
use crate::abi::nd_host_count as Count;
use crate::error::{Failure, Kind, failed};
use crate::machine::System;
use crate::machine::process::Memory;
use crate::model::ledger::HostLedger;
use crate::model::target::{Call, HostController, HostEvent, TargetInfo, TargetKind};
use crate::model::text::Text;
use crate::session::load::Loaded;
use crate::settings::{ChosenTarget, HostOptions};
use crate::source::{HostSource, ToEvents};
use crate::target::functions::Wanted;
use anyhow::Result;

/// The source of the commands of a target.
///
/// # Errors
/// If it is not there, may not be traced, or the kernel refuses the programs.
pub fn commands(
    system: &System,
    chosen: ChosenTarget,
    options: HostOptions,
) -> Result<Box<dyn HostSource<HostEvent>>> {
    Ok(match chosen {
        ChosenTarget::Nvmet => Box::new(HostSession::nvmet(system, options.measure)?),
        ChosenTarget::Process(pid) => Box::new(HostSession::process(system, pid, options)?),
        ChosenTarget::Usdt(pid) => usdt::qemu(system, pid)?,
    })
}

/// The messages of a process of SPDK.
///
/// # Errors
/// If it is no process of SPDK, may not be traced, or the kernel refuses the programs.
pub fn messages(system: &System, pid: u32) -> Result<Box<dyn HostSource<Call>>> {
    Ok(Box::new(Messages::of(system, pid)?))
}

/// A target that is traced. Dropping it detaches everything.
struct HostSession {
    loaded: Loaded,
    links: Vec<Link>,
    /// The programs that may be loaded.
    programs: &'static [Wanted],
    rings: SortedRings,
    target: TargetInfo,
    /// The memory of the process; `None` for the kernel.
    memory: Option<Memory>,
    controllers: Vec<HostController>,
    /// Numbers of the controllers.
    numbers: BTreeMap<CtrlKey, Option<u32>>,
    ledger: HostLedger,
    /// The kernel measures run times while this file is open.
    _stats: Option<OwnedFd>,
}

impl HostSession {
    /// Takes over the loaded and attached programs. `memory`: of the process.
    fn new(
        (loaded, links, programs): (Loaded, Vec<Link>, &'static [Wanted]),
        target: TargetInfo,
        memory: Option<Memory>,
        stats: Option<OwnedFd>,
    ) -> Result<Self> {
        Ok(Self {
            rings: SortedRings::open([&loaded.map("host_events")?], Record::time_of)?,
            loaded,
            links,
            programs,
            target,
            memory,
            controllers: Vec::new(),
            numbers: BTreeMap::new(),
            ledger: HostLedger::default(),
            _stats: stats,
        })
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
        let next = self.controllers.len() as u32;
        let found = match self.target.kind {
            TargetKind::Nvmet | TargetKind::Spdk => Some(self.noted_controller(key)?),
            _ => self.qemu_controller(key),
        };
        let Some(mut found) = found else {
            self.numbers.insert(key, None);
            return Ok(None);
        };
        // a controller that connects again may have another address
        let same = |c: &&HostController| {
            (c.cntlid, &c.nqn, &c.serial) == (found.cntlid, &found.nqn, &found.serial)
        };
        let known = self.controllers.iter().find(same).map(|c| c.number);
        let number = known.unwrap_or(next);
        self.numbers.insert(key, Some(number));
        if known.is_none() {
            if self.controllers.iter().any(|c| c.name == found.name) {
                found.name = Text::from_escaped(&format!("{}/{next}", found.name));
            }
            found.number = next;
            self.controllers.push(found);
        }
        Ok(Some(number))
    }

    fn qemu_controller(&self, key: CtrlKey) -> Option<HostController> {
        let serial = self.memory.as_ref()?.nvme_serial(key.address)?;
        Some(HostController::of_qemu(&serial))
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
    fn check(&mut self) -> Result<()> {
        let failed = host_count(&self.loaded, Count::ND_HOST_FAILED_CHECK)?;
        self.ledger.failed_checks = failed;
        if failed > 0 {
            let text = format!(
                "{failed} hits failed the check of the request's fields: this target has another layout, \
                 and its records would be wrong. Import its log or its trace instead (`import`)"
            );
            return Err(Failure::error(Kind::Run, text));
        }
        Ok(())
    }

    /// Passes on new events. With `all`, also the latest.
    fn pass_on(&mut self, all: bool, to: ToEvents<'_, HostEvent>) -> Result<bool> {
        let more = self.rings.fetch(all)?;
        self.check()?;
        while let Some(record) = self.rings.next(Record::read) {
            let Some(record) = record else {
                self.ledger.not_read += 1;
                continue;
            };
            if let Some(number) = self.number(record.ctrl)? {
                let event = record.event(number, self.is_kernel());
                self.ledger.count(&event);
                to(&event, &self.controllers)?;
            }
        }
        Ok(more)
    }

    fn finish(&mut self, runs: &BTreeMap<String, read::ProgramRuns>) -> Result<HostLedger> {
        let count = |what| host_count(&self.loaded, what);
        let ledger = &mut self.ledger;
        ledger.without_begin = count(Count::ND_HOST_WITHOUT_BEGIN)?;
        ledger.without_end = count(Count::ND_HOST_WITHOUT_END)?;
        ledger.lost = count(Count::ND_HOST_NO_ROOM)? + count(Count::ND_HOST_LOST)?;
        for Wanted { program, hook, .. } in self.programs {
            let Some(run) = runs.get(*program) else {
                continue;
            };
            ledger.hits.insert((*hook).into(), count(counter(program))?);
            ledger.skipped.insert((*hook).into(), run.misses);
            if let Some(ns) = run.ns.checked_div(run.count) {
                ledger.run_ns.insert((*hook).into(), ns);
            }
        }
        Ok(ledger.clone())
    }
}

impl HostSource<HostEvent> for HostSession {
    fn target(&self) -> &TargetInfo {
        &self.target
    }

    fn controllers(&self) -> &[HostController] {
        &self.controllers
    }

    fn take(&mut self, to: ToEvents<'_, HostEvent>) -> Result<bool> {
        self.pass_on(false, to)
    }

    fn alive(&self) -> Result<()> {
        self.memory.as_ref().map_or(Ok(()), Memory::alive)
    }

    fn end(&mut self, to: ToEvents<'_, HostEvent>) -> Result<HostLedger> {
        let runs = read::program_runs(&self.loaded.0);
        self.links.clear();
        self.pass_on(true, to)?;
        let flying = self.loaded.map("flying")?;
        for record in in_flight(&flying) {
            if let Some(number) = self.number(record.ctrl)? {
                let event = HostEvent::Unfinished(record.command(number, self.is_kernel()));
                self.ledger.count(&event);
                to(&event, &self.controllers)?;
            }
        }
        self.finish(&runs)
    }
}

/// A count of the programs, over all CPUs.
fn count(loaded: &Loaded, map: &str, number: u32) -> Result<u64> {
    let values = loaded.map(map)?.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY);
    let values = values.map_err(failed(format!("read map `{map}`")))?.unwrap_or_default();
    let of_cpu = |bytes: Vec<u8>| bytes.try_into().map_or(0, u64::from_ne_bytes);
    Ok(values.into_iter().map(of_cpu).sum())
}

/// The counter of a program of bpf/host.bpf.c.
fn counter(program: &str) -> Count {
    match program.rsplit('_').next() {
        Some("init") => Count::ND_HOST_HIT_INIT,
        Some("complete") => Count::ND_HOST_HIT_COMPLETE,
        Some("fetch") => Count::ND_HOST_HIT_FETCH,
        Some("submit") => Count::ND_HOST_HIT_SUBMIT,
        Some("done") => Count::ND_HOST_HIT_DONE,
        Some("interrupt") => Count::ND_HOST_HIT_INTERRUPT,
        _ => Count::ND_HOST_HIT_FREE,
    }
}

/// A count of bpf/host.bpf.c.
fn host_count(loaded: &Loaded, what: Count) -> Result<u64> {
    count(loaded, "host_counts", what.0)
}

/// The commands in flight.
fn in_flight(flying: &MapHandle) -> Vec<Record> {
    let values = flying.keys().filter_map(|key| flying.lookup(&key, MapFlags::ANY).ok()?);
    values.filter_map(|bytes| Record::read(&bytes)).collect()
}
