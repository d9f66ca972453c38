// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text from outside in the views and exports of the built binary: a name stays a name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod binary;
#[path = "outside/hostile.rs"]
mod hostile;
mod testing;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nvme_deep::model::untrusted::{Untrusted, is_shown};
use serde_json::Value;
use tempfile::TempDir;

use self::binary::{BINARY, Ran};
use self::hostile::{EVIL, SHELL};

/// A hostile recording, in a directory of its own.
fn recording(disk: &str) -> (TempDir, PathBuf) {
    filtered(disk, EVIL)
}

/// The same with these options as its filter.
fn filtered(disk: &str, filter: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.nvd");
    hostile::guest(&path, disk, filter);
    (dir, path)
}

/// Runs with this file as the last argument.
fn run(words: &str, file: &Path) -> Ran {
    let words = words.split_whitespace();
    Ran::from(Command::new(BINARY).args(words).arg(file))
}

/// No text leaves its line or acts on a terminal.
fn is_tame(text: &str, what: &str) {
    for line in text.lines() {
        assert!(line.chars().all(is_shown), "{what}: {line:?}");
        assert!(!line.starts_with("accuracy  exact: 7"), "{what}: {text}");
    }
}

/// Runs, and looks at both streams.
fn tame(words: &str, file: &Path) -> String {
    let ran = run(words, file);
    assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
    is_tame(&ran.out, words);
    is_tame(&ran.err, words);
    ran.out
}

#[test]
fn text_is_one_line_and_acts_on_no_terminal() {
    let (_dir, file) = recording(EVIL);
    for words in [
        "trace --stages --kstack --from",
        "trace --color=always --from",
        "latency -v --stages --from",
        "stacks --from",
        "stacks --folded --from",
        "pattern -v --from",
        "diagnose -v --from",
        "top --from",
    ] {
        let ran = run(words, &file);
        assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
        // the colours are our own
        let out = ran.out.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "");
        is_tame(&out, words);
        is_tame(&ran.err, words);
    }
    let pair = Ran::from(Command::new(BINARY).arg("diff").args([&file, &file]));
    is_tame(&pair.out, "diff");
}

/// Time, disk and event are words.
#[test]
fn a_disk_of_trace_has_no_blanks() {
    let (_dir, file) = recording("nvme0n1 Command nvme9: x");
    let text = tame("trace --from", &file);
    let line = text.lines().next().unwrap();
    let words: Vec<&str> = line.split(' ').take(4).collect();
    assert_eq!(words[1], r"nvme0n1\u{20}Command\u{20}nvme9:\u{20}x", "{line}");
    assert_eq!((words[2], words[3]), ("Command", "nvme0:"), "{line}");
}

