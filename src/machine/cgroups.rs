// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the ID of a container or the UID of a pod to the directory of its cgroup (v2).

use super::System;
use super::sysfs::names_in;
use crate::machine::process::{path_of, read_some};
use crate::model::filter::Filter;
use crate::model::group::Owner;
use crate::model::origin::{
    Cgroups, MIN_DIGITS, digits_of, id_of, is_of_container, is_within, pod_of,
};
use crate::model::text::Text;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{DirEntry, File, read_link};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Levels of cgroups that are searched.
const DEPTH: usize = 32;
/// Containers that an error names.
const SHOWN: usize = 8;

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
pub(crate) fn each_below(
    dir: &Path,
    below: &Path,
    depth: usize,
    visit: &mut dyn FnMut(&DirEntry, Text) -> bool,
) -> bool {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = below.join(entry.file_name());
        if !visit(&entry, Text::from_os(&path))
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
    pub fn cgroup_paths(&self) -> Option<BTreeMap<u64, Text>> {
        let top = self.cgroups()?;
        let mut all = BTreeMap::new();
        all.extend(cgroup_id(&top).ok().map(|id| (id, "/".into())));
        each_below(&top, Path::new("/"), 0, &mut |entry, path| {
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
    pub(crate) fn cgroups(&self) -> Option<PathBuf> {
        Some(self.path(self.cgroup_mount()?.trim_start_matches('/')))
    }

    /// The same as this process sees it.
    pub(crate) fn cgroup_mount(&self) -> Option<String> {
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
    pub fn container(&self, text: &str) -> Result<PathBuf, String> {
        let id = text.split_once("://").map_or(text, |(_, id)| id);
        let hierarchy = self.cgroups();
        if id.contains('/') {
            let below = hierarchy.map(|top| top.join(id.trim_start_matches('/')));
            let exists = Path::new(id).exists();
            return Ok(below.filter(|dir| !exists && dir.is_dir()).unwrap_or_else(|| id.into()));
        }
        let digits = digits_of(id);
        if digits.len() < MIN_DIGITS || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!(
                "`{text}` is no cgroup: give its path, or of a container at least {MIN_DIGITS} hexadecimal digits \
                 of its ID (`docker inspect -f '{{{{.Id}}}}' NAME`), or the UID of a pod"
            ));
        }
        let top = hierarchy
            .ok_or("--cgroup needs cgroups of version 2, which this machine has not mounted")?;
        let (mut found, mut all) = (Vec::new(), Vec::new());
        search(&top, &digits, 0, &mut found, &mut all);
        match found.as_slice() {
            [one] => Ok(one.path.clone()),
            [] => Err(format!("no cgroup is of a container or pod `{text}`; there {}", list(&all))),
            several => {
                let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
                Err(format!("`{text}` begins the IDs of {}: give more digits", ids.join(" and ")))
            }
        }
    }
}

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
    top: Option<(File, PathBuf)>,
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
    /// This machine's cgroups; none is known yet.
    pub fn new(system: &System) -> Self {
        let top = system.cgroups().and_then(|dir| Some((File::open(&dir).ok()?, dir)));
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

    fn find(&self, id: u64) -> Option<Text> {
        let (top, at) = self.top.as_ref()?;
        let directory = File::from(open(top, id)?);
        let path = read_link(path_of(&directory)).ok()?;
        Some(Text::from_os(&Path::new("/").join(path.strip_prefix(at).ok()?)))
    }

    /// The path of the cgroup with this id; `None`: it is gone.
    pub fn path(&mut self, id: u64) -> Option<&Text> {
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

/// Other names for cgroups: the same for the same name, and of the same kind.
#[derive(Debug, Default)]
pub struct Pseudonyms(HashMap<String, usize>);

impl Pseudonyms {
    fn name(&mut self, name: &str) -> String {
        let next = self.0.len() + 1;
        let n = *self.0.entry(name.to_owned()).or_insert(next);
        if id_of(name).is_some() {
            format!("container-{n:064}")
        } else if pod_of(name).is_some() {
            format!("pod{n:032}")
        } else {
            format!("cgroup-{n}")
        }
    }

    /// A path with other names.
    pub fn path(&mut self, path: &Text) -> Text {
        let names = path.split('/');
        let other = names.map(|name| match name {
            "" => String::new(),
            name => self.name(name),
        });
        other.collect::<Vec<_>>().join("/").into()
    }
}

/// Where cgroups of version 2 are usually mounted.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Whether a cgroup is within the directory that an option names, or the path below the mount point.
fn is_below(path: &Text, option: &Path) -> bool {
    let option = Text::from_os(option);
    let mounted = |mount: &&str| is_within(&option, mount);
    let top = MOUNTS.iter().find(|mount| mounted(mount));
    let below = top.and_then(|mount| option.strip_prefix(mount));
    is_within(path, below.unwrap_or(&option))
}

/// Adds a cgroup of a recording to those that the filter selects, if it does.
pub fn add(filter: &mut Filter, id: u64, path: &Text) {
    let is_of = filter.cgroup.as_ref().map(Text::from_os).is_some_and(|text| {
        let text = text.split_once("://").map_or(&*text, |(_, id)| id);
        match text.contains('/') {
            true => is_below(path, Path::new(text)),
            false => is_of_container(path, text),
        }
    });
    if is_of {
        filter.within.insert(id);
    }
}

/// Bytes of a state file that are read.
const MOST_BYTES: u64 = 16 << 20;
/// Where docker keeps its containers: a directory by ID, with a file of JSON.
const DOCKER: &str = "var/lib/docker/containers";
/// podman's stores. A storage driver (overlay, vfs, btrfs, ...) has its lists in `DRIVER-containers`.
const PODMAN: [&str; 2] = ["var/lib/containers/storage", "run/containers/storage"];
/// Its lists: of containers, and of those that do not outlive the machine's next start.
const LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];
/// kubelet's links to logs: `POD_NAMESPACE_CONTAINER-ID.log`.
const CONTAINER_LOGS: &str = "var/log/containers";
/// kubelet's logs: directories `NAMESPACE_POD_UID`.
const POD_LOGS: &str = "var/log/pods";

/// The names of containers by ID, and of pods (`NAMESPACE/POD`) by UID.
struct Names<'n>(&'n mut BTreeMap<String, Text>);

fn podman_lists(system: &System) -> impl Iterator<Item = PathBuf> {
    let dirs = PODMAN.into_iter().flat_map(move |store| {
        let store = system.path(store);
        let names = names_in(&store).into_iter();
        let of_drivers = names.filter(|name| name.ends_with("-containers"));
        of_drivers.map(move |name| store.join(name))
    });
    dirs.flat_map(|dir| LISTS.map(|list| dir.join(list)))
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&read_some(path, MOST_BYTES).ok()?).ok()
}

impl Names<'_> {
    fn set(&mut self, id: &str, name: &str) {
        if !name.is_empty() {
            self.0.insert(id.to_owned(), name.into());
        }
    }

    fn docker(&mut self, system: &System, id: &str) {
        let path = system.path(&format!("{DOCKER}/{id}/config.v2.json"));
        let config = json(&path);
        if let Some(name) = config.as_ref().and_then(|c| c["Name"].as_str()) {
            self.set(id, name.trim_start_matches('/'));
        }
    }

    fn podman(&mut self, system: &System) {
        for path in podman_lists(system) {
            let list = json(&path);
            for container in list.iter().filter_map(Value::as_array).flatten() {
                let pair = container["id"].as_str().zip(container["names"][0].as_str());
                if let Some((id, name)) = pair {
                    self.set(id, name);
                }
            }
        }
    }

    fn kubelet(&mut self, system: &System) {
        for name in names_in(&system.path(CONTAINER_LOGS)) {
            let parts: Vec<&str> = name.trim_end_matches(".log").splitn(3, '_').collect();
            let [pod, namespace, container] = parts.as_slice() else {
                continue;
            };
            if let Some((container, id)) = container.rsplit_once('-') {
                self.set(id, &format!("{namespace}/{pod}/{container}"));
            }
        }
        for name in names_in(&system.path(POD_LOGS)) {
            let parts: Vec<&str> = name.splitn(3, '_').collect();
            if let [namespace, pod, uid] = parts.as_slice() {
                self.set(uid, &format!("{namespace}/{pod}"));
            }
        }
    }
}

