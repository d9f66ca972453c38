// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a uprobe's trap on this machine: functions of this program are probed and called. The
//! probe is on this process only.

use std::arch::global_asm;
use std::path::Path;
use std::time::Instant;

use super::attach::{Constants, Hook, attach, configure, load, open};
use crate::error::Result;
use crate::machine::elf::{Probe, Trap};
use crate::machine::own_offset;

/// Calls per round, and rounds. The fastest round counts: others were interrupted.
const CALLS: u32 = 200;
const ROUNDS: u32 = 5;

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.nvme_deep_trap, \"ax\", @progbits",
    ".globl nvme_deep_emulated",
    ".type nvme_deep_emulated, @function",
    "nvme_deep_emulated: push rbp",
    "pop rbp",
    "ret",
    ".globl nvme_deep_stepped",
    ".type nvme_deep_stepped, @function",
    "nvme_deep_stepped: lea eax, [rdi]",
    "ret",
    ".popsection",
);

#[cfg(not(target_arch = "x86_64"))]
global_asm!(
    ".pushsection .text.nvme_deep_trap, \"ax\"",
    ".globl nvme_deep_emulated",
    "nvme_deep_emulated: nop",
    "ret",
    ".globl nvme_deep_stepped",
    "nvme_deep_stepped: nop",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    safe fn nvme_deep_emulated();
    safe fn nvme_deep_stepped();
}

/// Mean nanoseconds of a call, in the fastest round.
fn call_ns(function: extern "C" fn()) -> u64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            function();
        }
        start.elapsed().as_nanos() / u128::from(CALLS)
    };
    let fastest = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    u64::try_from(fastest).unwrap_or(u64::MAX)
}

/// Costs of traps, in nanoseconds, with a program that does next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traps {
    emulated_ns: u64,
    stepped_ns: u64,
}

impl Traps {
    /// Measures.
    pub fn measure() -> Result<Self> {
        let mut open = open()?;
        let own = std::process::id();
        let constants = Constants { tgid: own, ..Constants::default() };
        configure(&mut open, &constants);
        let loaded = load(open, &["trap"])?;
        let cost = |function: extern "C" fn(), trap| -> Result<u64> {
            let plain = call_ns(function);
            let Some(offset) = own_offset(function as usize as u64) else {
                return Ok(0);
            };
            let hook = Hook {
                program: "trap",
                path: Path::new("/proc/self/exe"),
                probe: Probe { offset, trap },
            };
            let link = attach(&loaded, own, &hook)?;
            let probed = call_ns(function);
            drop(link);
            Ok(probed.saturating_sub(plain))
        };
        Ok(Self {
            emulated_ns: cost(nvme_deep_emulated, Trap::Emulated)?,
            stepped_ns: cost(nvme_deep_stepped, Trap::Stepped)?,
        })
    }

    /// The cost of a kind of trap.
    pub const fn ns(&self, trap: Trap) -> u64 {
        match trap {
            Trap::Emulated => self.emulated_ns,
            Trap::Stepped => self.stepped_ns,
        }
    }
}
