// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source of the driver's types: the kernel's BTF, a file of btf/ made from the same modules,
//! or a file given by the user. A file that does not fit this kernel is rejected.

use super::System;
use super::btf::{Btf, Wanted};
use super::reduced::reduced;
use crate::error::{Failure, Kind};
use crate::model::text::printable;
use crate::probe::catalog::Home;
use crate::probe::facts::TypeSource;
use anyhow::{Context, Error, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{fs, io};

/// Structs of the block layer that the programs read, with the members they read.
pub(super) const BLOCK: [(&str, &[&str]); 5] = [
    (
        "request",
        &[
            "q",
            "mq_hctx",
            "cmd_flags",
            "rq_flags",
            "tag",
            "internal_tag",
            "__data_len",
            "__sector",
            "bio",
            "timeout",
            "deadline",
            "start_time_ns",
            "state",
            "ref",
        ],
    ),
    ("request_queue", &["queuedata", "id", "tag_set", "limits"]),
    ("blk_mq_hw_ctx", &["driver_data", "queue_num"]),
    ("blk_mq_queue_data", &["rq", "last"]),
    ("queue_limits", &["logical_block_size"]),
];

/// The same for nvme_core.
pub(super) const CORE: [(&str, &[&str]); 2] = [
    ("nvme_request", &["cmd", "ctrl", "result", "retries", "flags", "status"]),
    ("nvme_ctrl", &["instance", "tagset", "admin_tagset", "device"]),
];

/// The same for the PCI driver.
pub(super) const PCI: [(&str, &[&str]); 1] =
    [("nvme_queue", &["q_depth", "sq_tail", "last_sq_tail"])];

/// A file of btf/, compiled in by build.rs.
struct Shipped {
    release: &'static str,
    nvme_core: &'static str,
    nvme: &'static str,
    object: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/shipped_btf.rs"));

/// Other modules whose types the programs read.
const OTHER_MODULES: [&str; 2] = ["dm_mod", "dm_crypt"];

/// The user's file, at `path`, cannot be used.
fn unusable(path: &Path, why: &str) -> Error {
    Failure::error(Kind::Usage, format!("--btf {} {why}", printable(path)))
}

/// BTF for libbpf to use instead of the kernel's. It is a file in memory, which exists as long as
/// this value.
pub struct CustomBtf {
    file: File,
    /// It has the types by which submitters are found through device mapper.
    pub follows_device_mapper: bool,
}

/// Whether a struct of device mapper has the layout that the programs know (drivers/md/dm-core.h):
/// bd4a6dd241ae (5.18) put flags behind a magic number of 16 bits with another value. RHEL 9 has it in 5.14.
fn has_short_magic(of: &Structure) -> bool {
    let member = |name| of.members.get(name).copied();
    member("magic").is_some_and(|magic| member("flags") == Some(magic + 2))
}

/// Whether the types lead from the bio of a disk to the device-mapper bio above it.
fn follows_device_mapper(btf: &Btf) -> bool {
    let mut structs = ["dm_io", "dm_target_io"].into_iter();
    structs.all(|name| btf.structure(name).is_some_and(|s| has_short_magic(&s)))
}

impl CustomBtf {
    fn new(bytes: &[u8]) -> Result<Self> {
        let file = || -> io::Result<File> {
            let create = |flags| memfd_create("nvme-deep-btf", MemfdFlags::CLOEXEC | flags);
            // vm.memfd_noexec may ask for the flag, which 6.3 added
            let memory = create(MemfdFlags::NOEXEC_SEAL).or_else(|_| create(MemfdFlags::empty()));
            let mut file = File::from(memory?);
            file.write_all(bytes)?;
            Ok(file)
        };
        Ok(Self {
            file: file().context("no memory file for BTF")?,
            follows_device_mapper: Btf::parse(bytes).is_some_and(|b| follows_device_mapper(&b)),
        })
    }

    /// The path under which libbpf opens it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// The driver's types.
#[derive(Default)]
pub struct Types {
    /// Where nvme_core's types come from.
    pub core: TypeSource,
    /// Where the PCI driver's types come from.
    pub pci: TypeSource,
    /// The drivers of other transports whose module's BTF was read.
    pub others: BTreeMap<Home, TypeSource>,
    /// BTF for libbpf to use; `None` if there is none.
    pub custom: Option<CustomBtf>,
    /// Why the user's file is not used, although it fits.
    pub remark: Option<String>,
}

/// The running kernel's BTF, and a file beside it.
pub(super) struct KernelBtf {
    /// Of loaded modules.
    pub modules: BTreeMap<Home, Btf>,
    pub vmlinux: Option<Rc<Btf>>,
    /// A file of btf/ or the user's, if it is used.
    pub file: Option<Btf>,
}

impl KernelBtf {
    pub fn load() -> Self {
        let vmlinux = Btf::vmlinux().map(Rc::new);
        let module = |home: Home| Some((home, Btf::module(home.module()?, vmlinux.as_ref()?)?));
        Self { modules: Home::ALL.into_iter().filter_map(module).collect(), file: None, vmlinux }
    }

    /// Looks for these types in each.
    pub fn look_for(&self, wanted: &Wanted<'_>) {
        self.all().for_each(|btf| btf.look_for(wanted));
    }

    /// BTF for libbpf: of the types that the programs read. `None` if nothing is described.
    fn for_libbpf(&self) -> Result<Option<CustomBtf>> {
        let module = |name| Btf::module(name, self.vmlinux.as_ref()?);
        let others = OTHER_MODULES.map(module);
        let all: Vec<_> = self.all().chain(others.iter().flatten()).collect();
        let bytes = (!all.is_empty()).then(|| reduced(&all, self.vmlinux.as_deref()));
        bytes.map(|bytes| CustomBtf::new(&bytes)).transpose()
    }

    /// The image first, then a file that is used, then the driver's modules.
    fn all(&self) -> impl Iterator<Item = &Btf> {
        let image = self.vmlinux.as_deref().into_iter();
        image.chain(&self.file).chain(self.modules.values())
    }

    /// The BTF that describes a part of the kernel. Split BTF includes its base, so a built-in driver and a
    /// module are handled alike.
    pub fn of(&self, home: Home) -> Option<&Btf> {
        self.modules.get(&home).or(self.vmlinux.as_deref())
    }

    /// Where the types of `home` come from; none if its BTF lacks one of these structs.
    fn source(&self, home: Home, structs: &[(&str, &[&str])]) -> TypeSource {
        match self.of(home).filter(|btf| complete(btf, structs)) {
            Some(_) if self.modules.contains_key(&home) => TypeSource::Module,
            Some(_) => TypeSource::BuiltIn,
            None => TypeSource::None,
        }
    }

    /// The drivers of other transports whose module's BTF was read. Built-in ones are not found.
    fn others(&self) -> BTreeMap<Home, TypeSource> {
        let others = self.modules.keys();
        let others = others.filter(|home| !matches!(home, Home::NvmeCore | Home::NvmePci));
        others.map(|home| (*home, TypeSource::Module)).collect()
    }
}

/// The layouts of all structs that this kernel, or a file, describes.
pub struct Layouts {
    file: Option<Btf>,
    kernel: KernelBtf,
    /// The file of btf/ that was made from the loaded modules.
    shipped: Option<Btf>,
}

impl Layouts {
    /// The running kernel's: after the user's file, and before btf/.
    ///
    /// # Errors
    /// If the file cannot be read, or has no BTF.
    pub fn load(system: &System, file: Option<&Path>) -> Result<Self> {
        Ok(Self {
            file: file.map(read).transpose()?,
            kernel: KernelBtf::load(),
            shipped: system.shipped().and_then(|s| Btf::parse(s.object)),
        })
    }

    /// The layout of a struct.
    pub fn of(&self, name: &str) -> Option<Structure> {
        let KernelBtf { modules, vmlinux, .. } = &self.kernel;
        let modules = self.file.iter().chain(modules.values());
        let mut all = modules.chain(vmlinux.as_deref()).chain(&self.shipped);
        all.find_map(|btf| btf.structure(name))
    }
}

/// Reads the user's file.
fn read(path: &Path) -> Result<Btf> {
    let bytes =
        fs::read(path).map_err(|error| unusable(path, &format!("can't be read: {error}")))?;
    Btf::parse(&bytes).ok_or_else(|| {
        let why = format!(
            "holds no BTF that can be read ({} bytes): give raw BTF or an ELF file with a .BTF section, not \
             split BTF (no --btf_base)",
            bytes.len()
        );
        unusable(path, &why)
    })
}

fn complete(btf: &Btf, structs: &[(&str, &[&str])]) -> bool {
    structs.iter().all(|(name, members)| {
        btf.structure(name).is_some_and(|s| members.iter().all(|m| s.members.contains_key(*m)))
    })
}

/// The first difference between two descriptions of the same structs.
fn differ(file: &Btf, kernel: &Btf, structs: &[(&str, &[&str])]) -> Option<String> {
    structs.iter().find_map(|&(name, members)| {
        let (theirs, ours) = (file.structure(name)?, kernel.structure(name)?);
        if theirs.size != ours.size {
            let (theirs, ours) = (theirs.size, ours.size);
            return Some(format!(
                "struct {name} has {theirs} bytes there and {ours} in this kernel"
            ));
        }
        members.iter().find_map(|&member| {
            let (theirs, ours) = (*theirs.members.get(member)?, *ours.members.get(member)?);
            (theirs != ours).then(|| {
                format!("{name}.{member} is at {theirs} there and at {ours} in this kernel")
            })
        })
    })
}

impl System {
    /// The build id of a loaded module, in hex, from its ELF note.
    pub fn build_id(&self, module: &str) -> Option<String> {
        let note = format!("sys/module/{module}/notes/.note.gnu.build-id");
        let note = fs::read(self.path(&note)).ok()?;
        let word = |at: usize| -> Option<usize> {
            let bytes = note.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_ne_bytes(bytes)).ok()
        };
        // Elf64_Nhdr: name size, descriptor size, type; the name is padded to four bytes
        let begin = 12 + word(0)?.next_multiple_of(4);
        let id = note.get(begin..begin.checked_add(word(4)?)?)?;
        Some(id.iter().map(|b| format!("{b:02x}")).collect())
    }

    fn shipped(&self) -> Option<&'static Shipped> {
        let (core, pci) = (self.build_id("nvme_core")?, self.build_id("nvme"));
        SHIPPED.iter().find(|s| s.nvme_core == core && pci.as_deref().is_none_or(|id| id == s.nvme))
    }

    /// Chooses the source of the driver's types. A file that is used becomes a part of `kernel`.
    ///
    /// # Errors
    /// If the user's file cannot be read, lacks needed types, or does not fit.
    pub(super) fn types(&self, kernel: &mut KernelBtf, file: Option<&Path>) -> Result<Types> {
        let mut own = Types {
            core: kernel.source(Home::NvmeCore, &CORE),
            pci: kernel.source(Home::NvmePci, &PCI),
            others: kernel.others(),
            ..Types::default()
        };
        if let Some(path) = file {
            from_file(path, kernel, &mut own)?;
        } else if own.core == TypeSource::None
            && let (Some(shipped), Some(_)) = (self.shipped(), &kernel.vmlinux)
        {
            kernel.file = Btf::parse(shipped.object);
            if kernel.file.is_some() {
                let source = || TypeSource::Shipped(shipped.release.to_owned());
                own.core = source();
                own.pci = source();
            }
        }
        own.custom = kernel.for_libbpf()?;
        Ok(own)
    }
}

/// Uses the user's file, if the kernel does not describe the driver.
fn from_file(path: &Path, kernel: &mut KernelBtf, own: &mut Types) -> Result<()> {
    let file = read(path)?;
    if !complete(&file, &CORE) {
        return Err(unusable(
            path,
            "does not describe nvme_request and nvme_ctrl with all that is needed: make it from the \
             nvme_core module that runs (see btf/README.md)",
        ));
    }
    let image = kernel.vmlinux.as_deref();
    let misfit = [
        image.and_then(|k| differ(&file, k, &BLOCK)),
        kernel.of(Home::NvmeCore).and_then(|k| differ(&file, k, &CORE)),
        kernel.of(Home::NvmePci).and_then(|k| differ(&file, k, &PCI)),
    ];
    if let Some(difference) = misfit.into_iter().flatten().next() {
        let why =
            format!("does not fit this kernel ({difference}): make one from this very kernel");
        return Err(unusable(path, &why));
    }
    let shown = printable(path);
    if own.core.is_the_kernels() {
        own.remark =
            Some(format!("--btf {shown} fits, but the kernel has BTF of its own, which is used"));
        return Ok(());
    }
    if image.is_none() && !complete(&file, &BLOCK) {
        return Err(unusable(
            path,
            "does not describe the block layer, and this kernel has no BTF either: give a file for the \
             whole kernel with its modules",
        ));
    }
    let source = || TypeSource::File(shown.to_string());
    own.core = source();
    if complete(&file, &PCI) {
        own.pci = source();
    }
    kernel.file = Some(file);
    Ok(())
}

/// A struct as described by BTF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// Size in bytes.
    pub size: u32,
    /// Offsets of its members in bytes, members of anonymous members included.
    pub members: BTreeMap<String, u32>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;

    #[test]
    fn a_build_id_is_read_from_the_modules_note() {
        let machine = TestMachine::new(&[("sys/module/nvme_core/notes/x", "")]);
        let mut note = [4_u32, 3, 3].map(u32::to_ne_bytes).concat();
        note.extend(b"GNU\0\xab\x01\xff");
        let path = machine.path("sys/module/nvme_core/notes/.note.gnu.build-id");
        fs::write(path, note).unwrap();
        assert_eq!(machine.build_id("nvme_core").as_deref(), Some("ab01ff"));
        assert_eq!(machine.build_id("nvme"), None);
    }

    #[test]
    fn the_types_of_device_mapper_decide_and_not_the_version() {
        let of = |members: &[(&str, u32)]| {
            let members = members.iter().map(|(name, at)| ((*name).to_owned(), *at));
            has_short_magic(&Structure { size: 64, members: members.collect() })
        };
        assert!(of(&[("magic", 0), ("flags", 2), ("lock", 4)]));
        // 5.10 and 5.15
        assert!(!of(&[("magic", 0), ("io", 8)]));
        assert!(!of(&[("magic", 0), ("flags", 4)]));
        assert!(!of(&[("flags", 2)]));
    }
}
