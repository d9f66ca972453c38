// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges what tests/top/drive.py has left: the screens, by a terminal emulator, and the facts.

use std::fs;
use std::num::NonZero;
use std::path::Path;

use serde_json::Value;
use vt100::{Parser, Screen};

fn size(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap()
}

/// The screen after a step, and whether it is the alternate one.
fn screen(dir: &Path, step: &str) -> Screen {
    let bytes = fs::read(dir.join(step)).unwrap_or_else(|e| panic!("{step}: {e}"));
    // as large as the largest: cells outside are never written
    let mut parser = Parser::new(size(30), size(120), 0);
    parser.process(&bytes);
    parser.screen().clone()
}

/// The last screen in what a terminal was sent, before the program gave the terminal back.
#[allow(dead_code, reason = "guest tests use it")]
pub fn last_screen(path: &Path, rows: u16, columns: u16) -> String {
    const LEAVE: &[u8] = b"\x1b[?1049l";
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let end = bytes.windows(LEAVE.len()).rposition(|at| at == LEAVE);
    let mut parser = Parser::new(size(rows), size(columns), 0);
    parser.process(&bytes[..end.unwrap_or(bytes.len())]);
    parser.screen().contents()
}

fn has(dir: &Path, step: &str, words: &[&str]) -> String {
    let screen = screen(dir, step);
    assert!(screen.alternate_screen(), "{step}");
    assert!(screen.hide_cursor(), "{step}");
    let text = screen.contents();
    for word in words {
        assert!(text.contains(word), "{step}: no `{word}` in\n{text}");
    }
    text
}

/// Asserts that each step shows what it must, and that the terminal was given back.
pub fn judge(dir: &Path) {
    let facts = fs::read_to_string(dir.join("facts")).unwrap();
    let facts: Value = serde_json::from_str(&facts).unwrap();
    for (fact, value) in facts.as_object().unwrap() {
        let good = match value {
            Value::Bool(good) => *good,
            code => *code == 0,
        };
        assert!(good, "{fact}: {facts}");
    }
    let begin =
        has(dir, "begin", &["DISK OP", "IOPS*", "  every ", "  exact", "stage total", "q quit"]);
    assert!(begin.lines().all(|l| l.chars().count() <= 80), "{begin}");
    assert!(begin.lines().count() <= 24, "{begin}");
    has(dir, "device", &["stage device", ">nvme0"]);
    has(dir, "help", &["select a row", "suspend"]);
    has(dir, "slowest", &["slowest ", " commands", "LBA", " nvme0n1 "]);
    has(dir, "queues", &["queues of nvme0", "CMDS/IRQ"]);
    let filtered = has(dir, "filter", &["nvme0n1 write", "only rows with `write`"]);
    assert!(!filtered.contains("nvme0n1 read"), "{filtered}");
    has(dir, "all", &["nvme0n1 read", "nvme0n1 write", "MB/s*"]);
    has(dir, "large", &["nvme0n1 read"]);
    has(dir, "back", &["PAUSED"]);
    has(dir, "wide", &["latency over time: ", "slowest ", " PROCESS"]);
    for name in ["key", "signal"] {
        let stopped = screen(dir, &format!("{name}_stopped"));
        assert!(!stopped.alternate_screen() && !stopped.hide_cursor(), "{name}");
        has(dir, &format!("{name}_continued"), &["nvme0n1 read", "IOPS"]);
    }
    let end = screen(dir, "end");
    assert!(!end.alternate_screen() && !end.hide_cursor());
    assert!(end.contents().contains("accuracy"), "{}", end.contents());
    let panicked = screen(dir, "panicked");
    assert!(!panicked.alternate_screen() && !panicked.hide_cursor());
    let said = panicked.contents();
    let bug = said.find("a bug in nvme-deep").expect("whose fault it is");
    assert!(said[bug..].contains("asked for by --test-panic"), "{said}");
    // a background colour is 48;...; without colour there is none
    let text =
        |step: &str| String::from_utf8_lossy(&fs::read(dir.join(step)).unwrap()).into_owned();
    assert!(text("begin").contains("[48;5;") || text("begin").contains(";48;5;"));
    assert!(!text("no_color").contains("48;5;") && !text("no_color").contains("38;5;"));
    let dumb = text("dumb");
    assert!(!dumb.contains('\u{1b}') && dumb.contains("DISK OP"), "{dumb}");
    // a note on stderr is one line
    let mut screen = dumb.lines().filter(|line| !line.starts_with("nvme-deep: "));
    assert!(screen.all(|line| line.chars().count() <= 80), "{dumb}");
}
