// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side of a command: what the target that serves a controller (QEMU, SPDK, the kernel's
//! nvmet) did with it. All times of one run are of one clock, which may differ from the guest's.

use serde::{Deserialize, Serialize};

use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::status::Status;
use crate::nvme::subject::{command_name, namespace};

/// A point that a command passes in the target. The variants are in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostPoint {
    /// The target has read the SQE, and begins to execute it.
    Fetch,
    /// The target hands the request to its storage.
    BackendSubmit,
    /// The storage has answered.
    BackendDone,
    /// The target posts the CQE, or sends it.
    Post,
    /// The target raises the interrupt of the CQE.
    Interrupt,
}

/// Number of points.
pub const HOST_POINTS: usize = 5;

/// The stage from each point to the next one.
const STAGES: [&str; HOST_POINTS - 1] = ["host_submit", "backend", "host_complete", "interrupt"];

/// The name of the stages between two points; empty if they are the same.
pub fn stages_between(from: HostPoint, to: HostPoint) -> String {
    STAGES[from as usize..to as usize].join("+")
}

impl HostPoint {
    /// All points, in the order in which a command passes them.
    pub const ALL: [Self; HOST_POINTS] =
        [Self::Fetch, Self::BackendSubmit, Self::BackendDone, Self::Post, Self::Interrupt];

    /// The name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::BackendSubmit => "backend_submit",
            Self::BackendDone => "backend_done",
            Self::Post => "post",
            Self::Interrupt => "interrupt",
        }
    }
}

/// The observed points of a command in the target, in nanoseconds of the target's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTimes {
    points: [Option<u64>; HOST_POINTS],
}

/// A part of a command's time: between two observed points. A point between them that was not observed
/// merges its two stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The stage, or merged stages: `backend`, `backend+host_complete`.
    pub name: String,
    /// Duration in nanoseconds. Negative only in a join whose clock contradicts the pair.
    pub ns: i64,
    /// Whether the error of a join's clock applies: it adds to one direction what it takes from the
    /// other.
    #[serde(skip)]
    pub by_clock: bool,
}

impl Part {
    /// A part that no clock is needed for.
    pub fn new(name: impl Into<String>, ns: i64) -> Self {
        Self { name: name.into(), ns, by_clock: false }
    }
}

impl HostTimes {
    /// Sets the time of a point.
    pub const fn set(&mut self, point: HostPoint, ns: u64) {
        self.points[point as usize] = Some(ns);
    }

    /// The same times, and this point.
    #[must_use]
    pub const fn with(mut self, point: HostPoint, ns: u64) -> Self {
        self.set(point, ns);
        self
    }

    /// The time of a point; `None` if it was not observed.
    pub const fn at(&self, point: HostPoint) -> Option<u64> {
        self.points[point as usize]
    }

    /// The observed points, in the order of the command's life.
    pub fn seen(&self) -> impl Iterator<Item = (HostPoint, u64)> {
        let points = HostPoint::ALL.into_iter().zip(self.points);
        points.filter_map(|(point, ns)| Some((point, ns?)))
    }

    /// The first and the last observed point; `None` if there is none.
    pub fn ends(&self) -> Option<(u64, u64)> {
        let first = self.seen().next()?.1;
        Some((first, self.seen().last()?.1))
    }

    /// The stages between the observed points. They add up to the time between the first and the
    /// last. `None` if two points are out of order.
    pub fn stages(&self) -> Option<Vec<Part>> {
        let seen: Vec<(HostPoint, u64)> = self.seen().collect();
        let pairs = seen.windows(2).map(|pair| {
            let (from, to) = (pair[0], pair[1]);
            let ns = i64::try_from(to.1.checked_sub(from.1)?).ok()?;
            Some(Part::new(stages_between(from.0, to.0), ns))
        });
        pairs.collect()
    }
}

/// A command in the target. What its source does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCommand {
    /// Number of the controller in the recording's list.
    pub ctrl: u32,
    /// Queue id, 0 for the admin queue.
    pub qid: Option<u16>,
    /// Command id on the wire.
    pub cid: Option<u16>,
    /// CDW1 of the SQE, as on the wire. See [`namespace`](Self::namespace).
    pub nsid: Option<u32>,
    /// Opcode byte. Its meaning depends on `qid`.
    pub code: Option<u8>,
    /// First logical block.
    pub slba: Option<u64>,
    /// Number of logical blocks, not zero-based.
    pub nlb: Option<u32>,
    /// Address of the target's request.
    pub request: Option<u64>,
    /// Status of the CQE without the phase bit.
    pub status: Option<Status>,
    /// The observed points.
    pub times: HostTimes,
}

impl HostCommand {
    /// The namespace id. A Fabrics command has none: its lowest byte is `fctype` there (NVMe base 2.1,
    /// section 6).
    pub fn namespace(&self) -> Option<u32> {
        namespace(self.opcode()?, self.nsid?)
    }

    /// The opcode with its kind of queue.
    pub fn opcode(&self) -> Option<Opcode> {
        let queue = if self.qid == Some(0) { QueueKind::Admin } else { QueueKind::Io };
        self.code.map(|code| Opcode { queue, code })
    }

    /// What the command is called: also a Fabrics command by its type.
    pub fn name(&self) -> Option<String> {
        let opcode = self.opcode()?;
        let name = self.nsid.and_then(|cdw1| command_name(opcode, cdw1));
        Some(name.map_or_else(|| opcode.name_or_code(), str::to_owned))
    }
}

/// An event of the host side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The target has finished a command.
    Command(HostCommand),
    /// The run or the connection ends before the command.
    Unfinished(HostCommand),
    /// The target raises an interrupt. A vector serves all CQEs of its completion queues.
    Interrupt {
        /// Number of the controller in the recording's list.
        ctrl: u32,
        /// MSI-X vector.
        vector: u32,
        /// Time of the call.
        at_ns: u64,
    },
}

impl HostEvent {
    /// The time of the event: for a command its last observed point, or zero.
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Command(command) | Self::Unfinished(command) => {
                command.times.ends().map_or(0, |(_, last)| last)
            }
            Self::Interrupt { at_ns, .. } => *at_ns,
        }
    }

    /// The controller of the event.
    pub const fn ctrl(&self) -> u32 {
        match self {
            Self::Command(command) | Self::Unfinished(command) => command.ctrl,
            Self::Interrupt { ctrl, .. } => *ctrl,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(times: HostTimes) -> Option<Vec<(String, i64)>> {
        let stages = times.stages()?.into_iter();
        Some(stages.map(|s| (s.name, s.ns)).collect())
    }

    #[test]
    fn a_point_that_was_not_observed_merges_its_stages() {
        let times = HostTimes::default().with(HostPoint::Fetch, 100).with(HostPoint::Post, 170);
        assert_eq!(named(times), Some(vec![("host_submit+backend+host_complete".into(), 70)]));
        let times = times.with(HostPoint::BackendDone, 160);
        let want = vec![("host_submit+backend".into(), 60), ("host_complete".into(), 10)];
        assert_eq!(named(times), Some(want));
        assert_eq!(times.ends(), Some((100, 170)));
    }

    #[test]
    fn points_out_of_order_give_no_stage() {
        let times =
            HostTimes::default().with(HostPoint::Fetch, 100).with(HostPoint::BackendDone, 99);
        assert_eq!(times.stages(), None);
    }
}
