// SPDX-License-Identifier: MIT OR Apache-2.0
//! USDT probes of a process: the commands of QEMU, the changes of state of SPDK. bpf/usdt.bpf.c reads the
//! arguments; libbpf finds the places of the probes in the ELF notes.

use libbpf_rs::UsdtOpts;

use super::attach::{Found, load};
use super::{Decoder, HostSession};
use crate::abi::nd_usdt_limit;
use crate::error::{Failure, Kind};
use crate::model::target::{HostController, TargetKind};
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

/// Attaches to those probes of a process that are known: by name and number of arguments, with a bit for each
/// argument that is a text. The number of a probe in records is its place in the list.
fn attach(
    found: Found,
    (kind, provider): (TargetKind, &'static str),
    known: &[(&str, usize, u64)],
    decoder: Decoder,
) -> Result<HostSession> {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/usdt.bpf.o"));
    let pid = found.process.pid;
    let loaded = load(object, &[PROGRAM], pid, Layout::of(None))?;
    let mut links = Vec::new();
    for (path, name, args) in found.code.usdt(provider) {
        let mut all = known.iter().enumerate();
        let is_it = |(_, probe): &(usize, &(&str, usize, u64))| (probe.0, probe.1) == (name, args);
        if let Some((number, (.., texts))) = all.find(is_it) {
            let cookie = number as u64 | texts << TEXT_SHIFT;
            let options = UsdtOpts { cookie, ..UsdtOpts::default() };
            let (program, pid) = (loaded.program(PROGRAM)?, pid.cast_signed());
            links.push(program.attach_usdt_with_opts(pid, path, provider, name, options)?);
        }
    }
    let target = found.target(kind, "usdt");
    HostSession::new((loaded, links), target, Some(found.memory), decoder, false)
}

/// Traces the changes of state of a target of SPDK.
pub fn state_changes(found: Found) -> Result<HostSession> {
    let known = spdk::PROBES.iter().map(|p| (p.name, p.args(), p.texts())).collect::<Vec<_>>();
    if !found.code.usdt("spdk").any(|(_, name, _)| known.iter().any(|probe| probe.0 == name)) {
        return Err(found.refused(
            "has no USDT probes of SPDK's NVMe-oF target: it is something else, or was built without \
             `configure --with-usdt`",
        ));
    }
    let states = Decoder::States(found.code.release());
    attach(found, (TargetKind::Spdk, "spdk"), &known, states)
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
    let names: Vec<&str> = found.code.usdt("qemu").map(|(_, name, _)| name).collect();
    if !is_enough(&names) {
        let reason = match found.code.probe("spdk_nvmf_request_exec") {
            Some(_) => "SPDK has none per command; omit --usdt; `host spdk` shows its states",
            None => "it is something else, or was built without the trace backend dtrace",
        };
        return Err(
            found.refused(&format!("has no USDT probes of QEMU's NVMe controller: {reason}"))
        );
    }
    let controllers = match found.process.nvme_serials().as_slice() {
        [] | [None] => vec![HostController::named("qemu:0")],
        [Some(serial)] => vec![HostController::of_qemu(serial)],
        _ => return Err(several_controllers(Some(found.process.pid))),
    };
    let reader = Box::new(Reader::new(false));
    let known = qemu::PROBES.iter().map(|(name, keys)| (*name, keys.len(), 0)).collect::<Vec<_>>();
    let mut session = attach(found, (TargetKind::Qemu, "qemu"), &known, Decoder::Qemu(reader))?;
    session.controllers = controllers;
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
