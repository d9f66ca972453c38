// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines that read files, as the program runs them.

use std::fs;
use std::path::Path;

use nvme_deep::cli::execute;

use super::Target;
use crate::blocks::recordings;

/// Commands that read a recording of the driver; `diff` two.
pub const READERS: [&str; 30] = [
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
    "heatmap --force -o OUT.svg --y inflight --from A",
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
pub const BOTH: [&str; 6] = [
    "host trace --from B",
    "host trace --json --from B",
    "host latency --from B",
    "join A B",
    "join --json --slowest 1000 A B",
    "join --format perfetto --force -o OUT A B",
];
/// The first byte of an input that is read by all commands.
pub const ALL: u8 = 0xff;

/// The words of a command line. `A`, `B` and `OUT` are files in `dir`.
fn command(line: &str, dir: &Path) -> Vec<String> {
    let words = line.split(' ').map(|word| {
        let mut parts = word.split(',').map(|part| match part {
            "A" | "B" => dir.join(part).display().to_string(),
            out if out.starts_with("OUT") => dir.join(out).display().to_string(),
            other => other.to_owned(),
        });
        let first = parts.next().unwrap_or_default();
        parts.fold(first, |all, part| format!("{all},{part}"))
    });
    ["nvme-deep".to_owned()].into_iter().chain(words).collect()
}

/// Reads the recordings of an input, by one command or all.
pub fn of_recordings(lines: &[&str], dir: &Path) -> Target {
    let commands: Vec<_> = lines.iter().map(|line| command(line, dir)).collect();
    let [a, b] = ["A", "B"].map(|name| dir.join(name));
    Box::new(move |input| {
        let Some((&first, parts)) = input.split_first() else { return };
        let files = recordings(parts);
        let Some((file, _)) = files.first() else { return };
        fs::write(&a, file).expect("A");
        fs::write(&b, &files.get(1).unwrap_or(&files[0]).0).expect("B");
        let one = usize::from(first) % commands.len();
        let chosen = if first == ALL { &commands[..] } else { &commands[one..=one] };
        chosen.iter().for_each(|words| drop(execute(words)));
    })
}

/// Reads a text, by all commands.
pub fn of_text(lines: &[&str], dir: &Path) -> Target {
    let commands: Vec<_> = lines.iter().map(|line| command(line, dir)).collect();
    let a = dir.join("A");
    Box::new(move |input| {
        fs::write(&a, input).expect("A");
        commands.iter().for_each(|words| drop(execute(words)));
    })
}
