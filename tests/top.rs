// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `top` command on recordings: pages without a terminal, and the screen in a pseudo-terminal.
//! Neither root nor an NVMe device is needed.

mod screens;

use std::path::Path;
use std::process::Command;

use nvme_deep::model::event::EventKind;
use nvme_deep::model::stage::StageSet;
use nvme_deep::recording::RunInfo;
use tempfile::TempDir;

use crate::binary::{BINARY, run};
use crate::testing::recording::{SECOND, info, made, read_at};

const NONE: &str = "tests/exports/none.nvd";

/// Six seconds of reads, and half as many writes.
fn reads_and_writes(dir: &Path) -> String {
    const EACH: u64 = 1_000_000;
    let path = dir.join("made.nvd");
    let info = RunInfo { stage_set: StageSet::Basic, ..info() };
    made(&path, &info, 6 * SECOND, |recorder| {
        for n in 0..6 * SECOND / EACH {
            let mut event = read_at(info.begin_ns + (n + 1) * EACH);
            if let EventKind::Command(id, ..) = &mut event.what
                && n % 3 == 0
            {
                id.opcode.code = 1;
            }
            recorder.push(&event);
        }
        6000
    });
    path.display().to_string()
}

#[test]
fn without_a_terminal_there_is_a_page_for_each_interval() {
    let dir = TempDir::new().unwrap();
    let ran = run(&format!("top 500ms --from {}", reads_and_writes(dir.path())));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let pages = ran.out.matches("nvme-deep top  made.nvd  ").count();
    // the last command ends with the twelfth interval; the last page is of the whole run
    assert_eq!(pages, 14, "{}", ran.out);
    assert!(ran.out.lines().all(|l| l.chars().count() <= 80), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'));
    // 1000 commands a second, a third of them writes
    for row in [">nvme0n1 read 666 ", " nvme0n1 write 334 "] {
        assert!(spaced(&ran.out).contains(row), "`{row}` is not in\n{}", ran.out);
    }
    assert!(ran.err.contains("exact: 6000 commands, 0 lost"), "{}", ran.err);
    let none = run(&format!("top --from {NONE}"));
    assert_eq!(none.code, Some(0), "{}", none.err);
    assert!(none.out.contains("stage driver"), "no stages: {}", none.out);
    run(&format!("top --stages --from {NONE}")).refuses(2, "has no stages");
}

/// A text with one space between its words.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn pages_by_group() {
    let dir = TempDir::new().unwrap();
    let made = reads_and_writes(dir.path());
    let ran = run(&format!("top 1s --by opcode,queue --from {made}"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for row in [" OPCODE,QUEUE ", ">read nvme0 q1 666 ", " write nvme0 q1 334 "] {
        assert!(spaced(&ran.out).contains(row), "`{row}` is not in\n{}", ran.out);
    }
    run(&format!("top --by priority --from {made}")).refuses(2, "works only while tracing");
}

#[test]
fn in_a_terminal_keys_signals_and_sizes_work_and_it_is_given_back() {
    let dir = TempDir::new().unwrap();
    let script = format!("{}/tests/top/drive.py", env!("CARGO_MANIFEST_DIR"));
    let made = reads_and_writes(dir.path());
    let status = Command::new("python3")
        .arg(script)
        .arg(dir.path())
        .args([BINARY, "top", "200ms", "--from", &made])
        .status()
        .unwrap();
    assert!(status.success());
    screens::judge(dir.path());
}
