// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of the built binary, for tests of its command line.

#![allow(dead_code, reason = "each test uses a part")]

use std::process::Command;

/// The path of the binary.
pub const BINARY: &str = env!("CARGO_BIN_EXE_nvme-deep");

/// The result of a run.
pub struct Ran {
    pub words: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn from(command: &mut Command) -> Self {
        let words = format!("{command:?}");
        // independent of the width of the terminal that runs the tests, and of its locale
        for (name, value) in [("LC_ALL", "C.UTF-8"), ("COLUMNS", "80")] {
            if !command.get_envs().any(|(set, _)| set == name) {
                command.env(name, value);
            }
        }
        let output = command.output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
        assert!(!err.contains("panicked"), "{words}: {err}");
        assert!(output.status.code().is_some(), "{words}: {}", output.status);
        let code = output.status.code();
        Self { words, code, out, err }
    }

    /// Asserts that the run failed with this exit code, with nothing on stdout and one line on
    /// stderr. Usage errors of clap have more lines, and end with a hint to `--help`.
    pub fn refuses(&self, code: i32, says: &str) {
        let Self { words, out, err, .. } = self;
        assert_eq!(self.code, Some(code), "{words}: {err}");
        assert_eq!(out, "", "{words}");
        assert!(err.contains(says), "{words} does not say `{says}`: {err}");
        let first = err.lines().next().unwrap_or_default();
        if first.starts_with("nvme-deep: ") {
            assert_eq!(err.lines().count(), 1, "{words}: {err}");
        } else {
            assert!(first.starts_with("error: "), "{words}: {err}");
            assert!(err.trim_end().ends_with("try '--help'."), "{words}: where is help? {err}");
        }
        assert!(err.ends_with('\n'), "{words}: {err}");
    }
}

/// Runs it with these arguments.
pub fn run(words: &str) -> Ran {
    Ran::from(Command::new(BINARY).args(words.split_whitespace()))
}
