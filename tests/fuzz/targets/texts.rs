// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of other programs.

use std::path::{Path, PathBuf};

use super::commands::{Run, command};
use super::{MEMORY, Target, put};

/// A target that reads a text.
pub struct Texts {
    runs: Vec<Run>,
    dir: PathBuf,
}

impl Texts {
    /// Any text that `import` reads.
    pub fn of_import(dir: &Path) -> Self {
        Self::by(&["import A", "import --json A", "import A --force -o OUT"], dir)
    }

    /// The output of `spdk_trace -j`.
    pub fn of_spdk(dir: &Path) -> Self {
        Self::by(&["import A", "host annotate A", "host annotate --json A"], dir)
    }

    /// A text trace of KVM.
    pub fn of_kvm(dir: &Path) -> Self {
        Self::by(
            &[
                "import A --bar 0xfebd0000-0xfebd3fff",
                "import A --json --bar 0x0-0xffffffffffffffff --dstrd 15 --queues 3",
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
