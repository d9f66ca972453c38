// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host annotate`: an SPDK trace with the commands that its entries are about.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::{Failure, Kind};
use crate::host::view::{spdk_json, spdk_text};
use crate::model::machine::HostEvent;
use crate::model::target::TargetKind;
use crate::model::text::printable;
use crate::recording::HostRecording;
use crate::target::spdk_trace::{Trace, label};
use anyhow::Result;

use crate::host::args::HostAnnotateArgs;
use crate::run::eprint_note;
use crate::run::input::{check_target_end, read_recording, read_text};
use crate::run::stdout::stdout;

/// Why a recording has none of the requests of the trace.
fn other(args: &HostAnnotateArgs, recording: &HostRecording, requests: u64) -> String {
    let path = args.recording.as_deref().unwrap_or_else(|| Path::new("-"));
    let what = match recording.target.kind {
        TargetKind::Spdk => "another run of SPDK's target, or one without ids of commands",
        TargetKind::Nvmet => "the kernel's target",
        TargetKind::Qemu => "QEMU",
        TargetKind::Block => "blkparse",
        TargetKind::Other => "another target",
    };
    format!(
        "{} has none of the {requests} requests of {}: it is a recording of {what}. Give one of `host \
         trace --pid PID -o FILE` during the trace",
        printable(path),
        printable(&args.trace)
    )
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostAnnotateArgs) -> Result<()> {
    let text = read_text(&args.trace)?;
    let trace = Trace::parse(&text)
        .map_err(|e| Failure::error(Kind::Usage, format!("{}: {e}", printable(&args.trace))))?;
    let recording = args.recording.as_deref().map(read_recording).transpose()?;
    let mut labels = BTreeMap::new();
    if let Some(recording) = &recording {
        let commands = recording.events.iter().filter_map(|event| match event {
            HostEvent::Command(command) | HostEvent::Unfinished(command) => Some(*command),
            _ => None,
        });
        let commands: Vec<_> = commands.collect();
        let without;
        (labels, without) = label(&trace, &commands);
        if labels.is_empty() && without > 0 {
            return Err(Failure::error(Kind::Usage, other(args, recording, without)));
        }
        if without > 0 {
            eprint_note(&format!(
                "{without} requests of the trace have no command: their address is not in the \
                 recording, or was used another number of times there"
            ));
        }
    }
    let mut out = BufWriter::new(stdout());
    for (n, entry) in trace.entries.iter().enumerate() {
        let id = labels.get(&n);
        if args.json {
            spdk_json(&trace, entry, id, &mut out)?;
        } else {
            spdk_text(&trace, entry, id, &mut out)?;
        }
    }
    out.flush()?;
    match recording.zip(args.recording.as_deref()) {
        Some((recording, path)) => check_target_end(&recording, path),
        None => Ok(()),
    }
}
