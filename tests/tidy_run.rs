// SPDX-License-Identifier: MIT OR Apache-2.0
//! What runs a command is in src/run/drive, and nowhere else.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;

/// What makes a run, and who else may name it. Targets have events of another type; `kvm` looks for one
/// block of a recording.
const OF_A_RUN: [(&str, &[&str]); 8] = [
    (".events()?", &[]),
    (".unfinished(", &[]),
    ("Program::start(", &[]),
    ("Drops::watch(", &[]),
    (".final_check(", &[]),
    (".turns(", &["host/live.rs", "inflight/mod.rs"]),
    ("stop_signals(", &["start.rs", "host/live.rs", "inflight/mod.rs", "top/mod.rs"]),
    (".next_block(", &["host/kvm.rs"]),
];

/// The files below src/run/`dir` by their path there, without tests.
fn sources(dir: &Path) -> Vec<(String, String)> {
    let commands = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run");
    let mut found = vec![];
    for entry in fs::read_dir(commands.join(dir)).unwrap() {
        let path = dir.join(entry.unwrap().file_name());
        if commands.join(&path).is_dir() {
            found.extend(sources(&path));
        } else if !path.ends_with("tests.rs") {
            let text = fs::read_to_string(commands.join(&path)).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            found.push((path.display().to_string(), code.to_owned()));
        }
    }
    found
}

#[test]
fn drive_is_the_only_run_of_the_commands() {
    for (name, code) in sources(Path::new("")) {
        for (word, others) in OF_A_RUN {
            let may = name.starts_with("drive/") || others.contains(&name.as_str());
            assert!(may || !code.contains(word), "{name} has {word}");
        }
    }
    let drive = sources(Path::new("drive")).into_iter();
    let drive: String = drive.map(|(_, code)| code).collect();
    for (word, _) in OF_A_RUN {
        assert!(drive.contains(word), "nothing in drive has {word}");
    }
}
