// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts of the running kernel, with what only its memory shows.

use std::path::Path;

use anyhow::Result;

use super::KernelMemory;
use crate::machine::System;
use crate::machine::inflight::Memory;
use crate::machine::kernel::Look;
use crate::machine::preemption::{VARIABLE, of_value};
use crate::machine::types::Types;
use crate::probe::facts::{KernelFacts, Preemption, PreemptionSource};

/// The preemption mode in the kernel's memory. `None`: the kernel has no such variable, does not list
/// it (CONFIG_KALLSYMS_ALL, no CAP_SYSLOG), or lets no program read it (lockdown=confidentiality).
fn preemption(system: &System) -> Option<Preemption> {
    let [at] = system.addresses([VARIABLE]).ok()?;
    let at = at?;
    let mut value = [0; 4];
    let is_read = KernelMemory::open().ok()?.read(at, &mut value);
    is_read.then(|| of_value(i32::from_ne_bytes(value))).flatten()
}

/// What [`System::kernel_facts`] finds, and the preemption mode if nothing else shows it.
///
/// # Errors
/// If the user's BTF file cannot be used.
pub fn kernel_facts(
    system: &System,
    file: Option<&Path>,
    may_use_module_btf: bool,
    look: Look,
) -> Result<(KernelFacts, Types)> {
    let (mut facts, types) = system.kernel_facts(file, may_use_module_btf, look)?;
    if facts.preemption_source == PreemptionSource::Unknown
        && let Some(mode) = preemption(system)
    {
        facts.preemption = mode;
        facts.preemption_source = PreemptionSource::Memory;
    }
    Ok((facts, types))
}
