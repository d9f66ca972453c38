// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings, read by the commands that take them. The first byte of an input chooses the command.

use std::path::{Path, PathBuf};

use super::commands::{Run, command};
use super::{MEMORY, Target, put};
use crate::blocks::recordings;

/// Commands that read a recording of the driver; `diff` two.
const READERS: [&str; 30] = [
    "latency --from A",
    "latency 1 --from A",
    "latency 10ms --delta --json --hist --from A",
    "latency --stages --by size=16K,64K 1s --from A",
    "latency --stages=fine --json --from A",
    "trace --from A",
    "trace --json --from A",
    "trace --stages --time wall --color always --from A",
    "trace --json --stages=fine --from A",
    "trace --slowest 3 --from A",
    "trace --sq --aen --errors --slow 1ms --from A",
    "stacks --from A",
    "stacks --json --weight latency --from A",
    "stacks --folded --from A",
    "pattern -v --from A",
    "pattern 1 --json --delta --from A",
    "pattern 10ms --from A",
    "heatmap --force -o OUT.svg --from A",
    "heatmap --force -o OUT.png --y lba --from A",
    "heatmap --force -o OUT.svg --y depth --from A",
    "diagnose --from A",
    "diagnose --json -v --from A",
    "diff -v A B",
    "export A --force --format csv -o OUT",
    "export A --force --format ndjson -o OUT",
    "export A --force --format hlog -o OUT",
    "export A --force --format perfetto -o OUT",
    "export A --force --format parquet -o OUT",
    "top --from A",
    "top 100ms --stages --from A",
];
/// Commands that read a recording of the host side as B.
const BOTH: [&str; 6] = [
    "host trace --from B",
    "host trace --json --from B",
    "host latency --from B",
    "join A B",
    "join --json --slowest 1000 A B",
    "join --format perfetto --force -o OUT A B",
];
/// The first byte of an input that is read by all commands.
pub const ALL: u8 = 0xff;

/// A target that reads recordings.
pub struct Recordings {
    runs: Vec<Run>,
    dir: PathBuf,
}

impl Recordings {
    /// Reads recordings of the driver.
    pub fn of(dir: &Path) -> Self {
        Self::by(&READERS, dir)
    }

    /// Reads recordings of both sides.
    pub fn of_both_sides(dir: &Path) -> Self {
        Self::by(&BOTH, dir)
    }

    fn by(lines: &[&str], dir: &Path) -> Self {
        Self { runs: lines.iter().map(|line| command(line, dir)).collect(), dir: dir.to_owned() }
    }
}

impl Target for Recordings {
    fn run(&mut self, input: &[u8]) {
        let Some((&first, parts)) = input.split_first() else {
            return;
        };
        let files = recordings(parts);
        let Some((a, _)) = files.first() else { return };
        put(&self.dir, "A", a);
        put(&self.dir, "B", &files.get(1).unwrap_or(&files[0]).0);
        if first == ALL {
            for run in &self.runs {
                let _ = run();
            }
        } else {
            let _ = self.runs[usize::from(first) % self.runs.len()]();
        }
    }

    fn memory(&self, input: &[u8]) -> usize {
        let files = recordings(input.get(1..).unwrap_or_default());
        // the input, its blocks and the files are there while it runs
        let own: usize = files.iter().map(|(file, blocks)| 2 * file.len() + 2 * blocks).sum();
        MEMORY + own
    }
}
