// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of procfs, sysfs, tracefs and debugfs, and the kernel's symbols. An input is a tree of files:
//! a line `=== PATH` begins each.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nvme_deep::machine::System;
use nvme_deep::machine::process::Process;
use nvme_deep::machine::tracefs::fields_of;
use nvme_deep::model::stack::StackAt;
use nvme_deep::symbols::Symbolizer;

use super::Target;

/// Most files of an input.
const FILES: usize = 128;

/// Writes a file below `root`; `-> TEXT` makes a link.
fn write(root: &Path, path: &str, text: &str) {
    let is_plain = |part: &str| !part.is_empty() && part.len() < 100 && !part.starts_with('.');
    let path = path.trim_matches('/');
    if path.split('/').count() > 16 || !path.split('/').all(is_plain) || path.contains('\0') {
        return;
    }
    let path = root.join(path);
    let _ = path.parent().map(fs::create_dir_all);
    let _ = match text.trim_end().strip_prefix("-> ") {
        // within the tree
        Some(to) if !to.starts_with('/') && !to.contains("..") => symlink(to, path),
        _ => fs::write(path, text),
    };
}

/// Functions whose lists are read.
const WANTED: [&str; 4] = ["nvme_setup_cmd", "nvme_irq", "nvme_queue_rq", "nvme_complete_rq"];

fn look(system: &System) {
    let controllers = system.controllers();
    let _: Vec<String> = controllers.iter().map(|c| c.name()).collect();
    let _ = (system.release(), system.nvme_parameters(), system.machine());
    let _ = (system.cpu_times(), system.sample_rate(), system.bounce_pool());
    let _ = (system.queue_interrupts(), system.last_online_cpu());
    let _ = (system.info(false), system.identity());
    let _ = system.nvme_details(system.hypervisor().present, false);
    for name in ["nvme0n1", "/dev/nvme0n1p1", "dm-0", "/mnt/data"] {
        let _ = system.disk(name);
    }
    let _ = system.container("0123456789abcdef");
    for pid in [1, 42] {
        let _ = (system.mapped_files(pid), system.tsc_scale(pid));
        let _ = Process::at(system, pid).map(|p| (p.nvme_serials(), p.kind()));
    }
    let _ = (system.targets(), system.build_id("nvme"));
    let _ = (system.module_identity("nvme"), system.symbols(&WANTED));
    let _ = (system.addresses(WANTED), system.filter_functions(&WANTED));
    let _ = system.event_fields("nvme", "nvme_sq");
}

/// Reads a machine, a tree of files in `dir`.
pub fn machine(dir: &Path) -> Target {
    let root = dir.join("root");
    Box::new(move |input| {
        let _ = fs::remove_dir_all(&root);
        let text = String::from_utf8_lossy(input);
        for file in text.split("=== ").skip(1).take(FILES) {
            let (path, text) = file.split_once('\n').unwrap_or((file, ""));
            write(&root, path, text);
        }
        let _ = fields_of(&text);
        look(&System::at(&root));
        let _ = Symbolizer::at(&root).stack(&[0xffff_ffff_c000_1234, u64::MAX, 1], StackAt::Submit);
    })
}
