// SPDX-License-Identifier: MIT OR Apache-2.0
//! The regions of code that has names: the text of the kernel image, and of each module.
//!
//! kallsyms contains start addresses but no sizes. A look-up there finds the nearest symbol below,
//! at any distance: BPF programs and trampolines would get the name of a module's data
//! (`__this_module`, `orc_header`). So the region of an address is determined first. The generated
//! code that kallsyms may list (`[bpf]`, `[__builtin__ftrace]`) has no region here: it comes and
//! goes, and readers of a stack do not need it.

use std::collections::BTreeMap;
use std::io;
use std::io::BufRead;

use crate::machine::kallsyms::{SymbolLine, fields};

/// Access rights are per page, so text does not share a page with anything else.
const PAGE: u64 = 4096;

/// The text of one owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Region {
    start: u64,
    end: u64,
    /// `None` for the kernel image.
    pub(super) module: Option<String>,
}

impl Region {
    pub(super) fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// All regions, lowest first.
#[derive(Debug, Default)]
pub(super) struct Regions {
    all: Vec<Region>,
    /// Symbols have addresses. They are zero if the kernel hides them.
    pub(super) visible: bool,
    /// The interrupt entry code: start and end.
    pub(super) irq_entry: Option<(u64, u64)>,
}

/// From the first function to the end of the page in which the last one begins. A module's last
/// function may extend further, but that is its exit function or a part that was moved away.
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    fn grow(span: Option<&mut Self>, address: u64) -> Option<Self> {
        let Some(span) = span else {
            return Some(Self { first: address, last: address });
        };
        span.first = span.first.min(address);
        span.last = span.last.max(address);
        None
    }

    fn end(&self) -> u64 {
        (self.last | (PAGE - 1)).saturating_add(1)
    }
}

impl Regions {
    /// Reads the regions from the lines of kallsyms.
    pub(super) fn read(mut kallsyms: impl BufRead) -> io::Result<Self> {
        let (mut begin, mut end) = (None, None);
        let (mut irq_begin, mut irq_end) = (None, None);
        let mut image: Option<Span> = None;
        let mut modules: BTreeMap<String, Span> = BTreeMap::new();
        let mut line = Vec::new();
        while kallsyms.read_until(b'\n', &mut line)? > 0 {
            let symbol = fields(line.trim_ascii_end()).filter(SymbolLine::is_text);
            if let Some(symbol) = symbol
                && let Some(address @ 1..) = symbol.address()
            {
                match (symbol.module(), symbol.name) {
                    (None, b"_stext") => begin = Some(address),
                    (None, b"_etext") => end = Some(address),
                    (None, b"__irqentry_text_start") => irq_begin = Some(address),
                    (None, b"__irqentry_text_end") => irq_end = Some(address),
                    (None, _) => image = Span::grow(image.as_mut(), address).or(image),
                    (Some(m), _) if m == "bpf" || m.starts_with("__builtin__") => {}
                    (Some(m), _) => {
                        if let Some(new) = Span::grow(modules.get_mut(m), address) {
                            modules.insert(m.to_owned(), new);
                        }
                    }
                }
            }
            line.clear();
        }
        let image = image.map(|span| Region {
            start: begin.unwrap_or(span.first),
            end: end.unwrap_or_else(|| span.end()),
            module: None,
        });
        let modules = modules.into_iter().map(|(module, span)| Region {
            start: span.first,
            end: span.end(),
            module: Some(module),
        });
        let mut all: Vec<_> = image.into_iter().chain(modules).collect();
        all.sort_by_key(|r| r.start);
        Ok(Self { visible: !all.is_empty(), irq_entry: irq_begin.zip(irq_end), all })
    }

    /// The region that contains an address.
    pub(super) fn of(&self, address: u64) -> Option<&Region> {
        let after = self.all.partition_point(|r| r.start <= address);
        let region = &self.all[after.checked_sub(1)?];
        region.holds(address).then_some(region)
    }

    /// Whether /proc/modules has a module at the address that was not there when the symbols were
    /// read. The file has a module's start and the size of all its parts; the text comes first.
    pub(super) fn misses(&self, modules: &str, address: u64) -> bool {
        modules.lines().any(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (Some(name), Some(size), Some(base)) =
                (fields.next(), fields.next(), fields.nth(3))
            else {
                return false;
            };
            let base = base.strip_prefix("0x").unwrap_or(base);
            let (Ok(base), Ok(size)) = (u64::from_str_radix(base, 16), size.parse::<u64>()) else {
                return false;
            };
            let range = base..base.saturating_add(size);
            let known = self
                .all
                .iter()
                .any(|r| r.module.as_deref() == Some(name) && range.contains(&r.start));
            base != 0 && range.contains(&address) && !known
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An image, two modules with data after the text, and generated code.
    pub const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000100 t do_group_exit
ffffffff81000200 T vfs_read
ffffffff81000300 T asm_common_interrupt
ffffffff81000400 T blk_mq_run_work_fn
ffffffff81001234 T _etext
ffffffff82000000 D jiffies
ffffffff83000000 T start_kernel
ffffffffc0100f00 t nvme_queue_rq\t[nvme]
ffffffffc0100000 t nvme_irq\t[nvme]
ffffffffc0102000 r __func__.0\t[nvme]
ffffffffc0103000 d __this_module\t[nvme]
ffffffffc0200010 t nvme_setup_cmd\t[nvme_core]
ffffffffc0201fc0 t nvme_core_exit\t[nvme_core]
ffffffffc0300000 t bpf_prog_6deef7357e7b4530_x\t[bpf]
ffffffffc0400000 t ftrace_trampoline\t[__builtin__ftrace]
";

    #[test]
    fn text_has_an_owner_and_what_lies_between_has_none() {
        let regions = Regions::read(KALLSYMS.as_bytes()).unwrap();
        let owner = |address| regions.of(address).map(|r| r.module.as_deref());
        let zeroes = "0000000000000000 T _stext\n0000000000000000 t nvme_irq\t[nvme]\n";
        assert!(regions.visible && !Regions::read(zeroes.as_bytes()).unwrap().visible);
        assert_eq!(owner(0xffff_ffff_8100_0000), Some(None));
        assert_eq!(owner(0xffff_ffff_8100_1233), Some(None));
        assert_eq!(owner(0xffff_ffff_c010_0001), Some(Some("nvme")));
        assert_eq!(owner(0xffff_ffff_c010_0fff), Some(Some("nvme")));
        assert_eq!(owner(0xffff_ffff_c020_1fff), Some(Some("nvme_core")));
        for nobodys in [
            0,
            0xffff_ffff_8100_1234, // after the image's text: data, and text used only at boot
            0xffff_ffff_8300_0010,
            0xffff_ffff_c010_1000, // the page after nvme's text
            0xffff_ffff_c010_3001,
            0xffff_ffff_c020_000f,
            0xffff_ffff_c020_2000,
            0xffff_ffff_c030_0010, // generated
            0xffff_ffff_c040_0010,
            u64::MAX,
        ] {
            assert_eq!(owner(nobodys), None, "{nobodys:#x}");
        }
    }
}
