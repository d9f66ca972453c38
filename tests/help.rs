// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-h` and `--help` of every command, as snapshots: an option that is added, moved or hidden shows up
//! as a difference. `-h` is one screen.

use insta::{Settings, assert_snapshot};

use crate::binary::{commands, run};

/// A screen: lines, and columns.
const SCREEN: (usize, usize) = (30, 80);

/// The help of `words`, which must succeed without a message.
fn help(words: &str) -> String {
    let ran = run(words);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words}");
    for line in ran.out.lines() {
        assert!(line.chars().count() <= SCREEN.1, "{words}: {line}");
    }
    ran.out
}

/// Checks the help of a command, and of its subcommands. Returns how many these are.
fn check(command: &str) -> usize {
    let with = |flag: &str| help(format!("{command} {flag}").trim_start());
    let (short, long) = (with("-h"), with("--help"));
    let lines = short.lines().count();
    assert!(lines <= SCREEN.0, "{command} -h has {lines} lines:\n{short}");
    assert_eq!(help(format!("help {command}").trim_end()), long);
    assert!(long.contains("\nExamples:\n  nvme-deep "), "{command}");

    let name = format!("nvme-deep {command}");
    let name = name.trim_end();
    let both = format!("$ {name} -h\n{short}\n$ {name} --help\n{long}");
    assert_snapshot!(name.replace(' ', "-"), both);
    let subcommands = commands(command).into_iter();
    let below = subcommands.map(|sub| check(format!("{command} {sub}").trim_start()));
    1 + below.sum::<usize>()
}

#[test]
fn the_help_of_every_command_is_the_snapshot() {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("snapshots/help");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    assert_eq!(settings.bind(|| check("")), 25);
}
