// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differs between releases of SPDK: where its structures have their fields, and the numbers of
//! its states. Read in the sources of 22.01 to 26.05 (include/spdk/nvmf_transport.h,
//! lib/nvmf/nvmf_internal.h, module/event/subsystems/nvmf/nvmf_tgt.c).

pub mod probes;

use std::fmt;

/// A release of SPDK: year and month. One under development has the number of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u8, pub u8);

impl Release {
    /// Reads `24.09`, `26.05-pre`, `25.05.1`; `None` if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let (year, rest) = text.split_once('.')?;
        let month = rest.split(['.', '-']).next()?;
        Some(Self(year.parse().ok()?, month.parse().ok()?))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0, self.1)
    }
}

/// Offsets in bytes of the fields that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `struct spdk_nvmf_request`: the pointer to the command.
    pub request_cmd: u32,
    /// The pointer to the response.
    pub request_rsp: u32,
    /// `struct spdk_nvmf_qpair`: the queue id.
    pub qpair_qid: u32,
    /// The pointer to the controller.
    pub qpair_ctrlr: u32,
}

impl Layout {
    /// The layout of a release; the latest for an unknown one.
    pub fn of(release: Option<Release>) -> Self {
        let latest = Self { request_cmd: 16, request_rsp: 24, qpair_qid: 2, qpair_ctrlr: 16 };
        match release {
            Some(r) if r < Release(23, 9) => {
                Self { request_cmd: 24, request_rsp: 32, qpair_qid: 48, qpair_ctrlr: 32 }
            }
            Some(r) if r < Release(24, 1) => Self { qpair_qid: 48, qpair_ctrlr: 32, ..latest },
            _ => latest,
        }
    }
}

/// States of a subsystem.
const SUBSYSTEM: [&str; 7] =
    ["INACTIVE", "ACTIVATING", "ACTIVE", "PAUSING", "PAUSED", "RESUMING", "DEACTIVATING"];

/// States of the target that all releases begin with.
const START: [&str; 5] = [
    "INIT_NONE",
    "INIT_CREATE_TARGET",
    "INIT_CREATE_POLL_GROUPS",
    "INIT_START_SUBSYSTEMS",
    "RUNNING",
];

/// The states after those, from each release on.
const STOP: [(Release, &[&str]); 4] = [
    (
        Release(0, 0),
        &[
            "FINI_STOP_SUBSYSTEMS",
            "FINI_DESTROY_POLL_GROUPS",
            "FINI_FREE_RESOURCES",
            "STOPPED",
            "ERROR",
        ],
    ),
    (
        Release(22, 1),
        &[
            "FINI_STOP_SUBSYSTEMS",
            "FINI_DESTROY_SUBSYSTEMS",
            "FINI_DESTROY_POLL_GROUPS",
            "FINI_DESTROY_TARGET",
            "STOPPED",
            "ERROR",
        ],
    ),
    (
        Release(24, 5),
        &[
            "FINI_STOP_LISTEN",
            "FINI_STOP_SUBSYSTEMS",
            "FINI_DESTROY_SUBSYSTEMS",
            "FINI_DESTROY_POLL_GROUPS",
            "FINI_DESTROY_TARGET",
            "STOPPED",
            "ERROR",
        ],
    ),
    (
        Release(26, 1),
        &[
            "FINI_STOP_SUBSYSTEMS",
            "FINI_STOP_LISTEN",
            "FINI_DESTROY_SUBSYSTEMS",
            "FINI_DESTROY_POLL_GROUPS",
            "FINI_DESTROY_TARGET",
            "STOPPED",
            "ERROR",
        ],
    ),
];

/// The name of a state of a subsystem.
pub fn subsystem_state(number: u64) -> Option<&'static str> {
    SUBSYSTEM.get(usize::try_from(number).ok()?).copied()
}

/// The name of a state of the target. Releases number them differently: `None` if this one is not
/// known, and the state is not among those that all have.
pub fn target_state(release: Option<Release>, number: u64) -> Option<&'static str> {
    let number = usize::try_from(number).ok()?;
    if let Some(name) = START.get(number) {
        return Some(name);
    }
    let release = release?;
    let mut later = STOP.iter().rev();
    let (_, names) = later.find(|(from, _)| release >= *from)?;
    names.get(number - START.len()).copied()
}

/// The name of a transport (`enum spdk_nvme_transport_type`).
pub const fn transport(number: u64) -> Option<&'static str> {
    match number {
        1 => Some("RDMA"),
        2 => Some("FC"),
        3 => Some("TCP"),
        256 => Some("PCIE"),
        1024 => Some("VFIOUSER"),
        4096 => Some("CUSTOM"),
        4097 => Some("CUSTOM_FABRICS"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_year_and_a_month() {
        assert_eq!(Release::parse("24.09-pre"), Some(Release(24, 9)));
        assert_eq!(Release::parse("25.05.1"), Some(Release(25, 5)));
        assert_eq!(Release::parse("main"), None);
        assert_eq!(Release::parse("25"), None);
    }

    #[test]
    fn the_states_of_the_target_depend_on_the_release() {
        let name = |year, month, n| target_state(Some(Release(year, month)), n);
        assert_eq!(name(21, 10, 7), Some("FINI_FREE_RESOURCES"));
        assert_eq!(name(24, 1, 5), Some("FINI_STOP_SUBSYSTEMS"));
        assert_eq!(name(24, 5, 5), Some("FINI_STOP_LISTEN"));
        assert_eq!(name(25, 9, 6), Some("FINI_STOP_SUBSYSTEMS"));
        assert_eq!(name(26, 5, 6), Some("FINI_STOP_LISTEN"));
        assert_eq!(name(26, 5, 11), Some("ERROR"));
        assert_eq!(name(26, 5, 12), None);
        assert_eq!(target_state(None, 4), Some("RUNNING"));
        assert_eq!(target_state(None, 5), None);
    }

    #[test]
    fn the_layout_depends_on_the_release() {
        let of = |year, month| Layout::of(Some(Release(year, month)));
        assert_eq!((of(23, 5).request_cmd, of(23, 5).qpair_qid), (24, 48));
        assert_eq!((of(23, 9).request_cmd, of(23, 9).qpair_qid), (16, 48));
        assert_eq!((of(24, 1).request_cmd, of(24, 1).qpair_qid), (16, 2));
        assert_eq!(of(26, 5), Layout::of(None));
    }
}
