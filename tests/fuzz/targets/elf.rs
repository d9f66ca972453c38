// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executables of targets, with their notes and USDT probes, and files of BTF.

use std::fs;
use std::path::Path;

use nvme_deep::machine::btf::Btf;
use nvme_deep::machine::elf::Symbols;
use nvme_deep::machine::process::open;
use nvme_deep::machine::reduced::reduced;

use super::Target;

/// Reads an executable, a file in `dir`.
pub fn executable(dir: &Path) -> Target {
    let path = dir.join("A");
    Box::new(move |input| {
        fs::write(&path, input).expect("A");
        let file = open(&path).expect("a regular file");
        let _ = Symbols::of(&file);
    })
}

/// Reads a file of BTF, raw or in an ELF file, and makes the one for libbpf of it.
pub fn btf(input: &[u8]) {
    let Some(btf) = Btf::parse(input) else { return };
    for name in ["nvme_request", "request", "nvme_queue", "nvme_ctrl"] {
        let _ = btf.structure(name);
        for path in [&["flags"][..], &["ctrl", "instance"], &["bio", "bi_iter", "bi_size"]] {
            let _ = btf.has_path(name, path);
        }
    }
    let _ = btf.has_function("nvme_setup_cmd");
    let _ = btf.tracepoint_arguments("nvme_setup_cmd");
    assert!(Btf::parse(&reduced(&[&btf], Some(&btf))).is_some());
}
