// SPDX-License-Identifier: MIT OR Apache-2.0
//! User instructions, counted by valgrind's callgrind.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The variable of a test that runs under valgrind: what it is to do.
const TASK: &str = "NVME_DEEP_COUNTED_TASK";

/// User instructions of this program. `set` gets the command to add the rest.
pub fn instructions(program: impl AsRef<OsStr>, set: impl FnOnce(&mut Command)) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    set(&mut valgrind);
    // it is installed by `make test-cost` and `make test-all`
    let output = valgrind.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let count = text.lines().find_map(|l| l.split_once("Collected : "));
    assert!(count.is_some(), "{text}");
    count.unwrap().1.trim().parse().unwrap()
}

/// What this test is to do under valgrind; `None`: it was started as a test.
pub fn task() -> Option<String> {
    env::var(TASK).ok()
}

/// User instructions of an ignored test of this program that has this [`task`], in a directory.
pub fn instructions_of_test(test: &str, task: &str, dir: &Path) -> u64 {
    instructions(env::current_exe().unwrap(), |valgrind| {
        valgrind.args(["--ignored", "--exact", test]).current_dir(dir).env(TASK, task);
    })
}
