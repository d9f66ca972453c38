// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of `doctor`, as text and as JSON.

use crate::doctor::report::{DoctorReport, MemoryLine, PointLine, Readiness, Verdict};
use crate::machine::fact::Fact;
use crate::machine::nvme::{NamespaceDetail, NvmeDetail, NvmeParameters};
use crate::machine::overview::Machine;
use crate::model::report::finding::Severity;
use crate::units::counted;
use crate::view::json::{SCHEMA_VERSION, line};
use crate::view::page::{Page, TIE, fill};
use crate::view::theme::Theme;
use serde::Serialize;
use std::fmt::Display;
use std::io;
use std::io::Write;

#[derive(Serialize)]
struct DoctorLine<'a> {
    r#type: &'static str,
    schema_version: u32,
    #[serde(flatten)]
    report: &'a DoctorReport,
}

/// Writes the report as one line of JSON.
///
/// # Errors
/// Errors of the writer.
pub fn json(report: &DoctorReport, out: &mut dyn Write) -> io::Result<()> {
    line(&DoctorLine { r#type: "doctor", schema_version: SCHEMA_VERSION, report }, out)
}

/// Writes the report as text: the verdict and the advice, and with `verbose` all that it is based on.
///
/// # Errors
/// Errors of the writer.
pub fn text(
    report: &DoctorReport,
    verbose: bool,
    theme: Theme,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page { theme, out };
    page.verdict(&report.verdict)?;
    page.list("what you could change", report.advice(Severity::Warning))?;
    page.list("what to keep in mind", report.advice(Severity::Note))?;
    if verbose {
        return page.details(report);
    }
    let more = "-v: kernel, privileges, controllers, the hook of each point, memory";
    writeln!(page.out, "{}", theme.dim(more))
}

/// A fact as `name value`, on one line.
fn setting<T: Display>(name: &str, fact: &Fact<T>) -> String {
    match fact {
        Fact::Known(value) => format!("{name}{TIE}{value}"),
        Fact::Unknown { unknown } => format!("{name} unknown ({unknown})"),
    }
}

fn yes_no(fact: &Fact<bool>, yes: &str, no: &str) -> String {
    match fact {
        Fact::Known(true) => yes.into(),
        Fact::Known(false) => no.into(),
        Fact::Unknown { unknown } => format!("unknown ({unknown})"),
    }
}

impl Page<'_> {
    /// What the verdict and the advice are based on.
    fn details(&mut self, report: &DoctorReport) -> io::Result<()> {
        let DoctorReport {
            verdict: _,
            machine,
            parameters,
            controllers,
            btf,
            points,
            memory,
            facts,
            findings: _,
        } = report;
        self.machine(machine)?;
        if let Some(facts) = facts {
            self.entry("preemption", &facts.preemption_text())?;
        }
        self.privileges(machine)?;
        self.driver(parameters)?;
        for controller in controllers {
            self.controller(controller)?;
        }
        if controllers.is_empty() {
            self.entry("controllers", "none")?;
        }
        if !btf.is_empty() {
            self.head("btf")?;
        }
        for btf in btf {
            self.entry(&btf.what, &btf.source)?;
        }
        if !points.is_empty() {
            self.head("points")?;
        }
        for point in points {
            self.point(point)?;
        }
        if !memory.is_empty() {
            self.head("kernel memory of a run")?;
        }
        for MemoryLine { command, map_bytes } in memory {
            let mib = *map_bytes as f64 / f64::from(1 << 20);
            self.entry(command, &format!("{mib:.1} MiB"))?;
        }
        Ok(())
    }

    fn machine(&mut self, machine: &Machine) -> io::Result<()> {
        let Machine {
            release,
            version,
            arch,
            cpus_online,
            cpus_possible,
            hypervisor,
            clock_source,
            lockdown,
            sysctls,
            tracefs,
            tracefs_mounted: _,
            debugfs,
            kprobes_enabled,
            kprobe_pmu,
            user_namespace: _,
            privileges: _,
        } = machine;
        self.head("machine")?;
        self.entry("kernel", &format!("{release} {arch}"))?;
        self.entry("version", &version.to_string())?;
        let cpus = format!("{cpus_online} online, {cpus_possible} possible");
        self.entry("processors", &cpus)?;
        let on = format!("{} ({})", hypervisor.name, hypervisor.evidence);
        self.entry("hypervisor", &on)?;
        self.entry("clock", &clock_source.to_string())?;
        self.entry("lockdown", &lockdown.to_string())?;
        self.entry("tracefs", &tracefs.to_string())?;
        self.entry("debugfs", &yes_no(debugfs, "mounted", "not mounted"))?;
        let kprobes = format!(
            "{}; through perf: {}",
            yes_no(kprobes_enabled, "on", "switched off"),
            yes_no(kprobe_pmu, "yes", "no")
        );
        self.entry("kprobes", &kprobes)?;
        let settings = [
            setting("kptr_restrict", &sysctls.kptr_restrict),
            setting("perf_event_paranoid", &sysctls.perf_event_paranoid),
            setting("unprivileged_bpf_disabled", &sysctls.unprivileged_bpf_disabled),
            setting("bpf_jit_enable", &sysctls.bpf_jit_enable),
            setting("ftrace_enabled", &sysctls.ftrace_enabled),
        ];
        self.entry("sysctls", &settings.join(", "))
    }

    fn privileges(&mut self, machine: &Machine) -> io::Result<()> {
        self.head("privileges")?;
        let privileges = match &machine.privileges {
            Fact::Known(privileges) => privileges,
            Fact::Unknown { unknown } => {
                return self.entry("user", &format!("unknown ({unknown})"));
            }
        };
        let user = match privileges.uid {
            0 => "root".into(),
            uid => format!("uid {uid}"),
        };
        let place = match machine.user_namespace {
            Fact::Known(true) => ", in a user namespace",
            _ => "",
        };
        self.entry("user", &format!("{user}{place}"))?;
        let held = privileges.capabilities.iter().filter(|c| c.held);
        let held: Vec<_> = held.map(|c| c.name).collect();
        for (label, names) in [("holds", held), ("lacks", privileges.missing())] {
            if !names.is_empty() {
                self.entry(label, &names.join(", "))?;
            }
        }
        Ok(())
    }

    fn driver(&mut self, parameters: &NvmeParameters) -> io::Result<()> {
        let NvmeParameters {
            poll_queues,
            write_queues,
            io_queue_depth,
            use_threaded_interrupts,
            io_timeout_s,
            admin_timeout_s,
            multipath,
        } = parameters;
        self.head("driver")?;
        let pci = [
            setting("poll_queues", poll_queues),
            setting("write_queues", write_queues),
            setting("io_queue_depth", io_queue_depth),
            setting("use_threaded_interrupts", use_threaded_interrupts),
        ];
        self.entry("nvme", &pci.join(", "))?;
        let core = [
            setting("io_timeout", &io_timeout_s.clone().map(|s| format!("{s} s"))),
            setting("admin_timeout", &admin_timeout_s.clone().map(|s| format!("{s} s"))),
            setting("multipath", multipath),
        ];
        self.entry("nvme_core", &core.join(", "))
    }

    fn controller(&mut self, controller: &NvmeDetail) -> io::Result<()> {
        let NvmeDetail {
            name,
            instance: _,
            model,
            firmware,
            transport,
            address,
            state,
            pci_id: _,
            pci_subsystem_id: _,
            numa_node: _,
            class,
            class_reason,
            queue_count: _,
            queue_depth: _,
            interrupt_vectors: _,
            shadow_doorbells: _,
            iommu_group: _,
            namespaces,
        } = controller;
        self.head(&format!("{name}  {model}"))?;
        self.entry("kind", &format!("{} ({class_reason})", class.name()))?;
        let at = format!("{transport} {address}, {}", setting("firmware", firmware));
        self.entry("at", &at)?;
        match state.known() {
            Some(live) if live == "live" => self.painted("state", live, Theme::good)?,
            _ => self.painted("state", &state.to_string(), Theme::warn)?,
        }
        self.queues(controller)?;
        for namespace in namespaces {
            self.namespace(namespace)?;
        }
        if namespaces.is_empty() {
            self.entry("namespaces", "none")?;
        }
        Ok(())
    }

    fn queues(&mut self, controller: &NvmeDetail) -> io::Result<()> {
        let NvmeDetail {
            pci_id,
            pci_subsystem_id,
            numa_node,
            queue_count,
            queue_depth,
            interrupt_vectors,
            shadow_doorbells,
            ..
        } = controller;
        let on_pci = pci_id.known().is_some();
        if on_pci {
            let node = match numa_node.known() {
                Some(-1) => "no NUMA node".into(),
                _ => setting("NUMA node", numa_node),
            };
            let pci = format!("{pci_id}, subsystem {pci_subsystem_id}, {node}");
            self.entry("pci", &pci)?;
        }
        let of = match queue_count.known() {
            Some(n @ 1..) => format!(" (admin and {} I/O)", n - 1),
            _ => String::new(),
        };
        let queues = format!("{queue_count}{of}, entries {queue_depth}");
        if on_pci {
            let queues = format!("{queues}, interrupt vectors {interrupt_vectors}");
            self.entry("queues", &queues)?;
            let doorbells =
                yes_no(shadow_doorbells, "shadow doorbells offered", "no shadow doorbells");
            self.entry("doorbells", &doorbells)?;
        } else {
            self.entry("queues", &queues)?;
        }
        Ok(())
    }

    fn namespace(&mut self, namespace: &NamespaceDetail) -> io::Result<()> {
        let NamespaceDetail {
            name,
            hidden,
            nsid,
            size_bytes,
            lba_bytes,
            scheduler: _,
            nr_requests: _,
            iostats,
            nomerges,
            wbt_lat_us: _,
            number: _,
            limits: _,
            io_cost: _,
            zoned: _,
            rq_affinity,
            io_poll,
            write_cache: _,
            max_hw_sectors_kb: _,
            max_sectors_kb: _,
            physical_block_size: _,
            io_timeout_ms,
        } = namespace;
        let size = size_bytes.clone().map(capacity);
        let items = [
            setting("nsid", nsid),
            format!("{size} in blocks of {lba_bytes} B"),
            setting(
                "io_timeout",
                &io_timeout_ms.clone().map(|ms| format!("{} s", f64::from(ms) / 1e3)),
            ),
            setting("iostats", iostats),
            setting("nomerges", nomerges),
            setting("rq_affinity", rq_affinity),
            setting("io_poll", io_poll),
        ];
        let path = if *hidden { "a path of a multipath namespace, " } else { "" };
        self.entry(name, &format!("{path}{}", items.join(", ")))?;
        self.waits(namespace)
    }

    fn point(&mut self, point: &PointLine) -> io::Result<()> {
        let PointLine { point, got, rejected } = point;
        match got {
            Some(method) => self.entry(point, method)?,
            None => self.painted(point, "not available", Theme::warn)?,
        }
        for rejected in rejected {
            self.entry("", &format!("not {}: {}", rejected.method, rejected.why))?;
        }
        Ok(())
    }
}

/// Indentation of the further lines of an item.
const INDENT: usize = 4;

/// What a command can do, as the begin of a sentence about it.
fn state(command: &Readiness) -> String {
    match &command.missing {
        Some(missing) => format!("not ready ({missing})"),
        None if command.unobserved.is_empty() => "ready".into(),
        None => format!("ready without {}", command.unobserved.join(", ")),
    }
}

/// The states, each with its commands, in the order of the commands.
fn states(verdict: &Verdict) -> Vec<(String, Vec<&str>)> {
    let mut states: Vec<(String, Vec<&str>)> = vec![];
    for command in &verdict.commands {
        let state = state(command);
        match states.iter_mut().find(|(other, _)| *other == state) {
            Some((_, commands)) => commands.push(command.command),
            None => states.push((state, vec![command.command])),
        }
    }
    states
}

impl Page<'_> {
    /// Writes the verdict. Its first word is `ready`, or `not` if nothing can be traced.
    pub(crate) fn verdict(&mut self, verdict: &Verdict) -> io::Result<()> {
        let states = states(verdict);
        let all = states.len() == 1;
        for (state, commands) in states {
            let commands = if all { "all commands that trace".into() } else { commands.join(", ") };
            let text = format!("{state}: {commands}");
            for (n, line) in fill(&text, INDENT).into_iter().enumerate() {
                let line = if n == 0 { line } else { format!("{:INDENT$}{line}", "") };
                let line =
                    if state == "ready" { self.theme.good(&line) } else { self.theme.warn(&line) };
                writeln!(self.out, "{line}")?;
            }
        }
        Ok(())
    }
}

