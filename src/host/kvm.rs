// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host kvm`: doorbell writes of a guest, from the tracepoints of KVM or from their trace.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::{Error as LibraryError, Kind};
use crate::host::view::{kvm_json, kvm_text};
use crate::machine::System;
use crate::machine::kvm::{KvmError, KvmEvents};
use crate::machine::process::{Memory, TargetError};
use crate::model::machine::MachineController;
use crate::model::stage::StageSet;
use crate::model::text::printable;
use crate::recording::Fact;
use crate::settings::Settings;
use crate::target::kvm::{Doorbells, KvmReader, KvmTrace, read};
use anyhow::{Context, Error, Result};

use crate::host::args::HostKvmArgs;
use crate::run::drive::turns::{Turns, stop_receiver};
use crate::run::drive::{FileReader, Run, Step};
use crate::run::eprint_note;
use crate::run::exit::Failure;
use crate::run::input::read_text;
use crate::run::stdout::stdout;

/// The address of BAR 0 in the guest's recording, and the number of I/O queues.
fn recorded(path: &Path, instance: Option<u32>) -> Result<((u64, u64), Option<u32>)> {
    let mut settings = Settings::of(StageSet::Total);
    settings.filter.ctrls.extend(instance);
    let mut file = FileReader::open(path, &settings)?;
    let mut run = Run::of(&mut file);
    let controllers = loop {
        match run.next()? {
            Step::Fact(Fact::Machine(machine)) => break machine.controllers,
            Step::Ended => break Vec::new(),
            _ => {}
        }
    };
    let of = |c: &MachineController| Some((c.instance, c.bar?, c.io_queues));
    let mut found: Vec<_> = controllers.iter().filter_map(of).collect();
    found.retain(|(number, ..)| instance.is_none_or(|wanted| wanted == *number));
    let shown = printable(path);
    let text = match found[..] {
        [(_, [first, last], queues)] => return Ok(((first, last), queues)),
        [] => format!(
            "{shown} has no address of such a controller: record the guest with `record`, or \
             give --bar"
        ),
        _ => format!("{shown} has several controllers: choose one by --ctrl"),
    };
    Err(Failure::error(Kind::Usage, text))
}

fn doorbells(args: &HostKvmArgs) -> Result<Doorbells> {
    let ((first, last), queues) = match (args.bar, &args.guest) {
        (None, Some(path)) => recorded(path, args.ctrl)?,
        // clap asks for one of the two
        (bar, _) => (bar.context("give --bar or --guest")?, None),
    };
    Ok(Doorbells { first, last, stride: args.dstrd, queues: args.queues.or(queues) })
}

fn failure(error: KvmError) -> Error {
    let kind = match &error {
        _ if error.is_refused() => Kind::Privilege,
        KvmError::NoEvent { .. } | KvmError::Tracefs(_) => Kind::Kernel,
        _ => Kind::Run,
    };
    Failure::error(kind, error.to_string())
}

/// Traces a process. Returns an error beside the trace if the process has ended, or not all could be
/// read.
fn observe(args: &HostKvmArgs, pid: u32, bar: Doorbells) -> Result<(KvmTrace, Result<()>)> {
    let system = System::at("/");
    let process = Memory::open(&system, pid).map_err(LibraryError::from)?;
    // before there is an instance to remove
    let stop = stop_receiver()?;
    let mut events = KvmEvents::open(&system, pid).map_err(failure)?;
    eprint_note(&format!("tracing the VM exits of process {pid}"));
    let mut reader = KvmReader::of(bar);
    let mut take = |events: &mut KvmEvents| {
        let read = events.read(&mut |line| reader.line(line));
        read.map_err(failure)
    };
    let mut turns = Turns::begin(&stop, args.duration);
    let mut done = loop {
        match take(&mut events) {
            Ok(more) if process.has_ended() || !turns.pause(more) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    if done.is_ok() {
        done = events.stop().map_err(failure);
    }
    while done.is_ok() {
        match take(&mut events) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => done = Err(error),
        }
    }
    if done.is_ok() && process.has_ended() {
        done = Err(LibraryError::from(TargetError::Ended { pid }).into());
    }
    let closed = events.close().map_err(failure);
    Ok((reader.finish(), done.and(closed)))
}

/// The doorbell writes of a trace in a file.
fn from_file(path: &Path, bar: Doorbells) -> Result<KvmTrace> {
    let trace = read(&read_text(path)?, bar);
    if trace.events == 0 {
        let text = format!(
            "{}: no event of KVM: give the text of ftrace or of `trace-cmd report` with kvm_exit, kvm_mmio, \
             kvm_userspace_exit and kvm_entry",
            printable(path)
        );
        return Err(Failure::error(Kind::Usage, text));
    }
    Ok(trace)
}

/// Why there is no trace of a process on arm64.
const NOT_ON_ARM64: &str = "host kvm --pid is not available on arm64: the order of KVM's events there was \
                            not compared with a known truth; `host trace --pid` traces QEMU itself";

/// Runs the command.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostKvmArgs) -> Result<()> {
    let bar = doorbells(args)?;
    let (trace, ended) = match (&args.trace, args.pid) {
        (Some(path), _) => (from_file(path, bar)?, Ok(())),
        (None, Some(_)) if cfg!(target_arch = "aarch64") => {
            return Err(Failure::error(Kind::Kernel, NOT_ON_ARM64));
        }
        (None, pid) => observe(args, pid.unwrap_or_default(), bar)?,
    };
    let mut out = BufWriter::new(stdout());
    if args.json {
        kvm_json(&trace, &mut out)?;
    } else {
        kvm_text(&trace, &mut out)?;
    }
    out.flush()?;
    ended
}
