// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts addresses to frames, using only /proc/kallsyms: no debug information, no vmlinux.
//!
//! blazesym finds the symbol. It gets neither sizes nor modules from kallsyms (0.2.7), and returns
//! the nearest symbol below any address. `Regions` shows whether the symbol is in the same region
//! as the address, and the module of the symbol.
//!
//! If a module is loaded later, the table is read again. If a module is unloaded and another takes
//! its place, this is not noticed.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolizer as Names};

use super::regions::Regions;
use super::trim::trim;
use crate::model::stack::{Frame, StackAt, Symbol};

/// Number of pages of generated code to remember; when it is exceeded, they are checked again.
const MAX_GENERATED: usize = 4096;

/// Why frames have no names, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Hidden {
    /// The symbols cannot be read.
    #[error(
        "kernel stacks come as bare addresses: /proc/kallsyms can't be read ({0}); it takes \
         CONFIG_KALLSYMS and a mounted /proc"
    )]
    Unreadable(String),
    /// The kernel shows the addresses of symbols to no process.
    #[error(
        "kernel stacks come as bare addresses: kernel.kptr_restrict is 2, which hides symbols from \
         everyone; `sysctl kernel.kptr_restrict=1` shows them to root"
    )]
    FromEveryone,
    /// The kernel shows the addresses of symbols to processes with CAP_SYSLOG.
    #[error(
        "kernel stacks come as bare addresses: the kernel hides its symbols from those without \
         CAP_SYSLOG; run as root, or add that capability"
    )]
    WithoutCapability,
}

impl Hidden {
    fn unreadable(error: impl Display) -> Self {
        Self::Unreadable(error.to_string())
    }

    /// Why the symbols have no addresses.
    fn without_addresses(root: &Path) -> Self {
        let restrict = fs::read_to_string(root.join("proc/sys/kernel/kptr_restrict"));
        if restrict.is_ok_and(|r| r.trim() == "2") {
            Self::FromEveryone
        } else {
            Self::WithoutCapability
        }
    }
}

/// The kernel's symbols, in memory.
struct Table {
    regions: Regions,
    names: Names,
    source: Source<'static>,
}

/// Resolves kernel addresses to names. Loading takes time and memory, so create only one.
pub struct Symbolizer {
    root: PathBuf,
    table: Result<Table, Hidden>,
    /// Pages that do not belong to a module.
    generated: HashSet<u64>,
}

impl Table {
    fn load(root: &Path) -> Result<Self, Hidden> {
        let kallsyms = root.join("proc/kallsyms");
        let file = File::open(&kallsyms).map_err(Hidden::unreadable)?;
        let regions = Regions::read(BufReader::with_capacity(1 << 16, file));
        let regions = regions.map_err(Hidden::unreadable)?;
        if !regions.visible {
            return Err(Hidden::without_addresses(root));
        }
        let source = Source::Kernel(Kernel {
            kallsyms: MaybeDefault::Some(kallsyms),
            vmlinux: MaybeDefault::None,
            kaslr_offset: None,
            debug_syms: false,
            _non_exhaustive: (),
        });
        let names = Names::builder().enable_code_info(false).enable_inlined_fns(false).build();
        // the first address loads all symbols
        names.symbolize(&source, Input::AbsAddr(&[u64::MAX])).map_err(Hidden::unreadable)?;
        Ok(Self { regions, names, source })
    }

    /// The functions that contain these places in the code.
    fn symbols(&self, places: &[u64]) -> Vec<Option<Symbol>> {
        let found = self.names.symbolize(&self.source, Input::AbsAddr(places));
        let found = found.unwrap_or_default();
        let mut found = found.into_iter().map(|s| s.into_sym());
        let mut next = |&place: &u64| {
            let sym = found.next().flatten()?;
            let region = self.regions.of(place).filter(|r| r.holds(sym.addr))?;
            Some(Symbol {
                offset: place - sym.addr,
                name: sym.name.into_owned().into(),
                module: region.module.as_ref().map(Into::into),
            })
        };
        places.iter().map(&mut next).collect()
    }

