// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace --pid` on a stock QEMU whose controller is driven over qtest; no CPU runs. Every read,
//! write and interrupt must be seen, as QEMU's own log has them. Needs root, a kernel with uprobes,
//! and qemu-system-x86_64; otherwise the test says what is missing, and is skipped. The guest tests
//! run the same in a guest (tests/vm/guest/qemu.sh).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{objects, run};
use crate::live::{Running, Tool, assert_issued, lines, needs, of, wait_for};

const COUNT: usize = 60;
const QEMU: &str = "qemu-system-x86_64";

/// QEMU without a running CPU, with a controller whose disk answers after 1 ms.
fn qemu(dir: &Path) -> Running {
    let socket = format!("unix:{}/qtest,server=on,wait=off", dir.display());
    let mut command = Command::new(QEMU);
    command.args(["-M", "q35", "-S", "-accel", "tcg", "-m", "64"]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "none"]);
    command.args(["-nic", "none", "-qtest-log", "/dev/null", "-qtest", &socket]);
    command.arg("-blockdev");
    command.arg("driver=null-co,node-name=n,size=1073741824,read-zeroes=on,latency-ns=1000000");
    command.args(["-device", "nvme,id=nvme0,serial=SER0"]);
    command.args(["-device", "nvme-ns,bus=nvme0,drive=n,nsid=1"]);
    command.args(["-trace", "pci_nvme_*", "-msg", "timestamp=on", "-D"]);
    command.arg(dir.join("log")).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    wait_for("QEMU's socket", || dir.join("qtest").exists());
    running
}

/// Drives the controller. Returns the lines of the driver.
fn drive(dir: &Path) -> Vec<Value> {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/qtest.py");
    let mut driver = Command::new(driver);
    let driven = driver.arg(dir.join("qtest")).arg(COUNT.to_string());
    let driven = driven.output().unwrap();
    assert!(driven.status.success(), "{driven:?}");
    lines(&String::from_utf8(driven.stdout).unwrap())
}

/// Traces a process while the driver runs; its lines, and the driver's.
fn traced(dir: &Path, pid: u32) -> (Vec<Value>, Vec<Value>) {
    let tool = Tool::start(dir, "trace", &format!("host trace --json --pid {pid}"));
    let truth = drive(dir);
    (lines(&tool.stop()), truth)
}

#[test]
fn every_read_write_and_interrupt_of_a_stock_qemu_is_seen() {
    needs!(QEMU);
    let dir = TempDir::new().unwrap();
    let qemu = qemu(dir.path());
    let (lines, truth) = traced(dir.path(), qemu.0.id());
    let done = |t: &&Value| t["slba"].is_u64() && t["status"] == 0;
    let truth: Vec<&Value> = truth.iter().filter(done).collect();
    let found = of(&lines, "command");
    assert_eq!((found.len(), truth.len()), (COUNT, COUNT));
    for (command, truth) in found.iter().zip(&truth) {
        assert_issued(command, truth);
        assert_eq!(command["ctrl"], "qemu:SER0", "{command}");
        let stages = command["stages"].as_array().unwrap();
        let names: Vec<&Value> = stages.iter().map(|s| &s["name"]).collect();
        assert_eq!(names, ["host_submit", "backend"], "{command}");
        assert!(stages[1]["ns"].as_u64().unwrap() >= 1_000_000, "{command}");
    }
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    let raised = log.matches("pci_nvme_irq_msix raising").count();
    assert_eq!(of(&lines, "interrupt").len(), raised);
    let end = of(&lines, "host_end")[0];
    assert_eq!(end["exact"], true, "{end}");
}

/// It has no controller.
#[test]
fn another_process_is_refused() {
    needs!(QEMU);
    let own = std::process::id();
    let ran = run(&format!("host trace --pid {own} --duration 1s"));
    ran.refuses(2, "it has neither nvme_rw_complete_cb");
}

/// A second QEMU gets no hit.
#[test]
fn only_the_given_process_is_traced() {
    needs!(QEMU);
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (first, second) = (qemu(one.path()), qemu(other.path()));
    let second = second.0.id();
    let arguments = format!("host trace --json --pid {second}");
    let watch = Tool::start(other.path(), "watch", &arguments);
    let (lines, _) = traced(one.path(), first.0.id());
    assert_eq!(of(&lines, "command").len(), COUNT);
    let text = watch.stop();
    let end: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(end["ledger"]["matched"], 0, "{end}");
    let hooks = end["ledger"]["hooks"].as_array().unwrap();
    assert!(!hooks.is_empty() && hooks.iter().all(|hook| hook["hits"] == 0), "{end}");
}

/// A wrong layout gives an error, and no record.
#[test]
fn a_wrong_layout_is_refused() {
    needs!(QEMU);
    let dir = TempDir::new().unwrap();
    let qemu = qemu(dir.path());
    let pid = qemu.0.id();
    let arguments = format!("host trace --test-shift 8 --pid {pid}");
    let tool = Tool::start(dir.path(), "trace", &arguments);
    drive(dir.path());
    let (code, text, said) = tool.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has another layout"), "{said}");
    assert!(!text.contains("Command"), "{text}");
}

/// The end of the process ends the run. What was recorded until then is kept.
#[test]
fn a_process_that_ends_ends_the_run() {
    needs!(QEMU);
    let dir = TempDir::new().unwrap();
    let qemu = qemu(dir.path());
    let pid = qemu.0.id();
    let file = dir.path().join("host.nvd");
    let arguments = format!("host trace --pid {pid} -o {}", file.display());
    let tool = Tool::start(dir.path(), "trace", &arguments);
    drive(dir.path());
    drop(qemu);
    let (code, _, said) = tool.end();
    assert_eq!(code, Some(1), "{said}");
    let ended = format!("process {pid} has ended");
    assert!(said.contains(&ended), "{said}");
    let read = objects(&format!("host trace --json --from {}", file.display()));
    assert_eq!(of(&read, "command").len(), COUNT);
}