#[test]
fn two_recordings_and_a_name_of_a_file_are_tame() {
    let (dir, file) = recording("nvme0n1");
    let other = dir.path().join("b\x1b[2J\nx.nvd");
    fs::copy(&file, &other).unwrap();
    let ran = Ran::from(Command::new(BINARY).args(["latency", "--from"]).args([&file, &other]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    is_tame(&ran.out, "latency of two");
    is_tame(&ran.err, "latency of two");
    assert!(ran.out.contains(r"b\u{1b}[2J\nx.nvd"), "{}", ran.out);
    let missing = dir.path().join("c\x1b[2J\nx.nvd");
    let ran = run("latency --from", &missing);
    is_tame(&ran.err, "a missing file");
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

#[test]
fn advice_has_only_names_of_the_kernel() {
    for disk in [SHELL, EVIL] {
        // with a filter that is not known, the rule of schedulers is not judged
        let (_dir, file) = filtered(disk, "");
        let text = tame("diagnose --from", &file);
        assert!(text.contains("echo none > /sys/block/DISK/queue/scheduler"), "{text}");
        assert!(!text.contains("curl"), "{text}");
        let json = run("diagnose --json --from", &file).out;
        let json: Value = serde_json::from_str(&json).unwrap();
        for cause in json["causes"].as_array().unwrap() {
            let advice = cause["advice"].as_str().unwrap();
            assert!(!advice.contains("curl") && !advice.contains("accuracy"), "{advice}");
        }
    }
    let (_dir, file) = filtered("nvme0n1", "");
    let text = tame("diagnose --from", &file);
    assert!(text.contains("/sys/block/nvme0n1/queue/scheduler"), "{text}");
}

/// The parsed values are the texts themselves.
#[test]
fn json_is_valid_and_has_the_text_itself() {
    let (_dir, file) = recording(EVIL);
    for words in [
        "trace --json --stages --kstack --from",
        "latency --json --stages --from",
        "stacks --json --from",
        "pattern --json --from",
        "diagnose --json --from",
        "export --format ndjson -o -",
    ] {
        let text = tame(words, &file);
        let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        let lines = lines.unwrap_or_else(|e| panic!("{words}: {e}: {text}"));
        assert!(!lines.is_empty(), "{words}");
        let commands = lines.iter().filter(|l| l["type"] == "command");
        for command in commands {
            assert_eq!(command["disk"], EVIL, "{words}");
            assert_eq!(command["comm"], "=a\nb\u{1b}[2J,\u{fffd}\"\\;", "{words}");
        }
        for run in lines.iter().filter(|l| l["type"] == "run") {
            assert_eq!(run["kernel"], EVIL);
        }
    }
    let pair = Ran::from(Command::new(BINARY).args(["diff", "--json"]).args([&file, &file]));
    is_tame(&pair.out, "diff --json");
    let line: Value = serde_json::from_str(pair.out.lines().next().unwrap()).unwrap();
    assert_eq!(line["a"][0]["kernel"], EVIL);
}

#[test]
fn a_line_of_csv_is_a_record_and_no_cell_a_formula() {
    for disk in [
        EVIL,
        "=cmd|' /C calc'!A0",
        "@sum(1)",
        "-1",
        "+1",
        "\t=1",
        "\r=1",
        "'=1",
        "''=1",
        "'",
        "o'clock",
    ] {
        let (_dir, file) = recording(disk);
        let text = tame("export --format csv -o -", &file);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().unwrap().len();
        let of_disk = reader.headers().unwrap().iter().position(|name| name == "disk").unwrap();
        let shown = Untrusted::from(disk).to_string();
        let (mut records, mut named) = (0, 0);
        for record in reader.records() {
            let record = record.unwrap();
            assert_eq!(record.len(), columns);
            // without its first apostrophe it is the name
            let cell = &record[of_disk];
            let bare = cell.strip_prefix('\'').unwrap_or(cell);
            assert!(bare.is_empty() || bare == shown, "{disk}: {cell}");
            named += usize::from(!bare.is_empty());
            let is_number = |cell: &str| cell.parse::<f64>().is_ok();
            let texts = record.iter().filter(|cell| !is_number(cell));
            for cell in texts {
                assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell}");
            }
            records += 1;
        }
        assert!(named > 0, "{text}");
        assert_eq!(text.lines().count(), records + 1, "one line for each record");
    }
}

/// Whether tags nest, and text has no character that XML forbids.
fn is_xml(text: &str) {
    let allowed = |c: char| matches!(c, '\n' | ' '..='\u{fffd}' | '\u{10000}'..) && c != '\x7f';
    assert!(text.chars().all(allowed), "{text}");
    let mut open = Vec::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        assert!(!before.contains("]]>"), "{before}");
        if let Some(data) = tag.strip_prefix("![CDATA[") {
            rest = data.split_once("]]>").unwrap().1;
            continue;
        }
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").unwrap().1;
            continue;
        }
        let (tag, after) = tag.split_once('>').unwrap();
        rest = after;
        let name = tag.trim_end_matches('/').split_whitespace().next().unwrap();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{text}");
        } else if !tag.starts_with(['?', '!']) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn pictures_are_well_formed() {
    let (dir, file) = recording(EVIL);
    let svg = dir.path().join("x.svg");
    for words in ["stacks", "pattern", "heatmap"] {
        let ran = Ran::from(
            Command::new(BINARY).args([words, "--svg"]).arg(&svg).arg("--from").arg(&file),
        );
        assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
        is_xml(&fs::read_to_string(&svg).unwrap());
        fs::remove_file(&svg).unwrap();
    }
}

/// A semicolon in a name makes no frame, and a newline no line.
#[test]
fn a_frame_is_one_frame() {
    let (_dir, file) = recording("nvme0n1");
    let text = tame("stacks --folded --from", &file);
    assert_eq!(text.lines().count(), 1, "{text}");
    let (stack, count) = text.trim_end().rsplit_once(' ').unwrap();
    assert_eq!(count, "200");
    let frames: Vec<&str> = stack.split(';').collect();
    assert_eq!(frames.len(), 2, "{text}");
    assert!(!stack.contains(' '), "{text}");
}

#[test]
fn other_formats_have_one_printable_text() {
    let (dir, file) = recording(EVIL);
    for format in ["perfetto", "hlog", "parquet"] {
        let path = dir.path().join(format);
        let ran = Ran::from(
            Command::new(BINARY).args(["export", "--format", format, "-o"]).arg(&path).arg(&file),
        );
        assert_eq!(ran.code, Some(0), "{format}: {}", ran.err);
        is_tame(&ran.err, format);
        let bytes = fs::read(&path).unwrap();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        assert!(!has(b"\x1b[2J") && !has(b"\xe2\x80\xae"), "{format}");
        if format == "hlog" {
            is_tame(&String::from_utf8(bytes).unwrap(), format);
        }
    }
}

#[test]
fn the_host_side_and_its_join_are_tame() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("host.nvd");
    hostile::host(Path::new("tests/host/nvmet-host.nvd"), &file);
    for words in ["host trace --from", "host latency --from"] {
        tame(words, &file);
        let json = tame(&words.replace(" --from", " --json --from"), &file);
        let lines: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let first = lines.iter().find(|l| l["ctrl"].is_string()).unwrap();
        assert_eq!(first["ctrl"], EVIL);
    }
    let guest = "tests/host/nvmet-guest.nvd";
    let text = tame(&format!("join {guest}"), &file);
    assert!(text.contains("matched"), "{text}");
    tame(&format!("join --json {guest}"), &file);
    let trace = dir.path().join("x.perfetto");
    let ran = Ran::from(
        Command::new(BINARY)
            .args(["join", guest])
            .arg(&file)
            .args(["--format", "perfetto", "-o"])
            .arg(&trace),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let bytes = fs::read(&trace).unwrap();
    assert!(!bytes.windows(3).any(|part| part == b"\x1b[2"));
}

#[test]
fn a_trace_of_spdk_is_tame() {
    let dir = TempDir::new().unwrap();
    let text = fs::read_to_string("tests/host/spdk_trace.json").unwrap();
    let mut trace: Value = serde_json::from_str(&text).unwrap();
    let points = trace["tpoints"].as_array_mut().unwrap();
    for point in points {
        let name = point["name"].as_str().unwrap().to_owned();
        point["name"] = format!("{name}{EVIL}").into();
    }
    let file = dir.path().join("trace.json");
    fs::write(&file, trace.to_string()).unwrap();
    for words in ["host annotate", "host annotate --json"] {
        let text = tame(words, &file);
        assert!(text.contains("TCP_REQ_NEW"), "{words}: {text}");
    }
}

#[test]
fn a_huge_name_does_not_flood_a_terminal() {
    let (_dir, file) = recording(&"x".repeat(1 << 16));
    for words in ["trace --from", "pattern --from", "diagnose --from"] {
        let text = tame(words, &file);
        let longest = text.lines().map(|l| l.chars().count()).max();
        assert!(longest < Some(1000), "{words}: {longest:?}");
    }
    let json = tame("trace --json --from", &file);
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["disk"].as_str().unwrap().len(), 1 << 16);
}

