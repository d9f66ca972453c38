//! What a kernel offers, as data: read by [`crate::host`], decided on by [`super::plan`].

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;

use super::catalog::AttachKind;
use super::catalog::Hook;

/// The facts that the plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// `uname -r`.
    pub release: String,
    /// The kernel image has BTF.
    pub vmlinux_btf: bool,
    /// nvme_core's types are known: module BTF, or built in.
    pub nvme_core_btf: bool,
    /// The PCI driver's types are known: module BTF, or built in.
    pub nvme_pci_btf: bool,
    /// Functions of the catalog that BTF describes.
    pub functions: BTreeSet<String>,
    /// Tracepoints of the catalog that BTF describes.
    pub tracepoints: BTreeSet<String>,
}

impl KernelFacts {
    /// Whether BTF describes the target of this hook.
    pub fn describes(&self, hook: &Hook) -> bool {
        match hook.kind {
            AttachKind::Fentry | AttachKind::Fexit => self.functions.contains(hook.target),
            AttachKind::TpBtf => self.tracepoints.contains(hook.target),
        }
    }
}
