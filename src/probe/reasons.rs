// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a hook is not available on a kernel, in words for the user. Pure.

use std::collections::BTreeSet;

use super::catalog::AttachKind;
use super::catalog::Home;
use super::catalog::Hook;
use super::catalog::Method;
use super::catalog::Role;
use super::facts::KernelFacts;
use super::facts::Lockdown;
use super::facts::TypeSource;
use crate::model::milestone::Milestone;

/// A reason why a hook is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The reason in words.
    pub text: String,
    /// The kernel has no such function or tracepoint.
    pub absent: bool,
}

fn reason(text: impl Into<String>) -> Option<Reason> {
    Some(Reason {
        text: text.into(),
        absent: false,
    })
}

fn absent(text: impl Into<String>) -> Option<Reason> {
    Some(Reason {
        text: text.into(),
        absent: true,
    })
}

const NO_BTF: &str = "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)";
const NO_HELPER: &str = "lockdown=confidentiality forbids BPF to read kernel memory by helper";

/// Why a trampoline cannot be attached to code of this module, or its types cannot be used.
fn no_kernel_types(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    let (types, module) = facts
        .types_of(hook.target.home())
        .zip(hook.target.home().module())?;
    if !types.is_the_kernels() {
        let loaded = if types.is_known() {
            ""
        } else {
            "is not loaded, or "
        };
        return reason(format!(
            "{module} {loaded}has no BTF of its own (CONFIG_DEBUG_INFO_BTF_MODULES, 5.11)"
        ));
    }
    if *types == TypeSource::Module && !facts.may_use_module_btf {
        return reason("the kernel lets only CAP_SYS_ADMIN look up the BTF of modules");
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
        && (point == Some(Milestone::Cqe)
            || point == Some(Milestone::SetupOut) && !facts.command_is_argument)
        // the argument is the controller, and only its type leads to its number
        || matches!(hook.role, Role::State | Role::AsyncEvent);
    if needs_core && !facts.nvme_core_types.is_known() {
        return reason(
            "no BTF describes nvme_core's types, and no file of btf/ fits (--btf takes yours)",
        );
    }
    if point == Some(Milestone::Doorbell) && !facts.nvme_pci_types.is_known() {
        return reason("no BTF describes the PCI driver's types (--btf takes a file)");
    }
    let from_file = matches!(facts.nvme_core_types, TypeSource::File(_));
    (!facts.vmlinux_btf && !from_file)
        .then(|| reason(NO_BTF))
        .flatten()
}

/// A clone that is left of a function that the compiler has split or inlined.
fn clone_of<'s>(target: &str, names: &'s BTreeSet<String>) -> Option<&'s String> {
    names
        .iter()
        .find(|n| n.strip_prefix(target).is_some_and(|r| r.starts_with('.')))
}

fn inlined(target: &str, facts: &KernelFacts) -> Option<Reason> {
    let names = [&facts.symbols, &facts.traceable];
    let clone = names
        .into_iter()
        .flatten()
        .find_map(|n| clone_of(target, n));
    match clone {
        Some(clone) => reason(format!("inlined: only {clone} exists")),
        None => absent(format!("this kernel has no function {target}")),
    }
}

fn trampoline(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if !facts.vmlinux_btf {
        return reason(NO_BTF);
    }
    if let Some(why) = no_kernel_types(hook, facts) {
        return Some(why);
    }
    if facts.lockdown == Lockdown::Confidentiality
        && !facts.rdonly_cast
        && hook.role == Role::Point(Milestone::SetupOut)
    {
        return reason(format!("{NO_HELPER}, which kernels before 6.2 need"));
    }
    if hook.kind == AttachKind::TpBtf {
        return (!facts.tracepoints.contains(hook.target.name()))
            .then(|| {
                absent(format!(
                    "this kernel has no tracepoint {}",
                    hook.target.name()
                ))
            })
            .flatten();
    }
    if let Some(why) = &facts.no_trampolines {
        return reason(why.clone());
    }
    if !facts.functions.contains(hook.target.name()) {
        return inlined(hook.target.name(), facts);
    }
    match &facts.traceable {
        Some(names) if !names.contains(hook.target.name()) => {
            match clone_of(hook.target.name(), names) {
                Some(clone) => reason(format!("inlined: only {clone} exists")),
                None => reason(format!(
                    "ftrace can't hook {} (notrace)",
                    hook.target.name()
                )),
            }
        }
        _ => None,
    }
}

fn raw_tracepoint(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if facts.lockdown == Lockdown::Confidentiality {
        return reason(NO_HELPER);
    }
    if let Some(why) = no_types(hook, facts) {
        return Some(why);
    }
    let gone = || {
        absent(format!(
            "this kernel has no tracepoint {}",
            hook.target.name()
        ))
    };
    let described = hook.target.home() == Home::Block || facts.nvme_core_types.is_the_kernels();
    if described && !facts.tracepoints.contains(hook.target.name()) {
        return gone();
    }
    match &facts.events {
        Some(events) if hook.target.home() == Home::NvmeCore => (!events
            .contains_key(&format!("nvme/{}", hook.target.name())))
        .then(gone)
        .flatten(),
        // unknown: it is tried
        _ => None,
    }
}

/// Whether kprobes can be used at all.
pub fn kprobes_work(facts: &KernelFacts) -> bool {
    facts.lockdown != Lockdown::Confidentiality && facts.no_kprobes.is_none()
}

fn kprobe(hook: &Hook, facts: &KernelFacts) -> Option<Reason> {
    if facts.lockdown == Lockdown::Confidentiality {
        return reason("lockdown=confidentiality forbids kprobes");
    }
    if let Some(why) = &facts.no_kprobes {
        return reason(why.clone());
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
        return reason("lockdown=confidentiality closes tracefs");
    }
    match &facts.events {
        None => reason("tracefs is not mounted or can't be read (/sys/kernel/tracing)"),
        Some(events) if !events.contains_key(&format!("nvme/{}", hook.target.name())) => {
            absent(format!(
                "this kernel has no event nvme/{}, or nvme_core is not loaded",
                hook.target.name()
            ))
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
