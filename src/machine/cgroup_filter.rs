// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters by cgroups of a recording: from the paths that it has to the ids of its events.

use std::path::{Path, PathBuf};

use crate::model::container::is_of_container;
use crate::model::filter::Filter;
use crate::model::origin::is_within;
use crate::model::untrusted::Untrusted;

/// Where cgroups of version 2 are usually mounted.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Whether a cgroup is within the directory that an option names, or the path below the mount point.
fn is_below(path: &Untrusted, option: &Path) -> bool {
    let option = Untrusted::from_os(option);
    let option = option.raw();
    let mounted = |mount: &&str| is_within(option, mount);
    let top = MOUNTS.iter().find(|mount| mounted(mount));
    let below = top.and_then(|mount| option.strip_prefix(mount));
    is_within(path.raw(), below.unwrap_or(option))
}

/// Adds a cgroup of a recording to those that the filter selects, if it does.
pub fn add(filter: &mut Filter, id: u64, path: &Untrusted) {
    let selects = |option: &Option<PathBuf>| {
        let option = option.as_ref();
        option.is_some_and(|option| is_below(path, option))
    };
    if selects(&filter.cgroup) {
        filter.within.cgroup.insert(id);
    }
    if selects(&filter.submitter_cgroup) {
        filter.within.submitter.insert(id);
    }
    let container = filter.container.as_ref().map(Untrusted::from_os);
    let is_of = container.is_some_and(|text| {
        let text = text.raw();
        let id = text.split_once("://").map_or(text, |(_, id)| id);
        match id.contains('/') {
            true => is_below(path, Path::new(id)),
            false => is_of_container(path, id),
        }
    });
    if is_of {
        filter.within.container.insert(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_and_containers_are_found_by_their_paths() {
        let id = format!("{:0<64}", "abcd1234");
        let paths = [
            (1, "/a/b".to_owned()),
            (2, "/ab".to_owned()),
            (3, format!("/system.slice/docker-{id}.scope/init")),
            (4, "/kubepods/pod0b6d2f9e-1c3a-4d5e-8f70-112233445566/x".to_owned()),
            // a container in a container
            (5, format!("/docker/{:e<64}/docker/{:f<64}", "ee", "ff")),
        ];
        let of = |change: &dyn Fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            for (id, path) in &paths {
                add(&mut filter, *id, &path.as_str().into());
            }
            filter.within
        };
        for top in ["/a", "/sys/fs/cgroup/a", "/sys/fs/cgroup/unified/a/"] {
            let within = of(&|f| f.cgroup = Some(top.into()));
            assert_eq!(within.cgroup, [1].into(), "{top}");
            assert!(within.submitter.is_empty() && within.container.is_empty());
            let within = of(&|f| f.submitter_cgroup = Some(top.into()));
            assert_eq!(within.submitter, [1].into(), "{top}");
        }
        assert_eq!(of(&|f| f.cgroup = Some("/".into())).cgroup.len(), 5);
        let containers = [
            ("eeeeeeee", 5),
            ("ffffffff", 5),
            ("abcd1234", 3),
            ("containerd://abcd1234", 3),
            ("/system.slice", 3),
            ("0b6d2f9e-1c3a-4d5e-8f70-112233445566", 4),
        ];
        for (text, want) in containers {
            let within = of(&|f| f.container = Some(text.into()));
            assert_eq!(within.container, [want].into(), "{text}");
        }
        assert!(of(&|f| f.container = Some("abce".into())).container.is_empty());
    }
}
