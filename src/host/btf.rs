//! What the kernel's BTF describes. libbpf-rs reads no split (module) BTF, so this is the crate's
//! raw FFI, and all of it.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::ptr::NonNull;

use libbpf_sys::btf;
use libbpf_sys::btf__find_by_name_kind;
use libbpf_sys::btf__free;
use libbpf_sys::btf__load_module_btf;
use libbpf_sys::btf__load_vmlinux_btf;

use super::Host;
use crate::probe::catalog::AttachKind;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Home;
use crate::probe::facts::KernelFacts;

const KIND_STRUCT: u32 = 4;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNC: u32 = 12;

/// An owned BTF object. A module's refers to the kernel image's, which must live longer.
struct Btf(NonNull<btf>);

impl Btf {
    /// The running kernel's own.
    fn vmlinux() -> Option<Self> {
        // SAFETY: no arguments; null on failure, an object that is ours otherwise.
        NonNull::new(unsafe { btf__load_vmlinux_btf() }).map(Self)
    }

    /// A loaded module's, on top of the kernel image's.
    fn module(name: &str, base: &Self) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: `name` ends in NUL and lives through the call; `base` is a valid BTF object and
        // outlives the result, as the caller declares it first.
        NonNull::new(unsafe { btf__load_module_btf(name.as_ptr(), base.0.as_ptr()) }).map(Self)
    }

    fn has(&self, name: &str, kind: u32) -> bool {
        let Ok(name) = CString::new(name) else {
            return false;
        };
        // SAFETY: a valid BTF object and a NUL-terminated name; libbpf only reads.
        unsafe { btf__find_by_name_kind(self.0.as_ptr(), name.as_ptr(), kind) > 0 }
    }
}

impl Drop for Btf {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        unsafe { btf__free(self.0.as_ptr()) }
    }
}

impl Host {
    /// Reads what the running kernel offers for the catalog. (BTF is the running kernel's, whatever
    /// the root.)
    pub fn kernel_facts(&self) -> KernelFacts {
        let mut facts = KernelFacts {
            release: self.release(),
            ..KernelFacts::default()
        };
        let Some(vmlinux) = Btf::vmlinux() else {
            return facts;
        };
        facts.vmlinux_btf = true;
        let core = Btf::module("nvme_core", &vmlinux);
        let pci = Btf::module("nvme", &vmlinux);
        // split BTF answers for its base too, so "built in" and "module" look alike from here
        let core = core.as_ref().unwrap_or(&vmlinux);
        let pci = pci.as_ref().unwrap_or(&vmlinux);
        facts.nvme_core_btf = core.has("nvme_request", KIND_STRUCT);
        facts.nvme_pci_btf = pci.has("nvme_queue", KIND_STRUCT);
        let (mut functions, mut tracepoints) = (BTreeSet::new(), BTreeSet::new());
        for hook in &CATALOG {
            let home = match hook.home {
                Home::Block => &vmlinux,
                Home::NvmeCore => core,
                Home::NvmePci => pci,
            };
            match hook.kind {
                AttachKind::TpBtf
                    if home.has(&format!("btf_trace_{}", hook.target), KIND_TYPEDEF) =>
                {
                    tracepoints.insert(hook.target.to_owned());
                }
                AttachKind::Fentry | AttachKind::Fexit if home.has(hook.target, KIND_FUNC) => {
                    functions.insert(hook.target.to_owned());
                }
                _ => {}
            }
        }
        facts.functions = functions;
        facts.tracepoints = tracepoints;
        facts
    }
}
