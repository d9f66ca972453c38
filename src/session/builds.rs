// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builds of the BPF side (bpf/include/config.bpf.h), and which build a plan uses.

use std::io;

use super::Config;
use super::configure::counts_status;
use crate::abi::nd_config;
use crate::model::filter::Filter;
use crate::model::point::Point;
use crate::model::run::Pairing;
use crate::model::stage::StageSet;
use crate::probe::catalog::Method;
use crate::probe::plan::AttachPlan;

/// A build: an object, and the settings that are constants in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Commands are identified by their request.
    Request,
    /// The same for a kernel that only a file describes: without calls of kernel functions.
    Plain,
    /// The usual cases: latencies of one stage set.
    Usual(StageSet),
    /// The same, which also counts failed commands.
    Status(StageSet),
    /// The same, for single commands.
    Trace,
    /// Commands are identified by controller, queue and tag.
    Tag,
}

macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o.zst"))
    };
}

/// Pairs of the name and the value of settings.
macro_rules! named {
    ($config:expr, $($field:ident)*) => {
        vec![$((stringify!($field), u64::from($config.$field))),*]
    };
}

/// Whether a build for the usual cases supports the run.
fn is_usual(plan: &AttachPlan, config: &Config<'_>) -> bool {
    let facts = config.facts;
    facts.vmlinux_btf
        && facts.nvme_core_types.is_the_kernels()
        && !facts.rq_is_second
        && !facts.command_is_argument
        && !plan.may_lose_completions()
        && plan.method_of(Point::SetupOut) != Some(Method::Kprobe)
        && *config.filter == Filter::default()
        && config.lat.is_none()
        && !config.split_size
        && config.ignore.is_empty()
        && (!config.context || config.trace.is_some())
}

impl Build {
    /// The build for a plan.
    pub fn of(plan: &AttachPlan, config: &Config<'_>) -> Self {
        match plan.pairing {
            Pairing::Tag => Self::Tag,
            Pairing::Request if is_usual(plan, config) && config.trace.is_some() => Self::Trace,
            Pairing::Request if is_usual(plan, config) && counts_status(plan, config) => {
                Self::Status(plan.stage_set)
            }
            Pairing::Request if is_usual(plan, config) => Self::Usual(plan.stage_set),
            Pairing::Request if config.facts.vmlinux_btf => Self::Request,
            Pairing::Request => Self::Plain,
        }
    }

    /// The object file, compressed.
    const fn packed(self) -> &'static [u8] {
        match self {
            Self::Request => object!("nvme_deep"),
            Self::Plain => object!("nvme_deep_plain"),
            Self::Usual(StageSet::Total) => object!("nvme_deep_total"),
            Self::Usual(StageSet::Basic) => object!("nvme_deep_basic"),
            Self::Usual(StageSet::Fine) => object!("nvme_deep_fine"),
            Self::Status(StageSet::Total) => object!("nvme_deep_total_status"),
            Self::Status(StageSet::Basic) => object!("nvme_deep_basic_status"),
            Self::Status(StageSet::Fine) => object!("nvme_deep_fine_status"),
            Self::Trace => object!("nvme_deep_trace"),
            Self::Tag => object!("tracepoint"),
        }
    }

    /// The object file.
    ///
    /// # Errors
    /// If zstd lacks memory.
    pub fn object(self) -> io::Result<Vec<u8>> {
        zstd::decode_all(self.packed())
    }

    /// A setting that is zero in this build, but not in the configuration: a bug in [`Build::of`].
    pub fn contradiction(self, c: &nd_config) -> Option<&'static str> {
        let mut zeroes = match self {
            Self::Request | Self::Plain | Self::Tag => return None,
            Self::Trace => named!(c, details),
            Self::Usual(StageSet::Total) | Self::Status(StageSet::Total) => named!(
                c, trace stack verdict context end start_hook start_field doorbell
            ),
            Self::Usual(StageSet::Basic) | Self::Status(StageSet::Basic) => {
                named!(c, trace stack verdict context end)
            }
            Self::Usual(StageSet::Fine) | Self::Status(StageSet::Fine) => {
                named!(c, trace stack verdict context)
            }
        };
        if matches!(self, Self::Usual(_)) {
            zeroes.extend(named!(c, count_status details));
        }
        zeroes.extend(named!(
            c, lossy by_name check_fit rq_second cmd_arg split_size lat stack_at_entry
            test_ignore_every targ_any targ_by_lba targ_container
        ));
        let wrong = zeroes.into_iter().find(|(_, value)| *value != 0);
        wrong.map(|(name, _)| name)
    }
}
