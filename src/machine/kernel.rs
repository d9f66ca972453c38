// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the facts that the planner uses. BTF is always the running kernel's, whatever the root is.

use super::btf::{Btf, Wanted};
use super::reduced::IDS;
use super::types::{BLOCK, CORE, KernelBtf, PCI, Types};
use super::{System, read_line};
use crate::model::text::Text;
use crate::probe::catalog::{AttachKind, CATALOG, Home, Hook, MECHANISMS};
use crate::probe::facts::{KernelFacts, Lockdown, Preemption, PreemptionSource};
use crate::recording::KernelLine;
use anyhow::Result;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::ARCH;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::{fs, io};

/// How much to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Only what is quick to read. The long lists are skipped, except that the symbols are read if
    /// the kernel's BTF of nvme_core is missing, or may not be used.
    Brief,
    /// Also the symbols, which kprobes need.
    Symbols,
    /// Also the functions that ftrace can hook.
    Full,
}

fn names(kinds: &[AttachKind]) -> Vec<&'static str> {
    let mut names: Vec<_> =
        CATALOG.iter().filter(|h| kinds.contains(&h.kind)).map(|h| h.target.name()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl System {
    /// Reads what the running kernel offers for the catalog, and where the types come from.
    ///
    /// # Errors
    /// If the user's BTF file cannot be used.
    pub fn kernel_facts(
        &self,
        file: Option<&Path>,
        may_use_module_btf: bool,
        look: Look,
    ) -> Result<(KernelFacts, Types)> {
        let mut kernel = KernelBtf::load();
        kernel.look_for(&wanted());
        let types = self.types(&mut kernel, file)?;
        if let Some(file) = &kernel.file {
            file.look_for(&wanted());
        }
        let mut facts = KernelFacts {
            release: self.release(),
            vmlinux_btf: kernel.vmlinux.is_some(),
            nvme_core_types: types.core.clone(),
            nvme_pci_types: types.pci.clone(),
            other_types: types.others.clone(),
            built_in: self.built_in(),
            may_use_module_btf,
            lockdown: self.lockdown_level(),
            no_kprobes: self.no_kprobes(),
            no_trampolines: self.no_trampolines(),
            ..KernelFacts::default()
        };
        // f4b9e6c90c57 (5.14) removed the third argument; if there is BTF, a type shows it (see describe())
        facts.command_is_argument = !facts.is_at_least(5, 14);
        facts.kprobes_are_exceptions = self.is_arm64();
        // if there is BTF, a type shows it (see describe())
        facts.preemptible_tracepoints = facts.is_at_least(7, 0);
        (facts.preemption, facts.preemption_source) = self.preemption();
        facts.polled = self.polled();
        facts.threaded_interrupts = self.threaded_interrupts(facts.preemption);
        // 3acf8ace6823 (6.7); if there is BTF, a type shows it (see describe())
        facts.misses_counted = facts.is_at_least(6, 7);
        let mut of_core = kernel.of(Home::NvmeCore).into_iter().chain(&kernel.file);
        facts.no_generation = of_core.any(lacks_generation);
        describe(&kernel, &mut facts);
        facts.no_trampolines = facts.no_trampolines.or_else(|| self.no_direct_calls(&kernel));
        facts.events = self.events();
        let plain = facts.nvme_core_types.is_the_kernels() && may_use_module_btf;
        if look != Look::Brief || !plain {
            let functions = names(&[AttachKind::Kprobe, AttachKind::Kretprobe, AttachKind::Fentry]);
            facts.symbols = self.symbols(&functions).ok();
        }
        if look == Look::Full {
            let functions = names(&[AttachKind::Fentry, AttachKind::Fexit]);
            facts.traceable = self.filter_functions(&functions);
        }
        Ok((facts, types))
    }

    /// The lockdown level; [`Lockdown::None`] if securityfs does not show it.
    pub(super) fn lockdown_level(&self) -> Lockdown {
        match self.lockdown().as_deref() {
            Some("confidentiality") => Lockdown::Confidentiality,
            Some("integrity") => Lockdown::Integrity,
            _ => Lockdown::None,
        }
    }

    /// The parts of the driver that are built in: sysfs has their parameters, but not the state of a module.
    fn built_in(&self) -> BTreeSet<Home> {
        let is_built_in = |home: &Home| {
            home.module().is_some_and(|module| {
                let at = self.path("sys/module").join(module);
                at.exists() && !at.join("initstate").exists()
            })
        };
        Home::ALL.into_iter().filter(is_built_in).collect()
    }

    /// Whether the driver's interrupt handlers run in threads.
    fn threaded_interrupts(&self, preemption: Preemption) -> bool {
        let asked = read_line(&self.path("sys/module/nvme/parameters/use_threaded_interrupts"));
        let boot = read_line(&self.path("proc/cmdline")).unwrap_or_default();
        preemption == Preemption::RealTime
            || asked.is_some_and(|value| value != "0")
            || boot.split_whitespace().any(|word| word == "threadirqs")
    }

    /// Whether the PCI driver sets up polled queues, or has set some up: the parameter may have
    /// changed since.
    fn polled(&self) -> bool {
        let asked = read_line(&self.path("sys/module/nvme/parameters/poll_queues"));
        let polls = |queue: &Path| read_line(&queue.join("queue/io_poll")).as_deref() == Some("1");
        let disks = fs::read_dir(self.path("sys/block")).into_iter().flatten();
        asked.is_some_and(|n| n != "0")
            || disks
                .filter_map(Result::ok)
                .any(|d| d.file_name().as_encoded_bytes().starts_with(b"nvme") && polls(&d.path()))
    }

    pub(super) fn no_kprobes(&self) -> Option<String> {
        let pmu = self.path("sys/bus/event_source/devices/kprobe/type");
        if self.path("sys/bus/event_source/devices").exists() && !pmu.exists() {
            return Some("the kernel has no kprobe events (CONFIG_KPROBE_EVENTS)".into());
        }
        let switch = read_line(&self.path("sys/kernel/debug/kprobes/enabled"));
        if switch.as_deref() == Some("0") {
            return Some("kprobes are switched off (/sys/kernel/debug/kprobes/enabled)".into());
        }
        // kprobes on a function's entry use ftrace, which then attaches them but does not call them
        self.no_trampolines()
            .filter(|_| !self.is_arm64())
            .map(|why| format!("{why}: kprobes attach and never fire"))
    }

    /// Whether the kernel is one of arm64. Before 6.1 only the build of this program shows it.
    fn is_arm64(&self) -> bool {
        let arch = read_line(&self.path("proc/sys/kernel/arch"));
        arch.as_deref().unwrap_or(ARCH) == "aarch64"
    }

    fn no_trampolines(&self) -> Option<String> {
        let ftrace = read_line(&self.path("proc/sys/kernel/ftrace_enabled"));
        (ftrace.as_deref() == Some("0"))
            .then(|| "ftrace is switched off (sysctl kernel.ftrace_enabled)".into())
    }

    /// Why functions of this kernel cannot have trampolines; `None` if they can. ftrace calls these, by the
    /// function named here. arm64 has it from 6.4 on (2aa6ac03516d). The BTF of 5.10 describes only functions
    /// that ftrace can hook, which this one is not: there only the symbols show it.
    fn no_direct_calls(&self, kernel: &KernelBtf) -> Option<String> {
        let name = "register_ftrace_direct";
        let image = kernel.vmlinux.as_deref().or(kernel.file.as_ref())?;
        (!image.has_function(name) && !self.lists_function(name)).then(|| {
            "this kernel has no trampolines for functions (CONFIG_FUNCTION_TRACER and \
             CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS; arm64 from 6.4 on)"
                .into()
        })
    }

    /// The classic events of the catalog, with the offsets of their fields.
    fn events(&self) -> Option<BTreeMap<String, BTreeMap<String, u32>>> {
        self.tracefs()?;
        let mut of_nvme: Vec<_> = CATALOG
            .iter()
            .filter(|h| h.target.home() == Home::NvmeCore)
            .filter(|h| matches!(h.kind, AttachKind::Tracepoint | AttachKind::RawTp))
            .map(|h| h.target.name())
            .collect();
        of_nvme.sort_unstable();
        of_nvme.dedup();
        let found = of_nvme
            .into_iter()
            .filter_map(|name| Some((format!("nvme/{name}"), self.event_fields("nvme", name)?)));
        Some(found.collect())
    }
}

/// Whether tracepoints are guarded by SRCU, not by preempt_disable: a46023d5616e (7.0, and kernels
/// with a backport) added the field. `None` if the BTF lacks the type: a file may be reduced.
fn guards_by_srcu(image: &Btf) -> Option<bool> {
    let has = |field| image.has_path("tp_transition_snapshot", &[field]);
    has("ongoing").then(|| has("srcu_gp"))
}

/// Whether this BTF describes commands, and they have no generation (before 5.15, unless a stable
/// kernel has e7006de6c238).
fn lacks_generation(btf: &Btf) -> bool {
    let has = |field| btf.has_path("nvme_request", &[field]);
    has("cmd") && !has("genctr")
}

/// The structs that show what bios can wait for.
fn structs_of_mechanisms() -> impl Iterator<Item = &'static str> {
    MECHANISMS.iter().flat_map(|m| m.structs).copied()
}

