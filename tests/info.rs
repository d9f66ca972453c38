// SPDX-License-Identifier: MIT OR Apache-2.0
//! `info` of recordings that are whole, cut off, redacted, and of a target.

use std::fs;

use nvme_deep::recording::RunInfo;
use tempfile::TempDir;

use crate::binary::{objects, run};
use crate::testing::recording::{SECOND, info, made};

#[test]
fn a_recording_says_what_is_in_it_and_what_it_answers() {
    let full = "tests/recordings/diagnose/wbt.nvd";
    let cases: [(&str, &[&str]); 4] = [
        (
            "tests/recordings/6.12.nvd",
            &[
                "tests/recordings/6.12.nvd  guest  Linux 6.12.107+deb13-amd64\n",
                "  12 commands  exact\nfile      ",
                "K, whole\n",
                "disk      nvme1n1 (QEMU NVMe Ctrl): 6 commands: read 6\n",
                "recorded  fine stages, stacks at submit\n",
                "where     yes: latency, without the waits before the request\n",
                "which     yes: trace --slowest 20 --kstack\n",
                "accuracy  exact: 12 commands, 0 lost\n",
            ],
        ),
        (full, &["full stages, conditions, no stacks, redacted", "where     yes: latency\n"]),
        ("tests/host/qemu.nvd", &["target    qemu", "read it   with `host trace`"]),
        ("tests/exports/none.nvd", &["no stages", "why       no: no stages were recorded\n"]),
    ];
    for (file, texts) in cases {
        let ran = run(&format!("info {file}"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{file}");
        for text in texts {
            assert!(ran.out.contains(text), "{file}: no {text:?} in\n{}", ran.out);
        }
    }
    let object = objects(&format!("info --json {full}")).remove(0);
    assert_eq!((&object["type"], &object["disks"][0]["commands"]), (&"info".into(), &5098.into()));
    assert_eq!(object["questions"].as_array().unwrap().len(), 5);
}

#[test]
fn a_file_that_is_cut_off_is_shown_as_far_as_it_is_whole() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("cut.nvd");
    let whole = fs::read("tests/recordings/diagnose/wbt.nvd").unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let ran = run(&format!("info {}", path.display()));
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert!(ran.out.contains("is damaged: it is truncated"), "{}", ran.out);
    // a report counts the same
    let ledger = |words: &str| -> serde_json::Value {
        let ran = run(&format!("{words} --json {}", path.display()));
        let line = ran.out.lines().next().unwrap();
        serde_json::from_str::<serde_json::Value>(line).unwrap()["ledger"].take()
    };
    let mut counted = ledger("info");
    let [uncovered, shown] = ["uncovered", "commands_shown"].map(|key| counted[key].as_u64());
    assert!(uncovered > Some(0), "{counted}");
    // it shows those after the last ledger, too
    counted["commands_shown"] = shown.zip(uncovered).map(|(shown, later)| shown + later).into();
    assert_eq!(counted, ledger("latency"));
    fs::write(&path, &whole[..1000]).unwrap();
    let ran = run(&format!("info {}", path.display()));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert_eq!(ran.out.matches(" no: it has no commands\n").count(), 5, "{}", ran.out);
    run("info README.md").refuses(2, "README.md: it is not a recording: ");
}

#[test]
fn two_events_per_command_answer_no_question() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("events.nvd");
    made(&path, &RunInfo { pairs: false, ..info() }, SECOND, |_| 0);
    let ran = run(&format!("info {}", path.display()));
    for question in ["why", "where", "who", "when", "which"] {
        let line = format!("{question:<9} no: two events per command: read it by `trace --events`");
        assert!(ran.out.contains(&line), "{question}: {}{}", ran.out, ran.err);
    }
    for words in ["heatmap -o -", "latency"] {
        run(&format!("{words} {}", path.display())).refuses(2, "two events per command");
    }
}
