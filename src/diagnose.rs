// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `doctor` command: look, plan, tell. Attaches nothing.

use std::io::BufWriter;
use std::io::Write;
use std::io::stdout;
use std::path::Path;

use anyhow::Result;

use crate::cli::DoctorArgs;
use crate::doctor::DoctorReport;
use crate::doctor::MemoryLine;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::host::Host;
use crate::host::kernel::Look;
use crate::host::may_read_module_btf;
use crate::host::missing_capabilities;
use crate::options::Probing;
use crate::options::StackAt;
use crate::options::TraceKind;
use crate::options::color;
use crate::options::family;
use crate::path::stage::Cut;
use crate::probe::plan::Policy;
use crate::session::Layout;
use crate::session::possible_cpus;
use crate::session::take_over_log;
use crate::view::doctor;
use crate::view::theme::Theme;

/// What the maps of each command would take on this machine.
fn memory(host: &Host) -> Result<Vec<MemoryLine>> {
    let controllers = host.controllers();
    let cpus = possible_cpus()?;
    let stack = Some(StackAt::Submit);
    let runs = [
        ("latency", Probing::of(Cut::Total)),
        ("latency --stages", Probing::of(Cut::Cheap)),
        ("latency --stages=fine", Probing::of(Cut::Fine)),
        ("trace", Probing::of_trace(TraceKind::Events, None)),
        (
            "trace --kstack",
            Probing::of_trace(TraceKind::Events, stack),
        ),
        ("stacks", Probing::of_trace(TraceKind::Stacks, stack)),
    ];
    let line = |(command, probing): (&str, Probing)| MemoryLine {
        command: command.into(),
        map_bytes: Layout::new(&probing, cpus, &controllers).bytes,
    };
    Ok(runs.into_iter().map(line).collect())
}

/// Runs the command.
///
/// # Errors
/// A BTF file that can't be used; a writer that fails.
pub fn run(args: &DoctorArgs) -> Result<()> {
    let DoctorArgs {
        json,
        identify,
        attach,
        btf,
        color: when,
    } = args;
    take_over_log(false);
    let host = Host::at("/");
    let mut report = DoctorReport::of(&host, *identify);
    // who may not trace at all is shown what root would get
    let may_use_module_btf = may_read_module_btf() || !missing_capabilities().is_empty();
    let file = btf.as_deref().map(Path::new);
    let (facts, types) = host
        .kernel_facts(file, may_use_module_btf, Look::Full)
        .map_err(|why| Failure::error(Kind::Usage, why))?;
    report.remarks.extend(types.remark);
    let policy = Policy {
        only: family(*attach),
        ..Policy::default()
    };
    report.plan(facts, &policy);
    report.memory = memory(&host)?;
    let mut out = BufWriter::new(stdout().lock());
    if *json {
        doctor::json(&report, &mut out)?;
    } else {
        let theme = Theme {
            color: color(*when, false),
        };
        doctor::text(&report, theme, &mut out)?;
    }
    out.flush()?;
    Ok(())
}
