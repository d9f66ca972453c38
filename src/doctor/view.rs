// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of `doctor` as text: the verdict, the controllers, the findings, and with `-v` all facts.
//! JSON is the report itself.

use crate::doctor::report::{DoctorReport, Readiness, Verdict};
use crate::machine::overview::Machine;
use crate::model::machine::{MachineController, MachineDisk};
use crate::model::report::latency::Severity;
use crate::units::size_text;
use crate::view::header::{TIE, fill, hang};
use crate::view::json::typed_line;
use crate::view::theme::Theme;
use serde::Serialize;
use std::fmt::Display;
use std::io;
use std::io::Write;

#[derive(Serialize)]
struct DoctorLine<'a> {
    exit_code: u8,
    #[serde(flatten)]
    report: &'a DoctorReport,
}

/// Writes the report as one line of JSON.
///
/// # Errors
/// Errors of the writer.
pub fn json(report: &DoctorReport, out: &mut dyn Write) -> io::Result<()> {
    let exit_code = report.verdict.exit_code();
    typed_line("doctor", &DoctorLine { exit_code, report }, out)
}

/// Writes the report as text. With `verbose`, also all that it is based on.
///
/// # Errors
/// Errors of the writer.
pub fn text(
    report: &DoctorReport,
    verbose: bool,
    theme: Theme,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    verdict(report, theme, width, out)?;
    controllers(&report.controllers, theme, width, out)?;
    for note in report.advice(Severity::Note) {
        hang(width, "  note    ", note, str::to_owned, out)?;
    }
    if !verbose {
        let more = "-v: kernel, privileges, controllers, the hook of each point, memory";
        return writeln!(out, "{}", theme.dim(more));
    }
    for (title, entries) in sections(report) {
        writeln!(out, "{}", theme.head(&title))?;
        entries.iter().try_for_each(|(label, text)| entry(label, text, theme, out))?;
    }
    Ok(())
}

/// Writes a label and its text, over as many lines as needed. A long label has a line of its own.
fn entry(label: &str, text: &str, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
    /// Column of the text.
    const INDENT: usize = 15;
    let label = format!("  {label:<12} ");
    let mut first = if label.trim().is_empty() { label.clone() } else { theme.dim(&label) };
    if label.chars().count() > INDENT {
        writeln!(out, "{}", theme.dim(label.trim_end()))?;
        first = " ".repeat(INDENT);
    }
    for line in fill(text, INDENT) {
        writeln!(out, "{first}{line}")?;
        first = " ".repeat(INDENT);
    }
    Ok(())
}

/// Whether commands can trace, and what to do.
fn verdict(
    report: &DoctorReport,
    theme: Theme,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Verdict { blocked, method, commands } = &report.verdict;
    let mut steps = Vec::new();
    if let Some(blocked) = blocked {
        hang(width, "NOT READY: ", &format!("{}.", blocked.what), |l| theme.warn(l), out)?;
        steps.push(blocked.advice.as_str());
    } else {
        let is_whole = |c: &Readiness| c.missing.is_none() && c.unobserved.is_empty();
        let what = if commands.iter().all(is_whole) { "all stages" } else { "tracing" };
        let text = format!("{what}, by {}. {}.", method.unwrap_or("-"), summary(&report.machine));
        hang(width, "READY: ", &text, |l| theme.good(l), out)?;
        for (state, commands) in limits(commands) {
            let text = format!("{}: {state}", commands.join(", "));
            hang(width, "  but     ", &text, |l| theme.warn(l), out)?;
        }
    }
    steps.extend(report.advice(Severity::Warning));
    for (n, step) in steps.iter().enumerate() {
        hang(width, if n == 0 { "  do      " } else { "  then    " }, step, str::to_owned, out)?;
    }
    if blocked.is_some() {
        writeln!(out, "Reading recordings works.")?;
    }
    Ok(())
}

