// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets, the programs that serve NVMe controllers, their controllers, and what they do with commands.
//! A command in a target is an event like the driver's, with the points of [`StageSet::Host`]. Recordings
//! hold targets and controllers as JSON: a field that one lacks has its default.

use serde::{Deserialize, Serialize};

use super::event::{CommandId, CompletionStatus, Event, EventKind, Outcome, StackId, Submission};
use super::point::{NO_COMPLETE, NO_SETUP, Point};
use super::stage::StageSet;
use super::text::Text;
use super::timeline::Timeline;
use crate::nvme::decode::Blocks;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;

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
}

impl TargetKind {
    /// The name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvmet => "nvmet",
            Self::Qemu => "qemu",
            Self::Spdk => "spdk",
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
    /// None: the order of the lines of a log.
    Order,
}

/// A target, and how it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetInfo {
    /// What it is.
    pub kind: TargetKind,
    /// How it was observed: `tracepoints`, `uprobes`, `usdt`, `log`.
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

/// A part of a command's time: between two observed points. A point between them that was not observed
/// merges its two stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The stage, or merged stages: `backend`, `backend+host_complete`.
    pub name: String,
    /// Duration in nanoseconds.
    pub ns: u64,
    /// Whether the error of a join's clock applies: it adds to one direction what it takes from the
    /// other.
    #[serde(skip)]
    pub by_clock: bool,
}

impl Part {
    /// A part that no clock is needed for.
    pub fn new(name: impl Into<String>, ns: u64) -> Self {
        Self { name: name.into(), ns, by_clock: false }
    }

    /// The stages of a command in a target. They add up to the time between the first and the last point.
    /// `None` if two points are out of order.
    pub fn of(times: &Timeline) -> Option<Vec<Self>> {
        let stages = times.segments(StageSet::Host)?.into_iter();
        Some(stages.map(|stage| Self::new(stage.run.name(), stage.ns)).collect())
    }
}

/// A finished command in a target, for a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The command.
    pub id: CommandId,
    /// Its blocks, if they are known.
    pub blocks: Option<Blocks>,
    /// Its status, if it is known.
    pub status: Option<Status>,
    /// The observed points.
    pub times: Timeline,
    /// The first observed point.
    pub first_ns: u64,
    /// The last one.
    pub last_ns: u64,
}

/// A command in a target, while its points are collected.
#[derive(Clone, Copy, Debug)]
pub struct TargetCommand {
    /// The command. The controller is a number of the recording's list.
    pub id: CommandId,
    /// Its entry in the submission queue.
    pub sqe: Sqe,
    /// Address of the target's request; 0: not known.
    pub request: u64,
    /// Status of the CQE without the phase bit.
    pub status: Option<Status>,
    /// The observed points of [`StageSet::Host`], in nanoseconds of the target's clock.
    pub times: Timeline,
}

impl TargetCommand {
    /// A command of this queue, before any of its points was observed.
    pub fn new(ctrl: u32, qid: u16, sqe: Sqe) -> Self {
        let queue = if qid == 0 { QueueKind::Admin } else { QueueKind::Io };
        let opcode = Opcode { queue, code: sqe.opcode() };
        let id = CommandId { ctrl, qid, cid: sqe.cid(), nsid: sqe.nsid(), opcode };
        let times = Timeline::new([], NO_SETUP | NO_COMPLETE);
        Self { id, sqe, request: 0, status: None, times }
    }

    fn submission(&self) -> Submission {
        Submission { stack: StackId(self.request), ..Submission::of(self.sqe) }
    }

    /// The event of its end, at its last point.
    pub fn finished(&self) -> Event {
        let at_ns = self.times.ends().map_or(0, |(_, last)| last);
        let begin_ns = self.times.at(Point::Start);
        let latency_ns = begin_ns.and_then(|begin_ns| at_ns.checked_sub(begin_ns));
        let of_status = |status| CompletionStatus { result: 0, status, retries: 0, flags: 0 };
        let outcome = Outcome {
            verdict: self.status.map(of_status),
            ..Outcome::of(latency_ns, Some(self.times))
        };
        Event { at_ns, what: EventKind::Command(self.id, self.submission(), outcome) }
    }

    /// The event of a command that the run, or its connection, ends before: at this time, but not before
    /// its last point.
    pub fn unfinished(&self, end_ns: u64) -> Event {
        let (first, last) = self.times.ends().unwrap_or_default();
        let (id, submission, at_ns) = (self.id, self.submission(), end_ns.max(last));
        let what = EventKind::Unfinished { id, submission, age_ns: at_ns.saturating_sub(first) };
        Event { at_ns, what }
    }
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

/// What a session of a target passes on.
#[derive(Debug)]
pub enum HostEvent<'e> {
    /// A command, or an interrupt.
    Nvme(&'e Event),
    /// A state of SPDK has changed.
    State(StateChange),
    /// How often SPDK has passed on a function so far.
    Call(Call),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::sqe::Parts;

    fn command(points: &[(Point, u64)]) -> TargetCommand {
        let mut command = TargetCommand::new(0, 1, Sqe::from(Parts::default()));
        points.iter().for_each(|(point, ns)| command.times.add(*point, *ns));
        command
    }

    fn named(points: &[(Point, u64)]) -> Option<Vec<(String, u64)>> {
        let stages = Part::of(&command(points).times)?.into_iter();
        Some(stages.map(|s| (s.name, s.ns)).collect())
    }

    #[test]
    fn a_point_that_was_not_observed_merges_its_stages() {
        let (fetch, post) = ((Point::Start, 100), (Point::End, 170));
        let all = vec![("host_submit+backend+host_complete".into(), 70)];
        assert_eq!(named(&[fetch, post]), Some(all));
        let want = vec![("host_submit+backend".into(), 60), ("host_complete".into(), 10)];
        assert_eq!(named(&[fetch, (Point::Cqe, 160), post]), Some(want));
        let event = command(&[fetch, post]).finished();
        let latency_ns = event.what.outcome().and_then(|outcome| outcome.latency_ns);
        assert_eq!((event.at_ns, latency_ns), (170, Some(70)));
    }

    #[test]
    fn points_out_of_order_give_no_stage() {
        assert_eq!(named(&[(Point::Start, 100), (Point::Cqe, 99)]), None);
    }
}
