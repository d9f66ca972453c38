// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the built binary writes: which it creates, replaces and refuses; stdout, closed pipes, full
//! disks. Neither root nor an NVMe device is needed. A test that needs root skips, and says so.

mod faults;
mod filter;

use std::fs;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tempfile::TempDir;

use crate::binary::{BINARY, Ran, run};
use crate::testing::recording::{Run, info, record};

const RECORDING: &str = "tests/recordings/6.12.nvd";

/// Command lines that write a file, without its name.
const WRITERS: [&str; 10] = [
    "stacks --from tests/recordings/6.12.nvd -o",
    "heatmap --from tests/recordings/6.12.nvd -o",
    "pattern --from tests/recordings/6.12.nvd -o",
    "export tests/recordings/6.12.nvd --format csv -o",
    "export tests/recordings/6.12.nvd --format ndjson -o",
    "export tests/recordings/6.12.nvd --format hlog -o",
    "export tests/recordings/6.12.nvd --format perfetto -o",
    "export tests/recordings/6.12.nvd --format parquet -o",
    "import tests/host/qemu.log -o",
    "join tests/host/nvmet-guest.nvd tests/host/nvmet-host.nvd --format perfetto -o",
];

/// A recording of many commands.
fn large(dir: &TempDir) -> String {
    let path = dir.path().join("large.nvd");
    let run = Run { seconds: 4, reads: 5000, keep: None, info: info() };
    record(&path, &run, &mut |_| {});
    path.display().to_string()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

pub fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs with these bytes of stdout.
fn bytes(words: &str) -> (Vec<u8>, String, Option<i32>) {
    let output = Command::new(BINARY).args(words.split_whitespace()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    (output.stdout, err, output.status.code())
}

#[test]
fn every_file_is_for_its_owner_and_replaces_another_only_by_force() {
    let dir = TempDir::with_suffix(".svg").unwrap();
    for (n, words) in WRITERS.iter().enumerate() {
        let path = dir.path().join(format!("{n}.svg"));
        let to = format!("{words} {}", path.display());
        assert_eq!(run(&to).code, Some(0), "{to}");
        assert_eq!(mode(&path), 0o600, "{words}");
        let first = fs::read(&path).unwrap();
        fs::write(&path, "other").unwrap();
        run(&to).refuses(2, "exists: give another file, or --force to replace it");
        assert_eq!(fs::read(&path).unwrap(), b"other", "{words}");
        assert_eq!(run(&format!("{to} --force")).code, Some(0), "{words}");
        assert!(fs::read(&path).unwrap() == first, "{words}");
        run(&format!("{words} {} --force", dir.path().display())).refuses(2, "is a directory");
    }
    assert_eq!(names(&dir).len(), WRITERS.len(), "{:?}", names(&dir));
}

#[test]
fn a_dash_is_stdout_which_gets_the_file_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    for (n, words) in WRITERS.iter().enumerate() {
        let path = dir.path().join(format!("{n}.svg"));
        assert_eq!(run(&format!("{words} {}", path.display())).code, Some(0));
        let file = fs::read(&path).unwrap();
        for stdout in ["-", "/dev/stdout"] {
            let (out, err, code) = bytes(&format!("{words} {stdout}"));
            assert_eq!(code, Some(0), "{words}: {err}");
            assert!(out == file, "{words} {stdout}: {} bytes", out.len());
        }
    }
    let (out, err, _) = bytes(&format!("pattern --from {RECORDING} -o -"));
    assert!(out.starts_with(b"<?xml") && err.contains("accuracy"), "{err}");
    assert!(!Path::new("-").exists());
}

#[test]
fn stdout_holds_one_thing_and_no_list_of_files() {
    for (words, says) in [
        ("trace --tee -", "record -o -"),
        ("stacks -o - --json", "can't have both"),
        ("stacks -o - --folded", "can't have both"),
        ("pattern -o - --json", "can't have both"),
        ("pattern 1s -o -", "can't have both"),
        ("serve --textfile -", "ends in .prom"),
        ("dist -", "give it a directory"),
    ] {
        run(words).refuses(2, says);
    }
}

/// What a shell has opened keeps its content.
#[test]
fn a_file_that_a_shell_has_opened_is_continued() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("out");
    let words = format!("export {RECORDING} --format csv -o");
    let (csv, ..) = bytes(&format!("{words} -"));
    for (operator, to) in
        [(">>", "-"), (">>", "/dev/stdout"), ("3>>", "/dev/fd/3"), ("3>>", "/proc/self/fd/3")]
    {
        fs::write(&path, "before\n").unwrap();
        let script = format!("{BINARY} {words} {to} {operator} {}", path.display());
        let ran = Ran::from(Command::new("bash").args(["-c", &script]));
        assert_eq!(ran.code, Some(0), "{script}: {}", ran.err);
        let all = fs::read(&path).unwrap();
        assert_eq!(all, [b"before\n", &*csv].concat(), "{script}");
    }
    let script = format!("{BINARY} {words} /dev/fd/3 3< {RECORDING}");
    Ran::from(Command::new("bash").args(["-c", &script])).refuses(2, "is a recording to read");
}