/// What some commands lack, each with these commands.
fn limits(commands: &[Readiness]) -> Vec<(String, Vec<&str>)> {
    let mut limits: Vec<(String, Vec<&str>)> = vec![];
    for Readiness { command, missing, unobserved } in commands {
        let limit = match missing {
            Some(missing) => format!("not ready ({missing})"),
            None if unobserved.is_empty() => continue,
            None => format!("without {}", unobserved.join(", ")),
        };
        match limits.iter_mut().find(|(other, _)| *other == limit) {
            Some((_, commands)) => commands.push(command),
            None => limits.push((limit, vec![command])),
        }
    }
    limits
}

/// `Linux 6.12.117, QEMU, 4 CPUs, root`
fn summary(machine: &Machine) -> String {
    let user = match machine.privileges.as_ref().map(|privileges| privileges.uid) {
        Some(0) => "root".into(),
        Some(uid) => format!("uid {uid}"),
        None => "unknown user".into(),
    };
    let Machine { release, cpus_online, hypervisor, .. } = machine;
    let (release, cpus) = (shown(release), shown(cpus_online));
    format!("Linux {release}, {}, {cpus} CPUs, {user}", hypervisor.name)
}

/// A line for each disk.
fn controllers(
    all: &[MachineController],
    theme: Theme,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut rows = Vec::new();
    let or_unknown = |n: Option<u32>| n.map_or_else(|| "?".into(), |n| n.to_string());
    for controller in all {
        let queues =
            format!("{}x{}", or_unknown(controller.io_queues), or_unknown(controller.depth));
        let of_disk = |disk: [String; 3]| {
            let [disk, scheduler, limits] = disk;
            let (name, model) = (controller.name(), shown(&controller.model));
            [name, model, controller.class.name().into(), queues.clone(), disk, scheduler, limits]
        };
        if controller.disks.is_empty() {
            rows.push(of_disk(["-", "-", "-"].map(str::to_owned)));
        }
        rows.extend(controller.disks.iter().map(|disk| {
            let scheduler = disk.scheduler.as_deref().unwrap_or("?");
            of_disk([disk.name.to_string(), scheduler.to_owned(), limits_of(disk)])
        }));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let head = ["CTRL", "MODEL", "KIND", "QUEUES", "DISK", "SCHEDULER", "LIMITS"];
    rows.insert(0, head.map(str::to_owned));
    let size =
        |n: usize| rows.iter().map(|row: &[String; 7]| row[n].chars().count()).max().unwrap_or(0);
    let mut widths: [usize; 6] = std::array::from_fn(size);
    // a long model gives room to the limits
    let others: usize = widths.iter().sum::<usize>() - widths[1] + 2 * 7 + size(6).min(12);
    widths[1] = widths[1].min(width.saturating_sub(others).max(5));
    for (n, row) in rows.iter().enumerate() {
        let mut before = String::from("  ");
        for (text, width) in row.iter().zip(widths) {
            before.push_str(&format!("{text:<width$.width$}  "));
        }
        if n == 0 {
            writeln!(out, "{}", theme.dim(&format!("{before}{}", row[6])))?;
        } else {
            hang(width, &before, &row[6], str::to_owned, out)?;
        }
    }
    Ok(())
}

/// What could make a bio wait for its request, besides tags and the scheduler.
fn limits_of(disk: &MachineDisk) -> String {
    let MachineDisk { limits, io_cost, wbt_lat_us, zoned, .. } = disk;
    let cgroups = limits.as_ref().map_or(0, |limits| limits.cgroups.len());
    let limits = [
        (cgroups > 0).then(|| format!("io.max{TIE}({cgroups})")),
        io_cost.as_ref().is_some_and(|cost| cost.enabled).then(|| "io.cost".into()),
        wbt_lat_us.filter(|us| *us > 0).map(|us| format!("wbt{TIE}{us}us")),
        zoned.as_deref().filter(|zoned| *zoned != "none").map(|_| "zones".into()),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if limits.is_empty() { "-".into() } else { limits.join(" ") }
}

fn shown<T: Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "unknown".into(), ToString::to_string)
}

