// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the host side as lines, in the form of `trace`.

use std::fmt::Write as _;
use std::io;
use std::io::Write;

use super::HostSink;
use crate::model::host::{HostCommand, HostEvent};
use crate::model::text::word;
use crate::nvme::subject::{Nsid, command_name};
use crate::units::nanos;

/// Writes events as text.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostText;

/// The keys and values of a command.
pub fn fields(command: &HostCommand) -> String {
    let mut parts = Vec::new();
    if let Some(id) = &command.id {
        parts.push(format!("qid={}, cid={}", id.qid, id.cid));
        parts.extend(id.namespace().map(|nsid| format!("nsid={}", Nsid(nsid))));
        let name = id.nsid.and_then(|cdw1| command_name(id.opcode(), cdw1));
        let name = name.map_or_else(|| id.opcode().name_or_code(), str::to_owned);
        parts.push(format!("opcode={} ({name})", id.opcode));
        parts.extend(id.slba.map(|slba| format!("slba={slba}")));
        parts.extend(id.nlb.map(|nlb| format!("nlb={nlb}")));
    }
    parts.extend(command.request.map(|at| format!("request={at:#x}")));
    parts.extend(command.status.map(|status| {
        let opcode = command.id.map(|id| id.opcode());
        let name = opcode.and_then(|opcode| status.name_for(opcode));
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        format!("status={:#x}{name}", status.0)
    }));
    let stages = command.times.stages().unwrap_or_default();
    for stage in &stages {
        parts.push(format!("{}={}", stage.name, nanos(stage.ns as f64)));
    }
    if !stages.is_empty() {
        let total: u64 = stages.iter().map(|s| s.ns).sum();
        parts.push(format!("total={}", nanos(total as f64)));
    }
    parts.join(", ")
}

impl HostSink for HostText {
    fn event(&mut self, event: &HostEvent, name: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut line = format!("{} - ", event.at_ns());
        let (kind, rest) = match event {
            HostEvent::Command(command) => ("Command", fields(command)),
            HostEvent::Unfinished(command) => ("Unfinished", fields(command)),
            HostEvent::Interrupt { vector, .. } => ("Interrupt", format!("vector={vector}")),
        };
        // a String takes any text
        let _ = write!(line, "{kind} {}: {rest}", word(name));
        writeln!(out, "{line}")
    }
}
