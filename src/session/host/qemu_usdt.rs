// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of QEMU by its USDT probes.

use super::process::Found;
use super::usdt::{Usdt, UsdtHit, UsdtProbe};
use crate::machine::System;
use crate::machine::process::TargetError;
use crate::model::ledger::HostLedger;
use crate::model::machine::HostEvent;
use crate::model::target::{HostController, TargetInfo, TargetKind};
use crate::source::HostSource;
use crate::target::qemu_usdt::{PROBES, QemuHits, is_enough};
use anyhow::Result;

/// The provider of QEMU's trace events.
const PROVIDER: &str = "qemu";

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
        let refused = |reason| TargetError::NoUsdt {
            pid,
            binary: found.process.name.clone(),
            provider: "QEMU's NVMe controller",
            reason,
        };
        let names: Vec<&str> = probes.iter().map(|probe| probe.name).collect();
        if found.code.probe("spdk_nvmf_request_exec").is_some() {
            let reason = "SPDK has none per command; omit --usdt; `host spdk` shows its states";
            return Err(refused(reason).into());
        }
        if !is_enough(&names) {
            let reason = "it is something else, or was built without the trace backend dtrace";
            return Err(refused(reason).into());
        }
        let serials = found.process.nvme_serials();
        let controller = match serials.as_slice() {
            [] | [None] => HostController { name: "qemu:0".into(), ..HostController::default() },
            [Some(serial)] => HostController {
                name: format!("qemu:{serial}").into(),
                serial: Some(serial.into()),
                ..HostController::default()
            },
            _ => return Err(TargetError::SeveralControllers { pid }.into()),
        };
        Ok(Self {
            usdt: Usdt::attach(pid, &probes)?,
            target: found.target(TargetKind::Qemu, "usdt"),
            controllers: vec![controller],
            hits: QemuHits::default(),
            found,
        })
    }
}

impl HostSource for QemuUsdt {
    fn target(&self) -> &TargetInfo {
        &self.target
    }

    fn controllers(&self) -> &[HostController] {
        &self.controllers
    }

    fn take(
        &mut self,
        all: bool,
        to: &mut dyn FnMut(&HostEvent, &[HostController]),
    ) -> Result<bool> {
        let (hits, mut second) = (&mut self.hits, false);
        let more = self.usdt.take(all, &mut |hit: &UsdtHit| {
            second |= hits.add(usize::from(hit.number), hit.at_ns, &hit.args).is_err();
        })?;
        for event in self.hits.drain() {
            to(&event, &self.controllers);
        }
        if second {
            let pid = self.found.process.pid;
            return Err(TargetError::SeveralControllers { pid }.into());
        }
        Ok(more)
    }

    fn alive(&self) -> Result<()> {
        Ok(self.found.alive()?)
    }

    fn end(&mut self, to: &mut dyn FnMut(&HostEvent, &[HostController])) -> Result<HostLedger> {
        self.usdt.stop();
        self.take(true, to)?;
        let (left, mut ledger) = std::mem::take(&mut self.hits).end();
        for event in &left {
            to(event, &self.controllers);
        }
        let (hits, lost) = self.usdt.counts()?;
        ledger.hits.insert("usdt".into(), hits);
        ledger.lost += lost;
        Ok(ledger)
    }
}
