// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a hook is not available on a kernel, in words for the user. Pure.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

use super::catalog::{AttachKind, Home, Hook, Method, Role};
use super::facts::{KernelFacts, Lockdown, TypeSource};
use crate::model::point::Point;

/// A reason why a hook is not available, or not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kernel image has no BTF.
    NoKernelBtf,
    /// The module has no BTF of its own.
    NoModuleBtf {
        /// The module.
        module: &'static str,
        /// Its types are known from elsewhere, so it is loaded.
        loaded: bool,
    },
    /// The driver is built in, and the kernel's BTF does not describe it.
    NoBuiltInTypes(&'static str),
    /// The kernel shows the BTF of modules to CAP_SYS_ADMIN only.
    ModuleBtfHidden,
    /// No BTF describes nvme_core's types.
    NoCoreTypes,
    /// No BTF describes the types of the PCI driver.
    NoPciTypes,
    /// Lockdown forbids the helper that reads kernel memory.
    HelperForbidden {
        /// Kernels since 6.2 would not need it.
        before_6_2: bool,
    },
    /// Lockdown forbids kprobes.
    KprobesForbidden,
    /// Lockdown closes tracefs.
    TracefsForbidden,
    /// tracefs can't be read.
    NoTracefs,
    /// The kernel has no such tracepoint.
    NoTracepoint(&'static str),
    /// The kernel has no such event in tracefs.
    NoEvent(&'static str),
    /// The kernel has no such function.
    NoFunction(&'static str),
    /// Only a clone of the function is left.
    Inlined(String),
    /// ftrace excludes the function.
    Notrace(&'static str),
    /// A setting of the machine, in words.
    Setting(String),
    /// The kernel refused the program, in its words.
    Refused(String),
    /// A return probe would truncate stacks (before 5.15).
    TruncatesStacks,
    /// On PREEMPT_RT a preempted task in the program stops it on its CPU.
    HeldUp {
        /// The program is a trampoline's; else a tracepoint's.
        trampoline: bool,
    },
    /// Kprobes of the submitting side would make this one miss interrupts.
    Starved,
    /// A kprobe is an exception on this architecture.
    Exception,
    /// The only method that the user permits has no hook for it.
    NoHook,
    /// There is no classic tracepoint for it.
    NoClassic,
    /// Classic tracepoints do not identify the command.
    Unidentified,
    /// The kernel is built without what could make a bio wait.
    NoMechanism(&'static str),
    /// The bio of a request is found when the request is allocated.
    NoStart,
    /// A wait after it is not observed, so both are in one part.
    Joined,
}

impl Reason {
    /// Whether the kernel lacks the function or tracepoint.
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::NoTracepoint(_) | Self::NoEvent(_) | Self::NoFunction(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoModuleBtf { module, loaded } => {
                let loaded = if *loaded { "" } else { "is not loaded, or " };
                return write!(
                    f,
                    "{module} {loaded}has no BTF of its own (CONFIG_DEBUG_INFO_BTF_MODULES, 5.11)"
                );
            }
            Self::NoBuiltInTypes(module) => {
                return write!(
                    f,
                    "{module} is built in, and the kernel's BTF does not describe its types"
                );
            }
            Self::NoTracepoint(name) => return write!(f, "this kernel has no tracepoint {name}"),
            Self::NoEvent(name) => {
                return write!(
                    f,
                    "this kernel has no event nvme/{name}, or nvme_core is not loaded"
                );
            }
            Self::NoFunction(name) => return write!(f, "this kernel has no function {name}"),
            Self::NoMechanism(name) => return write!(f, "this kernel has no {name}"),
            Self::Inlined(clone) => return write!(f, "inlined: only {clone} exists"),
            Self::Notrace(name) => return write!(f, "ftrace can't hook {name} (notrace)"),
            Self::Setting(text) | Self::Refused(text) => text,
            _ => self.phrase(),
        })
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Reason {
    /// Reasons without parameters.
    const fn phrase(&self) -> &'static str {
        match self {
            Self::NoKernelBtf => {
                "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF), or none that this version can read"
            }
            Self::ModuleBtfHidden => {
                "the kernel lets only CAP_SYS_ADMIN look up the BTF of modules"
            }
            Self::NoCoreTypes => {
                "no BTF describes nvme_core's types, and no file of btf/ fits (--btf takes yours)"
            }
            Self::NoPciTypes => "no BTF describes the PCI driver's types (--btf takes a file)",
            Self::HelperForbidden { before_6_2: true } => {
                "lockdown=confidentiality forbids BPF to read kernel memory by helper, which \
                 kernels before 6.2 need"
            }
            Self::HelperForbidden { before_6_2: false } => {
                "lockdown=confidentiality forbids BPF to read kernel memory by helper"
            }
            Self::KprobesForbidden => "lockdown=confidentiality forbids kprobes",
            Self::TracefsForbidden => "lockdown=confidentiality closes tracefs",
            Self::NoTracefs => "tracefs is not mounted or can't be read (/sys/kernel/tracing)",
            Self::TruncatesStacks => {
                "before 5.15 stacks end at a function whose return is probed, and you want stacks"
            }
            Self::HeldUp { trampoline: true } => {
                "on PREEMPT_RT a task that is preempted in a trampoline's program keeps all others \
                 on its CPU from it; a kprobe's can't be preempted"
            }
            Self::HeldUp { trampoline: false } => {
                "on PREEMPT_RT a task that is preempted in a tracepoint's program keeps all others \
                 on its CPU from it; a kprobe's can't be preempted"
            }
            Self::Starved => {
                "the kprobes of the submitting side would make this one miss interrupts unseen"
            }
            Self::Exception => {
                "on arm64 a kprobe is an exception, whose time would be in the stages (--attach kprobe uses \
                 it)"
            }
            Self::NoHook => "this method has no hook for it",
            Self::NoClassic => "there is no classic tracepoint for it",
            Self::NoStart => {
                "the allocation of requests is not observed (block_io_start; before 6.5 blk_account_io_start, or block_getrq)"
            }
            Self::Joined => "a wait that follows is not observed, so it has no end",
            Self::Unidentified => "a classic tracepoint does not identify the command",
            _ => "",
        }
    }
}

/// Why a trampoline cannot be attached to code of this module, or its types cannot be used.
fn no_kernel_types(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    let (types, module) = facts.types_of(hook.target.home()).zip(hook.target.home().module())?;
    if !types.is_the_kernels() && facts.built_in.contains(&hook.target.home()) {
        return Some(Reason::NoBuiltInTypes(module));
    }
    if !types.is_the_kernels() {
        let loaded = types.is_known();
        return Some(Reason::NoModuleBtf { module, loaded });
    }
    if *types == TypeSource::Module && !facts.may_use_module_btf {
        return Some(Reason::ModuleBtfHidden);
    }
    None
}

/// Why a program cannot interpret the data that it reads.
fn no_types(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    let point = hook.role.point();
    // a kprobe needs the types to find the command, and to distinguish a CQE from a cancellation; a
    // raw tracepoint gets the command as an argument, and fires for CQEs only. Controllers can be
    // identified by name.
    let needs_core = hook.kind.method() == Method::Kprobe
        && (point == Some(Point::Cqe)
            || point == Some(Point::SetupOut) && !facts.command_is_argument)
        // the argument is the controller, and only its type leads to its number
        || matches!(hook.role, Role::State | Role::AsyncEvent);
    if needs_core && !facts.nvme_core_types.is_known() {
        return Some(Reason::NoCoreTypes);
    }
    if point == Some(Point::Doorbell) && !facts.nvme_pci_types.is_known() {
        return Some(Reason::NoPciTypes);
    }
    let from_file = matches!(facts.nvme_core_types, TypeSource::File(_));
    (!facts.vmlinux_btf && !from_file).then_some(Reason::NoKernelBtf)
}

/// A clone that is left of a function that the compiler has split or inlined.
fn clone_of<'s>(target: &str, names: &'s BTreeSet<String>) -> Option<&'s String> {
    names.iter().find(|n| n.strip_prefix(target).is_some_and(|r| r.starts_with('.')))
}

fn inlined(target: &'static str, facts: &KernelFacts) -> Option<Reason> {
    let names = [&facts.symbols, &facts.traceable];
    let clone = names.into_iter().flatten().find_map(|n| clone_of(target, n));
    match clone {
        Some(clone) => Some(Reason::Inlined(clone.clone())),
        None => Some(Reason::NoFunction(target)),
    }
}

fn trampoline(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if !facts.vmlinux_btf {
        return Some(Reason::NoKernelBtf);
    }
    if let Some(why) = no_kernel_types(hook, facts) {
        return Some(why);
    }
    if facts.lockdown == Lockdown::Confidentiality
        && !facts.rdonly_cast
        && hook.role == Role::Point(Point::SetupOut)
    {
        return Some(Reason::HelperForbidden { before_6_2: true });
    }
    if hook.kind == AttachKind::TpBtf {
        return (!facts.tracepoints.contains(hook.target.name()))
            .then_some(Reason::NoTracepoint(hook.target.name()));
    }
    if let Some(why) = &facts.no_trampolines {
        return Some(Reason::Setting(why.clone()));
    }
    if !facts.functions.contains(hook.target.name()) {
        return inlined(hook.target.name(), facts);
    }
    match &facts.traceable {
        Some(names) if !names.contains(hook.target.name()) => {
            match clone_of(hook.target.name(), names) {
                Some(clone) => Some(Reason::Inlined(clone.clone())),
                None => Some(Reason::Notrace(hook.target.name())),
            }
        }
        _ => None,
    }
}

fn raw_tracepoint(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if facts.lockdown == Lockdown::Confidentiality {
        return Some(Reason::HelperForbidden { before_6_2: false });
    }
    if let Some(why) = no_types(hook, facts) {
        return Some(why);
    }
    let gone = || Some(Reason::NoTracepoint(hook.target.name()));
    let described = hook.target.home() == Home::Block || facts.nvme_core_types.is_the_kernels();
    if described && !facts.tracepoints.contains(hook.target.name()) {
        return gone();
    }
    match &facts.events {
        Some(events) if hook.target.home() == Home::NvmeCore => {
            (!events.contains_key(&format!("nvme/{}", hook.target.name()))).then(gone).flatten()
        }
        // unknown: it is tried
        _ => None,
    }
}

/// Whether kprobes can be used.
pub fn kprobes_work(facts: &KernelFacts) -> bool {
    facts.lockdown != Lockdown::Confidentiality && facts.no_kprobes.is_none()
}

fn kprobe(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if facts.lockdown == Lockdown::Confidentiality {
        return Some(Reason::KprobesForbidden);
    }
    if let Some(why) = &facts.no_kprobes {
        return Some(Reason::Setting(why.clone()));
    }
    if let Some(why) = no_types(hook, facts) {
        return Some(why);
    }
    match &facts.symbols {
        Some(names) if !names.contains(hook.target.name()) => inlined(hook.target.name(), facts),
        _ => None,
    }
}

fn tracepoint(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if facts.lockdown == Lockdown::Confidentiality {
        return Some(Reason::TracefsForbidden);
    }
    match &facts.events {
        None => Some(Reason::NoTracefs),
        Some(events) if !events.contains_key(&format!("nvme/{}", hook.target.name())) => {
            Some(Reason::NoEvent(hook.target.name()))
        }
        Some(_) => None,
    }
}

/// Why this hook is not available; `None` if it is.
pub fn why_not(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    match hook.kind.method() {
        Method::Fentry => trampoline(hook, facts),
        Method::RawTp => raw_tracepoint(hook, facts),
        Method::Kprobe => kprobe(hook, facts),
        Method::Tracepoint => tracepoint(hook, facts),
    }
}
