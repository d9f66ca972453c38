// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of `host` on a process, for tests/qemu.rs and tests/spdk.rs.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use nvme_deep::machine::missing_capabilities;
use serde_json::Value;

use crate::binary::BINARY;

/// What this machine lacks to trace a process, or to run `program`.
pub fn lacks(program: &'static str) -> Option<&'static str> {
    if !missing_capabilities().is_empty() {
        return Some("CAP_BPF or CAP_PERFMON");
    }
    if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        return Some("a kernel with uprobes");
    }
    if Command::new(program).arg("--version").output().is_err() {
        return Some(program);
    }
    None
}

/// Ends a test that needs something that this machine lacks, and says what.
macro_rules! needs {
    ($program:expr) => {
        if let Some(lacking) = crate::live::lacks($program) {
            eprintln!("skipped: this needs {lacking}");
            return;
        }
    };
}
pub(crate) use needs;

/// Compiles a source of tests/host to a program or library in a directory.
pub fn compile(source: &str, dir: &Path, name: &str, more: &[&str]) -> PathBuf {
    let program = dir.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Werror", "-Wno-unused-parameter"])
        .arg(format!("tests/host/{source}"));
    let done =
        cc.args(more).arg("-o").arg(&program).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{done:?}");
    program
}

/// Ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if is_there() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("{what} does not come");
}

pub fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

pub fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// A command is the one that was issued, by the truth of a driver or a target.
pub fn assert_issued(command: &Value, truth: &Value) {
    let (fields, what) = (&command["fields"], format!("{command} {truth}"));
    let found = [&command["qid"], &command["cid"], &command["opcode_value"], &fields["slba"]];
    assert_eq!(found, ["qid", "cid", "opcode", "slba"].map(|key| &truth[key]), "{what}");
    assert_eq!(fields["nlb"], truth["nlb"], "{what}");
}

/// A running `host ...`.
pub struct Tool {
    running: Running,
    out: PathBuf,
    err: PathBuf,
}

impl Tool {
    /// Starts it, and waits until it traces. `name`: of its files in the directory.
    pub fn start(dir: &Path, name: &str, arguments: &str) -> Self {
        let [out, err] = ["out", "err"].map(|end| dir.join(format!("{name}.{end}")));
        let mut tool = Command::new(BINARY);
        tool.args(arguments.split_whitespace());
        tool.stdout(File::create(&out).unwrap());
        tool.stderr(File::create(&err).unwrap());
        let running = Running(tool.spawn().unwrap());
        let mut tool = Self { running, out, err };
        wait_for("the trace", || {
            let said = tool.said();
            let ended = tool.running.0.try_wait().unwrap();
            assert!(ended.is_none(), "{said}");
            said.contains(": tracing ")
        });
        tool
    }

    /// What it has written to stderr.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    /// Stops it by a signal, and returns what it has printed.
    pub fn stop(mut self) -> String {
        let id = self.running.0.id().to_string();
        let mut kill = Command::new("kill");
        assert!(kill.args(["-INT", &id]).status().unwrap().success());
        let ended = self.running.0.wait().unwrap();
        assert!(ended.success(), "{}", self.said());
        fs::read_to_string(&self.out).unwrap()
    }

    /// Waits until it ends by itself. Its exit code, and what it has printed to stdout and to stderr.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let code = self.running.0.wait().unwrap().code();
        (code, fs::read_to_string(&self.out).unwrap(), self.said())
    }
}
