// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `report` command: its page has what the other commands say, no name can become markup, and it is small.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nvme_deep::model::stage::StageSet;
use nvme_deep::recording::RunInfo;
use nvme_deep::units::nanos;
use tempfile::TempDir;

use crate::binary::{objects, run};
use crate::hostile::recording as hostile;
use crate::testing::EventBuilder;
use crate::testing::recording::{SECOND, info, made};

const RECORDING: &str = "tests/exports/mixed.nvd";

/// The page about these files.
fn report(files: &str, dir: &Path) -> String {
    let out = dir.join("out.html");
    let ran = run(&format!("report {files} --force -o {}", out.display()));
    assert_eq!(ran.code, Some(0), "{files}: {}", ran.err);
    assert_eq!(ran.out, "");
    read_to_string(out).unwrap()
}

/// Its text without markup, in which a cell has a line.
fn text_of(html: &str) -> String {
    let body = html.split_once("<body>").unwrap().1.split_once("<script>").unwrap().0;
    let parts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text = parts.collect::<Vec<_>>().join("\n");
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#10;", "\n").replace("&#39;", "'").replace("&amp;", "&")
}

#[test]
fn a_page_has_what_the_commands_say() {
    let dir = TempDir::new().unwrap();
    let text = text_of(&report(RECORDING, dir.path()));
    for heading in [
        "Machine",
        "Where the time went",
        "Over time",
        "Slowest commands",
        "Stacks",
        "Processes",
        "Admin commands",
        "Accuracy",
    ] {
        assert_eq!(text.lines().filter(|line| *line == heading).count(), 2, "{heading}: {text}");
    }
    let diagnosis = objects(&format!("diagnose --json {RECORDING}")).remove(0);
    assert!(text.contains(diagnosis["headline"].as_str().unwrap()), "{text}");
    for verdict in diagnosis["verdicts"].as_array().unwrap() {
        assert!(text.contains(verdict["rule"].as_str().unwrap()), "{verdict}");
        if verdict["status"] != "found" {
            continue;
        }
        for evidence in verdict["evidence"].as_array().unwrap() {
            assert!(text.contains(evidence["value"].as_str().unwrap()), "{evidence}");
        }
    }
    // the slowest commands, in order, with their times
    let mut slowest = objects(&format!("trace --slowest 200 --stages --json {RECORDING}"));
    slowest.retain(|object| object["type"] == "command");
    let total = |object: &serde_json::Value| nanos(object["total_ns"].as_u64().unwrap() as f64);
    let totals: Vec<String> = slowest.iter().map(total).collect();
    assert_eq!(totals.len(), 200);
    let mut rows = text.rsplit_once("\nSlowest commands\n").unwrap().1;
    for total in totals {
        let found = rows.split_once(&format!("\n{total}\n"));
        rows = found.unwrap_or_else(|| panic!("no {total} in {rows}")).1;
    }
    // the ledger
    assert!(text.contains("seen 260 = matched 258 + in flight 2"), "{text}");
}

#[test]
fn a_damaged_recording_has_a_page_and_an_error() {
    let dir = TempDir::new().unwrap();
    let cut = dir.path().join("cut.nvd");
    let bytes = std::fs::read("tests/recordings/diagnose/wbt.nvd").unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let out = dir.path().join("out.html");
    let ran = run(&format!("report {} -o {}", cut.display(), out.display()));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let text = text_of(&read_to_string(&out).unwrap());
    assert!(text.contains("the end of the recording is missing"), "{text}");
    let ran = run(&format!("report {} -o {}", cut.display(), out.display()));
    assert!(ran.code == Some(2) && ran.err.contains("--force"), "{}", ran.err);
}

#[test]
fn a_redacted_page_has_no_names() {
    let dir = TempDir::new().unwrap();
    let names = ["fio", "QEMU", "mixed", "kworker", "\nguest"];
    let plain = report(RECORDING, dir.path());
    let redacted = report(&format!("{RECORDING} --redact"), dir.path());
    for name in names {
        let [plain, redacted] = [&plain, &redacted].map(|html| text_of(html).contains(name));
        assert_eq!((plain, redacted), (true, false), "{name}");
    }
    assert!(redacted.contains("[366]"), "processes have their numbers");
}

/// Also of a file that was recorded without names, and of one that no diagnosis can be made of: its error has
/// the path.
#[test]
fn a_redacted_page_does_not_name_its_files() {
    let dir = TempDir::new().unwrap();
    for source in ["tests/recordings/diagnose/wbt.nvd", "tests/exports/none.nvd", RECORDING] {
        let path = dir.path().join("customer-acme.nvd");
        std::fs::copy(source, &path).unwrap();
        let page = report(&format!("{} --redact", path.display()), dir.path());
        assert!(page.contains("recording 1"), "{source}");
        assert!(!page.contains("customer-acme"), "{source}");
    }
}