/// What is looked up in the kernel's BTF.
fn wanted() -> Wanted<'static> {
    let mut wanted = Wanted {
        functions: vec!["bpf_rdonly_cast", "register_ftrace_direct"],
        tracepoints: vec!["block_rq_issue"],
        structures: vec!["bpf_link_info", "tp_transition_snapshot"],
    };
    wanted.structures.extend(structs_of_mechanisms());
    wanted.structures.extend(IDS.map(|(_, name)| name));
    let driver = BLOCK.iter().chain(&CORE).chain(&PCI);
    wanted.structures.extend(driver.map(|(name, _)| name));
    for hook in CATALOG {
        match hook.kind {
            AttachKind::TpBtf => wanted.tracepoints.push(hook.target.name()),
            AttachKind::Fentry | AttachKind::Fexit => wanted.functions.push(hook.target.name()),
            _ => {}
        }
    }
    wanted
}

/// Adds what BTF contains of the catalog.
fn describe(kernel: &KernelBtf, facts: &mut KernelFacts) {
    let (mut functions, mut tracepoints) = (BTreeSet::new(), BTreeSet::new());
    // the user's file may describe a kernel without BTF
    let image = kernel.vmlinux.as_deref().or(kernel.file.as_ref());
    let Some(image) = image else { return };
    let home = |hook: &Hook| kernel.of(hook.target.home()).unwrap_or(image);
    let mut asked = BTreeSet::new();
    for hook in CATALOG {
        let (name, btf) = (hook.target.name(), home(hook));
        let tracepoint = match hook.kind {
            AttachKind::TpBtf => true,
            AttachKind::Fentry | AttachKind::Fexit => false,
            _ => continue,
        };
        // several hooks may have the same target
        if !asked.insert((name, tracepoint)) {
            continue;
        }
        if tracepoint && btf.tracepoint_arguments(name).is_some() {
            tracepoints.insert(name.to_owned());
        } else if !tracepoint && btf.has_function(name) {
            functions.insert(name.to_owned());
        }
    }
    let described = structs_of_mechanisms().filter(|name| image.id_of_struct(name).is_some());
    facts.structs = described.map(str::to_owned).collect();
    facts.functions = functions;
    facts.tracepoints = tracepoints;
    let core = kernel.of(Home::NvmeCore).unwrap_or(image);
    if let Some(arguments) = core.function_arguments("nvme_setup_cmd") {
        facts.command_is_argument = arguments > 2;
    }
    facts.rdonly_cast = image.has_function("bpf_rdonly_cast");
    // a54895fa057c (5.11) removed the queue argument
    facts.rq_is_second = image.tracepoint_arguments("block_rq_issue") == Some(2);
    // 3acf8ace6823 (6.7) added the field, together with the counting of missed program runs
    facts.misses_counted = image.has_path("bpf_link_info", &["perf_event", "kprobe", "missed"]);
    if let Some(by_srcu) = guards_by_srcu(image) {
        facts.preemptible_tracepoints = by_srcu;
    }
}

