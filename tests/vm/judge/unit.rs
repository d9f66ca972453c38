// SPDX-License-Identifier: MIT OR Apache-2.0
//! The systemd unit of contrib: in its sandbox, the service attaches everything and counts exactly.

use super::guest::{Outcome, Suite};

const UNIT: Suite = Suite::of("unit", &["nvme_null nvme0 0"]);

/// CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN.
const BOUNDS: u64 = 1 << 39 | 1 << 38 | 1 << 21;

fn the_service_works_in_its_sandbox(outcome: &Outcome) {
    let said = outcome.text("unit", "serve.err");
    assert!(said.contains("exact: 500 commands, 0 lost"), "{said}");
    // 5.10 needs kprobes, and the sandbox hides the functions that it has
    let lacks = outcome.kernel() == "5.10";
    assert_eq!(said.contains("not observed: doorbell ("), lacks, "{said}");
    assert_eq!(said.contains("not observed"), lacks, "{said}");
    assert_eq!(outcome.text("unit", "result"), "success\n0\n", "{said}");
    let metrics = outcome.text("unit", "text");
    let row = "nvme_deep_commands_total{controller=\"nvme0\",nsid=\"1\",queue=\"io\",opcode=\"read\"} 500\n";
    assert!(metrics.contains(row), "{metrics}");
    let stage = if lacks { "submit+device" } else { "device" };
    assert!(metrics.contains(&format!("stage=\"{stage}\"")), "{metrics}");
}

/// That it was the sandbox: what the kernel shows of the process.
fn the_sandbox_was_that_of_the_unit(outcome: &Outcome) {
    let status = outcome.text("unit", "status");
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name}: {status}")).trim()
    };
    let bounds = u64::from_str_radix(field("CapBnd:"), 16).unwrap();
    let effective = u64::from_str_radix(field("CapEff:"), 16).unwrap();
    assert_eq!((bounds, effective, field("NoNewPrivs:")), (BOUNDS, BOUNDS, "1"));
    // filters of system calls
    assert_eq!(field("Seccomp:"), "2");
    let mounts = outcome.text("unit", "mountinfo");
    for (place, source) in [
        ("/proc/kallsyms", "/systemd/inaccessible/reg"),
        ("/home", "/systemd/inaccessible/dir"),
        ("/proc/sys", "/sys"),
    ] {
        let found = mounts.lines().any(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words[3..5] == [source, place] && words[5].starts_with("ro")
        });
        assert!(found, "{place}: {mounts}");
    }
}

super::on_kernels! {
    suite UNIT [the_service_works_in_its_sandbox the_sandbox_was_that_of_the_unit] {
        | only_in_test_all on_5_10 "5.10" on_6_12 "6.12"
    }
}
