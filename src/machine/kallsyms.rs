// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's symbols: which of the wanted functions exist, and in which module.

use super::System;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::str::from_utf8;

/// A line of /proc/kallsyms: `ffffffffc0a1b2c0 t nvme_irq`, then, after a tab, `[nvme]`.
#[derive(Clone, Copy, Debug)]
pub struct SymbolLine<'a> {
    address: &'a [u8],
    kind: u8,
    /// The name of the symbol.
    pub name: &'a [u8],
    rest: &'a [u8],
}

impl SymbolLine<'_> {
    /// Whether it is code: `t`, `T`, or weak `w`, `W`. The case has no meaning: exported functions
    /// of modules are listed as `t`.
    pub fn is_text(&self) -> bool {
        b"tTwW".contains(&self.kind)
    }

    /// The address; 0 if the kernel hides it.
    pub fn address(&self) -> Option<u64> {
        u64::from_str_radix(from_utf8(self.address).ok()?, 16).ok()
    }

    /// The module; `None` for the kernel image.
    pub fn module(&self) -> Option<&str> {
        let name = self.rest.trim_ascii();
        from_utf8(name.strip_prefix(b"[")?.strip_suffix(b"]")?).ok()
    }
}

/// Splits a line into its fields.
pub fn fields(line: &[u8]) -> Option<SymbolLine<'_>> {
    let blank = line.iter().position(|&b| b == b' ')?;
    let (address, rest) = line.split_at(blank);
    let [b' ', kind, b' ', rest @ ..] = rest else {
        return None;
    };
    let end = rest.iter().position(u8::is_ascii_whitespace);
    let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
    Some(SymbolLine { address, kind: *kind, name, rest })
}

impl System {
    /// The wanted functions in /proc/kallsyms, clones included. Not all can be hooked: `notrace` functions are
    /// listed too.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub fn symbols(&self, wanted: &[&str]) -> io::Result<BTreeSet<String>> {
        let wanted = Wanted::new(wanted);
        let mut found = BTreeSet::new();
        each_line(&self.path("proc/kallsyms"), |line| {
            if let Some(symbol) = fields(line).filter(SymbolLine::is_text) {
                found.extend(wanted.pick(symbol.name));
            }
        })?;
        Ok(found)
    }

    /// Whether the kernel lists its variables among its symbols (CONFIG_KALLSYMS_ALL), so that programs can
    /// read them: every kernel has `kstat`. True if the list cannot be read.
    pub fn lists_variables(&self) -> bool {
        self.lists(|symbol| !symbol.is_text() && symbol.name == b"kstat")
    }

    /// Whether the kernel lists this function among its symbols. True if the list cannot be read.
    pub fn lists_function(&self, name: &str) -> bool {
        self.lists(|symbol| symbol.is_text() && symbol.name == name.as_bytes())
    }

    /// Names are listed also where addresses are hidden.
    fn lists(&self, wanted: impl Fn(&SymbolLine<'_>) -> bool) -> bool {
        let is_wanted = |line: &[u8]| fields(line).is_some_and(|symbol| wanted(&symbol));
        any_line(&self.path("proc/kallsyms"), is_wanted).unwrap_or(true)
    }

    /// The addresses of symbols of any kind, in the order of `names`. `None`: not listed, or the
    /// kernel hides addresses.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub fn addresses<const N: usize>(&self, names: [&str; N]) -> io::Result<[Option<u64>; N]> {
        let mut found = [None; N];
        each_line(&self.path("proc/kallsyms"), |line| {
            let Some(symbol) = fields(line) else { return };
            let n = names.iter().position(|n| n.as_bytes() == symbol.name);
            if let Some(n) = n {
                found[n] = symbol.address().filter(|at| *at != 0);
            }
        })?;
        Ok(found)
    }
}

/// Function names to look for. A clone made by the compiler (`nvme_prep_rq.part.0`, `.constprop.0`,
/// `.isra.0`, `.llvm.123`) counts as its function. `.cold` does not: it is a part of the function
/// that was moved away, and not an entry.
pub(crate) struct Wanted<'a>(HashSet<&'a [u8]>);

impl<'a> Wanted<'a> {
    pub(crate) fn new(names: &[&'a str]) -> Self {
        Self(names.iter().map(|n| n.as_bytes()).collect())
    }

    /// Returns the name as text, if it is wanted.
    pub(crate) fn pick(&self, name: &[u8]) -> Option<String> {
        let stem = name.split(|&b| b == b'.').next().unwrap_or(name);
        if !self.0.contains(stem) || name[stem.len()..].starts_with(b".cold") {
            return None;
        }
        String::from_utf8(name.to_vec()).ok()
    }
}

/// Calls `each` with every line of a file, without its end.
pub(crate) fn each_line(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    any_line(path, |line| {
        each(line);
        false
    })?;
    Ok(())
}

/// Whether a line of a file, without its end, is wanted. Reads up to the first that is.
pub(crate) fn any_line(path: &Path, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line)? > 0 {
        if wanted(line.trim_ascii_end()) {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;

    const SYMBOLS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T startup_64
ffffffff8152f0a0 T blk_mq_start_request
ffffffff8152f0a0 W blk_mq_weak
ffffffff82a00000 r __ksymtab_nvme_irq
ffffffff82a00010 d nvme_poll
ffffffffc0a1b2b0 t __pfx_nvme_irq\t[nvme]
ffffffffc0a1b2c0 t nvme_irq\t[nvme]
ffffffffc0a1b3c0 t nvme_irq.cold\t[nvme]
ffffffffc0a1c000 t nvme_prep_rq.part.0\t[nvme]
ffffffffc09f0000 t nvme_setup_cmd\t[nvme_core]
";

    fn machine(symbols: &str) -> TestMachine {
        TestMachine::new(&[("proc/kallsyms", symbols)])
    }

    #[test]
    fn functions_come_with_their_clones_and_data_does_not_come() {
        let symbols = |text: &str| {
            let names = "blk_mq_start_request blk_mq_weak nvme_irq nvme_poll nvme_prep_rq \
                         nvme_setup_cmd";
            let names: Vec<&str> = names.split(' ').collect();
            let found: Vec<_> = machine(text).symbols(&names).unwrap().into_iter().collect();
            found.join(" ")
        };
        let want = "blk_mq_start_request blk_mq_weak nvme_irq nvme_prep_rq.part.0 nvme_setup_cmd";
        assert_eq!(symbols(SYMBOLS), want);
        assert_eq!(symbols("0000000000000000 t nvme_irq\t[nvme]\n"), "nvme_irq");
        assert!(System::at("/nonexistent").symbols(&[]).is_err());
    }

    #[test]
    fn a_kernel_that_lists_code_alone_hides_its_variables() {
        for (text, lists) in [
            (SYMBOLS, false),
            (&format!("{SYMBOLS}0000000000000000 A kstat\n"), true),
            ("0000000000031700 D kstat\nffffffff81000000 T startup_64\n", true),
            ("ffffffff81000000 t kstat\nffffffff82000000 D kstat_cpu\n", false),
        ] {
            assert_eq!(machine(text).lists_variables(), lists, "{text}");
        }
        assert!(System::at("/nonexistent").lists_variables());
    }
}
