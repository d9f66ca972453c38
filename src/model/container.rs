// SPDX-License-Identifier: MIT OR Apache-2.0
//! The container, pod or unit that a cgroup belongs to, from its path.

use super::group::Owner;

/// Digits of an ID that suffice.
pub(crate) const MIN_DIGITS: usize = 8;
/// Digits of a whole ID.
const DIGITS: usize = 64;
/// The ID of the container whose cgroup has this name: the name itself (driver cgroupfs), or the last
/// part of a scope (driver systemd): `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`.
pub(crate) fn id_of(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (of, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    // the cgroup of the process that watches the container
    let is_monitor = of.ends_with("conmon");
    let is_id = id.len() == DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    (is_id && !is_monitor).then_some(id)
}

/// The UID of the pod whose cgroup has this name, without dashes: `podUID` (driver cgroupfs), or
/// `kubepods-burstable-podUID.slice` (driver systemd).
pub(crate) fn pod_of(name: &str) -> Option<String> {
    let name = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit('-').next()?,
        None => name,
    };
    let uid = name.strip_prefix("pod")?.replace(['-', '_'], "");
    (uid.len() == 32 && uid.bytes().all(|b| b.is_ascii_hexdigit())).then_some(uid)
}

/// Whether a cgroup is of the container whose ID begins with these digits, or of the pod with this UID.
pub(crate) fn is_of_container(path: &str, text: &str) -> bool {
    let digits = digits_of(text);
    // as while tracing: with the cgroups below it, which may belong to other containers
    let is_of = |name: &str| {
        id_of(name).is_some_and(|id| id.starts_with(&digits))
            || pod_of(name).is_some_and(|uid| uid == digits)
    };
    digits.len() >= MIN_DIGITS && path.split('/').any(is_of)
}

/// The digits of the ID of a container, or of the UID of a pod.
pub(crate) fn digits_of(text: &str) -> String {
    let digits = text.strip_prefix("pod").unwrap_or(text);
    digits.replace(['-', '_'], "").to_ascii_lowercase()
}

/// Whether the cgroup of a container has this name.
pub(crate) fn is_container_name(name: &str) -> bool {
    id_of(name).is_some()
}

/// Whether the cgroup of a pod has this name.
pub(crate) fn is_pod_name(name: &str) -> bool {
    pod_of(name).is_some()
}

/// The UID of a pod with its dashes.
fn dashed(uid: &str) -> String {
    let ends = [8, 12, 16, 20, 32];
    let mut parts = Vec::new();
    let mut from = 0;
    for end in ends {
        parts.extend(uid.get(from..end));
        from = end;
    }
    parts.join("-")
}

/// The container and the pod that a cgroup belongs to, from its path.
pub(crate) fn owner(path: &str) -> Owner {
    let mut owner = Owner::default();
    for name in path.split('/') {
        if let Some(uid) = pod_of(name) {
            owner.pod = Some(dashed(&uid));
        }
        if let Some(id) = id_of(name) {
            owner.id = Some(id.to_owned());
        }
    }
    owner
}

/// The unit of systemd whose cgroup has this path: a service or a scope.
pub(crate) fn unit(path: &str) -> Option<&str> {
    let last = path.rsplit('/').next()?;
    let is_unit = last.ends_with(".service") || last.ends_with(".scope");
    is_unit.then_some(last)
}
