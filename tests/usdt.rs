// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace --usdt` on a stand-in for QEMU (tests/host/qemu_target.c), which repeats the events of
//! a real QEMU's log as USDT probes: the commands must be those that were issued. Needs root, a kernel
//! with uprobes, and cc; otherwise the test says what is missing, and is skipped.

use std::fs::{File, read_to_string};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::live::{Running, Tool, assert_issued, compile, lines, needs, of, wait_for};

const LOG: &str = include_str!("host/qemu.log");
const TRUTH: &str = include_str!("host/qemu.truth");
/// The probes of the stand-in.
const PROBES: &str =
    "io_cmd admin_cmd read write rw_cb enqueue_req_completion create_sq irq_msix mmio_cfg";

/// A line of the log as `NAME ARGS...`; `None` if the stand-in does not have its probe.
fn hit(line: &str) -> Option<String> {
    let (name, text) = line.split_once(":pci_nvme_")?.1.split_once(' ')?;
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    };
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let numbers: Vec<String> = words.filter_map(number).map(|n| n.to_string()).collect();
    let known = PROBES.split(' ').any(|probe| probe == name);
    known.then(|| format!("{name} {}\n", numbers.join(" ")))
}

fn start(dir: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(compile("qemu_target.c", dir, "qemu-system-x86_64", &[]));
    command.args(arguments).stdin(Stdio::piped());
    command.stdout(File::create(dir.join("done")).unwrap());
    let target = Running(command.spawn().unwrap());
    wait_for("the target", || read_to_string(dir.join("done")).unwrap().contains("ready"));
    target
}

#[test]
fn the_commands_are_those_that_were_issued() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    let mut target = start(dir.path(), &["-device", "nvme,serial=SER0"]);
    let pid = target.0.id();
    let list = crate::binary::run("host list");
    let way = format!("`host trace --usdt --pid {pid}`");
    assert!(list.out.contains(&way), "{}", list.out);
    let arguments = format!("host trace --json --usdt --pid {pid}");
    let tool = Tool::start(dir.path(), "trace", &arguments);
    let hits: Vec<String> = LOG.lines().filter_map(hit).collect();
    let input = target.0.stdin.as_mut().unwrap();
    input.write_all(hits.concat().as_bytes()).unwrap();
    wait_for("the last hit", || {
        let done = read_to_string(dir.path().join("done")).unwrap();
        done.lines().count() == 1 + hits.len()
    });
    let all = lines(&tool.stop());
    let found = of(&all, "command");
    let truth = lines(TRUTH);
    assert_eq!(found.len(), truth.len());
    for (command, truth) in found.iter().zip(&truth) {
        assert_issued(command, truth);
        assert_eq!(command["status"]["value"], truth["status"], "{command}");
        assert_eq!(command["ctrl"], "qemu:SER0", "{command}");
        let seen = command["points_ns"]["backend_done"].is_u64();
        let is_done = truth["slba"].is_u64() && truth["status"] == 0;
        assert_eq!(seen, is_done, "{command} {truth}");
    }
    assert_eq!(of(&all, "interrupt").len(), 8);
    let end = of(&all, "host_end")[0];
    assert_eq!(end["exact"], true, "{end}");
    assert_eq!(end["ledger"]["hooks"][0]["hits"], hits.len(), "{end}");
    let target = of(&all, "host_target")[0];
    assert_eq!(target["target"]["by"], "usdt", "{target}");
}

#[test]
fn what_has_no_such_probes_is_refused() {
    needs!("cc");
    let own = std::process::id();
    let ran = crate::binary::run(&format!("host trace --usdt --pid {own} --duration 1s"));
    ran.refuses(2, "has no USDT probes of QEMU's NVMe controller");
    for option in ["--usdt", "--ends"] {
        let ran = crate::binary::run(&format!("host trace --nvmet {option}"));
        ran.refuses(2, "cannot be used with");
    }
    let dir = TempDir::new().unwrap();
    let two = ["-device", "nvme,serial=A", "-device", "nvme,serial=B"];
    let target = start(dir.path(), &two);
    let pid = target.0.id();
    let ran = crate::binary::run(&format!("host latency --usdt --pid {pid} --duration 1s"));
    ran.refuses(2, "has several NVMe controllers");
}

/// Two controllers that the command line does not show.
#[test]
fn a_second_controller_ends_the_run() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    let mut target = start(dir.path(), &[]);
    let arguments = format!("host trace --json --usdt --pid {}", target.0.id());
    let tool = Tool::start(dir.path(), "trace", &arguments);
    let input = target.0.stdin.as_mut().unwrap();
    input.write_all(b"io_cmd 5 1 1 2\nio_cmd 5 1 1 2\n").unwrap();
    let (code, out, said) = tool.end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("has several NVMe controllers"), "{said}");
    let commands: Vec<Value> = lines(&out);
    assert!(of(&commands, "command").is_empty(), "{out}");
}
