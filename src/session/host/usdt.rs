// SPDX-License-Identifier: MIT OR Apache-2.0
//! USDT probes of a process: the commands of QEMU, the changes of state of SPDK. bpf/usdt.bpf.c reads the
//! arguments; libbpf finds the places of the probes in the ELF notes.

use std::path::{Path, PathBuf};

use libbpf_rs::{Link, UsdtOpts};

use super::attach::load;
use super::count;
use super::process::Found;
use crate::abi::{nd_usdt_count, nd_usdt_limit};
use crate::error::{Failure, Kind};
use crate::machine::System;
use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, HostEvent, TargetInfo, TargetKind};
use crate::session::load::Loaded;
use crate::session::rings::SortedRings;
use crate::source::{HostSource, ToEvents};
use crate::target::qemu_usdt::{PROBES, QemuHits, QemuProbe, is_enough};
use crate::target::spdk::{self, ARGS, Layout, Release, StateChange};
use anyhow::{Error, Result};

/// Bytes of a text, with its end.
const TEXT: usize = nd_usdt_limit::ND_USDT_TEXT.0 as usize;
/// Where the mask of texts is in the cookie of a probe.
const TEXT_SHIFT: u32 = nd_usdt_limit::ND_USDT_TEXT_SHIFT.0;
/// The program.
const PROGRAM: &str = "usdt_hit";

/// A probe to attach to.
struct UsdtProbe {
    path: PathBuf,
    name: String,
    /// Its number in records.
    number: usize,
    /// A bit for each argument that is a text.
    texts: u64,
}

/// The probes of a process that are known, by name and number of arguments: number and texts.
fn probes(
    found: &Found,
    provider: &'static str,
    known: impl Fn(&str, usize) -> Option<(usize, u64)>,
) -> Vec<UsdtProbe> {
    let probe = |(path, name, args): (&Path, &str, usize)| {
        let (number, texts) = known(name, args)?;
        Some(UsdtProbe { path: path.to_owned(), name: name.to_owned(), number, texts })
    };
    found.code.usdt(provider).filter_map(probe).collect()
}

/// A hit of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UsdtHit {
    at_ns: u64,
    number: usize,
    args: [u64; ARGS],
    texts: Vec<String>,
}

impl UsdtHit {
    /// The time of a record; `None` if it is too short.
    fn time_of(bytes: &[u8]) -> Option<u64> {
        bytes.first_chunk().map(|ns| u64::from_ne_bytes(*ns))
    }

    /// Reads `struct nd_usdt`; `None` if it is too short.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [at_ns, cookie, rest @ ..] = words else {
            return None;
        };
        let args: [[u8; 8]; ARGS] = rest.get(..ARGS)?.try_into().ok()?;
        let texts = bytes.get(8 * (2 + ARGS)..)?.chunks(TEXT).map(|text| {
            let text = text.split(|&b| b == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        });
        Some(Self {
            at_ns: u64::from_ne_bytes(*at_ns),
            number: usize::from(u64::from_ne_bytes(*cookie) as u16),
            args: args.map(u64::from_ne_bytes),
            texts: texts.collect(),
        })
    }
}

/// Takes an event.
type To<'t, E> = &'t mut dyn FnMut(&E) -> Result<()>;

/// Makes events of hits, which come by time.
trait Decoder<E> {
    fn hit(&mut self, hit: &UsdtHit, to: To<'_, E>) -> Result<()>;

    /// Passes on what is left. Returns what it has counted.
    fn end(&mut self, _to: To<'_, E>) -> Result<HostLedger> {
        Ok(HostLedger::default())
    }
}

/// Probes of a process, while it lives.
struct Usdt<D> {
    loaded: Loaded,
    links: Vec<Link>,
    rings: SortedRings,
    malformed: u64,
    found: Found,
    target: TargetInfo,
    controllers: Vec<HostController>,
    decoder: D,
}

impl<D> Usdt<D> {
    /// Attaches to the probes.
    fn attach(
        found: Found,
        (kind, provider): (TargetKind, &str),
        probes: &[UsdtProbe],
        controllers: Vec<HostController>,
        decoder: D,
    ) -> Result<Self> {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/usdt.bpf.o"));
        let pid = found.process.pid;
        let loaded = load(object, &[PROGRAM], pid, Layout::of(None))?;
        let attach = |UsdtProbe { path, name, number, texts }: &UsdtProbe| {
            let cookie = *number as u64 | texts << TEXT_SHIFT;
            let options = UsdtOpts { cookie, ..UsdtOpts::default() };
            let (program, pid) = (loaded.program(PROGRAM)?, pid.cast_signed());
            Ok(program.attach_usdt_with_opts(pid, path, provider, name, options)?)
        };
        let links = probes.iter().map(attach).collect::<Result<_>>()?;
        let rings = SortedRings::open([&loaded.map("usdt_events")?], UsdtHit::time_of)?;
        let target = found.target(kind, "usdt");
        Ok(Self { loaded, links, rings, malformed: 0, found, target, controllers, decoder })
    }

    /// Passes on new hits. With `all`, also the latest.
    fn pass_on<E>(&mut self, all: bool, to: ToEvents<'_, E>) -> Result<bool>
    where
        D: Decoder<E>,
    {
        let more = self.rings.fetch(all)?;
        while let Some(hit) = self.rings.next(UsdtHit::read) {
            match hit {
                Some(hit) => self.decoder.hit(&hit, &mut |event| to(event, &self.controllers))?,
                None => self.malformed += 1,
            }
        }
        Ok(more)
    }
}

impl<E, D: Decoder<E>> HostSource<E> for Usdt<D> {
    fn target(&self) -> &TargetInfo {
        &self.target
    }

