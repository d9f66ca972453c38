// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the ID of a container or the UID of a pod to the directory of its cgroup (v2).

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::System;
use crate::model::container::{MIN_DIGITS, digits_of, id_of, pod_of};
use crate::model::untrusted::Untrusted;

/// Levels of cgroups that are searched.
const DEPTH: usize = 32;
/// Containers that an error names.
const SHOWN: usize = 8;

/// Why a text leads to no container.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The unified hierarchy of cgroups is not mounted.
    #[error("--container needs cgroups of version 2, which this machine has not mounted")]
    NoHierarchy,
    /// It cannot be an ID.
    #[error(
        "`{0}` is not the ID of a container: give at least {MIN_DIGITS} hexadecimal digits of it \
         (`docker inspect -f '{{{{.Id}}}}' NAME`), the UID of a pod, or the path of a cgroup"
    )]
    NotAnId(String),
    /// There is no such container.
    #[error("no cgroup is of a container or pod `{id}`; there {}", list(have))]
    Missing {
        /// What was asked for.
        id: String,
        /// The IDs of some containers of this machine.
        have: Vec<String>,
    },
    /// The digits are those of several containers.
    #[error("`{id}` begins the IDs of {}: give more digits", found.join(" and "))]
    Several {
        /// What was asked for.
        id: String,
        /// The whole IDs.
        found: Vec<String>,
    },
}

fn list(have: &[String]) -> String {
    let short = |id: &String| id.chars().take(12).collect::<String>();
    let some: Vec<String> = have.iter().take(SHOWN).map(short).collect();
    let more = if have.len() > SHOWN { ", ..." } else { "" };
    match some.as_slice() {
        [] => "are no containers".into(),
        some => format!("are {}{more}", some.join(", ")),
    }
}

/// Visits all cgroups below a directory, each with its path. Returns false if a visit did: it was the
/// last one.
pub(super) fn each_below(
    dir: &Path,
    below: &str,
    depth: usize,
    visit: &mut dyn FnMut(&DirEntry, Untrusted) -> bool,
) -> bool {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = format!("{below}/{}", Untrusted::from_os(&entry.file_name()).raw());
        if !visit(&entry, path.as_str().into())
            || depth < DEPTH && !each_below(&entry.path(), &path, depth + 1, visit)
        {
            return false;
        }
    }
    true
}

/// A cgroup that a text means, or may mean.
struct Found {
    path: PathBuf,
    id: String,
}

/// Collects the cgroups of containers and pods with these digits, and the IDs of all containers.
/// Cgroups below a match are not searched: they are parts of it.
fn search(dir: &Path, digits: &str, depth: usize, found: &mut Vec<Found>, all: &mut Vec<String>) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    dirs.sort();
    for path in dirs {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let id = id_of(name).map(str::to_owned);
        all.extend(id.clone());
        let container = id.filter(|id| id.starts_with(digits));
        if let Some(id) = container.or_else(|| pod_of(name).filter(|uid| uid == digits)) {
            found.push(Found { path, id });
        } else if depth < DEPTH {
            search(&path, digits, depth + 1, found, all);
        }
    }
}

/// Whether the kernel attributes I/O to this cgroup: its io controller is enabled. If it is not, the
/// bios of its tasks have the cgroup of an ancestor.
pub fn attributes_io(dir: &Path) -> bool {
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_whitespace().any(|name| name == "io")
}

/// The id of a cgroup in the kernel: the inode number of its directory.
///
/// # Errors
/// If the directory cannot be looked at.
pub fn cgroup_id(dir: &Path) -> io::Result<u64> {
    Ok(fs::metadata(dir)?.ino())
}

impl System {
    /// The paths of all cgroups of version 2, by their ids: below the mount point, beginning with a
    /// slash. `None`: they are not mounted.
    pub fn cgroup_paths(&self) -> Option<BTreeMap<u64, Untrusted>> {
        let top = self.cgroups()?;
        let mut all = BTreeMap::new();
        all.extend(cgroup_id(&top).ok().map(|id| (id, "/".into())));
        each_below(&top, "", 0, &mut |entry, path| {
            all.insert(entry.ino(), path);
            true
        });
        Some(all)
    }

