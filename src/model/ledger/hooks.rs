// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hooks in the ledger: which are attached, which are not, and why.

use serde::{Deserialize, Serialize};

use crate::model::text::Text;

/// A hook in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookLine {
    /// The point that it observes; `None` for hooks that observe no point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<Text>,
    /// `tp_btf`, `fentry`, `fexit`, `raw_tp`, `kprobe`, `kretprobe`, `tp`.
    pub kind: Text,
    /// Function or tracepoint.
    pub target: Text,
    /// Number of times that it fired for an NVMe request.
    pub hits: u64,
    /// Of these, hits of the second instance of the program, for events at which the kernel skipped
    /// the first. `None` if there is no second instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_second: Option<u64>,
    /// Runs that the kernel skipped, because the program was already running on that CPU, or, for
    /// kprobe and tracepoint programs, because any such program was. With a second instance, the
    /// events that both instances missed.
    pub recursion_misses: u64,
    /// Whether the kernel counts these misses. If not, their number is not known.
    pub misses_known: bool,
    /// Why it may have no hits although commands passed.
    // recordings of earlier builds say `seldom`
    #[serde(skip_serializing_if = "Option::is_none", alias = "seldom")]
    pub may_stay_silent: Option<Text>,
}

/// The attach method of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointMethod {
    /// The point; for hooks without a point their role, such as `requeue`.
    pub point: Text,
    /// `fentry`, `rawtp`, `kprobe`, `tracepoint`; `start_time_ns` for a start that is read from the
    /// request; `None`: not observed.
    pub method: Option<Text>,
}

/// An attach method that was not available for a point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingHook {
    /// The point; for hooks without a point their role, such as `requeue`.
    pub point: Text,
    /// The method: `fentry`, `rawtp`, `kprobe`, `tracepoint`.
    pub method: Text,
    /// The hook that is not available.
    pub hook: Text,
    /// The reason.
    pub why: Text,
    /// The method seemed possible, and the kernel refused it.
    pub tried: bool,
    /// The method that is used instead; `None`: the point is not observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<Text>,
}