/// A line is about NVMe or the block layer if it has one of these.
const WORDS: [&str; 6] = ["nvme", "blk", "block", "I/O error", "I/O timeout", "hung_task"];
/// Most lines that are kept: the last ones.
const MOST: usize = 1000;

/// A record of /dev/kmsg: `6,339,5140900,-;text`, then lines with properties, which begin with a blank.
fn line(record: &str) -> Option<KernelLine> {
    let (head, text) = record.split_once(';')?;
    let at_us: u64 = head.split(',').nth(2)?.parse().ok()?;
    let text = text.lines().next()?;
    let is_meant = WORDS.iter().any(|word| text.contains(word));
    is_meant.then(|| KernelLine { at_ns: at_us.saturating_mul(1000), text: Text::from(text) })
}

impl System {
    /// The lines of the kernel's log that are about NVMe and the block layer, since this time after the boot.
    ///
    /// # Errors
    /// If the log cannot be read: that takes CAP_SYSLOG, or kernel.dmesg_restrict=0.
    pub fn kernel_log(&self, since_ns: u64) -> io::Result<Vec<KernelLine>> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut log = File::options().read(true).custom_flags(flags).open(self.path("dev/kmsg"))?;
        // one record each time; a smaller buffer is an error
        let (mut record, mut lines) = ([0; 8192], Vec::new());
        loop {
            match log.read(&mut record) {
                Ok(0) => break,
                Ok(size) => {
                    let found = line(&String::from_utf8_lossy(&record[..size]));
                    lines.extend(found.filter(|line| line.at_ns >= since_ns));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // the next record was overwritten meanwhile
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) => return Err(error),
            }
        }
        lines.drain(..lines.len().saturating_sub(MOST));
        Ok(lines)
    }
}