/// A page about a recording whose names try to be markup, and one whose names do not.
fn hostile_pages(dir: &Path) -> [String; 2] {
    [hostile::EVIL, "x"].map(|name| {
        let path = dir.join("hostile.nvd");
        hostile::guest(&path, name, name);
        report(&path.display().to_string(), dir)
    })
}

#[test]
fn no_name_becomes_markup() {
    let dir = TempDir::new().unwrap();
    let [evil, harmless] = hostile_pages(dir.path());
    for mark in ['<', '>', '"'] {
        let [evil, harmless] = [&evil, &harmless].map(|html| html.matches(mark).count());
        assert_eq!(evil, harmless, "{mark}");
    }
    assert!(evil.contains("&lt;&amp;&quot;"), "the names are shown");
    assert!(evil.contains("Content-Security-Policy") && !evil.contains("onload"));
}

/// A million commands that make as many cells in the pictures as there can be.
fn million(path: &Path) {
    let run = RunInfo { stage_set: StageSet::Full, submitters: true, cgroups: true, ..info() };
    made(path, &run, 101 * SECOND, |writer| {
        for n in 0..1_000_000 {
            let at_ns = run.begin_ns + (n + 2000) * 100_000;
            let mixed = (n ^ n >> 13).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            // from 16 us to 100 ms
            let total = 16_000 << (mixed % 13);
            let total = total + (mixed >> 8) % total;
            let part = |percent: u64| total * percent / 100;
            let stages = [5, 10, 1, 1, 48, 2, 8, 0].map(part);
            let pid = 1000 + (mixed >> 4 & 63) as u32;
            let event = EventBuilder::staged(at_ns - stages.iter().sum::<u64>(), stages)
                .waits([1, 4, 5, 2, 3, 4, 6].map(part))
                .qid((mixed & 15) as u16 + 1)
                .cid((mixed >> 16) as u16)
                .blocks(mixed & 0xffff_fff8, 8)
                .submitter(pid, pid, b"process")
                .command();
            writer.push(&event);
        }
        1_000_000
    });
}

/// Runs `report` of a release build. Returns how long it took, and its largest memory in kB.
fn measured(recording: &Path, out: &Path) -> (Duration, u64) {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/target/release/nvme-deep");
    let tool = std::env::var("NVME_DEEP_BIN").unwrap_or_else(|_| built.into());
    let begin = Instant::now();
    let mut report = Command::new(tool);
    let mut report = report.arg("report").arg(recording).arg("-o").arg(out).spawn().unwrap();
    let mut most = 0;
    let status = loop {
        let status = read_to_string(format!("/proc/{}/status", report.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kb.unwrap_or(0));
        match report.try_wait().unwrap() {
            Some(status) => break status,
            None => sleep(Duration::from_millis(2)),
        }
    };
    assert!(status.success());
    (begin.elapsed(), most)
}

#[test]
#[ignore = "needs target/release/nvme-deep; a part of make test-cost"]
fn a_million_commands_make_a_small_page_in_little_memory() {
    let dir = TempDir::new().unwrap();
    let (recording, out) = (dir.path().join("a.nvd"), dir.path().join("a.html"));
    million(&recording);
    let (took, memory_kb) = measured(&recording, &out);
    let bytes = out.metadata().unwrap().len();
    eprintln!("report of a million commands: {took:.1?}, {memory_kb} kB, {bytes} bytes of HTML");
    assert!(bytes < 2_000_000 && memory_kb < 512 << 10, "{bytes} bytes, {memory_kb} kB");
}

#[test]
#[ignore = "needs chromium; a part of make test-all"]
fn a_browser_opens_pages_sorts_and_folds_them() {
    let dir = TempDir::new().unwrap();
    let page = |name: &str, html: String| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, html).unwrap();
        path
    };
    let [evil, _] = hostile_pages(dir.path());
    let recordings = format!("{RECORDING} tests/recordings/diagnose/wbt.nvd");
    let pages = [
        page("hostile.html", evil),
        page("mixed.html", report(RECORDING, dir.path())),
        page("wbt.html", report("tests/recordings/diagnose/wbt.nvd", dir.path())),
        page("two.html", report(&recordings, dir.path())),
    ];
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/report");
    for page in pages {
        let name = page.file_stem().unwrap();
        let browser = Command::new("python3")
            .args(["-B", "tests/report/browser.py"])
            .arg(&page)
            .arg(pictures.join(name))
            .status();
        assert!(browser.unwrap().success(), "{}", page.display());
    }
}
