// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of `host trace -o` and `host import -o`.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Result;
use nvme_deep::machine::System;
use nvme_deep::machine::clock::SharedClocks;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::model::host::HostEvent;
use nvme_deep::model::host::HostLedger;
use nvme_deep::model::target::HostController;
use nvme_deep::model::target::TargetInfo;
use nvme_deep::recording::HostRecorder;
use nvme_deep::recording::RunInfo;
use nvme_deep::units::counted;
use nvme_deep::units::size_text;

use crate::commands::outfile::OutFile;
use crate::commands::outfile::Rules;
use crate::commands::say;

/// A recording that is being written.
pub struct HostFile {
    file: OutFile,
    recorder: HostRecorder<BufWriter<File>>,
    begin_ns: u64,
    /// `None`: the events are not of this machine.
    clocks: Option<SharedClocks>,
}

impl HostFile {
    /// Creates the file. `live`: the events are of this machine and begin now.
    ///
    /// # Errors
    /// If the file exists or cannot be written; one sentence.
    pub fn create(
        path: &Path,
        force: bool,
        inputs: &[PathBuf],
        target: TargetInfo,
        live: bool,
    ) -> Result<Self> {
        let rules = Rules {
            force,
            inputs,
            is_recording: true,
            is_binary: true,
            ..Rules::default()
        };
        let (file, out) = OutFile::create(path, &rules)?;
        let begin_ns = if live { monotonic_ns() } else { 0 };
        let pid = target.pid;
        let mut info = RunInfo {
            program: env!("CARGO_PKG_VERSION").into(),
            begin_ns,
            target: Some(target),
            ..RunInfo::default()
        };
        let mut clocks = None;
        if live {
            let system = System::at("/");
            clocks = Some(SharedClocks::look(&system).with_machine(&system, pid));
            let identity = system.identity();
            info.host = identity.host;
            info.kernel = identity.kernel;
            info.arch = identity.arch;
            info.machine = Some(identity.hypervisor);
            info.boot_id = identity.boot_id;
        }
        let recorder = HostRecorder::create(BufWriter::new(out), &info);
        Ok(Self {
            recorder: recorder.map_err(|e| file.failed(e))?,
            file,
            begin_ns,
            clocks,
        })
    }

    /// Adds readings of the clocks, once a second. To be called at least once before [`Self::finish`].
    ///
    /// # Errors
    /// If the file cannot be written; one sentence.
    pub fn upkeep(&mut self) -> Result<()> {
        let due = self.clocks.as_mut().and_then(SharedClocks::read_if_due);
        let done = due.map_or(Ok(()), |readings| self.recorder.readings(&readings));
        done.map_err(|e| self.file.failed(e))
    }

    /// Adds an event.
    ///
    /// # Errors
    /// If the file cannot be written; one sentence.
    pub fn event(&mut self, event: &HostEvent) -> Result<()> {
        let done = self.recorder.event(event);
        done.map_err(|e| self.file.failed(e))
    }

    /// Ends the file, and reports what is in it.
    ///
    /// # Errors
    /// If the file cannot be written; one sentence.
    pub fn finish(mut self, controllers: &[HostController], ledger: &HostLedger) -> Result<()> {
        let failed = |error| self.file.failed(error);
        if let Some(clocks) = &self.clocks {
            let done = self.recorder.readings(&clocks.read());
            done.map_err(failed)?;
        }
        let done = self.recorder.controllers(controllers);
        done.map_err(failed)?;
        let at_ns = monotonic_ns().saturating_sub(self.begin_ns);
        let done = self.recorder.finish(at_ns, ledger);
        let bytes = done.map_err(failed)?;
        let name = self.file.name();
        self.file.keep()?;
        say(&format!(
            "{name}: {}, {}",
            counted(ledger.commands, "command"),
            size_text(bytes)
        ));
        Ok(())
    }
}
