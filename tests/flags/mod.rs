// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flags of each command, for tests/cli.rs.

/// Options of all commands that trace.
pub const COMMON: [&str; 18] = [
    "--container",
    "--disk",
    "--ctrl",
    "--nsid",
    "--opcode",
    "--qid",
    "--no-admin",
    "--no-io",
    "-p, --pid",
    "--comm",
    "-c, --cgroup",
    "--lba",
    "-j, --json",
    "--attach",
    "--btf",
    "--color",
    "-v, --verbose",
    "-h, --help",
];

pub const LATENCY: [&str; 13] = [
    "--exec",
    "[COMMAND]...",
    "--from",
    "--stages",
    "--duration",
    "--delta",
    "--hist",
    "--lat-min-us",
    "--lat-shift",
    "--split-size",
    "--commands",
    "[INTERVAL]",
    "[COUNT]",
];

pub const TRACE: [&str; 18] = [
    "--context",
    "--exec",
    "[COMMAND]...",
    "--from",
    "--tee",
    "--force",
    "--pair",
    "--stages",
    "--kstack",
    "--sample",
    "--slow",
    "--errors",
    "--sq",
    "--aen",
    "-n, --count",
    "--duration",
    "--time",
    "--buffer",
];

pub const STACKS: [&str; 13] = [
    "--exec",
    "[COMMAND]...",
    "--from",
    "--at",
    "--by",
    "--sample",
    "--slow",
    "--errors",
    "--top",
    "--folded",
    "--svg",
    "--force",
    "--duration",
];

pub const RECORD: [&str; 16] = [
    "--context",
    "--exec",
    "[COMMAND]...",
    "--ring",
    "--trigger",
    "--after",
    "-o, --output",
    "--force",
    "--stages",
    "--kstack",
    "--sample",
    "--duration",
    "--max-size",
    "--no-compress",
    "--redact",
    "--buffer",
];

pub const HEATMAP: [&str; 11] = [
    "--buffer",
    "--from",
    "--y",
    "--stage",
    "--svg",
    "--png",
    "--force",
    "--theme",
    "--duration",
    "--slow",
    "--errors",
];

pub const DIAGNOSE: [&str; 7] = [
    "--log",
    "--from",
    "--duration",
    "--expect",
    "--baseline",
    "--check",
    "--buffer",
];

pub const PATTERN: [&str; 9] = [
    "--buffer",
    "--from",
    "--delta",
    "--hist",
    "--svg",
    "--force",
    "--duration",
    "[INTERVAL]",
    "[COUNT]",
];

pub const TOP: [&str; 4] = ["--from", "--stages", "--duration", "[INTERVAL]"];

pub const SERVE: [&str; 4] = ["--listen", "--textfile", "--interval", "--stages"];

pub const EXPORT: [&str; 8] = [
    "--format",
    "-o, --output",
    "--force",
    "--redact",
    "--interval",
    "--slow",
    "--errors",
    "<FILE>...",
];

/// The commands of the host side, with all their flags.
pub const HOST: [(&str, &[&str]); 9] = [
    (
        "host kvm",
        &[
            "[TRACE]",
            "--pid",
            "--duration",
            "--bar",
            "--guest",
            "--ctrl",
            "--dstrd",
            "--queues",
            "-j, --json",
            "-h, --help",
        ],
    ),
    ("host list", &["-j, --json", "-h, --help"]),
    (
        "host spdk",
        &["--pid", "--duration", "-j, --json", "-h, --help"],
    ),
    (
        "host msgs",
        &["--pid", "--duration", "-j, --json", "-h, --help"],
    ),
    (
        "host trace",
        &[
            "--nvmet",
            "--pid",
            "--uprobe",
            "--usdt",
            "--ends",
            "--from",
            "-o, --output",
            "--force",
            "--duration",
            "-j, --json",
            "-v, --verbose",
            "-h, --help",
        ],
    ),
    (
        "host latency",
        &[
            "--nvmet",
            "--pid",
            "--uprobe",
            "--usdt",
            "--ends",
            "--from",
            "--duration",
            "-j, --json",
            "-v, --verbose",
            "--color",
            "-h, --help",
        ],
    ),
    (
        "host import",
        &[
            "--qemu-log",
            "--spdk-trace",
            "-o, --output",
            "--force",
            "-j, --json",
            "-h, --help",
        ],
    ),
    (
        "host annotate",
        &["<TRACE>", "[FILE]", "-j, --json", "-h, --help"],
    ),
    (
        "join",
        &[
            "<GUEST>",
            "<HOST>",
            "--clock",
            "--ctrl",
            "--format",
            "-o, --output",
            "--force",
            "--slowest",
            "-j, --json",
            "--color",
            "-h, --help",
        ],
    ),
];