#[test]
fn a_block_device_is_never_written_to() {
    let dir = TempDir::new().unwrap();
    let device = dir.path().join("disk.svg");
    // no driver has this number: a write would fail, too
    let made = mknodat(CWD, &device, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, makedev(0, 1));
    if made.is_err() {
        eprintln!("not asked: to make a block device takes CAP_MKNOD");
        return;
    }
    for words in WRITERS {
        for force in ["", " --force"] {
            let ran = run(&format!("{words} {}{force}", device.display()));
            ran.refuses(2, "is a block device");
        }
    }
    assert_eq!(names(&dir), ["disk.svg"]);
}

/// Reads a line, and goes away.
fn head(words: &str) -> (String, Option<i32>) {
    let mut child = Command::new(BINARY)
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = Vec::new();
    let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
    reader.read_until(b'\n', &mut line).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    (err, output.status.code())
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_nothing_is_said() {
    let dir = TempDir::new().unwrap();
    let file = large(&dir);
    for words in [
        format!("export {file} --format csv -o -"),
        format!("export {file} --format ndjson -o -"),
        format!("export {file} --format perfetto -o -"),
        format!("export {file} --format parquet -o -"),
        format!("export {file} --format csv -o /dev/stdout"),
        format!("trace --from {file}"),
        format!("trace --json --from {file}"),
        format!("latency 10ms --json --from {file}"),
        format!("latency 10ms --from {file}"),
        format!("pattern 10ms --from {file}"),
        format!("pattern 10ms --json --from {file}"),
        format!("heatmap --from {file} -o -"),
        format!("top 100ms --from {file}"),
        "host annotate tests/host/spdk_trace.json".into(),
        "--help".into(),
    ] {
        let (err, code) = head(&words);
        assert_eq!((err.as_str(), code), ("", Some(0)), "{words}");
    }
}

/// Runs with a stdout that has no room.
fn on_full_disk(words: &str) -> Ran {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(BINARY);
    let output = command.args(words.split_whitespace()).stdout(full).output().unwrap();
    Ran {
        words: words.into(),
        code: output.status.code(),
        out: String::new(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Command lines that print what they read: F is a recording of the driver, H of the host side, T a text.
const READERS: [&str; 27] = [
    "latency --from F",
    "latency --from F --json",
    "trace --from F",
    "trace --from F --json",
    "stacks --from F",
    "stacks --from F --folded",
    "stacks --from F --json",
    "stacks --from F -o -",
    "top --from F",
    "diagnose --from F",
    "diagnose --from F --json",
    "heatmap --from F -o -",
    "pattern --from F",
    "pattern --from F --json",
    "pattern --from F -o -",
    "export F --format csv -o -",
    "export F --format parquet -o -",
    "diff F F",
    "diff F F --json",
    "host trace --from H",
    "host latency --from H",
    "host latency --from H --json",
    "import T",
    "import T -o -",
    "join F H",
    "join F H --json",
    "join F H --format perfetto -o -",
];

#[test]
fn a_full_disk_is_a_sentence_for_every_command() {
    let (guest, host) = ("tests/host/nvmet-guest.nvd", "tests/host/nvmet-host.nvd");
    let mut all: Vec<String> = READERS
        .map(|words| {
            let of_one = ["stacks", "export", "pattern"].iter().any(|word| words.starts_with(word));
            let words = words.replace('F', if of_one { RECORDING } else { guest });
            words.replace('H', host).replace('T', "tests/host/qemu.log")
        })
        .into();
    all.push(format!("latency --from {RECORDING} {guest}"));
    let others = "--help|-h|help|help latency|trace --help|--version|doctor|doctor --json|\
                  host annotate tests/host/spdk_trace.json|\
                  import tests/host/kvm.trace --bar 0xfebd4000-0xfebd7fff";
    all.extend(others.split('|').map(str::to_owned));
    for words in all {
        let ran = on_full_disk(&words);
        assert_eq!(ran.code, Some(1), "{words}: {}", ran.err);
        let said = "nvme-deep: cannot write to stdout: No space left on device";
        let lines = ran.err.lines().filter(|line| line.starts_with(said));
        assert_eq!(lines.count(), 1, "{words}: {}", ran.err);
        let is_partial = ran.err.ends_with("; the output is incomplete\n");
        assert!(is_partial || !words.starts_with("trace --from"), "{words}: {}", ran.err);
    }
}

#[test]
fn a_directory_is_a_wrong_file_wherever_a_file_is_read() {
    for words in READERS.into_iter().chain(["diagnose --baseline F", "host annotate F"]) {
        let words = words.replace(['F', 'H', 'T'], "tests");
        run(&words).refuses(2, "tests can't be read (it is a directory");
    }
}

/// Runs with a recording in the pipe of stdin.
fn piped(recording: &str, words: &str) -> Ran {
    let script = format!("cat {recording} | {BINARY} {words}");
    Ran::from(Command::new("bash").args(["-c", &script]))
}

#[test]
fn a_recording_in_a_pipe_is_read_as_a_file_is() {
    let dir = TempDir::new().unwrap();
    for format in ["csv", "ndjson", "hlog", "parquet"] {
        let [of_file, of_pipe] = ["file", "pipe"].map(|name| dir.path().join(name));
        // the name of the file is not in the output
        let words = |from: &str, to: &Path| {
            format!("export {from} --redact --force --format {format} -o {}", to.display())
        };
        assert_eq!(run(&words(RECORDING, &of_file)).code, Some(0));
        let ran = piped(RECORDING, &words("/dev/stdin", &of_pipe));
        assert_eq!(ran.code, Some(0), "{format}: {}", ran.err);
        assert_eq!(fs::read(&of_file).unwrap(), fs::read(&of_pipe).unwrap());
    }
    let (guest, host) = ("tests/host/nvmet-guest.nvd", "tests/host/nvmet-host.nvd");
    for (file, words) in [
        (RECORDING, "heatmap -o - --from FILE"),
        (RECORDING, "latency --json --from FILE"),
        (guest, &format!("join FILE {host}")),
        (host, &format!("join {guest} FILE")),
    ] {
        let of_file = run(&words.replace("FILE", file));
        for pipe in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/thread-self/fd/0"] {
            let ran = piped(file, &words.replace("FILE", pipe));
            assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
            // a heat map names its file
            let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
            let out = ran.out.replace(&format!(">{}  ", name(pipe)), &format!(">{}  ", name(file)));
            assert!(out == of_file.out, "{words} {pipe}: {out}");
        }
    }
}

#[test]
fn what_reads_a_recording_twice_refuses_a_pipe() {
    let guest = "tests/host/nvmet-guest.nvd";
    for (file, words, option) in [
        (RECORDING, "pattern --from /dev/stdin", "`pattern`"),
        (RECORDING, "heatmap --y inflight -o - --from /dev/stdin", "--y inflight"),
        (RECORDING, "export /dev/stdin --format perfetto -o -", "--format perfetto"),
        (
            guest,
            "join /dev/stdin tests/host/nvmet-host.nvd --format perfetto -o -",
            "--format perfetto",
        ),
    ] {
        let says = format!("/dev/stdin is a pipe, and {option} reads a recording twice: save it");
        piped(file, words).refuses(2, &says);
    }
}
