// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source of the driver's types: the kernel's BTF, a file of btf/ made from the same modules,
//! or a file given by the user. A file that does not fit this kernel is rejected.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::MemfdFlags;
use rustix::fs::memfd_create;

use super::System;
use super::btf::Btf;
use super::btf::flatten;
use super::structure::Structure;
use crate::model::untrusted::printable;
use crate::probe::facts::TypeSource;

/// Structs of the block layer that the programs read, with the members they read.
const BLOCK: [(&str, &[&str]); 5] = [
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
const CORE: [(&str, &[&str]); 2] = [
    (
        "nvme_request",
        &["cmd", "ctrl", "result", "retries", "flags", "status"],
    ),
    (
        "nvme_ctrl",
        &["instance", "tagset", "admin_tagset", "device"],
    ),
];

/// The same for the PCI driver.
const PCI: [(&str, &[&str]); 1] = [("nvme_queue", &["q_depth", "sq_tail", "last_sq_tail"])];

/// A file of btf/, compiled in by build.rs.
struct Shipped {
    release: &'static str,
    nvme_core: &'static str,
    nvme: &'static str,
    object: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/shipped_btf.rs"));

/// Why no BTF can be given to libbpf. Most of it is about the user's file, at `path`.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// A file in memory could not be made.
    #[error("no memory file for BTF")]
    NoMemoryFile(#[source] io::Error),
    /// libbpf could not join the kernel's types and others.
    #[error("the kernel's BTF and the file's can't be joined")]
    NotJoined,
    /// The file cannot be read.
    #[error("--btf {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// The file contains no BTF.
    #[error(
        "--btf {path} holds no BTF that can be read ({bytes} bytes): give raw BTF or an ELF file \
         with a .BTF section, not split BTF (no --btf_base)"
    )]
    NoBtf {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
    },
    /// The file lacks types of nvme_core.
    #[error(
        "--btf {path} does not describe nvme_request and nvme_ctrl with all that is needed: make \
         it from the nvme_core module that runs (see btf/README.md)"
    )]
    NoDriver {
        /// The file.
        path: PathBuf,
    },
    /// The file describes another kernel.
    #[error("--btf {path} does not fit this kernel ({difference}): make one from this very kernel")]
    Misfit {
        /// The file.
        path: PathBuf,
        /// The first difference.
        difference: Difference,
    },
    /// Neither the kernel nor the file describes the block layer.
    #[error(
        "this kernel has no BTF, and --btf {path} does not describe the block layer either: give \
         a file for the whole kernel with its modules"
    )]
    NoBlockLayer {
        /// The file.
        path: PathBuf,
    },
}

/// A difference between the types of a file and those of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The size of a struct, in bytes.
    #[error("struct {name} has {file} bytes there and {kernel} in this kernel")]
    Size {
        /// The struct.
        name: &'static str,
        /// Its size in the file.
        file: u32,
        /// Its size in the kernel.
        kernel: u32,
    },
    /// The offset of a member, in bytes.
    #[error("{name}.{member} is at {file} there and at {kernel} in this kernel")]
    Offset {
        /// The struct.
        name: &'static str,
        /// The member.
        member: &'static str,
        /// Its offset in the file.
        file: u32,
        /// Its offset in the kernel.
        kernel: u32,
    },
}

/// BTF for libbpf to use instead of the kernel's. It is a file in memory, which exists as long as
/// this value.
pub struct CustomBtf(File);

impl CustomBtf {
    fn new(bytes: &[u8]) -> Result<Self, BtfError> {
        let file = || -> io::Result<File> {
            let mut file = File::from(memfd_create("nvme-deep-btf", MemfdFlags::CLOEXEC)?);
            file.write_all(bytes)?;
            Ok(file)
        };
        file().map(Self).map_err(BtfError::NoMemoryFile)
    }

