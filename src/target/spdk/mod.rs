// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differs between releases of SPDK: where its structures have their fields, and the numbers of
//! its states. Read in the sources of 22.01 to 26.05 (include/spdk/nvmf_transport.h,
//! lib/nvmf/nvmf_internal.h, module/event/subsystems/nvmf/nvmf_tgt.c).

use std::fmt;

use crate::model::text::Text;
use crate::target::StateChange;
use serde_json::Value;

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

/// States of the target in 22.01, in their order.
const TARGET: [&str; 11] = [
    "INIT_NONE",
    "INIT_CREATE_TARGET",
    "INIT_CREATE_POLL_GROUPS",
    "INIT_START_SUBSYSTEMS",
    "RUNNING",
    "FINI_STOP_SUBSYSTEMS",
    "FINI_DESTROY_SUBSYSTEMS",
    "FINI_DESTROY_POLL_GROUPS",
    "FINI_DESTROY_TARGET",
    "STOPPED",
    "ERROR",
];

/// The name of a state of a subsystem.
fn subsystem_state(_: Option<Release>, number: u64) -> Option<&'static str> {
    SUBSYSTEM.get(usize::try_from(number).ok()?).copied()
}

/// The name of a state of the target. Releases number them differently: `None` if this one is not
/// known, and the state is not among those that all have.
fn target_state(release: Option<Release>, number: u64) -> Option<&'static str> {
    let number = usize::try_from(number).ok()?;
    let mut names = TARGET.to_vec();
    let (stop_listen, supported) = ("FINI_STOP_LISTEN", release.filter(|r| *r >= Release(22, 1)));
    match supported {
        Some(r) if r >= Release(26, 1) => names.insert(6, stop_listen),
        Some(r) if r >= Release(24, 5) => names.insert(5, stop_listen),
        Some(_) => {}
        None => names.truncate(5),
    }
    names.get(number).copied()
}

/// The name of a transport (`enum spdk_nvme_transport_type`).
const fn transport(_: Option<Release>, number: u64) -> Option<&'static str> {
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

/// Arguments of a probe that are read, with the first one.
pub const ARGS: usize = 6;

/// What an argument is.
#[derive(Clone, Copy, Debug)]
enum Is {
    /// The address of a text.
    Text,
    /// An id.
    Number,
    /// A result: 0, or a negative error.
    Result,
    /// The address of a structure.
    Address,
    /// A number that may have a name in this release.
    Named(fn(Option<Release>, u64) -> Option<&'static str>),
}

/// A probe.
#[derive(Clone, Copy, Debug)]
pub struct StateProbe {
    /// Its name.
    pub name: &'static str,
    fields: &'static [(&'static str, Is)],
}

const NQN: (&str, Is) = ("nqn", Is::Text);
const HOST: (&str, Is) = ("host", Is::Text);
const NSID: (&str, Is) = ("nsid", Is::Number);
const QID: (&str, Is) = ("qid", Is::Number);
const THREAD: (&str, Is) = ("thread", Is::Number);
const QPAIR: (&str, Is) = ("qpair", Is::Address);
const CTRLR: (&str, Is) = ("ctrlr", Is::Address);
const TGT: (&str, Is) = ("tgt", Is::Address);
const TO: (&str, Is) = ("to", Is::Named(subsystem_state));
const FROM: (&str, Is) = ("from", Is::Named(subsystem_state));
const LISTENER: &[(&str, Is)] =
    &[NQN, ("trtype", Is::Named(transport)), ("traddr", Is::Text), ("trsvcid", Is::Text)];
const QPAIR_THREAD: &[(&str, Is)] = &[QPAIR, THREAD];
const QPAIR_ID_THREAD: &[(&str, Is)] = &[QPAIR, QID, THREAD];
const NS_HOST: &[(&str, Is)] = &[NQN, NSID, HOST, ("flags", Is::Number)];

