// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of QEMU by its USDT probes.

use super::process::Found;
use super::usdt::{Usdt, UsdtHit, UsdtProbe};
use crate::error::{Failure, Kind};
use crate::machine::System;
use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, TargetInfo, TargetKind};
use crate::source::{HostSource, ToEvents};
use crate::target::qemu_usdt::{PROBES, QemuHits, is_enough};
use anyhow::{Error, Result};

/// The provider of QEMU's trace events.
const PROVIDER: &str = "qemu";

/// Its events do not name their controller.
fn several_controllers(pid: u32) -> Error {
    let text = format!(
        "process {pid} has several NVMe controllers, and its trace events do not say which one they are \
         about: omit --usdt"
    );
    Failure::error(Kind::Usage, text)
}

/// A QEMU that is traced by USDT probes.
pub struct QemuUsdt {
    usdt: Usdt,
    found: Found,
    target: TargetInfo,
    controllers: Vec<HostController>,
    hits: QemuHits,
}

impl QemuUsdt {
    /// Traces a process.
    ///
    /// # Errors
    /// If it is no QEMU with such probes and one controller, may not be traced, or the kernel refuses.
    pub fn of(system: &System, pid: u32) -> Result<Self> {
        let found = Found::at(system, pid)?;
        let mut probes = Vec::new();
        for (path, name, args) in found.code.usdt(PROVIDER) {
            let mut known = (0_u16..).zip(&PROBES);
            let known = known.find(|(_, p)| p.name == name && p.args() == args);
            probes.extend(known.map(|(number, probe)| UsdtProbe {
                path: path.to_owned(),
                provider: PROVIDER,
                name: probe.name,
                number,
                texts: 0,
            }));
        }
        let refused = |reason| found.no_usdt("QEMU's NVMe controller", reason);
        let names: Vec<&str> = probes.iter().map(|probe| probe.name).collect();
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
            [Some(serial)] => HostController {
                serial: Some(serial.into()),
                ..HostController::named(format!("qemu:{serial}"))
            },
            _ => return Err(several_controllers(pid)),
        };
        Ok(Self {
            usdt: Usdt::attach(pid, &probes)?,
            target: found.target(TargetKind::Qemu, "usdt"),
            controllers: vec![controller],
            hits: QemuHits::default(),
            found,
        })
    }

    /// Passes on new events. With `all`, also the latest.
    fn pass_on(&mut self, all: bool, to: ToEvents<'_>) -> Result<bool> {
        let (hits, pid) = (&mut self.hits, self.found.process.pid);
        let taken = self.usdt.take(all, &mut |hit: &UsdtHit| match hits.add(
            usize::from(hit.number),
            hit.at_ns,
            &hit.args,
        ) {
            true => Ok(()),
            false => Err(several_controllers(pid)),
        });
        for event in self.hits.drain() {
            to(&event, &self.controllers)?;
        }
        taken
    }
}

impl HostSource for QemuUsdt {
    fn target(&self) -> &TargetInfo {
        &self.target
    }

    fn controllers(&self) -> &[HostController] {
        &self.controllers
    }

    fn take(&mut self, to: ToEvents<'_>) -> Result<bool> {
        self.pass_on(false, to)
    }

    fn alive(&self) -> Result<()> {
        self.found.memory.alive()
    }

    fn end(&mut self, to: ToEvents<'_>) -> Result<HostLedger> {
        self.usdt.stop();
        self.pass_on(true, to)?;
        let (left, mut ledger) = std::mem::take(&mut self.hits).end();
        for event in &left {
            to(event, &self.controllers)?;
        }
        let (hits, lost) = self.usdt.counts()?;
        ledger.hits.insert("usdt".into(), hits);
        ledger.lost += lost;
        Ok(ledger)
    }
}
