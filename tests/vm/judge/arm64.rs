// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same on arm64, in one boot: counts by each attach method, traces, stacks, recordings, and a command
//! in flight.

use std::process::Command;

use super::guest::{Outcome, Suite};
use super::json::{fio_counts, kernel_counts, list, number, of, text};
use super::methods::all_methods;
use super::trace_kernel::assert_as_the_kernel;
use super::trace_read::{TraceRun, functions};

const ARM64: Suite = Suite {
    append: "nvme_core.io_timeout=60",
    env: &[("SERVED", "late")],
    ..Suite::of(
        "arm64",
        &["nvme_null nvme0 0", "nvme_null nvme1 5000000", "nvme_on nvme2 served-late"],
    )
};

/// Reads by libaio, and reads and writes by pread and pwrite.
const COMMANDS: u64 = 450;

/// The kernel's own record has the same events, with the same fields and times.
fn traces_are_exact(outcome: &Outcome) {
    let [reads, writes, ..] = fio_counts(outcome, "trace");
    let [kernel_reads, kernel_writes, ..] = kernel_counts(outcome, "trace");
    assert_eq!([reads, writes], [kernel_reads, kernel_writes]);
    assert_eq!(reads + writes, COMMANDS);
    let run = TraceRun::read(outcome, "trace", "trace");
    assert_as_the_kernel(outcome, "trace", &run);
    run.assert_nothing_lost();
    let counts = ["submit", "complete", "sq"].map(|kind| run.count(kind));
    assert_eq!(counts, [COMMANDS; 3]);
}

/// The stages of each command add up, and each point was observed, except late doorbells.
fn stages_add_up(outcome: &Outcome) {
    let run = TraceRun::whole(outcome, "trace", "pair");
    assert_eq!(run.count("command"), COMMANDS);
    for command in run.of("command") {
        let sum: u64 = list(command, "stages").iter().map(|s| number(s, "ns")).sum();
        assert_eq!(sum, number(command, "total_ns"), "{command}");
        for point in ["start", "setup_in", "setup_out", "issue", "irq", "cqe", "complete", "end"] {
            assert!(command["points_ns"][point].is_u64(), "no {point}: {command}");
        }
    }
}

/// From the driver's function to the entry of the system call. No frame is one of ours.
fn stacks_have_their_symbols(outcome: &Outcome) {
    let all = outcome.objects("trace", "stacks");
    let rows = of(&all, "stack");
    let through = |name: &str| -> u64 {
        let mine = rows.iter().filter(|r| functions(r, "kstack").contains(&name));
        mine.map(|r| number(r, "count")).sum()
    };
    assert_eq!(through("__arm64_sys_io_submit"), 400, "{all:?}");
    assert_eq!(through("__arm64_sys_pread64") + through("__arm64_sys_pwrite64"), 50, "{all:?}");
    assert_eq!(through("el0t_64_sync"), COMMANDS, "{all:?}");
    for row in rows {
        assert_eq!(functions(row, "kstack")[0], "nvme_setup_cmd", "{row}");
        assert!(!row.to_string().contains("bpf_"), "our own: {row}");
    }
}

/// What this machine's program prints of a recording of the guest.
fn printed_here(outcome: &Outcome, case: &str, words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvme-deep"));
    command.args(words.split(' ')).arg("--from");
    let here = command.arg(outcome.path(case, "file.nvd")).output().unwrap();
    let said = String::from_utf8_lossy(&here.stderr);
    assert!(here.status.success(), "{words}: {said}");
    String::from_utf8(here.stdout).unwrap()
}

/// A recording of arm64 is read here as there, and shows what was shown live.
fn recordings_read_the_same_here(outcome: &Outcome) {
    for (name, words) in [("from", "trace --json"), ("from-text", "latency --stages=fine")] {
        let said = outcome.text("trace", &format!("{name}.err"));
        assert_eq!(outcome.code("trace", name), 0, "{said}");
        let there = outcome.text("trace", &format!("{name}.out"));
        assert_eq!(printed_here(outcome, "trace", words), there, "{name}");
    }
    let run = TraceRun::read(outcome, "trace", "from");
    assert_eq!(run.count("command"), COMMANDS);
    let live = TraceRun::read(outcome, "golden", "trace");
    assert_eq!(live.count("command"), 16);
    let words = "trace --json --stages=fine --kstack";
    let live = outcome.text("golden", "trace.out");
    assert_eq!(printed_here(outcome, "golden", words), live);
}

/// The command that the device holds is found in the memory of the queues.
fn a_command_in_flight_is_found(outcome: &Outcome) {
    let look = &outcome.objects("held", "held")[0];
    assert_eq!(look["unreadable"], serde_json::json!([]));
    let [command] = list(look, "commands") else {
        panic!("not one command: {look}");
    };
    assert_eq!(command["verdict"], "held", "{command}");
    assert_eq!((text(command, "ctrl"), number(&command["fields"], "slba")), ("nvme2", 800));
    assert!(outcome.text("held", "text.out").contains("  in the device\n"));
}

super::on_kernels! {
    arm64 ARM64 [
        traces_are_exact stages_add_up stacks_have_their_symbols recordings_read_the_same_here
        a_command_in_flight_is_found all_methods
    ] {
        | only_in_test_all on_6_12_arm64 "6.12-arm64"
    }
}
