//! Whether a command is its controller's, and its start its own, whatever the hooks remember of
//! hardware queues: the very C of bpf/include in a world where controllers and namespaces go and come
//! and all memory is given out again (tests/places/harness.c).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::env;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::id;

/// Builds the harness.
fn harness(name: &str, define: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", id()));
    let cc = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let build = Command::new(&cc)
        .args(["-std=gnu11", "-O1", "-w"])
        .args(define)
        .arg("-I")
        .arg(root.join("bpf/include"))
        .arg(root.join("tests/places/harness.c"))
        .arg("-o")
        .arg(&out)
        .output()
        .unwrap_or_else(|e| panic!("this test needs a C compiler, and {cc:?} does not run: {e}"));
    let complaint = String::from_utf8_lossy(&build.stderr);
    assert!(
        build.status.success(),
        "{cc:?} refuses the harness:\n{complaint}"
    );
    out
}

/// Commands, those at a place that others had had, and those that came out wrong.
fn run(harness: &Path, seed: u64) -> [u64; 3] {
    let output = Command::new(harness)
        .args([seed.to_string(), "30000".into()])
        .output()
        .expect("the harness runs");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().map(|w| w.parse().unwrap());
    [(); 3].map(|()| words.next().unwrap())
}

#[test]
fn every_command_is_its_own_controllers() {
    let harness = harness("places", &[]);
    for seed in 0..20 {
        let [commands, moved, wrong] = run(&harness, seed);
        assert!(commands > 20_000 && moved > 4_000, "{commands} {moved}");
        assert_eq!(wrong, 0, "seed {seed}, {commands} commands");
    }
}

/// What the test above would say.
#[test]
fn without_forgetting_they_would_not_be() {
    let harness = harness("places-not", &["-DFORGETFUL_NOT"]);
    let [_, moved, wrong] = run(&harness, 0);
    assert!(wrong > moved / 10, "{wrong} of {moved}");
}
