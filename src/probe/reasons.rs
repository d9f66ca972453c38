// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a hook is not available on a kernel, in words for the user. Pure.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::catalog::{AttachKind, Home, Hook, Method, Role};
use super::facts::{KernelFacts, Lockdown, TypeSource};
use crate::model::point::Point;

/// A reason why a hook is not available, or not used: a phrase for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Reason {
    phrase: Cow<'static, str>,
    /// The kernel lacks the function or tracepoint.
    #[serde(skip)]
    pub is_absence: bool,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.phrase)
    }
}

impl From<String> for Reason {
    fn from(phrase: String) -> Self {
        Self { phrase: phrase.into(), is_absence: false }
    }
}

impl Reason {
    pub const TRUNCATES_STACKS: Self = Self::of(
        "before 5.15 stacks end at a function whose return is probed, and you want stacks",
    );
    pub const HELD_UP_TRAMPOLINE: Self = Self::of(
        "on PREEMPT_RT a task that is preempted in a trampoline's program keeps all others on its CPU from \
         it; a kprobe's can't be preempted",
    );
    pub const HELD_UP_TRACEPOINT: Self = Self::of(
        "on PREEMPT_RT a task that is preempted in a tracepoint's program keeps all others on its CPU from \
         it; a kprobe's can't be preempted",
    );
    pub const STARVED: Self =
        Self::of("the kprobes of the submitting side would make this one miss interrupts unseen");
    pub const EXCEPTION: Self = Self::of(
        "on arm64 a kprobe is an exception, whose time would be in the stages (--attach kprobe uses it)",
    );
    pub const NO_HOOK: Self = Self::of("this method has no hook for it");
    pub const NO_CLASSIC: Self = Self::of("there is no classic tracepoint for it");
    pub const UNIDENTIFIED: Self = Self::of("a classic tracepoint does not identify the command");
    pub const NO_START: Self = Self::of(
        "the allocation of requests is not observed (block_io_start; before 6.5 blk_account_io_start, or \
         block_getrq)",
    );
    pub const JOINED: Self = Self::of("a wait that follows is not observed, so it has no end");

    const fn of(phrase: &'static str) -> Self {
        Self { phrase: Cow::Borrowed(phrase), is_absence: false }
    }

    /// The kernel has no such function, tracepoint or mechanism.
    pub fn missing(what: &str) -> Self {
        Self { is_absence: true, ..format!("this kernel has no {what}").into() }
    }
}

const NO_KERNEL_BTF: Reason =
    Reason::of("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF), or none that this version can read");

fn inlined_as(clone: &str) -> Reason {
    format!("inlined: only {clone} exists").into()
}

fn no_tracepoint(hook: &Hook) -> Reason {
    Reason::missing(&format!("tracepoint {}", hook.target.name()))
}

/// Why a trampoline cannot be attached to code of this module, or its types cannot be used.
fn no_kernel_types(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    let (types, module) = facts.types_of(hook.target.home()).zip(hook.target.home().module())?;
    if !types.is_the_kernels() && facts.built_in.contains(&hook.target.home()) {
        return Some(
            format!("{module} is built in, and the kernel's BTF does not describe its types")
                .into(),
        );
    }
    if !types.is_the_kernels() {
        let loaded = if types.is_known() { "" } else { "is not loaded, or " };
        let text =
            format!("{module} {loaded}has no BTF of its own (CONFIG_DEBUG_INFO_BTF_MODULES, 5.11)");
        return Some(text.into());
    }
    if *types == TypeSource::Module && !facts.may_use_module_btf {
        return Some(Reason::of("the kernel lets only CAP_SYS_ADMIN look up the BTF of modules"));
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
        return Some(Reason::of(
            "no BTF describes nvme_core's types, and no file of btf/ fits (--btf takes yours)",
        ));
    }
    if point == Some(Point::Doorbell) && !facts.nvme_pci_types.is_known() {
        return Some(Reason::of("no BTF describes the PCI driver's types (--btf takes a file)"));
    }
    let from_file = matches!(facts.nvme_core_types, TypeSource::File(_));
    (!facts.vmlinux_btf && !from_file).then_some(NO_KERNEL_BTF)
}

/// A clone that is left of a function that the compiler has split or inlined.
fn clone_of<'s>(target: &str, names: &'s BTreeSet<String>) -> Option<&'s String> {
    names.iter().find(|n| n.strip_prefix(target).is_some_and(|r| r.starts_with('.')))
}

fn inlined(target: &'static str, facts: &KernelFacts) -> Option<Reason> {
    let names = [&facts.symbols, &facts.traceable];
    let clone = names.into_iter().flatten().find_map(|n| clone_of(target, n));
    match clone {
        Some(clone) => Some(inlined_as(clone)),
        None => Some(Reason::missing(&format!("function {target}"))),
    }
}

fn trampoline(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if !facts.vmlinux_btf {
        return Some(NO_KERNEL_BTF);
    }
    if let Some(why) = no_kernel_types(hook, facts) {
        return Some(why);
    }
    if facts.lockdown == Lockdown::Confidentiality
        && !facts.rdonly_cast
        && hook.role == Role::Point(Point::SetupOut)
    {
        return Some(Reason::of(
            "lockdown=confidentiality forbids BPF to read kernel memory by helper, which kernels before 6.2 \
             need",
        ));
    }
    if hook.kind == AttachKind::TpBtf {
        return (!facts.tracepoints.contains(hook.target.name())).then(|| no_tracepoint(hook));
    }
    if let Some(why) = &facts.no_trampolines {
        return Some(why.clone().into());
    }
    if !facts.functions.contains(hook.target.name()) {
        return inlined(hook.target.name(), facts);
    }
    match &facts.traceable {
        Some(names) if !names.contains(hook.target.name()) => {
            match clone_of(hook.target.name(), names) {
                Some(clone) => Some(inlined_as(clone)),
                None => Some(format!("ftrace can't hook {} (notrace)", hook.target.name()).into()),
            }
        }
        _ => None,
    }
}

fn raw_tracepoint(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if facts.lockdown == Lockdown::Confidentiality {
        return Some(Reason::of(
            "lockdown=confidentiality forbids BPF to read kernel memory by helper",
        ));
    }
    if let Some(why) = no_types(hook, facts) {
        return Some(why);
    }
    let gone = || Some(no_tracepoint(hook));
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
        return Some(Reason::of("lockdown=confidentiality forbids kprobes"));
    }
    if let Some(why) = &facts.no_kprobes {
        return Some(why.clone().into());
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
        return Some(Reason::of("lockdown=confidentiality closes tracefs"));
    }
    match &facts.events {
        None => Some(Reason::of("tracefs is not mounted or can't be read (/sys/kernel/tracing)")),
        Some(events) if !events.contains_key(&format!("nvme/{}", hook.target.name())) => {
            let event = format!("event nvme/{}, or nvme_core is not loaded", hook.target.name());
            Some(Reason::missing(&event))
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
