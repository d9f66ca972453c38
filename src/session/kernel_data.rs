// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's variables that programs read. A kernel without CONFIG_KALLSYMS_ALL describes them in
//! BTF, but does not list their addresses, and refuses each program that names one. libbpf asks BTF
//! alone. A weak variable that BTF lacks has the address 0, which the programs expect: so on such a
//! kernel the object gets names that no kernel has.

use crate::machine::elf::section;

/// All of them (bpf/include/peek.bpf.h).
pub const VARIABLES: [&str; 3] = ["kstat", "__preempt_count", "pcpu_hot"];

/// The sections that have their names.
const SECTIONS: [&str; 2] = [".strtab", ".BTF"];

/// The places of their names in the object.
fn names(object: &[u8]) -> Vec<usize> {
    let start = object.as_ptr().addr();
    let sections = SECTIONS.iter().filter_map(|name| section(object, name));
    let places = |section: &[u8]| -> Vec<usize> {
        let at = section.as_ptr().addr() - start;
        let is_one = |text: &[u8]| VARIABLES.iter().any(|name| name.as_bytes() == text);
        let mut next = at;
        let texts = section.split(|&byte| byte == 0).map(|text| {
            let this = next;
            next += text.len() + 1;
            (this, text)
        });
        let found = texts.filter(|(_, text)| is_one(text));
        found.map(|(at, _)| at).collect()
    };
    sections.flat_map(places).collect()
}

/// Whether programs of the object read variables of the kernel.
pub fn is_read(object: &[u8]) -> bool {
    !names(object).is_empty()
}

/// Renames the variables, so that libbpf finds none.
pub fn hide(object: &mut [u8]) {
    for at in names(object) {
        object[at] = b'N';
    }
}