/// Reads the files again, if a container or pod of one of these has no name.
pub fn learn(names: &mut BTreeMap<String, Text>, system: &System, owners: &[Owner]) {
    let ids = owners.iter().flat_map(|o| o.id.iter().chain(&o.pod));
    let unknown = |names: &BTreeMap<String, Text>| -> Vec<&String> {
        let left = ids.clone().filter(|id| !names.contains_key(*id));
        left.collect()
    };
    if unknown(names).is_empty() {
        return;
    }
    let mut found = Names(names);
    found.podman(system);
    found.kubelet(system);
    for id in unknown(found.0) {
        found.docker(system, id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;
    use crate::model::group::Owner;
    use crate::model::origin::owner;

    const TOP: &str = "sys/fs/cgroup";
    const POD: &str = "0b6d2f9e-1c3a-4d5e-8f70-112233445566";

    /// An ID of 64 digits that begins like this.
    fn id(begin: &str) -> String {
        format!("{begin:0<64}")
    }

    /// A machine with these cgroups.
    fn machine(cgroups: &[String]) -> TestMachine {
        let machine = TestMachine::new(&[("proc/mounts", "c /sys/fs/cgroup cgroup2 rw 0 0\n")]);
        for name in cgroups {
            machine.put(&format!("{TOP}/{name}/cgroup.controllers"), "cpu io memory\n");
        }
        machine
    }

    #[test]
    fn each_runtime_and_driver_names_cgroups_in_its_own_way() {
        let slice = format!("kubepods.slice/kubepods-pod{}.slice", POD.replace('-', "_"));
        let other = "11112222-0000-0000-0000-000000000000";
        let names = [
            ("aaaa1111", "system.slice/docker-ID.scope"),
            ("bbbb1111", "docker/ID"),
            ("cccc1111", "machine.slice/libpod-ID.scope"),
            ("dddd1111", "libpod_parent/libpod-ID"),
            ("eeee1111", "SLICE/cri-containerd-ID.scope"),
            ("ffff1111", "SLICE/crio-ID.scope"),
            ("abcd1111", "kubepods/besteffort/podUID/ID"),
            ("abce1111", "system.slice/kubepods-x.slice:cri-containerd:ID"),
        ];
        let names = names.map(|(digits, name)| {
            let name = name.replace("SLICE", &slice).replace("UID", other);
            (digits, name.replace("ID", &id(digits)))
        });
        let mut all: Vec<String> = names.iter().map(|(_, name)| name.clone()).collect();
        // the process that watches a container has a cgroup, too
        all.push(format!("machine.slice/libpod-conmon-{}.scope", id("cccc1111")));
        all.push(format!("{}/container", names[2].1));
        let machine = machine(&all);
        let finds = |text: &str, name: &str| {
            assert_eq!(machine.container(text).unwrap(), machine.path(TOP).join(name), "{text}");
        };
        for (digits, name) in &names {
            finds(digits, name);
            finds(&id(digits), name);
        }
        finds(&format!("containerd://{}", id("eeee1111")), &names[4].1);
        finds(POD, &slice);
        finds(other, &format!("kubepods/besteffort/pod{other}"));
        finds(&format!("/{}", names[0].1), &names[0].1);
    }

    #[test]
    fn what_is_not_one_container_is_refused() {
        let machine = machine(&["aaaa1111", "aaaa1111b"].map(|d| format!("docker/{}", id(d))));
        for (text, says) in [
            ("web", "is no cgroup"),
            ("aaaa111", "at least 8"),
            ("deadbeef", "aaaa11110000, aaaa1111b000"),
            ("aaaa1111", "more digits"),
        ] {
            let error = machine.container(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(machine.container("aaaa1111b").is_ok());
        let none = TestMachine::new(&[]).container("aaaa1111");
        assert!(none.unwrap_err().contains("cgroups of version 2"));
    }

    #[test]
    fn cgroups_are_found_by_their_ids() {
        let machine = machine(&["a/b\nc".to_owned(), "d".to_owned()]);
        let all = machine.cgroup_paths().unwrap();
        let path = |name: &str| all[&cgroup_id(&machine.path(TOP).join(name)).unwrap()].to_string();
        assert_eq!([path("d"), path("a/b\nc"), path("")], ["/d", "/a/b\\nc", "/"]);
        assert!(attributes_io(&machine.path(TOP).join("d")));
        machine.put("cpu/cgroup.controllers", "cpu\n");
        assert!(!attributes_io(&machine.path("cpu")) && !attributes_io(&machine.path("missing")));
    }

    #[test]
    fn pseudonyms_keep_the_tree_and_hide_the_names() {
        let mut names = Pseudonyms::default();
        let mut of = |path: &str| names.path(&path.into()).to_string();
        for (path, shown) in [
            ("/", "/"),
            ("/secret.slice/db.service", "/cgroup-1/cgroup-2"),
            ("/secret.slice/other", "/cgroup-1/cgroup-3"),
            ("/secret.slice/db.service", "/cgroup-1/cgroup-2"),
        ] {
            assert_eq!(of(path), shown);
        }
        let container = of(&format!("/x/docker-{}.scope", id("abc1")));
        assert!(!container.contains("docker") && !container.contains("abc1"));
        assert_eq!(owner(&container).id, Some(format!("{:064}", 5)));
        assert!(owner(&of(&format!("/pod{POD}"))).pod.is_some());
    }

    #[test]
    fn cgroups_and_containers_are_found_by_their_paths() {
        let paths = [
            (1, "/a/b".to_owned()),
            (2, "/ab".to_owned()),
            (3, format!("/system.slice/docker-{}.scope/init", id("abcd1234"))),
            (4, format!("/kubepods/pod{POD}/x")),
            // a container in a container
            (5, format!("/docker/{:e<64}/docker/{:f<64}", "ee", "ff")),
        ];
        for (text, want) in [
            ("/", &[1, 2, 3, 4, 5][..]),
            ("/a", &[1]),
            ("/sys/fs/cgroup/a", &[1]),
            ("/sys/fs/cgroup/unified/a/", &[1]),
            ("eeeeeeee", &[5]),
            ("ffffffff", &[5]),
            ("abcd1234", &[3]),
            ("containerd://abcd1234", &[3]),
            ("/system.slice", &[3]),
            (POD, &[4]),
            ("abce", &[]),
        ] {
            let mut filter = Filter { cgroup: Some(text.into()), ..Filter::default() };
            for (id, path) in &paths {
                add(&mut filter, *id, &path.as_str().into());
            }
            assert_eq!(filter.within, want.iter().copied().collect(), "{text}");
        }
    }

    #[test]
    fn each_runtime_names_its_containers() {
        let machine = TestMachine::new(&[]);
        let (docker, podman, kube) = (id("aaaa"), id("bbbb"), id("cccc"));
        let [volatile, transient] = [id("eeee"), id("ffff")];
        let [store, in_memory] = PODMAN;
        let named = |id: &str, name: &str| format!(r#"[{{"id":"{id}","names":["{name}"]}}]"#);
        let in_overlay = "overlay-containers/volatile-containers.json";
        let damaged = format!(r#"[{{"id":"{podman}","names":["db\u001b"]}},{{"id":7}}]"#);
        for (path, text) in [
            (format!("{DOCKER}/{docker}/config.v2.json"), r#"{"ID":"x","Name":"/web"}"#),
            (format!("{store}/vfs-containers/containers.json"), &damaged),
            (format!("{store}/{in_overlay}"), &named(&volatile, "job")),
            (format!("{in_memory}/{in_overlay}"), &named(&transient, "once")),
            (format!("{store}/overlay-containers/containers.json"), "no JSON"),
            (format!("{CONTAINER_LOGS}/pg-0_prod_postgres-main-{kube}.log"), ""),
            (format!("{POD_LOGS}/prod_pg-0_{POD}/x"), ""),
        ] {
            machine.put(&path, text);
        }
        let want = [
            (docker, Some("web")),
            (podman, Some(r"db\u{1b}")),
            (volatile, Some("job")),
            (transient, Some("once")),
            (kube, Some("prod/pg-0/postgres-main")),
            (id("d"), None),
        ];
        let owners = want.clone().map(|(id, _)| Owner { pod: None, id: Some(id) });
        let mut names = BTreeMap::new();
        learn(&mut names, &machine, &owners);
        for (id, name) in want.into_iter().chain([(POD.to_owned(), Some("prod/pg-0"))]) {
            assert_eq!(names.get(&id).map(ToString::to_string).as_deref(), name, "{id}");
        }
    }
}
