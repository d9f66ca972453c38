// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace`, `host spdk` and `host msgs` on a stand-in for SPDK's target: tests/host/target.c has
//! its functions and USDT notes, and the layouts of three releases. Needs root, a kernel with uprobes,
//! and cc; otherwise the test says what is missing, and is skipped.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::run;
use crate::live::{Running, Tool, assert_issued, compile, lines, needs, of, wait_for};

const COUNT: usize = 60;
const SOURCE: &str = "target.c";

/// A running target.
struct Target {
    running: Running,
    out: PathBuf,
}

impl Target {
    fn start(dir: &Path, program: &Path) -> Self {
        let out = dir.join("truth");
        let mut command = Command::new(program);
        command.arg(COUNT.to_string()).stdin(Stdio::piped());
        command.stdout(File::create(&out).unwrap());
        let target = Self { running: Running(command.spawn().unwrap()), out };
        wait_for("the target", || target.printed().contains("ready"));
        target
    }

    fn pid(&self) -> u32 {
        self.running.0.id()
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// Serves the commands; what they were.
    fn serve(&mut self) -> Vec<Value> {
        self.running.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        wait_for("the end of the commands", || self.printed().lines().count() > COUNT);
        let printed = self.printed();
        lines(printed.split_once('\n').unwrap().1)
    }
}

/// A target with the layout of the last release, and `host` with these words on it.
fn started(dir: &TempDir, words: &str) -> (Target, Tool) {
    let target =
        Target::start(dir.path(), &compile(SOURCE, dir.path(), "target", &["-DLAYOUT=2401"]));
    let tool = Tool::start(dir.path(), "tool", &format!("host {words} --pid {}", target.pid()));
    (target, tool)
}

/// Every command of the target, once, with its stages.
fn check_commands(out: &str, truth: &[Value], backend: bool) {
    let lines = lines(out);
    let found = of(&lines, "command");
    assert_eq!((found.len(), truth.len()), (COUNT, COUNT));
    for (command, truth) in found.iter().zip(truth) {
        assert_issued(command, truth);
        assert_eq!(command["status"]["value"], truth["status"], "{command}");
        assert_eq!(command["ctrl"], "spdk:9", "{command}");
        let stages = command["stages"].as_array().unwrap();
        let names: Vec<&Value> = stages.iter().map(|s| &s["name"]).collect();
        let is_sync = truth["cid"].as_u64().unwrap() % 2 == 1;
        if is_sync || !backend {
            assert_eq!(names, ["host_submit+backend+host_complete"], "{command}");
        } else {
            assert_eq!(names, ["host_submit", "backend", "host_complete"], "{command}");
            // the stand-in waits 1 ms
            assert!(stages[1]["ns"].as_u64().unwrap() >= 1_000_000, "{command}");
        }
    }
    let left = of(&lines, "unfinished");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["cid"], 1000);
    let target = of(&lines, "host_target")[0];
    let ctrl = &target["controllers"][0];
    assert_eq!(ctrl["nqn"], "nqn.2024-01.test:one", "{target}");
    assert_eq!(ctrl["cntlid"], 9, "{target}");
    let end = of(&lines, "host_end")[0];
    assert_eq!(end["exact"], true, "{end}");
}

#[test]
fn every_command_is_seen_in_the_layout_of_each_release() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    for layout in ["2305", "2309", "2401"] {
        let program = compile(SOURCE, dir.path(), layout, &[&format!("-DLAYOUT={layout}")]);
        let mut target = Target::start(dir.path(), &program);
        let pid = target.pid();
        let tool = Tool::start(dir.path(), layout, &format!("host trace -jv --pid {pid}"));
        let truth = target.serve();
        check_commands(&tool.stop(), &truth, true);
    }
}

/// The functions may be in a library; `--ends` leaves the backend out.
#[test]
fn a_library_is_probed_and_the_backend_can_be_left_out() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    compile(
        SOURCE,
        dir.path(),
        "libspdk_nvmf.so",
        &["-DLAYOUT=2401", "-DLIBRARY", "-shared", "-fPIC"],
    );
    let main = dir.path().join("main.c");
    fs::write(&main, "int serve(unsigned);\nint main(void) { return serve(60); }\n").unwrap();
    let program = dir.path().join("main");
    let mut cc = Command::new("cc");
    cc.arg(&main).arg("-o").arg(&program);
    cc.arg(format!("-L{0}", dir.path().display())).arg("-lspdk_nvmf");
    cc.arg(format!("-Wl,-rpath,{}", dir.path().display()));
    assert!(cc.status().unwrap().success());
    let mut target = Target::start(dir.path(), &program);
    let pid = target.pid();
    let tool = Tool::start(dir.path(), "ends", &format!("host trace -j --ends --pid {pid}"));
    let states = Tool::start(dir.path(), "states", &format!("host spdk -j --pid {pid}"));
    let truth = target.serve();
    check_commands(&tool.stop(), &truth, false);
    assert_eq!(of(&lines(&states.stop()), "spdk_state").len(), 3);
}

