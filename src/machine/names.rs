// SPDX-License-Identifier: MIT OR Apache-2.0
//! Picks a few names from the kernel's long lists, line by line. The lists have tens to hundreds of
//! thousands of lines, and the machine may be slow.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Function names to look for. A clone made by the compiler (`nvme_prep_rq.part.0`, `.constprop.0`,
/// `.isra.0`, `.llvm.123`) counts as its function. `.cold` does not: it is a part of the function
/// that was moved away, and not an entry.
pub(super) struct Wanted<'a>(HashSet<&'a [u8]>);

impl<'a> Wanted<'a> {
    pub(super) fn new(names: &[&'a str]) -> Self {
        Self(names.iter().map(|n| n.as_bytes()).collect())
    }

    /// Returns the name as text, if it is wanted.
    pub(super) fn pick(&self, name: &[u8]) -> Option<String> {
        let stem = name.split(|&b| b == b'.').next().unwrap_or(name);
        if !self.0.contains(stem) || name[stem.len()..].starts_with(b".cold") {
            return None;
        }
        String::from_utf8(name.to_vec()).ok()
    }
}

/// Calls `each` with every line of a file, without its end.
pub(super) fn each_line(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    any_line(path, |line| {
        each(line);
        false
    })?;
    Ok(())
}

/// Whether a line of a file, without its end, is wanted. Reads up to the first that is.
pub(super) fn any_line(path: &Path, mut wanted: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
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

pub struct Filter(Box<[bool; 4096]>);

impl Filter {
    pub fn of<'n>(names: impl Iterator<Item = (u32, &'n str)>) -> Self {
        let mut hashes = Box::new([false; 4096]);
        for (kind, name) in names {
            hashes[Self::hash(kind, name.as_bytes())] = true;
        }
        Self(hashes)
    }

    /// Of the first four bytes of a name, or those before its end.
    fn hash(kind: u32, name: &[u8]) -> usize {
        let head = name.first_chunk().copied().unwrap_or_else(|| {
            let mut head = [0; 4];
            head[..name.len()].copy_from_slice(name);
            head
        });
        let head = u32::from_le_bytes(head);
        // the lowest bit that is set is the highest of the first byte that is 0
        let ends = head.wrapping_sub(0x0101_0101) & !head & 0x8080_8080;
        let head = match ends.trailing_zeros() {
            32 => head,
            end => head & ((1 << (end - 7)) - 1),
        };
        (head.wrapping_mul(0x9e37_79b1).wrapping_add(kind << 27) >> 20) as usize
    }

    /// Whether a type of this kind can have one of the names. `text` begins with its name.
    pub fn passes(&self, kind: u32, text: &[u8]) -> bool {
        self.0[Self::hash(kind, text)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_as_the_function_and_cold_pieces_do_not() {
        let wanted = Wanted::new(&["nvme_prep_rq", "nvme_irq"]);
        for yes in ["nvme_prep_rq", "nvme_prep_rq.part.0", "nvme_irq.constprop.0.isra.0"] {
            assert_eq!(wanted.pick(yes.as_bytes()).as_deref(), Some(yes));
        }
        for no in ["nvme_prep_rq_batch", "nvme_irq.cold", "__pfx_nvme_irq", "", "."] {
            assert_eq!(wanted.pick(no.as_bytes()), None, "{no}");
        }
    }
}

#[cfg(test)]
mod name_filter_tests {
    use super::*;

    #[test]
    fn a_name_passes_by_its_kind_and_first_bytes() {
        let filter = Filter::of([(4, "bio"), (12, "nvme_setup_cmd")].into_iter());
        assert!(filter.passes(4, b"bio\0x"));
        assert!(filter.passes(12, b"nvme_setup_cmd\0"));
        assert!(!filter.passes(4, b"bios\0"));
        assert!(!filter.passes(12, b"bio\0"));
    }
}
