// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the host side as lines, in the form of `trace`.

use std::io;
use std::io::Write;

use crate::model::machine::{HostCommand, HostEvent};
use crate::model::text::word;
use crate::nvme::subject::Nsid;
use crate::units::nanos;

/// The keys and values of a command.
fn fields(command: &HostCommand) -> String {
    let mut parts = Vec::new();
    parts.extend(command.qid.map(|qid| format!("qid={qid}")));
    parts.extend(command.cid.map(|cid| format!("cid={cid}")));
    parts.extend(command.namespace().map(|nsid| format!("nsid={}", Nsid(nsid))));
    let opcode = command.opcode();
    if let Some((code, name)) = command.code.zip(command.name()) {
        parts.push(format!("opcode={code} ({name})"));
    }
    parts.extend(command.slba.map(|slba| format!("slba={slba}")));
    parts.extend(command.nlb.map(|nlb| format!("nlb={nlb}")));
    parts.extend(command.request.map(|at| format!("request={at:#x}")));
    parts.extend(command.status.map(|status| {
        let name = opcode.and_then(|opcode| status.name_for(opcode));
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        format!("status={:#x}{name}", status.0)
    }));
    let stages = command.times.stages().unwrap_or_default();
    for stage in &stages {
        parts.push(format!("{}={}", stage.name, nanos(stage.ns as f64)));
    }
    if !stages.is_empty() {
        let total: i64 = stages.iter().map(|s| s.ns).sum();
        parts.push(format!("total={}", nanos(total as f64)));
    }
    parts.join(", ")
}

/// Writes an event as a line. `name` is its controller's.
///
/// # Errors
/// Errors of the writer.
pub fn event_text(event: &HostEvent, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let (kind, rest) = match event {
        HostEvent::Command(command) => ("Command", fields(command)),
        HostEvent::Unfinished(command) => ("Unfinished", fields(command)),
        HostEvent::Interrupt { vector, .. } => ("Interrupt", format!("vector={vector}")),
    };
    writeln!(out, "{} - {kind} {}: {rest}", event.at_ns(), word(name))
}