    fn controllers(&self) -> &[HostController] {
        &self.controllers
    }

    fn take(&mut self, to: ToEvents<'_, E>) -> Result<bool> {
        self.pass_on(false, to)
    }

    fn alive(&self) -> Result<()> {
        self.found.memory.alive()
    }

    fn end(&mut self, to: ToEvents<'_, E>) -> Result<HostLedger> {
        self.links.clear();
        self.pass_on(true, to)?;
        let mut ledger = self.decoder.end(&mut |event| to(event, &self.controllers))?;
        let count = |what: nd_usdt_count| count(&self.loaded, "usdt_counts", what.0);
        ledger.hits.insert("usdt".into(), count(nd_usdt_count::ND_USDT_HITS)?);
        ledger.lost += count(nd_usdt_count::ND_USDT_LOST)? + self.malformed;
        Ok(ledger)
    }
}

/// The changes of state of SPDK, whose number is in the ledger's hits.
struct States {
    release: Option<Release>,
}

impl Decoder<StateChange> for States {
    fn hit(&mut self, hit: &UsdtHit, to: To<'_, StateChange>) -> Result<()> {
        spdk::PROBES.get(hit.number).map_or(Ok(()), |probe| {
            to(&probe.decode(self.release, hit.at_ns, &hit.args, &hit.texts))
        })
    }
}

/// The changes of state of a target of SPDK, and the number of probes that report them.
///
/// # Errors
/// If it is not SPDK built with USDT probes, may not be traced, or the kernel refuses.
pub fn state_changes(
    system: &System,
    pid: u32,
) -> Result<(Box<dyn HostSource<StateChange>>, usize)> {
    let found = Found::at(system, pid)?;
    let probes = probes(&found, "spdk", |name, args| {
        let mut all = spdk::PROBES.iter().enumerate();
        let (number, probe) = all.find(|(_, p)| p.name == name && p.args() == args)?;
        Some((number, probe.texts()))
    });
    if probes.is_empty() {
        let reason = "it is something else, or was built without `configure --with-usdt`";
        return Err(found.no_usdt("SPDK's NVMe-oF target", reason));
    }
    let states = States { release: found.code.release() };
    let usdt = Usdt::attach(found, (TargetKind::Spdk, "spdk"), &probes, Vec::new(), states)?;
    Ok((Box::new(usdt), probes.len()))
}

/// The commands of QEMU.
struct Commands {
    hits: QemuHits,
    pid: u32,
}

/// QEMU's events do not name their controller.
fn several_controllers(pid: u32) -> Error {
    let text = format!(
        "process {pid} has several NVMe controllers, and its trace events do not say which one they are \
         about: omit --usdt"
    );
    Failure::error(Kind::Usage, text)
}

impl Decoder<HostEvent> for Commands {
    fn hit(&mut self, hit: &UsdtHit, to: To<'_, HostEvent>) -> Result<()> {
        let of_one = self.hits.add(hit.number, hit.at_ns, &hit.args);
        self.hits.drain().iter().try_for_each(to)?;
        if of_one { Ok(()) } else { Err(several_controllers(self.pid)) }
    }

    fn end(&mut self, to: To<'_, HostEvent>) -> Result<HostLedger> {
        let (left, ledger) = std::mem::take(&mut self.hits).end();
        left.iter().try_for_each(to)?;
        Ok(ledger)
    }
}

/// Traces a QEMU.
///
/// # Errors
/// If it is no QEMU with such probes and one controller, may not be traced, or the kernel refuses.
pub fn qemu(system: &System, pid: u32) -> Result<Box<dyn HostSource<HostEvent>>> {
    let found = Found::at(system, pid)?;
    let probes = probes(&found, "qemu", |name, args| {
        let is_it = |p: &QemuProbe| p.name == name && p.args() == args;
        Some((PROBES.iter().position(is_it)?, 0))
    });
    let refused = |reason| found.no_usdt("QEMU's NVMe controller", reason);
    let names: Vec<&str> = probes.iter().map(|probe| &*probe.name).collect();
    if found.code.probe("spdk_nvmf_request_exec").is_some() {
        let reason = "SPDK has none per command; omit --usdt; `host spdk` shows its states";
        return Err(refused(reason));
    }
    if !is_enough(&names) {
        let reason = "it is something else, or was built without the trace backend dtrace";
        return Err(refused(reason));
    }
    let serials = found.process.nvme_serials();
    let controller = match serials.as_slice() {
        [] | [None] => HostController::named("qemu:0"),
        [Some(serial)] => HostController::of_qemu(serial),
        _ => return Err(several_controllers(pid)),
    };
    let commands = Commands { hits: QemuHits::default(), pid };
    let kind = (TargetKind::Qemu, "qemu");
    Ok(Box::new(Usdt::attach(found, kind, &probes, vec![controller], commands)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_arguments_and_texts() {
        let words = [7_u64, 0x5_0003, 1, 2, 3, 4, 5, u64::MAX];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let hit = UsdtHit::read(&bytes).unwrap();
        assert_eq!((hit.at_ns, hit.number, hit.args[5]), (7, 3, u64::MAX));
        assert_eq!(hit.texts, [""; 0]);
        let mut text = b"nqn.a\0rest".to_vec();
        text.resize(TEXT, 0xff);
        bytes.extend(text);
        assert_eq!(UsdtHit::read(&bytes).unwrap().texts, ["nqn.a"]);
        assert_eq!(UsdtHit::read(&bytes[..63]), None);
    }
}