/// The kernel's variable with the current mode, where the mode can change. debugfs shows it too, but
/// not to users of a kernel with lockdown, nor in most containers.
pub const VARIABLE: &str = "preempt_dynamic_mode";

/// The mode that a value of [`VARIABLE`] stands for: none, voluntary, full, lazy (6.13).
pub const fn of_value(value: i32) -> Option<Preemption> {
    match value {
        0 | 1 => Some(Preemption::Voluntary),
        2 | 3 => Some(Preemption::Full),
        // -1 before the kernel has chosen one, and what later kernels may add
        _ => None,
    }
}

fn of_mode(mode: &str) -> Option<Preemption> {
    match mode {
        "none" | "voluntary" => Some(Preemption::Voluntary),
        "full" | "lazy" => Some(Preemption::Full),
        _ => None,
    }
}

/// The mode in parentheses.
fn marked(text: &str) -> Option<Preemption> {
    let (_, rest) = text.split_once('(')?;
    of_mode(rest.split_once(')')?.0)
}

/// The mode by `uname -v` and by debugfs (`none voluntary (full)`), which are empty if they cannot be
/// read.
fn classify(version: &str, debugfs: &str) -> (Preemption, PreemptionSource) {
    use PreemptionSource::{Debugfs, Unknown, Version};
    if version.contains("PREEMPT_RT") {
        return (Preemption::RealTime, Version);
    }
    if !version.is_empty() && !version.contains("PREEMPT_DYNAMIC") {
        // fixed by the build
        let mode = marked(version).unwrap_or_else(|| {
            match version.split_whitespace().any(|w| w == "PREEMPT") {
                true => Preemption::Full,
                false => Preemption::Voluntary,
            }
        });
        return (mode, Version);
    }
    marked(debugfs).map_or((Preemption::Full, Unknown), |mode| (mode, Debugfs))
}