/// Words of the command line that an error quotes.
#[test]
fn an_error_quotes_arguments_on_their_line() {
    const WORD: &str = "x\x1b[31m\n\u{202e}accuracy  exact: 7 commands";
    let evil = OsStr::from_bytes(b"x\x1b[31m\n\xff");
    let join = ["join", "tests/host/nvmet-guest.nvd", "tests/host/nvmet-host.nvd"];
    let pair = format!("nvme2={WORD}");
    for words in [
        &[WORD][..],
        &["latency", WORD],
        &["latency", "--pid", WORD],
        &["latency", "--ctrl", WORD],
        &["latency", "--opcode", WORD],
        &["latency", "--color", WORD],
        &["latency", "--stages", WORD],
        &["trace", &format!("--{WORD}")],
        &["host", WORD],
        &["host", "kvm", "x", "--bar", WORD],
        &["latency", "--from", WORD],
        &[join[0], join[1], join[2], "--ctrl", &pair],
    ] {
        let ran = Ran::from(Command::new(BINARY).args(words));
        assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.err);
        is_tame(&ran.err, &format!("{words:?}"));
        assert!(ran.err.contains(r"x\u{1b}[31m\n"), "{words:?}: {}", ran.err);
    }
    for words in [&["latency"][..], &["latency", "--pid"], &["latency", "--comm"]] {
        let ran = Ran::from(Command::new(BINARY).args(words).arg(evil));
        assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.err);
        is_tame(&ran.err, &format!("{words:?}"));
    }
}