    /// The name of a process, padded with zeroes, if it is still there.
    pub fn process_name(&self, pid: u32) -> Option<[u8; 16]> {
        let text = fs::read(self.path(&format!("proc/{pid}/comm"))).ok()?;
        let name = text.strip_suffix(b"\n").unwrap_or(&text);
        let mut padded = [0; 16];
        padded.iter_mut().zip(name).for_each(|(to, b)| *to = *b);
        Some(padded)
    }

    /// Whether the kernel attributes I/O to cgroups of version 2. `None`: they are not mounted.
    pub fn cgroups_have_io(&self) -> Option<bool> {
        self.cgroups().map(|top| attributes_io(&top))
    }

    /// The directory at which cgroups of version 2 are mounted.
    pub(super) fn cgroups(&self) -> Option<PathBuf> {
        Some(self.path(self.cgroup_mount()?.trim_start_matches('/')))
    }

    /// The same as this process sees it.
    pub(super) fn cgroup_mount(&self) -> Option<String> {
        let mounts = fs::read_to_string(self.path("proc/mounts")).ok()?;
        let mut mounts = mounts.lines().map(|line| line.split_whitespace());
        mounts.find_map(|mut words| {
            let at = words.nth(1)?;
            (words.next()? == "cgroup2").then(|| at.to_owned())
        })
    }