impl System {
    /// The preemption mode, and what shows it. Kernels with PREEMPT_DYNAMIC choose the mode at boot,
    /// and debugfs can change it at any time.
    pub(crate) fn preemption(&self) -> (Preemption, PreemptionSource) {
        let line = |path: &str| read_line(&self.path(path)).unwrap_or_default();
        classify(&line("proc/sys/kernel/version"), &line("sys/kernel/debug/sched/preempt"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;
    use std::rc::Rc;

    /// BTF of one structure, whose fields are pointers to void, and of functions with this number of arguments.
    fn btf_with(name: &str, fields: &[&str], functions: &[(&str, u32)]) -> Vec<u8> {
        let (mut strings, mut types) = (vec![0], vec![]);
        let mut offset_of = |text: &str| {
            let at = u32::try_from(strings.len()).unwrap();
            strings.extend(text.bytes().chain([0]));
            at
        };
        let n = u32::try_from(fields.len()).unwrap();
        // type 1: the pointer (kind 2); type 2: the structure (kind 4)
        types.extend([0, 2 << 24, 0]);
        types.extend([offset_of(name), 4 << 24 | n, 8 * n]);
        for (field, at) in fields.iter().zip((0..).step_by(64)) {
            types.extend([offset_of(field), 1, at]);
        }
        // types 3 and 4, and so on: a prototype (kind 13) and its function (kind 12)
        for ((name, count), proto) in functions.iter().zip((3..).step_by(2)) {
            types.extend([0, 13 << 24 | count, 1]);
            types.extend((0..*count).flat_map(|_| [0, 1]));
            types.extend([offset_of(name), 12 << 24, proto]);
        }
        let size = u32::try_from(4 * types.len()).unwrap();
        let length = u32::try_from(strings.len()).unwrap();
        let header = [0x0001_eb9f, 24, 0, size, size, length];
        let words = header.iter().chain(&types);
        words.flat_map(|w| w.to_ne_bytes()).chain(strings).collect()
    }

    /// A kernel image with a struct and these functions.
    fn kernel_with(name: &str, functions: &[(&str, u32)]) -> KernelBtf {
        let image = Btf::parse(&btf_with(name, &[], functions)).unwrap();
        KernelBtf { modules: BTreeMap::new(), vmlinux: Some(Rc::new(image)), file: None }
    }

    /// What the BTF of a kernel image shows.
    fn described(name: &str, functions: &[(&str, u32)]) -> KernelFacts {
        let kernel = kernel_with(name, functions);
        let mut facts = KernelFacts {
            command_is_argument: true, // by its version
            ..KernelFacts::default()
        };
        describe(&kernel, &mut facts);
        facts
    }

    #[test]
    fn a_kernel_without_direct_calls_has_no_trampolines_for_functions() {
        let why_not = |functions: &[(&str, u32)], symbols: &str| {
            let machine = TestMachine::new(&[("proc/kallsyms", symbols)]);
            machine.no_direct_calls(&kernel_with("request", functions))
        };
        let other = "ffffffff81000000 T startup_64\n";
        assert!(why_not(&[], other).unwrap().contains("FUNCTION_TRACER"));
        let name = "register_ftrace_direct";
        assert_eq!(why_not(&[(name, 2)], other), None);
        // 5.10, whose BTF lacks the function
        assert_eq!(why_not(&[], &format!("{other}ffffffff81100000 T {name}\n")), None);
    }

    #[test]
    fn a_driver_without_the_state_of_a_module_is_built_in() {
        let machine = TestMachine::new(&[]);
        assert!(machine.built_in().is_empty());
        machine.put("sys/module/nvme/parameters/poll_queues", "0\n");
        machine.put("sys/module/nvme_core/initstate", "live\n");
        assert_eq!(machine.built_in(), [Home::NvmePci].into());
    }

    #[test]
    fn types_and_arguments_decide_and_not_the_version() {
        let btf = |name, fields: &[&str]| Btf::parse(&btf_with(name, fields, &[])).unwrap();
        let snapshot = "tp_transition_snapshot";
        for (name, fields, by_srcu) in [
            (snapshot, &["rcu", "srcu_gp", "ongoing"][..], Some(true)), // 7.3
            (snapshot, &["rcu", "ongoing"], Some(false)),               // 6.18
            // 5.10, where SRCU guards only tracepoints in the idle loop
            (snapshot, &["rcu", "srcu", "ongoing"], Some(false)),
            ("tp_probes", &["rcu"], None),
        ] {
            assert_eq!(guards_by_srcu(&btf(name, fields)), by_srcu, "{fields:?}");
        }
        assert!(lacks_generation(&btf("nvme_request", &["cmd", "result", "retries"])));
        assert!(!lacks_generation(&btf("nvme_request", &["cmd", "result", "genctr"])));
        assert!(!lacks_generation(&btf("request", &["cmd"])));
        // what bios can wait for
        assert_eq!(described("ioc_gq", &[]).structs, ["ioc_gq".into()].into());
        let setup = |arguments| described("request", &[("nvme_setup_cmd", arguments)]);
        assert!(described("request", &[]).structs.is_empty());
        assert!(setup(3).command_is_argument && !setup(2).command_is_argument);
        assert!(described("request", &[]).command_is_argument, "as the version says");
    }

    #[test]
    fn switches_that_are_off_are_reasons() {
        let machine = TestMachine::new(&[]);
        assert_eq!((machine.no_kprobes(), machine.no_trampolines()), (None, None));
        let [pmu, enabled, ftrace, arch] = [
            "sys/bus/event_source/devices/kprobe/type",
            "sys/kernel/debug/kprobes/enabled",
            "proc/sys/kernel/ftrace_enabled",
            "proc/sys/kernel/arch",
        ];
        machine.put(pmu, "6\n");
        machine.put(ftrace, "0\n");
        assert!(machine.no_trampolines().unwrap().contains("ftrace_enabled"));
        for (file, text, why) in [
            (enabled, "0\n", Some("switched off")),
            (enabled, "1\n", Some("never fire")),
            // a kprobe of arm64 does not use ftrace
            (arch, "aarch64\n", None),
            (arch, "x86_64\n", Some("never fire")),
            (ftrace, "1\n", None),
        ] {
            machine.put(file, text);
            let found = machine.no_kprobes();
            let is_right = found.as_ref().map(|found| found.contains(why.unwrap_or("nothing")));
            assert_eq!(is_right, why.map(|_| true), "{file} {found:?}");
        }
        fs::remove_file(machine.path(pmu)).unwrap();
        assert!(machine.no_kprobes().unwrap().contains("CONFIG"));
    }

    #[test]
    fn lines_about_nvme_have_their_time() {
        let record =
            "4,812,90123456,-,caller=T1;nvme nvme0: I/O 12 QID 1 timeout\n SUBSYSTEM=pci\n";
        let found = line(record).unwrap();
        assert_eq!(found.at_ns, 90_123_456_000);
        assert_eq!(&*found.text, "nvme nvme0: I/O 12 QID 1 timeout");
        for other in ["6,1,2,-;usb 1-1: new device", "6,1,x,-;nvme", "nvme", ""] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn preemption_is_what_the_kernel_says_of_itself_and_unknown_counts_as_full() {
        use Preemption::{Full, RealTime, Voluntary};
        use PreemptionSource::{Debugfs, Unknown, Version};
        let dynamic = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1";
        for (version, debugfs, want) in [
            ("#1 SMP Debian 5.10.262-1", "", (Voluntary, Version)),
            ("#1 SMP PREEMPT Ubuntu", "", (Full, Version)),
            ("#1 SMP PREEMPT(lazy) Debian 7.3.4", "", (Full, Version)),
            ("#1 SMP PREEMPT_RT Debian 6.1.176-1", "", (RealTime, Version)),
            (dynamic, "none voluntary (full)", (Full, Debugfs)),
            (dynamic, "none voluntary full (lazy)", (Full, Debugfs)),
            (dynamic, "none (voluntary) full", (Voluntary, Debugfs)),
            (dynamic, "(undefined)", (Full, Unknown)),
            (dynamic, "", (Full, Unknown)),
            ("", "", (Full, Unknown)),
        ] {
            let machine = TestMachine::new(&[
                ("proc/sys/kernel/version", version),
                ("sys/kernel/debug/sched/preempt", debugfs),
                // the mode at boot, which may have changed since
                ("proc/cmdline", "quiet preempt=none"),
            ]);
            assert_eq!(machine.preemption(), want, "{version} {debugfs}");
        }
        let (less, more) = (Some(Voluntary), Some(Full));
        let modes = [-1, 0, 1, 2, 3, 4].map(of_value);
        assert_eq!(modes, [None, less, less, more, more, None]);
    }

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        let machine = TestMachine::new(&[]);
        assert_eq!(machine.lockdown_level(), Lockdown::None);
        let file = "sys/kernel/security/lockdown";
        machine.put(file, "none integrity [confidentiality]\n");
        assert_eq!(machine.lockdown_level(), Lockdown::Confidentiality);
        machine.put(file, "none [integrity] confidentiality\n");
        assert_eq!(machine.lockdown_level(), Lockdown::Integrity);
    }
}
