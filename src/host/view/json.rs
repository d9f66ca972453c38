// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the host side as JSON, one object per line (docs/reference/json.md).

use std::io;
use std::io::Write;

use serde::Serialize;

use crate::model::host::{HostCommand, HostEvent, HostPoint, HostStage};
use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, TargetInfo};
use crate::nvme::opcode::Opcode;
use crate::nvme::status::Status;
use crate::nvme::subject::fctype;
use crate::view::json::typed_line;
pub(crate) use crate::view::trace::status_type;

/// Writes events as JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostJson;

#[derive(Serialize)]
struct StatusLine {
    value: u16,
    r#type: &'static str,
    code: u8,
    name: Option<&'static str>,
    dnr: bool,
    more: bool,
    crd: u8,
}

/// The ids of a command.
#[derive(Serialize)]
pub(super) struct IdLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    qid: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cid: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nsid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opcode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opcode_value: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fctype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slba: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nlb: Option<u32>,
}

/// The observed points, in the order of a command's life.
#[derive(Serialize)]
struct PointsLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    fetch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend_submit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend_done: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<u64>,
}

#[derive(Serialize)]
struct StageLine {
    name: String,
    ns: u64,
}

#[derive(Serialize)]
struct CommandLine<'a> {
    time_ns: u64,
    ctrl: &'a str,
    #[serde(flatten)]
    id: IdLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<u64>,
    status: Option<StatusLine>,
    points_ns: PointsLine,
    stages: Option<Vec<StageLine>>,
    total_ns: Option<u64>,
}

#[derive(Serialize)]
struct InterruptLine<'a> {
    time_ns: u64,
    ctrl: &'a str,
    vector: u32,
}

#[derive(Serialize)]
struct TargetLine<'a> {
    target: &'a TargetInfo,
    controllers: &'a [HostController],
}

#[derive(Serialize)]
struct EndLine<'a> {
    exact: bool,
    ledger: &'a HostLedger,
}

fn status(opcode: Option<Opcode>, status: Status) -> StatusLine {
    StatusLine {
        value: status.0,
        r#type: status_type(status.kind()),
        code: status.code(),
        name: opcode.and_then(|opcode| status.name_for(opcode)),
        dnr: status.do_not_retry(),
        more: status.more(),
        crd: status.retry_delay(),
    }
}

/// The ids as in JSON.
pub(super) fn id_line(id: &HostCommand) -> IdLine {
    let opcode = id.opcode();
    IdLine {
        qid: id.qid,
        cid: id.cid,
        nsid: id.namespace(),
        queue: opcode.map(|opcode| opcode.queue.name()),
        opcode: opcode.map(Opcode::name_or_code),
        opcode_value: id.code,
        fctype: opcode.zip(id.nsid).and_then(|(opcode, cdw1)| fctype(opcode, cdw1)),
        slba: id.slba,
        nlb: id.nlb,
    }
}

fn command<'a>(command: &HostCommand, ctrl: &'a str) -> CommandLine<'a> {
    let at = |point| command.times.at(point);
    let stages = command.times.stages();
    let total = stages.as_ref().filter(|stages| !stages.is_empty());
    CommandLine {
        time_ns: HostEvent::Command(*command).at_ns(),
        ctrl,
        id: id_line(command),
        request: command.request,
        status: command.status.map(|s| status(command.opcode(), s)),
        points_ns: PointsLine {
            fetch: at(HostPoint::Fetch),
            backend_submit: at(HostPoint::BackendSubmit),
            backend_done: at(HostPoint::BackendDone),
            post: at(HostPoint::Post),
            interrupt: at(HostPoint::Interrupt),
        },
        total_ns: total.map(|stages| stages.iter().map(|s| s.ns).sum()),
        stages: stages.map(|stages| {
            let line = |s: HostStage| StageLine { name: s.name, ns: s.ns };
            stages.into_iter().map(line).collect()
        }),
    }
}

impl HostJson {
    /// Writes an event. `name` is its controller's.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn event(event: &HostEvent, name: &str, out: &mut dyn Write) -> io::Result<()> {
        match event {
            HostEvent::Command(c) => typed_line("host_command", &command(c, name), out),
            HostEvent::Unfinished(c) => typed_line("host_unfinished", &command(c, name), out),
            HostEvent::Interrupt { vector, at_ns, .. } => {
                let line = InterruptLine { time_ns: *at_ns, ctrl: name, vector: *vector };
                typed_line("host_interrupt", &line, out)
            }
        }
    }

    /// Writes the target and its controllers.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn target(
        target: &TargetInfo,
        controllers: &[HostController],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let line = TargetLine { target, controllers };
        typed_line("host_target", &line, out)
    }

    /// Writes the ledger: the last object.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn end(ledger: &HostLedger, out: &mut dyn Write) -> io::Result<()> {
        let exact = ledger.is_exact();
        typed_line("host_end", &EndLine { exact, ledger }, out)
    }
}
