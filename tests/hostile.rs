// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile names in recordings, traces, arguments and file names: no output may let them start a line,
//! control a terminal, break its format, or put a command into advice.

pub mod recording;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nvme_deep::model::text::{Text, word};
use serde_json::Value;
use tempfile::TempDir;

use self::recording::{COMM, EVIL, SHELL};
use crate::binary::{BINARY, Ran};

const GUEST: &str = "tests/host/nvmet-guest.nvd";

/// A directory with a.nvd (driver), host.nvd (host side) and spdk.json, all with hostile names.
struct Files(TempDir);

impl Files {
    fn with(disk: &str, filter: &str) -> Self {
        let dir = TempDir::new().unwrap();
        recording::guest(&dir.path().join("a.nvd"), disk, filter);
        recording::host(Path::new("tests/host/nvmet-host.nvd"), &dir.path().join("host.nvd"));
        let spdk = fs::read_to_string("tests/host/spdk_trace.json").unwrap();
        let mut spdk: Value = serde_json::from_str(&spdk).unwrap();
        for point in spdk["tpoints"].as_array_mut().unwrap() {
            point["name"] = format!("{}{EVIL}", point["name"].as_str().unwrap()).into();
        }
        for entry in spdk["entries"].as_array_mut().unwrap() {
            let args = entry["args"].as_array_mut().into_iter().flatten();
            args.for_each(|arg| *arg = EVIL.into());
        }
        fs::write(dir.path().join("spdk.json"), spdk.to_string()).unwrap();
        Self(dir)
    }

    fn hostile() -> Self {
        Self::with(EVIL, EVIL)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs with the files for A (driver), H (host side), S (SPDK) and OUT. Returns OUT, or stdout.
    fn run(&self, words: &str) -> Vec<u8> {
        let mut command = Command::new(BINARY);
        for word in words.split_whitespace() {
            match word {
                "A" => command.arg(self.path("a.nvd")),
                "H" => command.arg(self.path("host.nvd")),
                "S" => command.arg(self.path("spdk.json")),
                "OUT" => command.arg(self.path("out.svg")),
                word => command.arg(word),
            };
        }
        let ran = Ran::from(&mut command);
        assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
        is_tame(&ran.err, words);
        if !words.contains("OUT") {
            return ran.out.into();
        }
        let bytes = fs::read(self.path("out.svg")).unwrap();
        fs::remove_file(self.path("out.svg")).unwrap();
        bytes
    }

    /// The same for output that is text and has no hostile character.
    fn tame(&self, words: &str) -> String {
        let text = String::from_utf8(self.run(words)).unwrap();
        let mut parts = text.split("\x1b[");
        let mut plain = parts.next().unwrap().to_owned();
        for part in parts {
            // our own colours end in `m`; no hostile name has one
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
            plain += &rest.strip_prefix('m').map_or_else(|| format!("\x1b[{part}"), str::to_owned);
        }
        is_tame(&plain, words);
        plain
    }
}

/// No line is forged, and none has characters that a terminal interprets.
fn is_tame(text: &str, what: &str) {
    for line in text.lines() {
        let hidden = |c: &char| !c.is_ascii_graphic() && *c != ' ' && c.escape_debug().len() > 1;
        assert_eq!(line.chars().find(hidden), None, "{what}: {line:?}");
        assert!(!line.starts_with("accuracy  exact: 7"), "{what}: {text}");
    }
}

/// The name as every view shows it.
fn shown(name: &str) -> String {
    Text::from_escaped(name).to_string()
}

#[test]
fn text_has_no_forged_line() {
    let (hostile, harmless) = (Files::hostile(), Files::with("x", "x"));
    for words in [
        "trace --stages --kstack --from A",
        "trace --long --kstack --from A",
        "trace --color=always --from A",
        "latency -v --stages --by process,comm,disk --from A",
        "latency -v --color=always --from A",
        "stacks --from A",
        "pattern -v --from A",
        "diagnose -v --from A",
        "top --from A",
        "diff A A",
        "host trace --from H",
        "host latency --from H",
        "host annotate S",
        "join tests/host/nvmet-guest.nvd H",
    ] {
        let text = hostile.tame(words);
        assert!(!text.is_empty(), "{words}");
        if words.starts_with("trace") {
            let lines = harmless.tame(words).lines().count();
            assert_eq!(text.lines().count(), lines, "{words}: {text}");
        }
    }
}

#[test]
fn a_name_cannot_forge_the_words_of_a_trace() {
    let disk = "nvme0n1 Command nvme9: x";
    let text = Files::with(disk, "").tame("trace --long --from A");
    let words: Vec<&str> = text.split(' ').take(4).collect();
    assert_eq!(words[1..], [&word(disk), "Command", "nvme0:"], "{text}");
}

#[test]
fn json_parses_and_has_the_escaped_names() {
    let files = Files::hostile();
    let comm = Text::from_bytes(COMM).to_string();
    for words in [
        "trace --json --stages --kstack --from A",
        "latency --json --stages --by process,comm,disk --from A",
        "stacks --json --from A",
        "pattern --json --from A",
        "diagnose --json -v --from A",
        "diff --json A A",
        "export --format ndjson -o - A",
        "host trace --json --from H",
        "host latency --json --from H",
        "host annotate --json S",
        "join --json tests/host/nvmet-guest.nvd H",
    ] {
        let text = files.tame(words);
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(!lines.is_empty(), "{words}");
        let is_of_driver = |l: &&Value| l["type"] == "command" && !words.starts_with("host");
        for command in lines.iter().filter(is_of_driver) {
            assert_eq!(command["disk"], shown(EVIL), "{words}");
            assert_eq!(command["comm"], comm, "{words}");
        }
        for run in lines.iter().filter(|l| l["type"] == "run") {
            assert_eq!(run["kernel"], shown(EVIL), "{words}");
        }
        if words.starts_with("host trace") {
            let first = lines.iter().find(|l| l["ctrl"].is_string()).unwrap();
            assert_eq!(first["ctrl"], shown(EVIL));
        }
    }
}

#[test]
fn a_line_of_csv_is_a_record_without_formulas() {
    for disk in [EVIL, "=cmd|' /C calc'!A0", "@sum(1)", "-1", "+1", "\t=1", "\r=1", "''=1", "'"] {
        let text = Files::with(disk, "").tame("export --format csv -o - A");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let of_disk = reader.headers().unwrap().iter().position(|name| name == "disk").unwrap();
        let records: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(text.lines().count(), records.len() + 1);
        for record in &records {
            let cell = &record[of_disk];
            assert_eq!(cell.strip_prefix('\'').unwrap_or(cell), shown(disk));
            let texts = record.iter().filter(|cell| cell.parse::<f64>().is_err());
            for cell in texts {
                assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell}");
            }
        }
    }
}

