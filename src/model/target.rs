// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets, the programs that serve NVMe controllers, their controllers, and what they do with commands.
//! Recordings hold targets and controllers as JSON: a field that one lacks has its default.

use serde::{Deserialize, Serialize};

use super::text::Text;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::status::Status;
use crate::nvme::subject::{command_name, namespace};

/// Programs that serve NVMe controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// The target of the Linux kernel.
    #[default]
    Nvmet,
    /// QEMU's emulation.
    Qemu,
    /// SPDK's NVMe-oF target.
    Spdk,
    /// No target: requests of the block layer.
    Block,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

impl TargetKind {
    /// The name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvmet => "nvmet",
            Self::Qemu => "qemu",
            Self::Spdk => "spdk",
            Self::Block => "block",
            Self::Other => "other",
        }
    }
}

/// The clock of the times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostClock {
    /// CLOCK_MONOTONIC of the host.
    #[default]
    Monotonic,
    /// CLOCK_REALTIME of the host. It may be set during the run.
    Realtime,
    /// The TSC, converted to nanoseconds.
    Tsc,
    /// None: the order of the lines of a log.
    Order,
    /// A clock of a later version.
    #[serde(other)]
    Other,
}

/// A target, and how it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetInfo {
    /// What it is.
    pub kind: TargetKind,
    /// How it was observed: `tracepoints`, `uprobes`, `log`, `spdk_trace`.
    pub by: Text,
    /// Its process; `None` for the kernel, and in imports.
    pub pid: Option<u32>,
    /// Its executable.
    pub binary: Option<Text>,
    /// Its version, if it is known.
    pub version: Option<Text>,
    /// Its build id.
    pub build_id: Option<Text>,
    /// The clock of the times.
    pub clock: HostClock,
    /// Resolution of the times, which are rounded down to it, in nanoseconds.
    pub resolution_ns: u64,
}

/// A controller of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostController {
    /// Its number in this recording.
    pub number: u32,
    /// Its name in reports: `nvmet:1`.
    pub name: Text,
    /// Controller id.
    pub cntlid: Option<u16>,
    /// NVMe Qualified Name of the subsystem.
    pub nqn: Option<Text>,
    /// Serial number.
    pub serial: Option<Text>,
}

impl HostController {
    /// A controller with this name; nothing else is known.
    pub fn named(name: impl Into<Text>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A controller of QEMU.
    pub fn of_qemu(serial: &str) -> Self {
        Self { serial: Some(serial.into()), ..Self::named(format!("qemu:{serial}")) }
    }
}

/// The name of a controller among these, or its number.
pub fn name_of(controllers: &[HostController], ctrl: u32) -> Text {
    let found = controllers.iter().find(|c| c.number == ctrl);
    found.map_or_else(|| ctrl.to_string().into(), |c| c.name.clone())
}

/// How often a function was passed to SPDK as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function that was called: `spdk_thread_send_msg`.
    pub by: &'static str,
    /// The address of the function that was passed on.
    pub function: u64,
    /// Number of calls.
    pub count: u64,
}

/// A point that a command passes in the target. The variants are in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostPoint {
    /// The target has read the SQE, and begins to execute it.
    Fetch,
    /// The target submits the request to its storage.
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
        ["fetch", "backend_submit", "backend_done", "post", "interrupt"][self as usize]
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
    /// last. `None` if two points are out of order, or no clock counts so far.
    pub fn stages(&self) -> Option<Vec<Part>> {
        let seen: Vec<(HostPoint, u64)> = self.seen().collect();
        let whole =
            seen.last().zip(seen.first()).map_or(0, |(last, first)| last.1.wrapping_sub(first.1));
        i64::try_from(whole).ok()?;
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

/// A value in a change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// A text.
    Text(Text),
    /// A number.
    Number(u64),
    /// A result.
    Result(i64),
    /// An address in the process.
    Address(u64),
    /// A number with its name, if this release is known to have it.
    #[allow(missing_docs, reason = "the names say it")]
    Named { value: u64, name: Option<&'static str> },
}

/// A change of state in SPDK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Its time, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The probe.
    pub probe: &'static str,
    /// Names and values of its arguments.
    pub fields: Vec<(&'static str, FieldValue)>,
}

/// An event of the host side.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// A state of SPDK has changed. Not in recordings.
    State(StateChange),
    /// How often SPDK has passed on a function so far. Not in recordings.
    Call(Call),
}

impl HostEvent {
    /// The time of the event: for a command its last observed point, or zero.
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Command(command) | Self::Unfinished(command) => {
                command.times.ends().map_or(0, |(_, last)| last)
            }
            Self::Interrupt { at_ns, .. } => *at_ns,
            Self::State(change) => change.at_ns,
            Self::Call(_) => 0,
        }
    }

    /// The controller of the event.
    pub const fn ctrl(&self) -> u32 {
        match self {
            Self::Command(command) | Self::Unfinished(command) => command.ctrl,
            Self::Interrupt { ctrl, .. } => *ctrl,
            Self::State(_) | Self::Call(_) => 0,
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
