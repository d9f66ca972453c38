//! Whether a command is its controller's, and its start its own, whatever the hooks remember of
//! hardware queues: the very C of bpf/include in a world where controllers and namespaces go and come
//! and all memory is given out again (tests/places/harness.c).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "parity/build.rs"]
mod build;

use std::path::Path;
use std::process::Command;

const HARNESS: &str = "places/harness.c";

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
    let harness = build::harness(HARNESS, "places", &[]);
    for seed in 0..20 {
        let [commands, moved, wrong] = run(&harness, seed);
        assert!(commands > 20_000 && moved > 4_000, "{commands} {moved}");
        assert_eq!(wrong, 0, "seed {seed}, {commands} commands");
    }
}

/// What the test above would say.
#[test]
fn without_forgetting_they_would_not_be() {
    let harness = build::harness(HARNESS, "places-not", &["-DNEVER_FORGET"]);
    let [_, moved, wrong] = run(&harness, 0);
    assert!(wrong > moved / 10, "{wrong} of {moved}");
}