impl Page<'_> {
    /// What could make a bio of this disk wait.
    pub(crate) fn waits(&mut self, namespace: &NamespaceDetail) -> io::Result<()> {
        let NamespaceDetail { scheduler, nr_requests, wbt_lat_us, limits, io_cost, zoned, .. } =
            namespace;
        let wbt = wbt_lat_us.clone().map(|us| match us {
            0 => "off".to_owned(),
            us => format!("{us} us"),
        });
        let found = limits.clone().map(|limits| match limits.cgroups.len() {
            0 => "none".to_owned(),
            n => counted(n as u64, "cgroup"),
        });
        let items = [
            setting("scheduler", scheduler),
            setting("nr_requests", nr_requests),
            setting("wbt_lat", &wbt),
            setting("io.cost", io_cost),
            setting("zones", zoned),
            setting("io.max", &found),
        ];
        self.entry("may wait", &items.join(", "))?;
        let Fact::Known(limits) = limits else {
            return Ok(());
        };
        for limit in &limits.cgroups {
            self.entry("io.max", &format!("{limit}: {}", limit.cgroup))?;
        }
        if limits.more {
            self.entry("", "there may be more limits")?;
        }
        Ok(())
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
    use crate::doctor::report::{BtfLine, Readiness, RejectedMethod};
    use crate::machine::System;

    fn report() -> DoctorReport {
        let mut report = guest();
        let state = |command, missing: Option<&str>| Readiness {
            command,
            ready: missing.is_none(),
            missing: missing.map(Into::into),
            unobserved: vec!["doorbell"],
        };
        report.verdict.commands =
            vec![state("latency --stages", None), state("inflight", Some("no types"))];
        report.btf =
            vec![BtfLine { what: "vmlinux".into(), source: "/sys/kernel/btf/vmlinux".into() }];
        let rejected = |method: &str| RejectedMethod {
            method: method.into(),
            why: "the PCI driver is not loaded, or has no BTF, and that is a long reason".into(),
        };
        report.points = vec![
            PointLine {
                point: "setup_out".into(),
                got: Some("tp_btf nvme_setup_cmd".into()),
                rejected: vec![],
            },
            PointLine {
                point: "doorbell".into(),
                got: None,
                rejected: vec![rejected("fexit nvme_queue_rq"), rejected("kprobe")],
            },
        ];
        report
    }

    fn written(report: &DoctorReport, color: bool) -> String {
        let mut out = Vec::new();
        text(report, true, Theme { color }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn without_verbose_there_are_the_verdict_and_the_advice_only() {
        let (report, mut out) = (report(), Vec::new());
        text(&report, false, Theme { color: false }, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn a_report_fits_the_screen_and_reads_from_machine_to_remarks() {
        let text = written(&report(), false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(!text.contains(TIE));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn colour_changes_no_line() {
        let colored = written(&report(), true);
        let mut plain = String::new();
        for (n, part) in colored.split('\u{1b}').enumerate() {
            let end = part.find('m').map_or(0, |at| at + 1);
            plain.push_str(if n == 0 { part } else { &part[end..] });
        }
        assert_ne!(colored, plain);
        assert_eq!(plain, written(&report(), false));
    }

    #[test]
    fn a_machine_without_anything_has_a_report_of_unknowns() {
        let mut report = DoctorReport::of(&System::at("/nonexistent"), true);
        report.machine.privileges = Fact::unknown("no /proc/self");
        report.machine.arch = "x86_64".into();
        insta::assert_snapshot!(written(&report, false));
    }

    #[test]
    fn json_is_one_line_with_everything() {
        let mut out = Vec::new();
        json(&report(), &mut out).unwrap();
        assert_eq!(out.iter().filter(|&&b| b == b'\n').count(), 1);
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }
}

#[cfg(test)]
mod verdict_tests {
    use super::*;
    use crate::view::theme::Theme;

    fn command(command: &'static str, missing: Option<&str>, points: &[&'static str]) -> Readiness {
        Readiness {
            command,
            ready: missing.is_none(),
            missing: missing.map(Into::into),
            unobserved: points.to_vec(),
        }
    }

    fn written(commands: Vec<Readiness>) -> String {
        let (mut out, theme) = (Vec::new(), Theme { color: false });
        let mut page = Page { theme, out: &mut out };
        let ready = commands.iter().all(|c| c.ready);
        page.verdict(&Verdict { ready, commands }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_sentence_if_all_commands_are_in_one_state() {
        let ready = ["top", "latency"].map(|name| command(name, None, &[]));
        assert_eq!(written(ready.into()), "ready: all commands that trace\n");
        let lacks =
            ["top", "latency"].map(|name| command(name, Some("no CAP_BPF: run as root"), &[]));
        assert_eq!(
            written(lacks.into()),
            "not ready (no CAP_BPF: run as root): all commands that trace\n"
        );
    }

    #[test]
    fn commands_that_lack_the_same_are_together() {
        let commands = vec![
            command("top", None, &["doorbell"]),
            command("latency", None, &[]),
            command("latency --stages", None, &["doorbell"]),
            command("trace", None, &[]),
            command("inflight", Some("no types"), &[]),
        ];
        assert_eq!(
            written(commands),
            "ready without doorbell: top, latency --stages\nready: latency, trace\n\
             not ready (no types): inflight\n"
        );
    }
}

#[cfg(test)]
mod capacity_tests {
    use super::*;

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