    /// The directory of the cgroup of a container or pod. `text` is the ID of a container (its first
    /// digits suffice; also with the prefix of Kubernetes, `containerd://`), the UID of a pod, or a
    /// path: a directory, or a cgroup as in /proc/PID/cgroup. A path is not checked.
    ///
    /// # Errors
    /// If an ID leads to no cgroup, or to several.
    pub fn container(&self, text: &str) -> Result<PathBuf, ContainerError> {
        let id = text.split_once("://").map_or(text, |(_, id)| id);
        let hierarchy = self.cgroups();
        if id.contains('/') {
            let below = hierarchy.map(|top| top.join(id.trim_start_matches('/')));
            let exists = Path::new(id).exists();
            return Ok(below.filter(|dir| !exists && dir.is_dir()).unwrap_or_else(|| id.into()));
        }
        let digits = digits_of(id);
        if digits.len() < MIN_DIGITS || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ContainerError::NotAnId(text.into()));
        }
        let top = hierarchy.ok_or(ContainerError::NoHierarchy)?;
        let (mut found, mut all) = (Vec::new(), Vec::new());
        search(&top, &digits, 0, &mut found, &mut all);
        match found.as_slice() {
            [one] => Ok(one.path.clone()),
            [] => Err(ContainerError::Missing { id: text.into(), have: all }),
            _ => Err(ContainerError::Several {
                id: text.into(),
                found: found.into_iter().map(|one| one.id).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use crate::model::container::owner;
    use crate::model::group::Owner;
    use tempfile::TempDir;

    const TOP: &str = "sys/fs/cgroup";

    /// An ID of 64 digits that begins like this.
    fn id(begin: &str) -> String {
        format!("{begin:0<64}")
    }

    /// A machine with cgroups of these names.
    fn machine(cgroups: &[String]) -> (TempDir, System) {
        let root = TempDir::new().unwrap();
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        put(&root, "proc/mounts", mounts);
        for name in cgroups {
            put(&root, &format!("{TOP}/{name}/cgroup.controllers"), "cpu io memory\n");
        }
        let system = System::at(root.path());
        (root, system)
    }

    #[test]
    fn each_runtime_and_driver_names_cgroups_in_its_own_way() {
        let pod = "0b6d2f9e-1c3a-4d5e-8f70-112233445566";
        let slice = format!(
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
            pod.replace('-', "_")
        );
        let names = [
            ("aaaa1111", format!("system.slice/docker-{}.scope", id("aaaa1111"))),
            ("bbbb1111", format!("docker/{}", id("bbbb1111"))),
            ("cccc1111", format!("machine.slice/libpod-{}.scope", id("cccc1111"))),
            ("dddd1111", format!("libpod_parent/libpod-{}", id("dddd1111"))),
            ("eeee1111", format!("{slice}/cri-containerd-{}.scope", id("eeee1111"))),
            ("ffff1111", format!("{slice}/crio-{}.scope", id("ffff1111"))),
            (
                "abcd1111",
                format!(
                    "kubepods/besteffort/pod11112222-0000-0000-0000-000000000000/{}",
                    id("abcd1111")
                ),
            ),
            (
                "abce1111",
                format!("system.slice/kubepods-x.slice:cri-containerd:{}", id("abce1111")),
            ),
        ];
        let all: Vec<String> = names.iter().map(|(_, name)| name.clone()).collect();
        let (root, system) = machine(&all);
        let at = |name: &str| root.path().join(TOP).join(name);
        for (digits, name) in &names {
            assert_eq!(system.container(digits).unwrap(), at(name));
            assert_eq!(system.container(&id(digits)).unwrap(), at(name));
        }
        let kubernetes = format!("containerd://{}", id("eeee1111"));
        assert_eq!(system.container(&kubernetes).unwrap(), at(&names[4].1));
        assert_eq!(system.container(pod).unwrap(), at(&slice));
        let other = "11112222-0000-0000-0000-000000000000";
        let of_pod = "kubepods/besteffort/pod11112222-0000-0000-0000-000000000000";
        assert_eq!(system.container(other).unwrap(), at(of_pod));
        let in_proc = format!("/{}", names[0].1);
        assert_eq!(system.container(&in_proc).unwrap(), at(&names[0].1));
    }

    #[test]
    fn the_process_that_watches_a_container_is_not_its_cgroup() {
        let scope = format!("machine.slice/libpod-{}.scope", id("cccc1111"));
        let (root, system) = machine(&[
            format!("machine.slice/libpod-conmon-{}.scope", id("cccc1111")),
            format!("{scope}/container"),
        ]);
        let found = system.container("cccc1111").unwrap();
        assert_eq!(found, root.path().join(TOP).join(scope));
    }

    #[test]
    fn what_is_not_one_container_is_refused() {
        let (_root, system) =
            machine(&[format!("docker/{}", id("aaaa1111")), format!("docker/{}", id("aaaa1111b"))]);
        let error = |text: &str| system.container(text).unwrap_err().to_string();
        assert!(error("web").contains("not the ID"), "{}", error("web"));
        assert!(error("aaaa111").contains("at least 8"));
        assert!(error("deadbeef").contains("aaaa11110000, aaaa1111b000"));
        assert!(error("aaaa1111").contains("more digits"));
        assert!(system.container("aaaa1111b").is_ok());
        let none = TempDir::new().unwrap();
        let none = System::at(none.path()).container("aaaa1111");
        assert!(matches!(none, Err(ContainerError::NoHierarchy)));
    }

    #[test]
    fn the_path_of_a_cgroup_names_its_container_and_pod() {
        let uid = "0b6d2f9e-1c3a-4d5e-8f70-112233445566";
        let slice = format!("/kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
        let of = |path: &str| owner(&path.into());
        let found = of(&format!("{slice}/cri-containerd-{}.scope/init", id("eeee1111")));
        assert_eq!(found.pod.as_deref(), Some(uid));
        assert_eq!(found.id, Some(id("eeee1111")));
        let found = of(&format!("/system.slice/docker-{}.scope", id("aaaa1111")));
        assert_eq!((found.pod, found.id), (None, Some(id("aaaa1111"))));
        assert_eq!(of("/system.slice/postgresql.service"), Owner::default());
    }

    #[test]
    fn cgroups_are_found_by_their_ids() {
        let (root, system) = machine(&["a/b\nc".to_owned(), "d".to_owned()]);
        let all = system.cgroup_paths().unwrap();
        let of = |name: &str| cgroup_id(&root.path().join(TOP).join(name)).unwrap();
        assert_eq!(all[&of("d")].raw(), "/d");
        assert_eq!(all[&of("a/b\nc")].to_string(), "/a/b\\nc");
        assert_eq!(all[&of("")].raw(), "/");
    }

    #[test]
    fn io_is_attributed_where_the_controller_is_enabled() {
        let root = TempDir::new().unwrap();
        put(&root, "with/cgroup.controllers", "cpuset cpu io\n");
        put(&root, "without/cgroup.controllers", "cpu\n");
        assert!(attributes_io(&root.path().join("with")));
        assert!(!attributes_io(&root.path().join("without")));
        assert!(!attributes_io(&root.path().join("missing")));
    }
}
