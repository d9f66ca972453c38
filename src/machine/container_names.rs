// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of containers and pods as people know them, from the state files of the runtimes: docker,
//! podman, and kubelet's logs. No daemon is asked. A file that cannot be read names nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::System;
use super::foreign::read_some;
use super::sysfs::names_in;
use crate::model::group::Owner;
use crate::model::untrusted::Untrusted;

/// Bytes of a state file that are read.
const MOST: u64 = 16 << 20;
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
struct Names<'n>(&'n mut BTreeMap<String, Untrusted>);

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
    serde_json::from_slice(&read_some(path, MOST).ok()?).ok()
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
pub fn learn(names: &mut BTreeMap<String, Untrusted>, system: &System, owners: &[Owner]) {
    let ids = owners.iter().flat_map(|o| o.id.iter().chain(&o.pod));
    let unknown = |names: &BTreeMap<String, Untrusted>| -> Vec<&String> {
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
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    fn id(begin: &str) -> String {
        format!("{begin:0<64}")
    }

    #[test]
    fn each_runtime_names_its_containers() {
        let root = TempDir::new().unwrap();
        let (docker, podman, kube) = (id("aaaa"), id("bbbb"), id("cccc"));
        let [volatile, transient] = [id("eeee"), id("ffff")];
        let uid = "0b6d2f9e-1c3a-4d5e-8f70-112233445566";
        put(&root, &format!("{DOCKER}/{docker}/config.v2.json"), r#"{"ID":"x","Name":"/web"}"#);
        let list = format!(r#"[{{"id":"{podman}","names":["db\u001b"]}},{{"id":7}}]"#);
        let [store, in_memory] = PODMAN;
        put(&root, &format!("{store}/vfs-containers/containers.json"), &list);
        for (dir, id, name) in [(store, &volatile, "job"), (in_memory, &transient, "once")] {
            let list = format!(r#"[{{"id":"{id}","names":["{name}"]}}]"#);
            let path = format!("{dir}/overlay-containers/volatile-containers.json");
            put(&root, &path, &list);
        }
        put(&root, &format!("{store}/overlay-containers/containers.json"), "no JSON");
        put(&root, &format!("{CONTAINER_LOGS}/pg-0_prod_postgres-main-{kube}.log"), "");
        put(&root, &format!("{POD_LOGS}/prod_pg-0_{uid}/x"), "");
        let owner = |id: &str| Owner { pod: None, id: Some(id.to_owned()) };
        let owners = [
            owner(&docker),
            owner(&podman),
            owner(&volatile),
            owner(&transient),
            owner(&kube),
            owner(&id("d")),
        ];
        let system = System::at(root.path());
        let mut names = BTreeMap::new();
        learn(&mut names, &system, &owners);
        let of = |id: &str| names.get(id).map(ToString::to_string);
        assert_eq!(of(&docker).as_deref(), Some("web"));
        assert_eq!(of(&podman).as_deref(), Some(r"db\u{1b}"));
        assert_eq!(of(&volatile).as_deref(), Some("job"));
        assert_eq!(of(&transient).as_deref(), Some("once"));
        assert_eq!(of(&kube).as_deref(), Some("prod/pg-0/postgres-main"));
        assert_eq!(of(uid).as_deref(), Some("prod/pg-0"));
        assert_eq!(of(&id("d")), None);
    }
}
