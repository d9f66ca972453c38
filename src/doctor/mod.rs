// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `doctor` command: inspect the machine, plan the hooks, report. Attaches nothing.

pub(crate) mod args;
pub mod report;
pub mod view;

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::doctor::report::{DoctorReport, MemoryLine};
use crate::machine::kernel::Look;
use crate::machine::{System, may_read_module_btf, missing_capabilities};
use crate::model::report::latency::{Finding, Severity};
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::probe::plan::Policy;
use crate::run::start::{Capacity, Layout, kernel_facts, prepare};
use crate::run::stdout::output_width;
use crate::settings::{Detail, EventStacks, Events, Mode, Outcome, Settings, StackSample};
use crate::view::theme::Theme;
use anyhow::Result;

use crate::doctor::args::DoctorArgs;
use crate::doctor::report::Tracing;
use crate::run::exit::Exited;
use crate::run::inflight::Access;
use crate::run::stdout::stdout;

/// Memory that the maps of each command would take on this machine.
fn memory(system: &System) -> Result<Vec<MemoryLine>> {
    let controllers = system.controllers();
    let capacity = Capacity::of(system)?;
    let stack = StackSample::every(StackAt::Submit);
    let stacks = EventStacks { kstack: Some(stack.at), sample: None };
    let detail = Detail { stacks, ..Detail::default() };
    let with_stacks = Events { detail, ..Events::default() };
    let runs = [
        ("latency", Settings::of(StageSet::Total)),
        ("latency --stages", Settings::of(StageSet::Basic)),
        ("latency --stages=fine", Settings::of(StageSet::Fine)),
        ("latency --stages=full", Settings::of(StageSet::Full)),
        ("trace", Mode::Events(Events::default()).with(StageSet::Basic)),
        ("trace --kstack", Mode::Events(with_stacks).with(StageSet::Basic)),
        ("stacks", Mode::Stacks(stack, Outcome::default()).with(StageSet::Total)),
        (
            "record",
            Mode::Events(Events { detail: Detail::all(), ..Events::default() })
                .with(StageSet::Full),
        ),
    ];
    let line = |(command, settings): (&str, Settings)| MemoryLine {
        command: command.into(),
        map_bytes: Layout::new(&settings, &capacity, &controllers).bytes,
    };
    Ok(runs.into_iter().map(line).collect())
}

/// Runs the command. `tracing`: the commands whose readiness it reports.
///
/// # Errors
/// If a BTF file can't be used, or the writer fails. With the exit code of the commands that trace, if
/// these could not.
pub fn run(args: &DoctorArgs, tracing: &[Tracing]) -> Result<()> {
    let DoctorArgs { json, identify, attach, btf, color: when, verbose } = args;
    prepare(None)?;
    let system = System::at("/");
    let mut report = DoctorReport::of(&system, *identify);
    // without the privileges to trace, the report shows what root would get
    let may_use_module_btf = may_read_module_btf() || !missing_capabilities().is_empty();
    let file = btf.as_deref().map(Path::new);
    let facts = kernel_facts(&system, file, may_use_module_btf, Look::Full);
    let (facts, types) = facts?;
    let remark = types.remark.map(|r| Finding::new("btf-file", Severity::Note, r));
    report.findings.extend(remark);
    let policy = Policy { only: *attach, ..Policy::default() };
    let inflight = Access::find(file, &system).err();
    let inflight = inflight.map(|error| format!("{error:#}"));
    report.plan(facts, &policy, tracing, inflight);
    report.memory = memory(&system)?;
    let mut out = BufWriter::new(stdout());
    if *json {
        view::json(&report, &mut out)?;
    } else {
        let theme = Theme { color: when.on_stdout(false) };
        view::text(&report, *verbose, theme, output_width(), &mut out)?;
    }
    out.flush()?;
    match report.verdict.exit_code() {
        0 => Ok(()),
        code => Err(Exited(code).into()),
    }
}
