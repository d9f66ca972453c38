// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the host side as JSON, one object per line (docs/reference/json.md).

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::model::ledger::HostLedger;
use crate::model::machine::{HostCommand, HostEvent, Part};
use crate::model::target::{HostController, TargetInfo};
use crate::nvme::opcode::Opcode;
use crate::view::json::typed_line;
use crate::view::parts::ids;
use crate::view::trace::status_type;

#[derive(Serialize)]
struct CommandLine<'a> {
    time_ns: u64,
    ctrl: &'a str,
    #[serde(flatten)]
    ids: Map<String, Value>,
    status: Option<Value>,
    points_ns: BTreeMap<&'static str, u64>,
    stages: Option<Vec<Part>>,
    total_ns: Option<i64>,
}

fn status(command: &HostCommand) -> Option<Value> {
    let status = command.status?;
    Some(json!({
        "value": status.0,
        "type": status_type(status.kind()),
        "code": status.code(),
        "name": command.opcode().and_then(|opcode: Opcode| status.name_for(opcode)),
        "dnr": status.do_not_retry(),
        "more": status.more(),
        "crd": status.retry_delay(),
    }))
}

fn command<'a>(command: &HostCommand, ctrl: &'a str) -> CommandLine<'a> {
    let stages = command.times.stages();
    let total = stages.as_ref().filter(|stages| !stages.is_empty());
    let mut ids = ids(command);
    ids.extend(command.request.map(|at| ("request".to_owned(), at.into())));
    CommandLine {
        time_ns: HostEvent::Command(*command).at_ns(),
        ctrl,
        ids,
        status: status(command),
        points_ns: command.times.seen().map(|(point, ns)| (point.name(), ns)).collect(),
        total_ns: total.map(|stages| stages.iter().map(|s| s.ns).sum()),
        stages,
    }
}

/// Writes an event. `name` is its controller's.
///
/// # Errors
/// Errors of the writer.
pub fn event_json(event: &HostEvent, name: &str, out: &mut dyn Write) -> io::Result<()> {
    match event {
        HostEvent::Command(c) => typed_line("host_command", &command(c, name), out),
        HostEvent::Unfinished(c) => typed_line("host_unfinished", &command(c, name), out),
        HostEvent::Interrupt { vector, at_ns, .. } => {
            let line = json!({ "time_ns": at_ns, "ctrl": name, "vector": vector });
            typed_line("host_interrupt", &line, out)
        }
    }
}

/// Writes the target and its controllers.
///
/// # Errors
/// Errors of the writer.
pub fn target_json(
    target: &TargetInfo,
    controllers: &[HostController],
    out: &mut dyn Write,
) -> io::Result<()> {
    typed_line("host_target", &json!({ "target": target, "controllers": controllers }), out)
}

/// Writes the ledger: the last object.
///
/// # Errors
/// Errors of the writer.
pub fn end_json(ledger: &HostLedger, out: &mut dyn Write) -> io::Result<()> {
    typed_line("host_end", &json!({ "exact": ledger.is_exact(), "ledger": ledger }), out)
}
