// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles a harness: a program that contains the headers of bpf/include.

use std::path::{Path, PathBuf};
use std::process::{Command, id};
use std::{env, fs, thread};

/// Compiles `source`, a file of tests/, to the program `name`, with additional compiler `flags`.
pub fn harness(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let thread = thread::current().id();
    let (fresh, done) = (dir.join(format!("{name}-{}-{thread:?}", id())), dir.join(name));
    let cc = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let object = fresh.with_extension("o");
    let build = Command::new(&cc)
        .args(["-std=gnu11", "-O1", "-w", "-c", "-o"])
        .arg(&object)
        .args(flags)
        .arg("-I")
        .arg(root.join("bpf/include"))
        // settings.h
        .arg("-I")
        .arg(env!("OUT_DIR"))
        .arg(root.join("tests").join(source))
        .output()
        .unwrap_or_else(|e| panic!("this test needs a C compiler, and {cc:?} does not run: {e}"));
    let complaint = String::from_utf8_lossy(&build.stderr);
    assert!(build.status.success(), "{cc:?} refuses the harness:\n{complaint}");
    // without `flags`: a harness that uses a sanitizer has the functions that the compiler calls
    let linked = Command::new(&cc).arg("-o").arg(&fresh).arg(&object).status();
    assert!(linked.unwrap().success(), "{cc:?} does not link {name}");
    fs::remove_file(object).unwrap();
    // another test or process may build the same program: replace it atomically
    fs::rename(&fresh, &done).unwrap();
    done
}
