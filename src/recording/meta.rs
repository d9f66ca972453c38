// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of a recording other than events: JSON objects. A reader ignores keys that it does not
//! have; a key that a file lacks has its default.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::event::StackId;
use crate::model::ledger::Ledger;
use crate::model::stack::{Frame, StackAt};
use crate::model::stage::StageSet;
use crate::model::target::TargetInfo;
use crate::model::text::Text;

/// What was recorded, where and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunInfo {
    /// Version of the program that wrote the file.
    pub program: Text,
    /// Name of the machine.
    pub host: Option<Text>,
    /// `uname -r`
    pub kernel: Option<Text>,
    /// `uname -m`
    pub arch: Text,
    /// The hypervisor, or that there is none.
    pub machine: Option<Text>,
    /// Differs for each boot: recordings of one boot share their clock.
    pub boot_id: Option<Text>,
    /// CLOCK_MONOTONIC nanoseconds at which the run began.
    pub begin_ns: u64,
    /// Wall clock minus CLOCK_MONOTONIC when the file was begun, in nanoseconds; `None`: not known, or left
    /// out.
    pub wall_ns: Option<i64>,
    /// One event per command, at its completion; otherwise one at the setup, too.
    pub pairs: bool,
    /// The stage set; `total`: the events have no points.
    pub stage_set: StageSet,
    /// Where stacks were taken.
    pub stack: Option<StackAt>,
    /// The stack of one command in this many was taken.
    #[serde(rename = "one_in")]
    pub sample_period: u32,
    /// Options that select commands, as typed in a shell; empty: all commands.
    pub filter: Text,
    /// Only commands that took at least this long, or whose latency is not known.
    pub slow_ns: Option<u64>,
    /// Only commands that failed.
    pub errors: bool,
    /// Only the first commands, at most this many.
    pub count: Option<u64>,
    /// Whether SQ heads and tails were recorded. `None`: written before this was noted.
    pub sq: Option<bool>,
    /// Whether asynchronous events were recorded. `None`: written before this was noted.
    pub aen: Option<bool>,
    /// Whether the conditions of commands, and what the machine did besides, were recorded.
    pub context: bool,
    /// Whether the cgroups of commands were recorded.
    #[serde(skip_serializing_if = "is_false")]
    pub cgroups: bool,
    /// Whether the submitters of bios were recorded.
    #[serde(skip_serializing_if = "is_false")]
    pub submitters: bool,
    /// How a ring came into the file (`record --keep`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingInfo>,
    /// Without names of the machine, of its controllers, of processes and of cgroups.
    pub redacted: bool,
    /// What the events were read from, if they were not observed: `ftrace text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Text>,
    /// The target whose commands these are; `None`: the driver's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetInfo>,
}

impl RunInfo {
    /// Removes the names of the machine, and the text of the filters, which may have names.
    pub fn redact(&mut self) {
        self.host = None;
        self.boot_id = None;
        if !self.filter.is_empty() {
            self.filter = "redacted".into();
        }
        self.redacted = true;
    }

    /// The options other than filters that left commands out; empty: none.
    pub fn chosen_by(&self) -> String {
        let slow = self.slow_ns.map(|ns| {
            let time = format!("{:?}", Duration::from_nanos(ns));
            format!("--slow {}", time.replace('µ', "u"))
        });
        let errors = self.errors.then(|| "--errors".to_owned());
        let count = self.count.map(|n| format!("-n {n}"));
        let all = [slow, errors, count].into_iter().flatten();
        all.collect::<Vec<String>>().join(" ")
    }
}

const fn is_false(is: &bool) -> bool {
    !*is
}

/// Why a ring was written, and how far back it reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingInfo {
    /// What has happened.
    pub trigger: Text,
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub trigger_ns: u64,
    /// The first event of the file is this long before it, in nanoseconds.
    pub reaches_ns: u64,
}

impl RingInfo {
    /// `the last 58 min before: timeout on nvme0`.
    pub fn text(&self) -> String {
        let time = match self.reaches_ns / 1_000_000_000 {
            s @ 0..120 => format!("{s} s"),
            s => format!("{} min", s / 60),
        };
        format!("the last {time} before: {}", self.trigger)
    }
}

/// A line of the kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLine {
    /// Nanoseconds since the boot.
    pub at_ns: u64,
    /// The text.
    pub text: Text,
}

/// A cgroup that later events refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupInfo {
    /// Its id in the kernel.
    pub id: u64,
    /// Its path below the mount point, beginning with a slash.
    pub path: Text,
}

/// The offset of the wall clock, from here on: it may be set during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockOffset {
    /// Wall clock minus CLOCK_MONOTONIC, in nanoseconds.
    pub wall_ns: i64,
}

/// A stack that later events refer to. Addresses are not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackInfo {
    /// Its number in this file.
    pub id: StackId,
    /// Frames, innermost first.
    pub frames: Vec<Frame>,
}

/// The ledger at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerInfo<L = Ledger> {
    /// Nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Events that were dropped from memory before the file was written (`record --ring`).
    pub evicted: u64,
    /// The ledger, as in the JSON of a report; `None`: it does not have the form of a ledger.
    pub ledger: Option<L>,
}