    /// Resolves addresses to frames, innermost first. All but the first are return addresses: the
    /// instruction after the call. If the call never returns (do_group_exit), this may be the first
    /// instruction of the next function. So each frame is resolved by its call.
    fn frames(&self, addresses: &[u64]) -> Vec<Frame> {
        let calls: Vec<u64> =
            addresses.iter().enumerate().map(|(n, a)| a.saturating_sub(u64::from(n > 0))).collect();
        let mut symbols = self.symbols(&calls);
        let exact = self.symbols(addresses);
        for (n, exact) in exact.into_iter().enumerate().skip(1) {
            // a return probe's trampoline was not called: it replaced the return address of the
            // caller
            if let Some(symbol) = exact.filter(|s| s.offset == 0 && is_return_trampoline(s)) {
                symbols[n] = Some(symbol);
                continue;
            }
            // the frame below an interrupt has no call: its address is the next instruction
            let interrupt = symbols[n - 1].as_ref().is_some_and(is_interrupt_entry);
            if interrupt {
                symbols[n] = self.symbols(&[addresses[n]]).pop().flatten();
            } else if let Some(symbol) = &mut symbols[n] {
                symbol.offset += 1;
            }
        }
        let frame = |(&address, symbol)| Frame { address, symbol };
        addresses.iter().zip(symbols).map(frame).collect()
    }
}

/// kretprobe_trampoline (before 5.15), __kretprobe_trampoline, or rethook's.
fn is_return_trampoline(symbol: &Symbol) -> bool {
    let name = symbol.name.as_str().trim_start_matches('_');
    ["kretprobe_trampoline", "arch_rethook_trampoline"].contains(&name)
}

/// Whether this is the entry of an interrupt or exception: `asm_` on x86, the vectors on arm64.
fn is_interrupt_entry(symbol: &Symbol) -> bool {
    let named = |prefix| symbol.name.as_str().starts_with(prefix);
    named("asm_") || named("el1h_64_") || named("el0t_64_")
}

impl Default for Symbolizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbolizer {
    /// Loads the symbols of the running kernel. Does not fail: see [`hidden`](Self::hidden).
    #[must_use]
    pub fn new() -> Self {
        Self::at("/")
    }

