// SPDX-License-Identifier: MIT OR Apache-2.0
//! USDT probes of a process. bpf/usdt.bpf.c reads the arguments; libbpf finds the places of the probes
//! in the ELF notes.

use std::path::PathBuf;

use libbpf_rs::{Link, UsdtOpts};

use super::attach::{Constants, configure, load, open_object};
use super::count;
use crate::abi::{nd_usdt_cookie, nd_usdt_count, nd_usdt_limit};
use crate::session::load::Loaded;
use crate::session::rings::SortedRings;
use crate::target::spdk::ARGS;
use anyhow::Result;

/// Bytes of a text, with its end.
const TEXT: usize = nd_usdt_limit::ND_USDT_TEXT.0 as usize;
/// Where the mask of texts is in the cookie of a probe.
const TEXT_SHIFT: u32 = nd_usdt_cookie::ND_USDT_TEXT_SHIFT.0;
/// The program.
const PROGRAM: &str = "usdt_hit";

/// A probe to attach to.
pub(super) struct UsdtProbe<'a> {
    pub path: PathBuf,
    pub provider: &'a str,
    pub name: &'a str,
    /// Its number in records.
    pub number: u16,
    /// A bit for each argument that is a text.
    pub texts: u64,
}

/// A hit of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsdtHit {
    pub at_ns: u64,
    pub number: u16,
    pub args: [u64; ARGS],
    pub texts: Vec<String>,
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
            number: u64::from_ne_bytes(*cookie) as u16,
            args: args.map(u64::from_ne_bytes),
            texts: texts.collect(),
        })
    }
}

/// Probes of a process, while it lives.
pub(super) struct Usdt {
    loaded: Loaded,
    links: Vec<Link>,
    rings: SortedRings,
    malformed: u64,
}

impl Usdt {
    /// Attaches to the probes.
    pub fn attach(pid: u32, probes: &[UsdtProbe<'_>]) -> Result<Self> {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/usdt.bpf.o"));
        let mut open = open_object(object)?;
        let constants = Constants { tgid: pid, ..Constants::default() };
        configure(&mut open, &constants);
        let loaded = load(open, &[PROGRAM])?;
        let mut links = Vec::new();
        for probe in probes {
            let program = loaded.program(PROGRAM)?;
            let options = UsdtOpts {
                cookie: u64::from(probe.number) | probe.texts << TEXT_SHIFT,
                ..UsdtOpts::default()
            };
            let pid = pid.cast_signed();
            links.push(program.attach_usdt_with_opts(
                pid,
                &probe.path,
                probe.provider,
                probe.name,
                options,
            )?);
        }
        Ok(Self {
            rings: SortedRings::open([&loaded.map("usdt_events")?], UsdtHit::time_of)?,
            loaded,
            links,
            malformed: 0,
        })
    }

    /// Passes on new hits by time, except the latest: earlier ones may still arrive. With `all`,
    /// those too. Returns true if there may be more.
    pub fn take(&mut self, all: bool, to: &mut dyn FnMut(&UsdtHit) -> Result<()>) -> Result<bool> {
        let more = self.rings.fetch(all)?;
        while let Some(hit) = self.rings.next(UsdtHit::read) {
            match hit {
                Some(hit) => to(&hit)?,
                None => self.malformed += 1,
            }
        }
        Ok(more)
    }

    /// Detaches the probes.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// The number of hits, and of those without a record.
    pub fn counts(&self) -> Result<(u64, u64)> {
        let count = |what: nd_usdt_count| count(&self.loaded, "usdt_counts", what.0);
        let lost = count(nd_usdt_count::ND_USDT_LOST)?;
        Ok((count(nd_usdt_count::ND_USDT_HITS)?, lost + self.malformed))
    }
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
