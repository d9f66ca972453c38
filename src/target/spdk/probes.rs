// SPDX-License-Identifier: MIT OR Apache-2.0
//! The USDT probes of SPDK's NVMe-oF target that report changes of state: their arguments, and what
//! they mean. Their first argument is a time of SPDK's own clock, or 0, and is left out. The
//! arguments are the same from 22.01 to 26.05; later releases have more probes.

use super::{Release, subsystem_state, target_state, transport};
use crate::model::text::Text;

/// Arguments of a probe that are read, with the first one.
pub const ARGS: usize = 6;

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// The address of a text.
    Text,
    /// An id.
    Number,
    /// A result: 0, or a negative error.
    Result,
    /// The address of a structure.
    Address,
    /// A state of a subsystem.
    Subsystem,
    /// A state of the target.
    Target,
    /// A type of transport.
    Transport,
}

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateProbe {
    /// Its name.
    pub name: &'static str,
    fields: &'static [(&'static str, Is)],
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Text),
    /// A number.
    Number(u64),
    /// A result.
    Result(i64),
    /// An address in the process.
    Address(u64),
    /// A number with its name, if this release is known to have it.
    Named(u64, Option<&'static str>),
}

/// A change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Its time, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The probe.
    pub probe: &'static str,
    /// Names and values of its arguments.
    pub fields: Vec<(&'static str, Value)>,
}

const NQN: (&str, Is) = ("nqn", Is::Text);
const HOST: (&str, Is) = ("host", Is::Text);
const NSID: (&str, Is) = ("nsid", Is::Number);
const QID: (&str, Is) = ("qid", Is::Number);
const THREAD: (&str, Is) = ("thread", Is::Number);
const QPAIR: (&str, Is) = ("qpair", Is::Address);
const CTRLR: (&str, Is) = ("ctrlr", Is::Address);
const TGT: (&str, Is) = ("tgt", Is::Address);
const TO: (&str, Is) = ("to", Is::Subsystem);
const FROM: (&str, Is) = ("from", Is::Subsystem);
const LISTENER: &[(&str, Is)] =
    &[NQN, ("trtype", Is::Transport), ("traddr", Is::Text), ("trsvcid", Is::Text)];
const QPAIR_THREAD: &[(&str, Is)] = &[QPAIR, THREAD];
const QPAIR_ID_THREAD: &[(&str, Is)] = &[QPAIR, QID, THREAD];
const NS_HOST: &[(&str, Is)] = &[NQN, NSID, HOST, ("flags", Is::Number)];

const fn probe(name: &'static str, fields: &'static [(&'static str, Is)]) -> StateProbe {
    StateProbe { name, fields }
}

/// The probes.
pub static PROBES: [StateProbe; 37] = [
    probe("nvmf_tgt_state", &[("state", Is::Target)]),
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
        let texts = texts.filter(|(_, (_, is))| *is == Is::Text);
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
                Is::Text => Value::Text(texts.next().map(Into::into).unwrap_or_default()),
                Is::Number => Value::Number(arg),
                Is::Result => Value::Result(arg.cast_signed()),
                Is::Address => Value::Address(arg),
                Is::Subsystem => Value::Named(arg, subsystem_state(arg)),
                Is::Target => Value::Named(arg, target_state(release, arg)),
                Is::Transport => Value::Named(arg, transport(arg)),
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
            [("thread", Value::Number(3)), ("nqn", Value::Text("nqn.a".into()))]
        );
        let listener =
            of("nvmf_subsystem_add_listener", [0, 9, 3, 9, 9, 0], &["nqn.a", "127.0.0.1", "4420"]);
        assert_eq!(listener[0], ("nqn", Value::Text("nqn.a".into())));
        assert_eq!(listener[1], ("trtype", Value::Named(3, Some("TCP"))));
        assert_eq!(listener[3], ("trsvcid", Value::Text("4420".into())));
        let done = of("nvmf_subsystem_change_state_done", [0, 9, 2, 1, u64::MAX, 0], &["nqn.a"]);
        assert_eq!(done[1], ("to", Value::Named(2, Some("ACTIVE"))));
        assert_eq!(done[2], ("from", Value::Named(1, Some("ACTIVATING"))));
        assert_eq!(done[3], ("status", Value::Result(-1)));
    }
}
