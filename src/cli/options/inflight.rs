// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `inflight`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use nvme_deep::model::filter::Filter;
use nvme_deep::model::stack::StackAt;
use nvme_deep::model::stage::StageSet;
use nvme_deep::report::inflight::AgeLimit;
use nvme_deep::session::settings::Attaching;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;
use nvme_deep::session::settings::StackSample;

use super::color;
use super::filter::ctrl_instance;
use super::filter::disk_of;
use super::usage;
use crate::cli::inflight::InflightArgs;

/// `inflight`, checked.
#[derive(Clone, Debug)]
pub struct InflightOptions {
    /// Time between looks; `None`: a single one.
    pub interval: Option<Duration>,
    /// Number of looks; `None`: until a signal.
    pub count: Option<u64>,
    /// The age from which on a command gets a verdict.
    pub age: AgeLimit,
    /// Show the stack at the submission.
    pub kstack: bool,
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
            kstack,
            old,
            disk,
            ctrl,
            nsid,
            qid,
            json,
            btf,
            color: when,
        } = args;
        if let (AgeLimit::TimesP99(times), None) = (age, interval) {
            return Err(usage(format!(
                "--age {times}x needs an INTERVAL, because p99 is that of commands traced meanwhile: \
                 `nvme-deep inflight 1 --age {times}x`"
            )));
        }
        if kstack && interval.is_none() {
            return Err(usage(
                "--kstack needs an INTERVAL, because a stack is taken at the submission: \
                 `nvme-deep inflight 1 --kstack`",
            ));
        }
        let ctrls = ctrl.iter().map(|c| ctrl_instance(c));
        let mut filter = Filter {
            ctrls: ctrls.collect::<Result<_, _>>()?,
            nsids: nsid.into_iter().collect(),
            qids: qid.into_iter().collect(),
            ..Filter::default()
        };
        if let Some(disk) = disk {
            // a partition stands for its disk: the blocks of a command are not read
            let disk = disk_of(&disk)?;
            filter.ctrls = disk.controllers.into_iter().collect();
            filter.nsids = BTreeSet::from([disk.nsid]);
        }
        Ok(Self {
            interval,
            count: if interval.is_some() { count } else { Some(1) },
            age,
            kstack,
            old,
            filter,
            json,
            btf,
            color: color(when, json),
        })
    }
}

impl InflightOptions {
    /// The settings of the run that observes submissions, if one is needed.
    pub fn tracing(&self) -> Option<Settings> {
        let by_p99 = matches!(self.age, AgeLimit::TimesP99(_));
        let stack = self.kstack.then_some(StackSample::every(StackAt::Submit));
        (by_p99 || self.kstack).then(|| Settings {
            filter: Filter {
                ctrls: self.filter.ctrls.clone(),
                ..Filter::default()
            },
            attaching: Attaching {
                btf: self.btf.clone(),
                ..Attaching::default()
            },
            ..Mode::Flight(stack).with(StageSet::Total)
        })
    }
}
