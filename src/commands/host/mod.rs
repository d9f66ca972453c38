// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `host` command: the host side of NVMe commands.

mod annotate;
mod file;
mod import;
mod kvm;
mod list;
mod live;
mod spdk;
mod view;

use std::io::BufReader;
use std::path::Path;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::model::untrusted::printable;
use nvme_deep::recording::HostRecording;

use crate::cli::host::HostArgs;
use crate::cli::host::HostCommand;
use crate::commands::input;
use crate::exit::Failure;

/// Reads a recording of the host side.
///
/// # Errors
/// If it cannot be read, or is not one of the host side; one sentence.
pub fn read_recording(path: &Path) -> Result<HostRecording> {
    let shown = printable(path);
    let (file, _) = input::open(path)?;
    HostRecording::read(BufReader::new(file))
        .map_err(|e| Failure::error(Kind::Usage, format!("{shown}: {e}")))
}

/// How a recording is not whole: `is damaged: ...`. `None`: it is whole.
pub fn incomplete(recording: &HostRecording) -> Option<String> {
    match (&recording.damage, &recording.ledger) {
        (Some(damage), _) => Some(format!("is damaged: {damage}")),
        (None, None) => Some("has no end: the recording was interrupted".into()),
        (None, Some(_)) => None,
    }
}

/// An error if a recording is damaged or has no end. To be called after the output.
///
/// # Errors
/// If it is; one sentence.
pub fn check_end(recording: &HostRecording, path: &Path) -> Result<()> {
    let Some(how) = incomplete(recording) else {
        return Ok(());
    };
    let text = format!(
        "{} {how}. The {} events before that are shown",
        printable(path),
        recording.events.len()
    );
    Err(Failure::error(Kind::Run, text))
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostArgs) -> Result<()> {
    match &args.command {
        HostCommand::List(args) => list::run(args),
        HostCommand::Trace(args) => live::trace(args),
        HostCommand::Latency(args) => live::latency(args),
        HostCommand::Import(args) => import::run(args),
        HostCommand::Annotate(args) => annotate::run(args),
        HostCommand::Spdk(args) => spdk::states(args),
        HostCommand::Msgs(args) => spdk::messages(args),
        HostCommand::Kvm(args) => kvm::run(args),
    }
}