const fn probe(name: &'static str, fields: &'static [(&'static str, Is)]) -> StateProbe {
    StateProbe { name, fields }
}

/// The probes.
pub static PROBES: [StateProbe; 37] = [
    probe("nvmf_tgt_state", &[("state", Is::Named(target_state))]),
    probe("nvmf_tgt_add_transport", &[("transport", Is::Address), ("tgt", Is::Text)]),
    probe("nvmf_tgt_pause_polling", &[TGT, ("name", Is::Text)]),
    probe("nvmf_tgt_resume_polling", &[TGT, ("name", Is::Text)]),
    probe("nvmf_subsystem_create", &[NQN]),
    probe("nvmf_subsystem_destroy", &[NQN]),
    probe("nvmf_subsystem_change_state", &[NQN, TO, FROM]),
    probe("nvmf_subsystem_change_state_done", &[NQN, TO, FROM, ("status", Is::Result)]),
    probe("nvmf_pg_change_state", &[NQN, TO, THREAD]),
    probe("nvmf_pg_change_state_done", &[NQN, TO, THREAD]),
    probe("nvmf_subsystem_add_host", &[NQN, HOST]),
    probe("nvmf_subsystem_remove_host", &[NQN, HOST]),
    probe("nvmf_subsystem_add_listener", LISTENER),
    probe("nvmf_subsystem_remove_listener", LISTENER),
    probe("nvmf_subsystem_add_ns", &[NQN, NSID]),
    probe("nvmf_ns_change", &[NSID, NQN]),
    probe("spdk_nvmf_ns_add_host", NS_HOST),
    probe("spdk_nvmf_ns_remove_host", NS_HOST),
    probe("nvmf_subsystem_add_ctrlr", &[NQN, CTRLR, HOST]),
    probe("nvmf_subsystem_remove_ctrlr", &[NQN, CTRLR, HOST]),
    probe("nvmf_create_poll_group", &[THREAD]),
    probe("nvmf_destroy_poll_group", &[THREAD]),
    probe("nvmf_destroy_poll_group_qpairs", &[THREAD]),
    probe("nvmf_poll_group_add_subsystem", &[THREAD, NQN]),
    probe("nvmf_poll_group_remove_subsystem", &[("group", Is::Address), THREAD, NQN]),
    probe("nvmf_poll_group_add_qpair", QPAIR_THREAD),
    probe("nvmf_poll_group_remove_qpair", QPAIR_THREAD),
    probe("nvmf_poll_group_drain_qpair", QPAIR_THREAD),
    probe("nvmf_qpair_disconnect", QPAIR_THREAD),
    probe("nvmf_transport_poll_group_create", &[("transport", Is::Address), THREAD]),
    probe("nvmf_transport_poll_group_add", QPAIR_ID_THREAD),
    probe("nvmf_transport_poll_group_remove", QPAIR_ID_THREAD),
    probe("nvmf_transport_qpair_fini", &[QPAIR]),
    probe("nvmf_ctrlr_create", &[CTRLR, NQN, THREAD]),
    probe("nvmf_ctrlr_destruct", &[CTRLR, NQN, THREAD]),
    probe("nvmf_ctrlr_add_qpair", &[QPAIR, QID, NQN, HOST]),
    probe("nvmf_ctrlr_add_io_qpair", &[CTRLR, QPAIR, QID, THREAD]),
];

impl StateProbe {
    /// The number of its arguments. One of a release with another number has another meaning.
    pub const fn args(&self) -> usize {
        self.fields.len() + 1
    }

    /// A bit for each argument that is a text. Bit 0 stands for the first one, the time.
    pub fn texts(&self) -> u64 {
        let texts = self.fields.iter().enumerate();
        let texts = texts.filter(|(_, (_, is))| matches!(is, Is::Text));
        texts.map(|(n, _)| 2 << n).sum()
    }

    /// The change that a hit reports. `texts`: the arguments that are texts, in order.
    pub fn decode(
        &self,
        release: Option<Release>,
        at_ns: u64,
        args: &[u64; ARGS],
        texts: &[String],
    ) -> StateChange {
        let mut texts = texts.iter();
        let fields = self.fields.iter().zip(&args[1..]);
        let fields = fields.map(|(&(name, is), &arg)| {
            let value = match is {
                Is::Text => Text::from(texts.next().map_or("", |text| text)).as_str().into(),
                Is::Number => arg.into(),
                Is::Result => arg.cast_signed().into(),
                Is::Address => format!("{arg:#x}").into(),
                Is::Named(name) => name(release, arg).map_or_else(|| arg.into(), Value::from),
            };
            (name, value)
        });
        StateChange { at_ns, probe: self.name, fields: fields.collect() }
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
        assert_eq!(name(21, 10, 7), None);
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

#[cfg(test)]
mod probes_tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_probe_has_room() {
        for probe in &PROBES {
            assert!(probe.fields.len() < ARGS, "{}", probe.name);
            assert!(probe.texts().count_ones() <= 3, "{}", probe.name);
        }
    }

    /// What nvmf.bt prints as a pointer or as a number is a number or a text here.
    #[test]
    fn threads_are_numbers_and_names_are_texts() {
        let of = |name: &str, args, texts: &[&str]| {
            let probe = PROBES.iter().find(|p| p.name == name).unwrap();
            let texts: Vec<String> = texts.iter().map(|&t| t.into()).collect();
            probe.decode(Some(Release(26, 5)), 7, &args, &texts).fields
        };
        assert_eq!(
            of("nvmf_poll_group_add_subsystem", [0, 3, 9, 0, 0, 0], &["nqn.a"]),
            [("thread", json!(3)), ("nqn", json!("nqn.a"))]
        );
        let listener =
            of("nvmf_subsystem_add_listener", [0, 9, 3, 9, 9, 0], &["nqn.a", "127.0.0.1", "4420"]);
        assert_eq!(listener[..2], [("nqn", json!("nqn.a")), ("trtype", json!("TCP"))]);
        assert_eq!(listener[3], ("trsvcid", json!("4420")));
        let args = [0, 9, 2, 99, u64::MAX, 0];
        let done = of("nvmf_subsystem_change_state_done", args, &["nqn.a\u{1b}"]);
        assert_eq!(done[..2], [("nqn", json!("nqn.a\\u{1b}")), ("to", json!("ACTIVE"))]);
        assert_eq!(done[2..], [("from", json!(99)), ("status", json!(-1))]);
        assert_eq!(of("nvmf_transport_qpair_fini", [0, 255, 0, 0, 0, 0], &[])[0].1, "0xff");
    }
}
