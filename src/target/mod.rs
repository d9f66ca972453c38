// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side of NVMe commands: logs and traces of targets, and the join with the guest's
//! records. Pure: functions of text and of recordings.

pub mod kvm;
pub mod latency;
mod qemu_log;
pub mod qemu_usdt;
pub mod spdk;
pub mod spdk_trace;

use crate::model::host::HostEvent;
use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, TargetInfo};

pub use self::qemu_log::import as import_qemu_log;

/// What an import gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The target.
    pub target: TargetInfo,
    /// Its controllers.
    pub controllers: Vec<HostController>,
    /// The events, by time.
    pub events: Vec<HostEvent>,
    /// What was read, and what was not.
    pub ledger: HostLedger,
}

/// Why a file cannot be imported. Each is a sentence about the file, without its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It has none of the expected lines.
    #[error(
        "it has no line of QEMU's NVMe trace: give the file of `-trace 'pci_nvme_*' \
         -msg timestamp=on -D FILE`"
    )]
    NoTrace,
    /// Its lines have no times.
    #[error("its lines have no times: start QEMU with -msg timestamp=on")]
    NoTimes,
    /// It is about several controllers, and its lines do not say which.
    #[error(
        "line {line} is about a second controller, and the lines of a log do not name their \
         controller: log one controller only, or use `host trace --pid`"
    )]
    SeveralControllers {
        /// Number of the line, from 1.
        line: u64,
    },
    /// It is no JSON of spdk_trace.
    #[error("it is not what `spdk_trace -j` writes ({reason}): give its output")]
    NoSpdkTrace {
        /// What is missing or wrong.
        reason: String,
    },
}

/// Sorts by time, and counts.
fn finish(mut imported: Imported) -> Imported {
    imported.events.sort_by_key(HostEvent::at_ns);
    let Imported { events, ledger, .. } = &mut imported;
    events.iter().for_each(|event| ledger.count(event));
    imported
}