    /// Loads the symbols of the machine that has its /proc below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { table: Table::load(&root), root, generated: HashSet::new() }
    }

    /// Why frames have no names, and what to do; `None` if they have names.
    #[must_use]
    pub fn hidden(&self) -> Option<&Hidden> {
        self.table.as_ref().err()
    }

    /// The kernel's interrupt entry code, as (start, end). Frames below it in a stack were
    /// interrupted.
    #[must_use]
    pub fn irq_entry(&self) -> Option<(u64, u64)> {
        self.table.as_ref().ok()?.regions.irq_entry
    }

    /// Resolves a stack as it was taken (innermost first, possibly with zeroes at the end), and
    /// reduces it to the driver and its callers. Addresses that cannot be named remain addresses.
    pub fn stack(&mut self, addresses: &[u64], at: StackAt) -> Vec<Frame> {
        let depth = addresses.iter().position(|&a| a == 0);
        let addresses = &addresses[..depth.unwrap_or(addresses.len())];
        self.look_for_new_modules(addresses);
        match &self.table {
            Ok(table) => trim(table.frames(addresses), at),
            Err(_) => addresses.iter().map(|&address| Frame { address, symbol: None }).collect(),
        }
    }

    /// Checks addresses outside all regions: generated code (BPF programs, trampolines), or a new
    /// module.
    fn look_for_new_modules(&mut self, addresses: &[u64]) {
        let Ok(table) = &self.table else { return };
        for &address in addresses {
            // units of 4 KiB, whatever the page size is
            if table.regions.of(address).is_some() || !self.generated.insert(address >> 12) {
                continue;
            }
            // the file does not exist on a kernel without modules
            let modules = fs::read_to_string(self.root.join("proc/modules")).unwrap_or_default();
            if table.regions.misses(&modules, address) {
                self.generated.clear();
                if let Ok(table) = Table::load(&self.root) {
                    self.table = Ok(table);
                }
                return;
            }
        }
        if self.generated.len() > MAX_GENERATED {
            self.generated.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::regions::tests::KALLSYMS;
    use super::*;
    use crate::machine::tests::TestMachine;

    const IMAGE: u64 = 0xffff_ffff_8100_0000;
    const NVME: u64 = 0xffff_ffff_c010_0000;
    const CORE: u64 = 0xffff_ffff_c020_0000;

    fn texts(frames: &[Frame]) -> Vec<String> {
        frames.iter().map(ToString::to_string).collect()
    }

    fn machine() -> (TestMachine, Symbolizer) {
        let machine = TestMachine::new(&[("proc/kallsyms", KALLSYMS)]);
        let symbolizer = Symbolizer::at(machine.path(""));
        (machine, symbolizer)
    }

    #[test]
    fn a_stack_has_names_offsets_and_modules() {
        let (_machine, mut symbolizer) = machine();
        assert!(symbolizer.hidden().is_none());
        // the first is a BPF program
        let raw = [CORE + 0x10_0010, CORE + 0x40, NVME + 0xf10, IMAGE + 0x410, 0, IMAGE];
        let frames = symbolizer.stack(&raw, StackAt::Submit);
        let want = [
            "nvme_setup_cmd+0x30 [nvme_core]",
            "nvme_queue_rq+0x10 [nvme]",
            "blk_mq_run_work_fn+0x10",
        ];
        assert_eq!(texts(&frames), want);
        assert!(symbolizer.stack(&[], StackAt::Submit).is_empty());
    }

    #[test]
    fn a_call_that_never_returns_is_not_the_next_functions() {
        let (_machine, symbolizer) = machine();
        let table = symbolizer.table.as_ref().unwrap();
        // a kprobe on the first byte, the call at the end of do_group_exit, and one more call
        let raw = [CORE + 0x10, IMAGE + 0x200, IMAGE + 0x300, IMAGE + 0x400];
        let frames = table.frames(&raw);
        let want = [
            "nvme_setup_cmd+0x0 [nvme_core]",
            "do_group_exit+0x100",
            "vfs_read+0x100",
            "asm_common_interrupt+0x100",
        ];
        assert_eq!(texts(&frames), want);
        // interrupted before its first instruction
        let raw = [CORE + 0x10, IMAGE + 0x310, IMAGE + 0x200];
        let frames = table.frames(&raw);
        assert_eq!(texts(&frames)[2], "vfs_read+0x0");
    }

    #[test]
    fn hidden_symbols_say_what_to_do() {
        let zeroes = "0000000000000000 T _stext\n";
        let hidden = |restrict: &str| {
            let setting = ("proc/sys/kernel/kptr_restrict", restrict);
            let machine = TestMachine::new(&[("proc/kallsyms", zeroes), setting]);
            let mut symbolizer = Symbolizer::at(machine.path(""));
            let raw = symbolizer.stack(&[1, 2, 0], StackAt::Complete);
            assert_eq!(texts(&raw), ["0x0000000000000001", "0x0000000000000002"]);
            symbolizer.hidden().unwrap().to_string()
        };
        insta::assert_snapshot!(
            [hidden("2\n"), hidden("1\n")].join("\n"),
            @r"
        kernel stacks come as bare addresses: kernel.kptr_restrict is 2, which hides symbols from everyone; `sysctl kernel.kptr_restrict=1` shows them to root
        kernel stacks come as bare addresses: the kernel hides its symbols from those without CAP_SYSLOG; run as root, or add that capability
        "
        );
        let nothing = Symbolizer::at("/nonexistent");
        let why = nothing.hidden().unwrap().to_string();
        assert!(why.contains("/proc/kallsyms can't be read"), "{why}");
    }

    #[test]
    fn a_module_that_came_later_gets_its_names() {
        let (machine, mut symbolizer) = machine();
        let mut stack = |raw: &[u64], forget: bool| {
            if forget {
                symbolizer.generated.clear();
            }
            texts(&symbolizer.stack(raw, StackAt::Submit))
        };
        let before = ["nvme_setup_cmd+0x0 [nvme_core]"];
        assert_eq!(stack(&[CORE + 0x10, CORE + 0x40_0010], false), before);
        let more = format!("{KALLSYMS}ffffffffc0600000 t dm_submit_bio\t[dm_mod]\n");
        machine.put("proc/kallsyms", &more);
        machine.put("proc/modules", "dm_mod 4096 0 - Live 0xffffffffc0600000\n");
        // the page still counts as generated code, until another address causes a check
        assert_eq!(stack(&[CORE + 0x10, CORE + 0x40_0020], false), before);
        let after = stack(&[CORE + 0x10, CORE + 0x40_0020, CORE + 0x50_0000], true);
        assert_eq!(after[1], "dm_submit_bio+0x20 [dm_mod]");
    }
}
