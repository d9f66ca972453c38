// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of other programs: QEMU's log, SPDK's trace, a trace of KVM.

use std::path::{Path, PathBuf};

use super::commands::{Run, command};
use super::{MEMORY, Target, put};

/// A target that reads a text.
pub struct Texts {
    runs: Vec<Run>,
    dir: PathBuf,
}

impl Texts {
    /// A log of QEMU.
    pub fn of_qemu(dir: &Path) -> Self {
        Self::by(
            &[
                "host import --qemu-log A",
                "host import --json --qemu-log A",
                "host import --qemu-log A --force -o OUT",
            ],
            dir,
        )
    }

    /// The output of `spdk_trace -j`.
    pub fn of_spdk(dir: &Path) -> Self {
        Self::by(
            &[
                "host import --spdk-trace A",
                "host import --json --spdk-trace A",
                "host annotate A",
                "host annotate --json A",
            ],
            dir,
        )
    }

    /// A text trace of KVM.
    pub fn of_kvm(dir: &Path) -> Self {
        Self::by(
            &[
                "host kvm A --bar 0xfebd0000-0xfebd3fff",
                "host kvm A --json --bar 0x0-0xffffffffffffffff --dstrd 15 --queues 3",
            ],
            dir,
        )
    }

    fn by(lines: &[&str], dir: &Path) -> Self {
        Self { runs: lines.iter().map(|line| command(line, dir)).collect(), dir: dir.to_owned() }
    }
}

impl Target for Texts {
    fn run(&mut self, input: &[u8]) {
        put(&self.dir, "A", input);
        for run in &self.runs {
            let _ = run();
        }
    }

    fn memory(&self, input: &[u8]) -> usize {
        MEMORY + 4 * input.len()
    }
}