    /// The path under which libbpf opens it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// The driver's types.
#[derive(Default)]
pub struct Types {
    /// Where nvme_core's types come from.
    pub core: TypeSource,
    /// Where the PCI driver's types come from.
    pub pci: TypeSource,
    /// BTF for libbpf to use; `None` if libbpf finds the kernel's.
    pub custom: Option<CustomBtf>,
    /// Why the user's file is not used, although it fits.
    pub remark: Option<String>,
}

/// The running kernel's BTF: modules and image. The modules' objects refer to the image's, so the
/// image is the last field: fields are dropped in this order.
pub(super) struct KernelBtf {
    pub core: Option<Btf>,
    pub pci: Option<Btf>,
    pub vmlinux: Option<Btf>,
}

impl KernelBtf {
    pub fn load() -> Self {
        let vmlinux = Btf::vmlinux();
        let module = |name| vmlinux.as_ref().and_then(|base| Btf::module(name, base));
        Self {
            core: module("nvme_core"),
            pci: module("nvme"),
            vmlinux,
        }
    }

    /// The BTF that describes nvme_core. Split BTF includes its base, so a built-in driver and a
    /// module are handled alike.
    pub fn core(&self) -> Option<&Btf> {
        self.core.as_ref().or(self.vmlinux.as_ref())
    }