/// `name value`, on one line.
fn setting<T: Display>(name: &str, value: &Option<T>) -> String {
    format!("{name}{TIE}{}", shown(value))
}

fn yes_no(value: Option<bool>, yes: &str, no: &str) -> String {
    shown(&value.map(|is_so| if is_so { yes } else { no }))
}

/// A heading, with labels and texts.
type Section = (String, Vec<(String, String)>);

/// All that the verdict and the findings are based on.
fn sections(report: &DoctorReport) -> Vec<Section> {
    let mut sections = vec![machine(report), privileges(&report.machine), driver(report)];
    sections.extend(report.controllers.iter().map(controller));
    let btf = report.btf.iter().map(|btf| (btf.what.clone(), btf.source.clone()));
    sections.push(("btf".into(), btf.collect()));
    let points = report.points.iter().flat_map(|point| {
        let got = point.got.clone().unwrap_or_else(|| "not available".into());
        let rejected = point.rejected.iter().map(|r| format!("not {}: {}", r.method, r.why));
        let further = rejected.map(|text| (String::new(), text));
        [(point.point.clone(), got)].into_iter().chain(further)
    });
    sections.push(("points".into(), points.collect()));
    let memory = report.memory.iter();
    let memory = memory.map(|m| (m.command.clone(), size_text(m.map_bytes as u64)));
    sections.push(("kernel memory of a run".into(), memory.collect()));
    sections.retain(|(_, entries)| !entries.is_empty());
    sections
}

fn section<const N: usize>(title: &str, entries: [(&str, String); N]) -> Section {
    (title.into(), entries.map(|(label, text)| (label.to_owned(), text)).into())
}

fn machine(report: &DoctorReport) -> Section {
    let m = &report.machine;
    let kprobes = [
        yes_no(m.kprobes_enabled, "on", "switched off"),
        format!("through perf: {}", yes_no(m.kprobe_pmu, "yes", "no")),
    ];
    let sysctls = [
        setting("kptr_restrict", &m.sysctls.kptr_restrict),
        setting("perf_event_paranoid", &m.sysctls.perf_event_paranoid),
        setting("unprivileged_bpf_disabled", &m.sysctls.unprivileged_bpf_disabled),
        setting("bpf_jit_enable", &m.sysctls.bpf_jit_enable),
        setting("ftrace_enabled", &m.sysctls.ftrace_enabled),
    ];
    let tracefs = match m.tracefs_mounted {
        Some(false) if m.tracefs.is_none() => "not mounted".into(),
        _ => shown(&m.tracefs),
    };
    let processors =
        format!("{} online, {} possible", shown(&m.cpus_online), shown(&m.cpus_possible));
    let mut machine = section(
        "machine",
        [
            ("kernel", format!("{} {}", shown(&m.release), m.arch)),
            ("version", shown(&m.version)),
            ("processors", processors),
            ("hypervisor", format!("{} ({})", m.hypervisor.name, m.hypervisor.evidence)),
            ("clock", shown(&m.clock_source)),
            ("lockdown", shown(&m.lockdown)),
            ("tracefs", tracefs),
            ("debugfs", yes_no(m.debugfs, "mounted", "not mounted")),
            ("kprobes", kprobes.join("; ")),
            ("sysctls", sysctls.join(", ")),
        ],
    );
    let preemption = report.facts.iter().map(|facts| facts.preemption_text());
    machine.1.extend(preemption.map(|text| ("preemption".into(), text)));
    machine
}

fn privileges(machine: &Machine) -> Section {
    let Some(privileges) = &machine.privileges else {
        return section("privileges", [("user", "unknown".into())]);
    };
    let user = if privileges.uid == 0 { "root".into() } else { format!("uid {}", privileges.uid) };
    let place = if machine.user_namespace == Some(true) { ", in a user namespace" } else { "" };
    let held = privileges.capabilities.iter().filter(|c| c.held);
    let held: Vec<_> = held.map(|c| c.name).collect();
    let (held, lacks) = (held.join(", "), privileges.missing().join(", "));
    let (title, mut entries) = section(
        "privileges",
        [("user", format!("{user}{place}")), ("holds", held), ("lacks", lacks)],
    );
    entries.retain(|(_, text)| !text.is_empty());
    (title, entries)
}