#[test]
fn pictures_are_well_formed_xml() {
    let files = Files::hostile();
    for words in ["stacks", "pattern", "heatmap"] {
        let text = String::from_utf8(files.run(&format!("{words} -o OUT --from A"))).unwrap();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&text, options).unwrap();
        is_tame(&text, words);
    }
}

#[test]
fn advice_has_no_name_that_needed_escapes() {
    for disk in [SHELL, EVIL, "nvme0n1"] {
        // with an unknown filter, the rule of schedulers is not judged
        let files = Files::with(disk, "");
        let text = files.tame("diagnose -v --from A");
        let named = if disk == "nvme0n1" { disk } else { "DISK" };
        assert!(
            text.contains(&format!("echo none > /sys/block/{named}/queue/scheduler")),
            "{text}"
        );
        let json: Value = serde_json::from_str(&files.tame("diagnose --json --from A")).unwrap();
        for cause in json["verdicts"].as_array().unwrap() {
            let advice = cause["advice"].as_str().unwrap();
            assert!(!advice.contains("curl") && !advice.contains("accuracy"), "{advice}");
            assert!(!advice.contains('\\'), "{advice}");
        }
    }
}

/// One table for everything that the program quotes from its command line.
#[test]
fn errors_and_reports_quote_arguments_and_files_on_one_line() {
    const WORD: &str = "x\x1b[31m\n\u{202e}accuracy  exact: 7 commands";
    const SHOWN: &str = r"x\u{1b}[31m\n";
    let pair = format!("nvme2={WORD}");
    let option = format!("--{WORD}");
    for words in [
        &[WORD][..],
        &["latency", WORD],
        &["latency", "--pid", WORD],
        &["latency", "--ctrl", WORD],
        &["latency", "--opcode", WORD],
        &["latency", "--color", WORD],
        &["latency", "--stages", WORD],
        &["trace", &option],
        &["host", WORD],
        &["import", "x", "--bar", WORD],
        &["host", "annotate", WORD],
        &["import", WORD],
        &["latency", "--from", WORD],
        &["diff", WORD, WORD],
        &["export", GUEST, "--format", "csv", "-o", &format!("{WORD}/x")],
        &["join", GUEST, WORD],
        &["join", GUEST, "tests/host/nvmet-host.nvd", "--ctrl", &pair],
    ] {
        let ran = Ran::from(Command::new(BINARY).args(words));
        assert_ne!(ran.code, Some(0), "{words:?}");
        is_tame(&ran.err, &format!("{words:?}"));
        assert!(ran.err.contains(SHOWN), "{words:?}: {}", ran.err);
    }
    for words in [&["latency"][..], &["latency", "--pid"], &["latency", "--comm"]] {
        let word = OsStr::from_bytes(b"x\x1b[31m\n\xff");
        let ran = Ran::from(Command::new(BINARY).args(words).arg(word));
        assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.err);
        is_tame(&ran.err, &format!("{words:?}"));
    }
    let files = Files::with("nvme0n1", "");
    let other = files.path(WORD);
    fs::copy(files.path("a.nvd"), &other).unwrap();
    for words in [&["latency", "--from"][..], &["top", "--from"], &["diagnose", "--from"]] {
        let ran = Ran::from(Command::new(BINARY).args(words).arg(&other));
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.err);
        is_tame(&ran.out, &format!("{words:?}"));
        is_tame(&ran.err, &format!("{words:?}"));
    }
    fs::write(&other, "no recording").unwrap();
    let ran = Ran::from(Command::new(BINARY).args(["latency", "--from"]).arg(&other));
    assert_eq!((ran.code, ran.err.lines().count()), (Some(2), 1), "{}", ran.err);
    is_tame(&ran.err, "a file of another kind");
}