    pub fn pci(&self) -> Option<&Btf> {
        self.pci.as_ref().or(self.vmlinux.as_ref())
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
    /// The running kernel's, after those of the user's file, and before those of btf/.
    ///
    /// # Errors
    /// If the file cannot be read, or has no BTF.
    pub fn load(system: &System, file: Option<&Path>) -> Result<Self, BtfError> {
        let parse = |path: &Path| {
            let bytes = fs::read(path).map_err(|source| BtfError::Unreadable {
                path: path.to_owned(),
                source,
            })?;
            let bytes = bytes.len();
            let path = path.to_owned();
            Btf::parse(&path).ok_or(BtfError::NoBtf { path, bytes })
        };
        let shipped = system.shipped().map(|shipped| -> Result<_, BtfError> {
            let object = CustomBtf::new(shipped.object)?;
            Ok(Btf::parse(&object.path()))
        });
        Ok(Self {
            file: file.map(parse).transpose()?,
            kernel: KernelBtf::load(),
            shipped: shipped.transpose()?.flatten(),
        })
    }

    /// The layout of a struct.
    pub fn of(&self, name: &str) -> Option<Structure> {
        let KernelBtf { core, pci, vmlinux } = &self.kernel;
        let all = [&self.file, core, pci, vmlinux, &self.shipped];
        let all = all.into_iter().flatten();
        let mut found = all.filter_map(|btf| btf.structure(name));
        found.next()
    }
}

fn complete(btf: &Btf, structs: &[(&str, &[&str])]) -> bool {
    structs.iter().all(|(name, members)| {
        btf.structure(name)
            .is_some_and(|s| members.iter().all(|m| s.members.contains_key(*m)))
    })
}

/// The first difference between two descriptions of the same structs.
fn differ(
    file: &Btf,
    kernel: &Btf,
    structs: &[(&'static str, &[&'static str])],
) -> Option<Difference> {
    structs.iter().find_map(|&(name, members)| {
        let (theirs, ours) = (file.structure(name)?, kernel.structure(name)?);
        if theirs.size != ours.size {
            return Some(Difference::Size {
                name,
                file: theirs.size,
                kernel: ours.size,
            });
        }
        members.iter().find_map(|&member| {
            let (file, kernel) = (*theirs.members.get(member)?, *ours.members.get(member)?);
            (file != kernel).then_some(Difference::Offset {
                name,
                member,
                file,
                kernel,
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
        SHIPPED
            .iter()
            .find(|s| s.nvme_core == core && pci.as_deref().is_none_or(|id| id == s.nvme))
    }

    /// Chooses the source of the driver's types. `may_use_module_btf`: libbpf can find module BTF.
    ///
    /// # Errors
    /// If the user's file cannot be read, lacks needed types, or does not fit.
    pub(super) fn types(
        &self,
        kernel: &KernelBtf,
        file: Option<&Path>,
        may_use_module_btf: bool,
    ) -> Result<Types, BtfError> {
        let of = |btf: Option<&Btf>, module: &Option<Btf>, structs| match btf {
            Some(btf) if complete(btf, structs) && module.is_some() => TypeSource::Module,
            Some(btf) if complete(btf, structs) => TypeSource::BuiltIn,
            _ => TypeSource::None,
        };
        let mut own = Types {
            core: of(kernel.core(), &kernel.core, &CORE),
            pci: of(kernel.pci(), &kernel.pci, &PCI),
            ..Types::default()
        };
        if let Some(path) = file {
            return from_file(path, kernel, own);
        }
        if own.core == TypeSource::Module && !may_use_module_btf {
            own.custom = self.flat_module(kernel);
        } else if own.core == TypeSource::None
            && let (Some(shipped), Some(_)) = (self.shipped(), &kernel.vmlinux)
        {
            let object = CustomBtf::new(shipped.object)?;
            if let Some(small) = Btf::parse(&object.path()) {
                own.custom = Some(merged(&small)?);
                let source = || TypeSource::Shipped(shipped.release.to_owned());
                own.core = source();
                own.pci = source();
            }
        }
        Ok(own)
    }

    /// Joins the kernel's BTF and that of a module, for processes that may not look up module BTF:
    /// the files in /sys/kernel/btf are readable by all users.
    fn flat_module(&self, kernel: &KernelBtf) -> Option<CustomBtf> {
        // nvme.ko repeats nvme_core's types, and adds its own
        let pci_has_all = kernel.pci.as_ref().is_some_and(|b| complete(b, &CORE));
        let module = if pci_has_all { "nvme" } else { "nvme_core" };
        let read = |name: &str| fs::read(self.path(&format!("sys/kernel/btf/{name}"))).ok();
        CustomBtf::new(&flatten(&read("vmlinux")?, &read(module)?)?).ok()
    }
}

/// Joins the running kernel's types and these.
fn merged(more: &Btf) -> Result<CustomBtf, BtfError> {
    let all = Btf::vmlinux().and_then(|mut all| all.add(more).then_some(all));
    let bytes = all.and_then(|all| all.bytes());
    CustomBtf::new(&bytes.ok_or(BtfError::NotJoined)?)
}

fn from_file(path: &Path, kernel: &KernelBtf, own: Types) -> Result<Types, BtfError> {
    let shown = printable(path);
    let owned = || path.to_owned();
    let bytes = fs::read(path).map_err(|source| BtfError::Unreadable {
        path: owned(),
        source,
    })?;
    let file = Btf::parse(path).ok_or_else(|| BtfError::NoBtf {
        path: owned(),
        bytes: bytes.len(),
    })?;
    if !complete(&file, &CORE) {
        return Err(BtfError::NoDriver { path: owned() });
    }
    let misfit = [
        kernel
            .vmlinux
            .as_ref()
            .and_then(|k| differ(&file, k, &BLOCK)),
        kernel.core().and_then(|k| differ(&file, k, &CORE)),
        kernel.pci().and_then(|k| differ(&file, k, &PCI)),
    ];
    if let Some(difference) = misfit.into_iter().flatten().next() {
        return Err(BtfError::Misfit {
            path: owned(),
            difference,
        });
    }
    if own.core.is_the_kernels() {
        let remark =
            format!("--btf {shown} fits, but the kernel has BTF of its own, which is used");
        return Ok(Types {
            remark: Some(remark),
            ..own
        });
    }
    let custom = if kernel.vmlinux.is_some() {
        merged(&file)?
    } else if complete(&file, &BLOCK) {
        CustomBtf::new(&bytes)?
    } else {
        return Err(BtfError::NoBlockLayer { path: owned() });
    };
    let source = || TypeSource::File(shown.to_string());
    Ok(Types {
        core: source(),
        pci: if complete(&file, &PCI) {
            source()
        } else {
            TypeSource::None
        },
        custom: Some(custom),
        remark: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_build_id_is_read_from_the_modules_note() {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("sys/module/nvme_core/notes");
        fs::create_dir_all(&dir).unwrap();
        let mut note = [4_u32, 3, 3].map(u32::to_ne_bytes).concat();
        note.extend(b"GNU\0\xab\x01\xff");
        fs::write(dir.join(".note.gnu.build-id"), note).unwrap();
        let system = System::at(root.path());
        assert_eq!(system.build_id("nvme_core").as_deref(), Some("ab01ff"));
        assert_eq!(system.build_id("nvme"), None);
    }
}
