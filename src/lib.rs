// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-stage latency of NVMe commands inside the Linux driver, by eBPF.
//!
//! ```text
//!   kernel                                                            commands
//!  ┌───────────────────┐  maps   ┌─────────┐ snapshots ┌───────────┐  ┌───────────────────┐
//!  │ nvme driver       │  ring   │ session ├──────────▶│    run    ├─▶│ latency, trace ...│
//!  │  └▶ BPF programs  ├────────▶│  + abi  │ events    │ one event │  │  numbers, output  │
//!  │     (bpf/)        │         │         ├──────────▶│   loop    │  └───────────────────┘
//!  └───────────────────┘         │         │           └───────────┘     view, model, nvme
//!       ▲ attach                 └────▲────┘                 ▲
//!       │        plan: which hooks    │                  recording
//!       └─────── and why not better ──┴─ probe ◀── facts ── machine
//! ```
//!
//! [`model`] is the data: points, stages, events, counters, histograms. [`nvme`] decodes commands and
//! statuses. [`recording`] reads and writes files of events. [`probe`] decides what to attach. Each
//! command has a module of its own; [`view`] has what several of them print with.
//!
//! The feature `live` adds the session, which traces this machine by libbpf. Without it
//! (`default-features = false`) the program reads recordings. docs/dev/architecture.md has the layout, and
//! the way of a command through all of it.
//!
//! ```
//! use nvme_deep::{Opcode, QueueKind, Status};
//!
//! let read = Opcode { queue: QueueKind::Io, code: 2 };
//! assert_eq!(read.name(), Some("read"));
//! let status = Status(0x281);
//! assert_eq!(status.to_string(), "Media/Unrecovered Read Error (0x281)");
//! ```

#[doc(hidden)]
pub mod abi;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod diagnose;
#[doc(hidden)]
pub mod diff;
mod dist;
#[doc(hidden)]
pub mod doctor;
pub mod error;
mod export;
mod heatmap;
#[doc(hidden)]
pub mod host;
mod import;
#[doc(hidden)]
pub mod inflight;
mod info;
mod join;
mod latency;
#[doc(hidden)]
pub mod machine;
pub mod model;
pub mod nvme;
mod pattern;
pub mod probe;
mod record;
pub mod recording;
mod report;
mod run;
#[doc(hidden)]
pub mod serve;
#[doc(hidden)]
#[cfg_attr(not(feature = "live"), path = "session/offline.rs")]
pub mod session;
#[doc(hidden)]
pub mod settings;
mod stacks;
#[doc(hidden)]
pub mod stats;
#[doc(hidden)]
pub mod symbols;
pub mod target;
mod top;
mod trace;
#[doc(hidden)]
pub mod units;
pub mod view;
#[doc(hidden)]
pub mod when;

pub use self::model::event::{Event, EventKind};
pub use self::model::histogram::Histogram;
pub use self::model::ledger::Ledger;
pub use self::model::point::Point;
pub use self::model::snapshot::Snapshot;
pub use self::model::stage::StageSet;
pub use self::model::timeline::Timeline;
pub use self::nvme::opcode::{Opcode, QueueKind};
pub use self::nvme::sqe::Sqe;
pub use self::nvme::status::Status;
pub use crate::model::report::latency::Report;

// so that tests/testing is the same file here and elsewhere
#[cfg(test)]
extern crate self as nvme_deep;

#[cfg(test)]
#[path = "../tests/testing/mod.rs"]
mod testing;