fn driver(report: &DoctorReport) -> Section {
    let p = &report.parameters;
    let seconds = |name, value: Option<u32>| setting(name, &value.map(|s| format!("{s} s")));
    let pci = [
        setting("poll_queues", &p.poll_queues),
        setting("write_queues", &p.write_queues),
        setting("io_queue_depth", &p.io_queue_depth),
        setting("use_threaded_interrupts", &p.use_threaded_interrupts),
    ];
    let core = [
        seconds("io_timeout", p.io_timeout_s),
        seconds("admin_timeout", p.admin_timeout_s),
        setting("multipath", &p.multipath),
    ];
    section("driver", [("nvme", pci.join(", ")), ("nvme_core", core.join(", "))])
}

fn controller(c: &MachineController) -> Section {
    let (transport, address) = (shown(&c.transport), shown(&c.address));
    let (title, mut entries) = section(
        &format!("{}  {}", c.name(), shown(&c.model)),
        [
            ("kind", format!("{} ({})", c.class.name(), c.class_reason)),
            ("at", format!("{transport} {address}, {}", setting("firmware", &c.firmware))),
            ("state", shown(&c.state)),
        ],
    );
    let mut add = |label: &str, text: String| entries.push((label.into(), text));
    let queues = match c.io_queues {
        Some(io) => format!("admin and {io} I/O, entries {}", shown(&c.depth)),
        None => "unknown".into(),
    };
    if let Some(pci_id) = &c.pci_id {
        let node = match c.numa_node {
            Some(-1) => "no NUMA node".into(),
            _ => setting("NUMA node", &c.numa_node),
        };
        add("pci", format!("{pci_id}, subsystem {}, {node}", shown(&c.pci_subsystem_id)));
        add("queues", format!("{queues}, interrupt vectors {}", shown(&c.vectors)));
        let doorbells = match c.shadow_doorbells {
            Some(true) => "shadow doorbells offered",
            Some(false) => "no shadow doorbells",
            None => "unknown (run as root with --identify; the controller must be live)",
        };
        add("doorbells", doorbells.into());
    } else {
        add("queues", queues);
    }
    if c.disks.is_empty() {
        add("namespaces", "none".into());
    }
    for disk in &c.disks {
        namespace(disk, &mut add);
    }
    (title, entries)
}

/// A disk, and what could make its bios wait.
fn namespace(disk: &MachineDisk, add: &mut dyn FnMut(&str, String)) {
    let timeout = disk.io_timeout_ms.map(|ms| format!("{} s", f64::from(ms) / 1e3));
    let path = if disk.hidden { "a path of a multipath namespace, " } else { "" };
    let size = shown(&disk.size_bytes.map(capacity));
    let poll = disk.io_poll.map(u8::from);
    let settings = [
        format!("nsid{TIE}{}", disk.nsid),
        format!("{size} in blocks of {} B", shown(&disk.logical_bytes)),
        setting("io_timeout", &timeout),
        setting("iostats", &disk.iostats),
        setting("nomerges", &disk.nomerges),
        setting("rq_affinity", &disk.rq_affinity),
        setting("io_poll", &poll),
    ];
    add(disk.name.as_str(), format!("{path}{}", settings.join(", ")));
    let wbt = disk.wbt_lat_us.map(|us| if us == 0 { "off".into() } else { format!("{us} us") });
    let limits = disk.limits.as_ref().map(|limits| match limits.cgroups.len() {
        0 => "none".to_owned(),
        n => format!("{n} cgroups"),
    });
    let waits = [
        setting("scheduler", &disk.scheduler),
        setting("nr_requests", &disk.nr_requests),
        setting("wbt_lat", &wbt),
        setting("io.cost", &disk.io_cost),
        setting("zones", &disk.zoned),
        setting("io.max", &limits),
    ];
    add("may wait", waits.join(", "));
    if let Some(limits) = &disk.limits {
        for limit in &limits.cgroups {
            add("io.max", format!("{limit}: {}", limit.cgroup));
        }
        if limits.more {
            add("", "there may be more limits".into());
        }
    }
}

