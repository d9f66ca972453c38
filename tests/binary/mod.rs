// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of the built binary, for tests of its command line.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::{env, fs};

use serde_json::Value;

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

/// Runs another program, which must succeed. Returns its stdout and stderr; `None`: it is not installed.
#[allow(clippy::print_stderr, reason = "tests")]
pub fn accepts(command: &mut Command) -> Option<[String; 2]> {
    let ran = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("not asked: there is no {:?} here", command.get_program());
            return None;
        }
        ran => ran.unwrap(),
    };
    let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(ran.status.success(), "{command:?}: {}", said.concat());
    Some(said)
}

/// What it prints with these arguments, with which it must succeed.
pub fn shown(words: &str) -> String {
    let ran = run(words);
    assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
    ran.out
}

/// As [`shown`], but all tests share one run.
pub fn shown_once(words: &str) -> String {
    static SHOWN: Mutex<BTreeMap<String, Arc<OnceLock<String>>>> = Mutex::new(BTreeMap::new());
    let text = Arc::clone(SHOWN.lock().unwrap().entry(words.to_owned()).or_default());
    text.get_or_init(|| shown(words)).clone()
}

/// The JSON objects that it prints with these arguments.
pub fn objects(words: &str) -> Vec<Value> {
    shown(words).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The commands that the help of a command (or of none) lists, without `help`.
pub fn commands(parent: &str) -> Vec<String> {
    let help = shown(format!("{parent} -h").trim_start());
    let list = help.split_once("Commands:\n").map_or("", |(_, list)| list);
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The crates that THIRD-PARTY.md lists, with their versions.
pub fn third_party() -> Vec<(&'static str, &'static str)> {
    let lines = include_str!("../../THIRD-PARTY.md").lines();
    let of = |line: &'static str| line.strip_prefix("| ")?.split_once(" |")?.0.split_once(" v");
    let crates: Vec<_> = lines.filter_map(of).collect();
    assert!(crates.len() > 40, "{crates:?}");
    crates
}

/// Nanoseconds of `1.05ms`.
pub fn nanos(text: &str) -> f64 {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
    let factor = match &text[unit..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        other => panic!("{other}: {text}"),
    };
    text[..unit].parse::<f64>().unwrap() * factor
}

/// Runs it with these arguments.
pub fn run(words: &str) -> Ran {
    Ran::from(Command::new(BINARY).args(words.split_whitespace()))
}

/// The table of a page of the docs that begins with this comment is this one. NVME_DEEP_BLESS writes it.
pub fn docs_have(page: &str, begin: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let docs = fs::read_to_string(&path).unwrap();
    let from = docs.find(begin).expect(begin) + begin.len();
    let to = from + docs[from..].find("<!-- end of the").unwrap();
    if env::var_os("NVME_DEEP_BLESS").is_some() {
        fs::write(&path, [&docs[..from], table, &docs[to..]].concat()).unwrap();
    } else {
        assert_eq!(&docs[from..to], table, "{page}");
    }
}
