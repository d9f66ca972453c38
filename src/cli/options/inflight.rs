// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `inflight`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use nvme_deep::session::settings::Filter;

use super::color;
use super::filter::ctrl_instance;
use crate::cli::inflight::InflightArgs;

/// `inflight`, checked.
#[derive(Clone, Debug)]
pub struct InflightOptions {
    /// Time between looks; `None`: a single one.
    pub interval: Option<Duration>,
    /// Number of looks; `None`: until a signal.
    pub count: Option<u64>,
    /// The age from which on a command gets a verdict.
    pub age: Duration,
    /// Show only commands of that age.
    pub old: bool,
    /// Which commands: controllers, namespaces and queues.
    pub filter: Filter,
    /// JSON instead of text.
    pub json: bool,
    /// A file with BTF.
    pub btf: Option<PathBuf>,
    /// Colour in text.
    pub color: bool,
}

impl TryFrom<InflightArgs> for InflightOptions {
    type Error = Error;

    fn try_from(args: InflightArgs) -> Result<Self, Error> {
        let InflightArgs {
            interval,
            count,
            age,
            old,
            ctrl,
            nsid,
            qid,
            json,
            btf,
            color: when,
        } = args;
        let ctrls = ctrl.iter().map(|c| ctrl_instance(c));
        Ok(Self {
            interval,
            count: if interval.is_some() { count } else { Some(1) },
            age,
            old,
            filter: Filter {
                ctrls: ctrls.collect::<Result<_, _>>()?,
                nsids: nsid.into_iter().collect(),
                qids: qid.into_iter().collect(),
                ..Filter::default()
            },
            json,
            btf,
            color: color(when, json),
        })
    }
}
