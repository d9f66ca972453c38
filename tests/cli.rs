// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the built binary's command line: arguments, exit code, stdout and stderr. Neither root
//! nor an NVMe device is needed. A test that depends on these accepts each correct exit code, or
//! skips.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::binary::{BINARY, Ran, run};

/// Effective capabilities of a child of this process.
fn capabilities(as_whom: &mut Command) -> u64 {
    let output = as_whom
        .args(["sed", "-n", "s/^CapEff:[[:space:]]*//p", "/proc/self/status"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    u64::from_str_radix(text.trim(), 16).unwrap()
}

fn may_trace(capeff: u64) -> bool {
    let has = |bit: u32| capeff >> bit & 1 == 1;
    has(21) || (has(38) && has(39))
}

#[test]
fn the_version_is_that_of_the_package() {
    let ran = run("--version");
    let want = format!("nvme-deep {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((ran.code, ran.out, ran.err), (Some(0), want, String::new()));
}

/// Wrong command lines, and a part of what is said of each.
const WRONG: &[(&str, &str)] = &[
    ("latency --wibble", "there is no option `--wibble`"),
    ("latency --stage", "did you mean `--stages`"),
    ("wibble", "there is no command `wibble`"),
    ("latncy", "did you mean `latency`"),
    ("top --no-color", "did you mean `--color never`"),
    ("latency run", "there is no file `run`, and an interval is a time"),
    ("latency missing.nvd", "missing.nvd can't be read"),
    ("latency /dev/nvme0n1", "a disk is an option: --disk /dev/nvme0n1"),
    ("latency -1", "`-1` is negative: times and numbers must be above zero"),
    ("trace --slow -5ms", "`-5ms` is negative"),
    ("trace --slow 1", "--slow 1: `1` has no unit: give `1ms` or `1s`"),
    ("record -o x --trigger slow=1", "`1` has no unit: give `1ms` or `1s`"),
    ("latency --exec ls", "write the command after two dashes: --exec -- ls"),
    ("latency --sort", "--sort needs a value: give share"),
    ("trace --slow", "--slow needs a value"),
    ("trace --columns time,foo", "`foo` is not a column: choose from time, event, ctrl, disk, "),
    ("trace --columns time --json", "--columns cannot be used with --json"),
    ("latency --opcode raed", "nvme-deep: --opcode raed: `raed` is neither the name nor the code"),
    ("latency --opcode 0x100", "0x100"),
    ("latency --delta=1", "--delta takes no value"),
    (
        "latency x.nvd --attach kprobe",
        "x.nvd (a recording) cannot be used with --attach: that is for",
    ),
    (
        "latency x.nvd -- ls",
        "x.nvd (a recording) cannot be used with -- COMMAND: that is for tracing",
    ),
    ("x.nvd", "give a command for x.nvd, as in `nvme-deep diagnose x.nvd`"),
    ("inflight x.nvd", "x.nvd: `inflight` looks at this machine, and reads no recording"),
    ("serve x.nvd", "`nvme-deep info x.nvd` shows which commands do"),
    ("latency 0s", "above zero"),
    ("latency 5x", "`5x` is not a time"),
    ("latency 1ms", "nvme-deep: INTERVAL 1ms: an interval of 1ms would only measure the report"),
    ("latency 1 0", "COUNT 0: expected a whole number of at least 1"),
    ("latency --lba 9-1", "nvme-deep: --lba 9-1: `9-1` ends before it begins"),
    ("latency --process a-name-of-16-byte", "nvme-deep: --process a-name-of-16-byte: `a-name"),
    ("trace --kstack --sample 64", "nvme-deep: --sample 64: `64` is not a share"),
    ("trace --buffer 2G", "nvme-deep: --buffer 2G: `2G` is out of range"),
    ("host --foo trace", "see `nvme-deep host -h`"),
    ("host trace --pid x", "expected a whole number from 0 to 4294967295"),
    ("latency 1 1 1", "FILE 1: there is no such file"),
    ("latency --delta", "<INTERVAL"),
    ("latency --commands", "--json"),
    ("latency --ctrl nvme0n1", "nvme-deep: --ctrl nvme0n1: `nvme0n1` is not a controller"),
    ("latency --nsid one", "one"),
    ("latency --disk nvme0n1 --ctrl nvme0", "--ctrl"),
    ("latency --disk nvme0n1 --lba 7", "--lba"),
    ("export x -o x.txt", "ends in .parquet"),
    ("latency --exec", "COMMAND"),
    ("latency -- true", "--exec"),
    ("trace --from x --exec -- true", "--exec"),
    ("latency --qid 65536", "65536"),
    ("latency --no-admin --qid 0", "--no-admin"),
    ("latency --lat-shift 21", "20"),
    ("latency --lat-min-us 99999999999", "hour"),
    ("latency --stages=coarse", "nvme-deep: --stages coarse: give none, basic, fine or full"),
    ("latency --color sometimes", "never"),
    ("latency --duration 99999999999999999999999999s", "year"),
    ("trace --tee y --from x", "--from cannot be used with --tee"),
    ("trace --from x --buffer 64M", "--buffer"),
    ("stacks --from x --duration 1s", "--duration"),
    ("latency --from x --json --commands", "--from cannot be used with --commands"),
    ("record -o x --max-size 10K", "nvme-deep: --max-size 10K: `10K` is too small"),
    ("record -o x --max-size much", "is not a size"),
    ("record -o x --ring 1m --trigger slow", "nvme-deep: --trigger slow: `slow` is not a trigger"),
    ("record -o x --ring 1m --after 1s", "--trigger"),
    ("diagnose --expect 200", "`200` has no unit: give `200ms` or `200s`"),
    ("inflight --age 100", "`100` has no unit"),
    ("diagnose --expect 1ms --baseline x", "--baseline"),
    ("diagnose --baseline Cargo.toml", "is not a recording"),
    ("diagnose --from x --duration 1s", "--since and --until read a part of a recording"),
    ("diagnose --from x --log", "--log"),
    ("diff x", "<B>"),
    ("diff x y z", "unexpected argument `z`"),
    ("diff Cargo.toml Cargo.toml", "is not a recording"),
    ("diff x y --min-change 1%", "nvme-deep: --min-change 1%: `1%` is not a change"),
    ("diff x,y,x z", "x is given twice"),
    ("diff x y --map nvme0", "give a controller of A and one of B, as in `--map nvme0=nvme1`"),
    ("diff x y --map nvme0=nvme1 --ctrl nvme0", "--map cannot be used with --ctrl"),
    ("diff x y --map nvme0=nvme1,nvme1=nvme1", "one other only"),
    (
        "diff tests/recordings/6.12.nvd tests/recordings/6.12.nvd --map nvme0=nvme1",
        "A has write 64K nvme0n1, B has read 512B nvme0n1",
    ),
    ("heatmap", "give --output <OUT>: `nvme-deep heatmap [OPTIONS] -o OUT [FILE]`"),
    ("heatmap -o a.svg --stage disk", "nvme-deep: --stage disk: `disk` is not a stage"),
    ("heatmap -o a.svg --y inflight --slow 1ms", "--slow"),
    ("heatmap -o a.svg --y width", "nvme-deep: --y width: give latency, lba, size or inflight"),
    ("host wibble", "wibble"),
    ("import tests/host/kvm.trace --bar 5", "nvme-deep: --bar 5: give the first and last address"),
    ("host latency", "give a target"),
    ("host trace --nvmet --pid 1", "--pid"),
    ("host trace --force --nvmet", "--output"),
    ("import", "<TEXT>"),
    ("import tests/recordings/6.12.nvd -o x", "it is a recording already: `export` converts it"),
    ("host import /missing", "can't be read"),
    ("import Cargo.toml", "no line of it has a known format"),
    ("import tests/host/kvm.trace", "need --bar"),
    ("import tests/host/kvm.trace --bar 0x1000-0x4000 -o x", "no commands to record"),
    ("host annotate tests/host/spdk_trace.json Cargo.toml", "not a recording"),
    ("host trace --from tests/recordings/6.12.nvd", "host trace -o"),
    ("host latency --from tests/recordings/6.12.nvd", "recording of the driver"),
    ("latency --from tests/host/qemu.nvd", "recording of the host side"),
    ("join tests/recordings/6.12.nvd", "<HOST>"),
    ("join tests/recordings/6.12.nvd tests/recordings/6.12.nvd", "recording of the driver"),
    ("join tests/recordings/6.12.nvd tests/host/qemu.nvd --clock same", "not of one boot"),
    (
        "join tests/recordings/6.12.nvd tests/host/qemu.nvd --clock tsc",
        "not of its CLOCK_MONOTONIC",
    ),
    ("join tests/host/nvmet-guest.nvd tests/host/nvmet-host.nvd --clock tsc", "TSC offset"),
    (
        "join tests/host/nvmet-guest.nvd tests/host/nvmet-host.nvd --clock ptp",
        "two readings of ptp_kvm",
    ),
    ("import tests/host/qemu.log --bar 0x1000-0x4000", "no kvm:* tracepoints"),
    ("join tests/recordings/6.12.nvd tests/host/qemu.nvd --ctrl nvme0=qemu:7", "it has qemu:0"),
    ("top 10ms", "at least 100ms"),
    ("serve --listen 99998", "is not an address and a port: give them as in 127.0.0.1:9998"),
    ("serve --listen 127.0.0.1:9 --textfile x.prom", "--textfile"),
    ("serve --textfile x.txt", "nvme-deep: --textfile x.txt: node_exporter does not read it"),
    ("serve --textfile x.prom --interval 1ms", "at least 1s"),
    ("serve --textfile /missing/x.prom", "directory does not exist"),
    ("serve --interval 5s", "--textfile"),
    ("serve --listen 192.0.2.1:9998", "no such address"),
];

#[test]
fn wrong_usage_ends_with_2_and_says_what_was_wrong() {
    for (words, says) in WRONG {
        let ran = run(words);
        ran.refuses(2, says);
        // one sentence of this program, not a page of clap, whose tip about `--` is wrong
        assert!(ran.err.starts_with("nvme-deep: ") && ran.err.lines().count() == 1, "{}", ran.err);
        assert!(!ran.err.contains("tip:") && !ran.err.contains("-- -"), "{}", ran.err);
    }
}

/// What looked like a mistake, and is not: each gets as far as the machine lets it.
#[test]
fn what_can_be_understood_is_not_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("x.nvd");
    let record = format!("record -o {}", file.display());
    for words in [
        format!("{record} --trigger slow=50ms --duration 1s"),
        format!("{record} --stages --duration 1s"),
        "serve --listen localhost:0 --ctrl nvme255".into(),
        "serve --listen 0 --ctrl nvme255".into(),
        "latency --disk nvme0n1 --from tests/recordings/6.12.nvd".into(),
        "latency tests/recordings/6.12.nvd 1 5".into(),
        "diff tests/recordings/6.12.nvd tests/recordings/6.12.nvd --disk nvme0n1 --opcode write"
            .into(),
    ] {
        let ran = run(&words);
        assert!(matches!(ran.code, Some(0 | 4 | 5 | 6)), "{words}: {}", ran.err);
    }
}

#[test]
fn a_controller_is_its_name_or_its_number_and_nothing_like_it() {
    for wrong in ["nvmenvme0", "+1", "nvme+1", "nvme", "nvme-1", "0x1", "nvme256"] {
        run(&format!("latency --ctrl {wrong}")).refuses(2, "is not a controller");
    }
}

#[test]
fn a_disk_that_is_not_there_or_not_nvme_is_no_device() {
    run("latency --disk nvme255n1").refuses(6, "there is no disk `nvme255n1`");
    run("trace --disk /missing").refuses(6, "`/missing` can't be looked at");
    run("inflight --disk /dev/null").refuses(6, "`/dev/null` is a character device");
    run("record -o x --disk /proc/version").refuses(6, "`/proc/version` is on proc");
}

#[test]
fn no_command_at_all_gets_doctors_report_and_where_to_start() {
    let (ran, doctor) = (run(""), run("doctor"));
    assert_eq!((ran.code, ran.err.as_str()), (doctor.code, ""));
    assert!(ran.out.starts_with(&doctor.out), "{}", ran.out);
    let next = &ran.out[doctor.out.len()..];
    let commands = next.lines().filter(|line| line.starts_with("  nvme-deep "));
    assert_eq!(commands.count(), 5, "{next}");
}

/// Scripts ask `doctor` whether the commands that trace would work here.
#[test]
fn doctor_ends_as_the_commands_that_trace() {
    let (doctor, latency) = (run("doctor"), run("latency --duration 10ms"));
    assert_eq!(doctor.code, latency.code, "{}\n{}", doctor.out, latency.err);
    assert_eq!(doctor.err, "");
    let word = if doctor.code == Some(0) { "READY: " } else { "NOT READY: " };
    assert!(doctor.out.starts_with(word), "{}", doctor.out);
}

#[test]
fn names_with_underscores_are_understood_too() {
    // nvme_latency spells its options with underscores; a usage error would end with 2
    let ran = run("latency --lat_min_us 20 --lat_shift 2 --ctrl_id 255");
    assert!(matches!(ran.code, Some(4 | 6)), "{}", ran.err);
    assert_eq!(ran.out, "");
}

#[test]
fn a_machine_without_nvme_says_so_to_those_who_may_trace() {
    if fs::read_dir("/sys/class/nvme").is_ok_and(|mut dir| dir.next().is_some()) {
        eprintln!("not asked: this machine has NVMe");
        return;
    }
    let capeff = capabilities(&mut Command::new("env"));
    for words in ["latency", "latency 1 1 --json", "latency --stages=fine --duration 1s"] {
        let ran = run(words);
        if may_trace(capeff) {
            ran.refuses(6, "no NVMe controller");
        } else {
            ran.refuses(4, "root");
        }
    }
}

/// A copy of the binary that every user can run: the build directory may be private.
fn public_copy() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copy = dir.path().join("nvme-deep");
    fs::copy(BINARY, &copy).unwrap();
    fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
    (dir, copy)
}

#[test]
fn without_privileges_it_ends_with_4_and_names_the_capabilities() {
    let unprivileged: &[&str] = if capabilities(&mut Command::new("env")) == 0 {
        &["env"]
    } else if Path::new("/usr/bin/setpriv").exists() {
        &["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all"]
    } else {
        eprintln!("not asked: this process is privileged, and there is no setpriv");
        return;
    };
    let (_dir, copy) = public_copy();
    let as_nobody = || {
        let mut command = Command::new(unprivileged[0]);
        command.args(&unprivileged[1..]);
        command
    };
    assert_eq!(capabilities(&mut as_nobody()), 0);
    for words in [["latency"].as_slice(), &["latency", "--json", "1", "1"]] {
        let ran = Ran::from(as_nobody().arg(&copy).args(words));
        ran.refuses(4, "CAP_BPF");
        assert!(ran.err.contains("CAP_PERFMON"), "{}", ran.err);
    }
    // a file that root has made says whose it is
    let file = copy.with_file_name("root.nvd");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    if unprivileged[0] == "setpriv" {
        let ran = Ran::from(as_nobody().arg(&copy).arg("latency").arg(&file));
        ran.refuses(2, "it belongs to root: sudo chown $USER");
    }
    // usage errors and help need no privileges
    Ran::from(as_nobody().arg(&copy).args(["latency", "5x"])).refuses(2, "`5x`");
    let help = Ran::from(as_nobody().arg(&copy).arg("--help"));
    assert_eq!(help.code, Some(0));
}
