// SPDX-License-Identifier: MIT OR Apache-2.0
//! USDT probes of a process: the commands of QEMU, the changes of state of SPDK. bpf/usdt.bpf.c reads the
//! arguments; libbpf finds the places of the probes in the ELF notes.

use libbpf_rs::UsdtOpts;

use super::attach::{Found, load};
use super::{Decoder, HostSession};
use crate::abi::nd_usdt_limit;
use crate::error::{Failure, Kind};
use crate::model::target::{HostClock, HostController, TargetKind};
use crate::target::qemu::{self, Reader, is_enough};
use crate::target::spdk::{self, ARGS, Layout};
use anyhow::{Error, Result};

/// Bytes of a text, with its end.
const TEXT: usize = nd_usdt_limit::ND_USDT_TEXT.0 as usize;
/// Where the mask of texts is in the cookie of a probe.
const TEXT_SHIFT: u32 = nd_usdt_limit::ND_USDT_TEXT_SHIFT.0;
/// The program.
const PROGRAM: &str = "usdt_hit";

/// A hit of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtHit {
    pub at_ns: u64,
    pub number: usize,
    pub args: [u64; ARGS],
    pub texts: Vec<String>,
}

impl UsdtHit {
    /// The time of a record; `None` if it is too short.
    pub fn time_of(bytes: &[u8]) -> Option<u64> {
        bytes.first_chunk().map(|ns| u64::from_ne_bytes(*ns))
    }

    /// Reads `struct nd_usdt`; `None` if it is too short.
    pub fn read(bytes: &[u8]) -> Option<Self> {
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

/// Attaches to the probes of a process that are known, by name and number of arguments: their number in
/// records, and a bit for each argument that is a text. `lacks`: why there are too few with these names.
fn attach(
    found: Found,
    (kind, provider): (TargetKind, &'static str),
    known: impl Fn(&str, usize) -> Option<(usize, u64)>,
    lacks: impl Fn(&[&str]) -> Option<String>,
    decoder: Decoder,
) -> Result<HostSession> {
    let probes: Vec<_> = (found.code.usdt(provider))
        .filter_map(|(path, name, args)| Some((path, name, known(name, args)?)))
        .collect();
    let names: Vec<&str> = probes.iter().map(|(_, name, _)| *name).collect();
    if let Some(why) = lacks(&names) {
        return Err(found.refused(&format!("has no USDT probes of {why}")));
    }
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/usdt.bpf.o"));
    let pid = found.process.pid;
    let loaded = load(object, &[PROGRAM], pid, Layout::of(None))?;
    let attach = |&(path, name, (number, texts))| {
        let cookie = number as u64 | texts << TEXT_SHIFT;
        let options = UsdtOpts { cookie, ..UsdtOpts::default() };
        let (program, pid) = (loaded.program(PROGRAM)?, pid.cast_signed());
        Ok(program.attach_usdt_with_opts(pid, path, provider, name, options)?)
    };
    let links = probes.iter().map(attach).collect::<Result<_>>()?;
    let target = found.target(kind, "usdt");
    HostSession::new((loaded, links), target, Some(found.memory), decoder, None)
}

/// Traces the changes of state of a target of SPDK.
pub fn state_changes(found: Found) -> Result<HostSession> {
    let known = |name: &str, args| {
        let mut all = spdk::PROBES.iter().enumerate();
        let (number, probe) = all.find(|(_, p)| p.name == name && p.args() == args)?;
        Some((number, probe.texts()))
    };
    let lacks = |names: &[&str]| {
        let why = "SPDK's NVMe-oF target: it is something else, or was built without `configure \
                   --with-usdt`";
        names.is_empty().then(|| why.to_owned())
    };
    let states = Decoder::States(found.code.release());
    attach(found, (TargetKind::Spdk, "spdk"), known, lacks, states)
}

/// QEMU's events do not name their controller.
pub fn several_controllers(pid: Option<u32>) -> Error {
    let text = format!(
        "process {} has several NVMe controllers, and its trace events do not say which one they are \
         about: omit --usdt",
        pid.unwrap_or_default()
    );
    Failure::error(Kind::Usage, text)
}

/// Traces the commands of a QEMU.
pub fn qemu(found: Found) -> Result<HostSession> {
    let known = |name: &str, args| {
        let is_it = |p: &qemu::QemuProbe| p.name == name && p.keys.len() == args;
        Some((qemu::PROBES.iter().position(is_it)?, 0))
    };
    let is_spdk = found.code.probe("spdk_nvmf_request_exec").is_some();
    let lacks = |names: &[&str]| {
        let reason = match (is_spdk, is_enough(names)) {
            (true, _) => "SPDK has none per command; omit --usdt; `host spdk` shows its states",
            (false, false) => "it is something else, or was built without the trace backend dtrace",
            (false, true) => return None,
        };
        Some(format!("QEMU's NVMe controller: {reason}"))
    };
    let serials = found.process.nvme_serials();
    let pid = found.process.pid;
    let reader = Box::new(Reader::of(HostClock::Monotonic));
    let kind = (TargetKind::Qemu, "qemu");
    let mut session = attach(found, kind, known, lacks, Decoder::Qemu(reader))?;
    session.controllers = match serials.as_slice() {
        [] | [None] => vec![HostController::named("qemu:0")],
        [Some(serial)] => vec![HostController::of_qemu(serial)],
        _ => return Err(several_controllers(Some(pid))),
    };
    Ok(session)
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