/// The arguments are a constant, registers, memory and a negative number. One probe has a semaphore.
#[test]
fn changes_of_state_have_their_arguments() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    let (mut target, tool) = started(&dir, "spdk --json");
    target.serve();
    let lines = lines(&tool.stop());
    let found = of(&lines, "spdk_state");
    let found: Vec<(&str, &Value)> =
        found.iter().map(|l| (l["probe"].as_str().unwrap(), &l["fields"])).collect();
    let want = [
        (
            "nvmf_subsystem_change_state_done",
            json!({
                "nqn": "nqn.2024-01.test:one",
                "to": "ACTIVE",
                "from": "ACTIVE",
                "status": -5,
            }),
        ),
        ("nvmf_poll_group_add_subsystem", json!({ "thread": 7, "nqn": "nqn.2024-01.test:one" })),
        ("nvmf_tgt_state", json!({ "state": "FINI_STOP_SUBSYSTEMS" })),
    ];
    assert_eq!(found, want.iter().map(|(n, f)| (*n, f)).collect::<Vec<_>>());
    let times: Vec<u64> = lines.iter().filter_map(|l| l["time_ns"].as_u64()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(lines.last().unwrap()["exact"], true);
}

#[test]
fn messages_are_counted_by_function() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    let (mut target, tool) = started(&dir, "msgs -j");
    target.serve();
    let mut lines = lines(&tool.stop());
    let end = lines.pop().unwrap();
    assert_eq!(end["type"], "spdk_messages_end");
    assert_eq!([&end["messages"], &end["lost"]], [5, 0]);
    assert_eq!(end["exact"], true);
    let rows: Vec<[&Value; 3]> =
        lines.iter().map(|l| [&l["call"], &l["function"], &l["count"]]).collect();
    let want = [
        [json!("spdk_for_each_channel"), json!("second_message"), json!(1)],
        [json!("spdk_thread_send_msg"), json!("first_message"), json!(3)],
        [json!("spdk_thread_send_msg"), json!("second_message"), json!(1)],
    ];
    let want: Vec<[&Value; 3]> = want.iter().map(|row| row.each_ref()).collect();
    assert_eq!(rows, want);
}

#[test]
fn what_cannot_be_traced_is_refused() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    let own = std::process::id();
    for (command, says) in
        [("spdk", "has no USDT probes of SPDK"), ("msgs", "has no symbol spdk_thread_send_msg")]
    {
        run(&format!("host {command} --pid {own} --duration 1s")).refuses(2, says);
        run(&format!("host {command} --pid 4194304")).refuses(2, "no process 4194304");
    }
    // only what is exported is left
    let stripped = compile(SOURCE, dir.path(), "stripped", &["-DLAYOUT=2401", "-rdynamic", "-s"]);
    let target = Target::start(dir.path(), &stripped);
    let pid = target.pid();
    let tool = Tool::start(dir.path(), "stripped", &format!("host trace --pid {pid}"));
    tool.stop();
    let stripped = compile(SOURCE, dir.path(), "all", &["-DLAYOUT=2401", "-s"]);
    let target = Target::start(dir.path(), &stripped);
    let words = format!("host trace --pid {} --duration 1s", target.pid());
    run(&words).refuses(2, "is no target");
}

/// A layout that is not the expected one gives an error, and no record.
#[test]
fn a_wrong_layout_is_refused() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    for shift in ["8", "1000"] {
        let (mut target, tool) = started(&dir, &format!("trace --test-shift {shift}"));
        target.serve();
        let (code, out, said) = tool.end();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("has another layout"), "{said}");
        assert!(!out.contains("Command"), "{out}");
    }
}

/// The end of the process ends the run.
#[test]
fn a_process_that_ends_ends_the_run() {
    needs!("cc");
    let dir = TempDir::new().unwrap();
    for command in ["trace", "latency -v", "spdk", "msgs"] {
        let (mut target, tool) = started(&dir, command);
        let pid = target.pid();
        target.serve();
        drop(target);
        let (code, out, said) = tool.end();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("process {pid} has ended")), "{said}");
        assert!(!out.is_empty(), "{command}");
    }
}
