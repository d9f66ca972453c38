// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel offers, as data: read by [`crate::machine`], used by [`super::plan`]. It is part
//! of `doctor`'s JSON. The planner's tests use the facts of real kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::probe::catalog::Home;

/// The source of the driver's types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeSource {
    /// None.
    #[default]
    None,
    /// The kernel image: the driver is built in.
    BuiltIn,
    /// The module's BTF.
    Module,
    /// A file of btf/ that this program contains, made from the same modules.
    Shipped(String),
    /// The user's file.
    File(String),
}

impl TypeSource {
    /// Whether the kernel itself has the types. Trampolines need this.
    pub const fn is_the_kernels(&self) -> bool {
        matches!(self, Self::BuiltIn | Self::Module)
    }

    /// Whether the types are known.
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The lockdown level of the kernel (kernel_lockdown(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lockdown {
    /// None, or unknown.
    #[default]
    None,
    /// User space must not change the kernel. Tracing is not affected.
    Integrity,
    /// User space must not read the kernel: no kprobes, no tracefs, no reads by helper.
    Confidentiality,
}

/// Whether tasks can be preempted inside the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preemption {
    /// Only where the kernel permits it (`none`, `voluntary`).
    #[default]
    Voluntary,
    /// Anywhere (`full`, `lazy`), or unknown.
    Full,
    /// Interrupt handlers too, which are threads (PREEMPT_RT).
    RealTime,
}

/// What shows the preemption mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreemptionSource {
    /// Nothing. The mode counts as full.
    #[default]
    Unknown,
    /// The version text: the mode is fixed by the build.
    Version,
    /// debugfs (`sched/preempt`).
    Debugfs,
    /// The kernel's variable, read in its memory.
    Memory,
}

impl fmt::Display for PreemptionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "nothing",
            Self::Version => "the kernel's version text",
            Self::Debugfs => "debugfs",
            Self::Memory => "the kernel's memory",
        })
    }
}

/// The facts that the planner uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// `uname -r`.
    pub release: String,
    /// The kernel image has BTF.
    pub vmlinux_btf: bool,
    /// nvme_core's types (`nvme_request`, `nvme_ctrl`).
    pub nvme_core_types: TypeSource,
    /// The PCI driver's types (`nvme_queue`).
    pub nvme_pci_types: TypeSource,
    /// Where the types of other drivers come from; a driver whose types are not known is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_types: BTreeMap<Home, TypeSource>,
    /// The parts of the driver that are built into the kernel image.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub built_in: BTreeSet<Home>,
    /// This process may look up the BTF of modules (CAP_SYS_ADMIN).
    pub may_use_module_btf: bool,
    /// Functions of the catalog that the kernel's BTF describes.
    pub functions: BTreeSet<String>,
    /// Tracepoints of the catalog that the kernel's BTF describes.
    pub tracepoints: BTreeSet<String>,
    /// Structs of [`MECHANISMS`](crate::probe::catalog::MECHANISMS) that the kernel's BTF describes.
    #[serde(default)]
    pub structs: BTreeSet<String>,
    /// Functions of the catalog, and compiler clones of them, that ftrace can hook; `None` if this
    /// list was not read.
    pub traceable: Option<BTreeSet<String>>,
    /// The same for the symbol table; `None` if it was not read.
    pub symbols: Option<BTreeSet<String>>,
    /// Events of the catalog (`nvme/nvme_setup_cmd`) in tracefs, with the fields of their format
    /// (offsets in bytes); `None` if tracefs cannot be read.
    pub events: Option<BTreeMap<String, BTreeMap<String, u32>>>,
    /// The lockdown level.
    pub lockdown: Lockdown,
    /// Why kprobes cannot be used; `None` if they can.
    pub no_kprobes: Option<String>,
    /// Why function trampolines cannot be used; `None` if they can.
    pub no_trampolines: Option<String>,
    /// A kprobe is an exception even at the entry of a function, and does not use ftrace (arm64).
    #[serde(default)]
    pub kprobes_are_exceptions: bool,
    /// Kernel memory can be read without a helper (`bpf_rdonly_cast`, 6.2).
    pub rdonly_cast: bool,
    /// The kernel counts the missed runs of kprobe and tracepoint programs (6.7).
    pub misses_counted: bool,
    /// `block_rq_issue` has the request as its second argument (before 5.11).
    pub rq_is_second: bool,
    /// The preemption mode.
    #[serde(default)]
    pub preemption: Preemption,
    /// What shows the preemption mode.
    #[serde(default)]
    pub preemption_source: PreemptionSource,
    /// Programs at tracepoints can be preempted (7.0).
    #[serde(default)]
    pub preemptible_tracepoints: bool,
    /// PCI controllers have polled queues (module parameter `poll_queues`), or may get some.
    #[serde(default)]
    pub polled: bool,
    /// The driver's interrupt handlers run in threads: PREEMPT_RT, `threadirqs`, or module parameter
    /// `use_threaded_interrupts`.
    #[serde(default)]
    pub threaded_interrupts: bool,
    /// `nvme_setup_cmd` has the command as its third argument (before 5.14).
    pub command_is_argument: bool,
    /// Command ids have no generation: the driver's types are known, and `nvme_request` has no
    /// `genctr` (5.14.0).
    #[serde(default)]
    pub no_generation: bool,
    /// Recover commands whose setup or completion was not observed. Requires
    /// [`KernelFacts::can_recover`].
    #[serde(skip)]
    pub recovers: bool,
}