pub(crate) fn capacity(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if value < 9.95 && unit != "B" {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::fixture::guest;
    use crate::doctor::report::{Blocker, BtfLine, PointLine, Readiness, RejectedMethod};
    use crate::error::Kind;
    use crate::machine::System;
    use crate::probe::facts::KernelFacts;
    use crate::probe::plan::Policy;

    fn report() -> DoctorReport {
        let mut report = guest();
        let state = |command, missing: Option<&str>| Readiness {
            command,
            missing: missing.map(Into::into),
            unobserved: vec!["doorbell"],
        };
        report.verdict.method = Some("rawtp");
        report.verdict.commands =
            vec![state("latency --stages", None), state("inflight", Some("no types"))];
        let source = "/sys/kernel/btf/vmlinux".into();
        report.btf = vec![BtfLine { what: "vmlinux".into(), source }];
        let why = "the PCI driver is not loaded, or has no BTF, and that is a long reason";
        let point = |point: &str, got: Option<&str>, rejected: &[&str]| PointLine {
            point: point.into(),
            got: got.map(Into::into),
            rejected: rejected
                .iter()
                .map(|&method| RejectedMethod { method: method.into(), why: why.into() })
                .collect(),
        };
        report.points = vec![
            point("setup_out", Some("tp_btf nvme_setup_cmd"), &[]),
            point("doorbell", None, &["fexit nvme_queue_rq", "kprobe"]),
        ];
        report
    }

    fn written(report: &DoctorReport) -> String {
        let mut out = Vec::new();
        text(report, true, Theme { color: false }, 80, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_long_label_has_a_line_of_its_own_and_ties_hold() {
        let mut out = Vec::new();
        let theme = Theme { color: false };
        let text = format!("{}name{TIE}value", "word ".repeat(12));
        entry("nvme0c0n1234567", &text, theme, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "  nvme0c0n1234567");
        assert_eq!(lines[2], "               name value");
    }

    #[test]
    fn the_verdict_the_controllers_and_what_to_do_fit_both_widths() {
        let ready = report();
        let mut blocked = report();
        blocked.verdict.blocked = Some(Blocker {
            kind: Kind::NoDevice,
            what: "this machine has no NVMe controller".into(),
            advice: "modprobe nvme".into(),
        });
        blocked.controllers.clear();
        for (name, report, width) in
            [("ready_80", &ready, 80), ("ready_120", &ready, 120), ("not_ready_80", &blocked, 80)]
        {
            let mut out = Vec::new();
            text(report, false, Theme { color: false }, width, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
            insta::assert_snapshot!(name, text);
        }
    }

    #[test]
    fn a_report_fits_the_screen_and_reads_from_machine_to_remarks() {
        let text = written(&report());
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(!text.contains(TIE));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_machine_without_anything_has_a_report_of_unknowns() {
        let mut report = DoctorReport::of(&System::at("/nonexistent"), true);
        report.machine.privileges = None;
        report.machine.arch = "x86_64".into();
        report.plan(KernelFacts::default(), &Policy::default(), &[], None);
        report.facts = None;
        insta::assert_snapshot!(written(&report));
    }

    #[test]
    fn json_is_one_line_with_everything() {
        let mut out = Vec::new();
        json(&report(), &mut out).unwrap();
        assert_eq!(out.iter().filter(|&&b| b == b'\n').count(), 1);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn capacities_are_decimal() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1 << 30, "1.1 GB"),
            (960_197_124_096, "960 GB"),
            (3_840_755_982_336, "3.8 TB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(capacity(bytes), text);
        }
    }
}
