// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of cgroups by their ids, one at a time: by a file handle (exportfs of kernfs), without a
//! search. A cgroup that is gone has none.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, read_link};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::System;
use super::foreign::path_of;
use crate::model::container::{is_container_name, is_pod_name};
use crate::model::origin::Cgroups;
use crate::model::untrusted::Untrusted;

/// Most paths, and most ids without one, that are kept. Then all are looked up again.
const MOST: usize = 1 << 16;
/// The type of a handle of kernfs: include/linux/exportfs.h, FILEID_KERNFS.
const KERNFS: i32 = 0xfe;

/// `struct file_handle` with a handle of kernfs.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: u64,
}

/// The paths of cgroups of this machine.
#[derive(Debug)]
pub struct CgroupPaths {
    system: System,
    /// The directory at which cgroups of version 2 are mounted.
    top: Option<(File, String)>,
    known: Cgroups,
    gone: BTreeSet<u64>,
}

/// Opens the cgroup with this id.
fn open(top: &File, id: u64) -> Option<OwnedFd> {
    let mut handle = Handle { bytes: 8, kind: KERNFS, id };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the handle is as long as it says, and lives longer than the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, top.as_raw_fd(), &raw mut handle, flags)
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has opened it for this call.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl CgroupPaths {
    /// Those of this machine, of which none is known yet.
    pub fn new(system: &System) -> Self {
        let top = system.cgroups().and_then(|dir| {
            let text = dir.to_str()?.trim_end_matches('/').to_owned();
            Some((File::open(&dir).ok()?, text))
        });
        Self { system: system.clone(), top, known: Cgroups::new(), gone: BTreeSet::new() }
    }

    /// The paths that were looked up.
    pub const fn known(&self) -> &Cgroups {
        &self.known
    }

    /// Looks all cgroups up.
    pub fn learn_all(&mut self) {
        self.known = self.system.cgroup_paths().unwrap_or_default();
    }

    fn find(&self, id: u64) -> Option<Untrusted> {
        let (top, text) = self.top.as_ref()?;
        let directory = File::from(open(top, id)?);
        let path = read_link(path_of(&directory)).ok()?;
        let path = Untrusted::from_os(&path);
        let below = path.raw().strip_prefix(text.as_str())?;
        Some(if below.is_empty() { "/" } else { below }.into())
    }

    /// The path of the cgroup with this id; `None`: it is gone.
    pub fn path(&mut self, id: u64) -> Option<&Untrusted> {
        if !self.known.contains_key(&id) && !self.gone.contains(&id) {
            if self.known.len() + self.gone.len() >= MOST {
                self.known.clear();
                self.gone.clear();
            }
            match self.find(id) {
                Some(path) => {
                    self.known.insert(id, path);
                }
                None => {
                    self.gone.insert(id);
                }
            }
        }
        self.known.get(&id)
    }
}

/// Names instead of those of cgroups: the same for the same name, and of the same kind.
#[derive(Debug, Default)]
pub struct Pseudonyms(HashMap<String, usize>);

impl Pseudonyms {
    fn name(&mut self, name: &str) -> String {
        let next = self.0.len() + 1;
        let n = *self.0.entry(name.to_owned()).or_insert(next);
        if is_container_name(name) {
            format!("container-{n:064}")
        } else if is_pod_name(name) {
            format!("pod{n:032}")
        } else {
            format!("cgroup-{n}")
        }
    }

    /// A path with other names.
    pub fn path(&mut self, path: &Untrusted) -> Untrusted {
        let names = path.raw().split('/');
        let other = names.map(|name| match name {
            "" => String::new(),
            name => self.name(name),
        });
        other.collect::<Vec<_>>().join("/").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::container::owner;

    #[test]
    fn pseudonyms_keep_the_tree_and_hide_the_names() {
        let mut names = Pseudonyms::default();
        let mut of = |path: &str| names.path(&path.into()).raw().to_owned();
        assert_eq!(of("/"), "/");
        assert_eq!(of("/secret.slice/db.service"), "/cgroup-1/cgroup-2");
        assert_eq!(of("/secret.slice/other"), "/cgroup-1/cgroup-3");
        assert_eq!(of("/secret.slice/db.service"), "/cgroup-1/cgroup-2");
        let id = format!("{:0<64}", "abc1");
        let container = of(&format!("/x/docker-{id}.scope"));
        assert!(!container.contains("docker") && !container.contains("abc1"));
        let found = owner(&container.as_str().into());
        assert_eq!(found.id, Some(format!("{:064}", 5)));
        let pod = of("/pod0b6d2f9e-1c3a-4d5e-8f70-112233445566");
        assert!(owner(&pod.as_str().into()).pod.is_some());
    }

    #[test]
    fn cgroups_of_this_machine_have_the_paths_of_a_search() {
        let system = System::at("/");
        let (Some(all), mut paths) = (system.cgroup_paths(), CgroupPaths::new(&system)) else {
            return;
        };
        // opening by a handle needs a capability, and a mount that is not of a container
        for (id, path) in all.iter().take(50) {
            if let Some(found) = paths.path(*id) {
                assert_eq!(found, path);
            }
        }
        assert_eq!(paths.path(u64::MAX - 1), None);
    }
}