impl KernelFacts {
    /// Whether commands whose setup or completion was not observed can be recovered. This requires
    /// the driver's types, and a generation in the command id. The programs find out whether the
    /// driver changes it with the CQE or at the setup.
    pub const fn can_recover(&self) -> bool {
        self.nvme_core_types.is_known() && !self.command_is_argument && !self.no_generation
    }

    /// The preemption mode, and what shows it.
    pub fn preemption_text(&self) -> String {
        let mode = match (self.preemption_source, self.preemption) {
            (PreemptionSource::Unknown, _) => return "not known, counts as full".into(),
            (_, Preemption::Voluntary) => "none or voluntary",
            (_, Preemption::Full) => "full or lazy",
            (_, Preemption::RealTime) => "real-time",
        };
        format!("{mode} ({})", self.preemption_source)
    }

    /// Whether a task may be preempted inside a program at a tracepoint, so that the kernel skips
    /// the program for other tasks on that CPU.
    pub fn tracepoints_skip(&self) -> bool {
        self.preemptible_tracepoints && self.preemption >= Preemption::Full
    }

    /// The name of the kernel's BTF that describes `home`: a module's, or `vmlinux`.
    pub fn btf_with(&self, home: Home) -> &'static str {
        let module = home.module().filter(|_| self.types_of(home) == Some(&TypeSource::Module));
        module.unwrap_or("vmlinux")
    }

    /// The source of the types of `home`; `None` if it is not part of the driver.
    pub fn types_of(&self, home: Home) -> Option<&TypeSource> {
        home.module()?;
        Some(match home {
            Home::NvmeCore => &self.nvme_core_types,
            Home::NvmePci => &self.nvme_pci_types,
            _ => self.other_types.get(&home).unwrap_or(&TypeSource::None),
        })
    }

    /// Major and minor version of the release: 6 and 12 for `6.12.107+deb13-amd64`. `None` if it
    /// cannot be parsed.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next()?.parse().ok();
        Some((number()?, number()?))
    }

    /// Whether the release is this version or later; false if it cannot be parsed.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        self.version().is_some_and(|v| v >= (major, minor))
    }

    /// Whether a program at a tracepoint may interrupt itself on its CPU: before 6.1 (05b24ff9b2cf)
    /// the kernel does not guard it. Only the version shows this; one that cannot be parsed counts as
    /// new. Kernels with the guard as a backport (RHEL 9) only pay for additions that need not be atomic.
    pub fn programs_nest(&self) -> bool {
        self.version().is_some_and(|v| v < (6, 1))
    }

    /// Why nothing can be traced on this kernel, whatever it offers. A release that cannot be parsed counts as
    /// new.
    pub fn unsupported(&self) -> Option<String> {
        let is_old = self.version().is_some_and(|version| version < (5, 10));
        is_old.then(|| {
            format!(
                "Linux {} is not supported: nvme-deep needs 5.10 or later, for BPF ring buffers (5.8) and for \
                 tracing programs that user space can run (5.10); older kernels with backports (RHEL 8) were \
                 never tested",
                self.release
            )
        })
    }

    /// Whether the kernel can unwind a stack on which return probes have put their trampoline:
    /// since 5.15 (unwinders call kretprobe_find_ret_addr). Before that, the stack ends there. Only
    /// the version shows this; one that cannot be parsed counts as new.
    pub fn sees_through_kretprobes(&self) -> bool {
        self.version().is_none_or(|v| v >= (5, 15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_decides_what_it_alone_shows() {
        // supported, programs nest, stacks seen through return probes, 5.14 or later
        for (release, want) in [
            ("4.18.0-553.el8_10.x86_64", [false, true, false, false]),
            ("5.9.16", [false, true, false, false]),
            ("5.10.0-46-amd64", [true, true, false, false]),
            ("5.14.21", [true, true, false, true]),
            ("5.15.0-105-generic", [true, true, true, true]),
            ("6.0.19", [true, true, true, true]),
            ("6.1.0-50-amd64", [true, false, true, true]),
            ("6.12.107+deb13-amd64", [true, false, true, true]),
            ("7.0.1", [true, false, true, true]),
        ] {
            let facts = KernelFacts { release: release.into(), ..KernelFacts::default() };
            let sees = facts.sees_through_kretprobes();
            let is_new = facts.is_at_least(5, 14);
            let found = [facts.unsupported().is_none(), facts.programs_nest(), sees, is_new];
            assert_eq!(found, want, "{release}");
        }
        let unknown = KernelFacts { release: "?".into(), ..KernelFacts::default() };
        assert!(unknown.unsupported().is_none() && unknown.sees_through_kretprobes());
        assert!(!unknown.is_at_least(5, 14));
    }
}
