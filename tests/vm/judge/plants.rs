// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planted causes of latency: `diagnose` names each, and nothing in the controls. `make matrix` keeps
//! the recordings in tests/recordings/diagnose, where tests/plants.rs replays them.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{list, number, text};
use super::trace_read::{TraceRun, status};
use crate::planted::{diagnosis, findings, leaves_a_limit_open, planted};

const fn suite(
    variant: &'static str,
    controllers: &'static [&'static str],
    append: &'static str,
    env: &'static [(&'static str, &'static str)],
) -> Suite {
    Suite { script: "plants", variant, smp: "2", controllers, append, env }
}

/// Devices of 4 ms: one as it should be, one with a limit, one that takes 8 KiB at most, one with a bad
/// sector.
const DEVICES: Suite = suite(
    "-devices",
    &[
        "nvme_null nvme0 4000000",
        "nvme_null nvme1 4000000 throttle=200",
        "nvme_null nvme2 4000000 mdts=1",
        "nvme_blkdebug nvme3 4000000 read,sector=64",
    ],
    "lab.plants=devices",
    &[],
);

/// The same without controls.
const SHORT: Suite = Suite { variant: "-short", append: "lab.plants=devices lab.short", ..DEVICES };

/// Closed and open loops, and a limit that does not show; each five times.
const STEADY: Suite = suite(
    "-steady",
    &["nvme_null nvme0 4000000", "nvme_null nvme1 4000000 throttle=200"],
    "lab.plants=steady lab.runs=5",
    &[],
);

const STRAYS: Suite = suite(
    "-strays",
    &["nvme_null nvme0 0"],
    "lab.plants=strays iomem=relaxed",
    &[("RAM_FILE", "1")],
);

const BOUNCE: Suite =
    suite("-bounce", &["nvme_null nvme0 0"], "lab.plants=bounce swiotlb=force", &[]);

const IOMMU: Suite = suite(
    "-iommu",
    &["nvme_iommu", "nvme_null nvme0 0"],
    "lab.plants=iommu intel_iommu=on iommu.strict=1",
    &[],
);

const SMALL: Suite =
    suite("-small", &["nvme_null nvme0 4000000"], "lab.plants=small nvme.io_queue_depth=8", &[]);

const POLLED: Suite = suite(
    "-polled",
    &["nvme_null nvme0 4000000"],
    "lab.plants=polled lab.runs=5 nvme.poll_queues=1",
    &[],
);

/// Storage with faults: single reads are held, reads beside discards are slow.
const SERVED: Suite = suite(
    "-served",
    &["nvme_on nvme0 served-hold", "nvme_on nvme1 served-discard+served-discard.2"],
    "lab.plants=served",
    &[("SERVED", "hold discard discard.2")],
);

/// Three other processes on the CPU of the host.
const BUSY: Suite = suite(
    "-busy",
    &["nvme_null nvme0 4000000"],
    "lab.plants=busy",
    &[("ONE_CPU", "1"), ("BUSY", "3")],
);

/// A target over TCP.
const TCP: Suite = suite(
    "-tcp",
    &["nvme_null nvme0 0", "nvme_null nvme1 4000000"],
    "lab.plants=tcp lab.runs=5",
    &[],
);

/// Waits before the request.
const WAITS: Suite = suite("-waits", &["nvme_null nvme0 4000000"], "lab.plants=waits", &[]);

/// A path of a subsystem, whose target withdraws it.
const FAILOVER: Suite = suite(
    "-failover",
    &["nvme_null nvme0 0", "nvme_null nvme1 4000000"],
    "lab.plants=failover",
    &[],
);

fn binary() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    env::var_os("NVME_DEEP_BIN")
        .map_or_else(|| root.join("target/release/nvme-deep"), PathBuf::from)
}

/// Keeps the recordings, if NVME_DEEP_BLESS is set (`make matrix`).
fn keep(outcome: &Outcome, path: &Path, name: &str) {
    if env::var_os("NVME_DEEP_BLESS").is_none() {
        return;
    }
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/diagnose");
    fs::create_dir_all(&kept).unwrap();
    let name = if name.starts_with("clean") {
        format!("{name}-{}", outcome.kernel())
    } else {
        name.to_owned()
    };
    fs::copy(path, kept.join(format!("{name}.nvd"))).unwrap();
}

/// Whether these are the planted causes, in any order.
fn is_expected(name: &str, mut found: Vec<&str>) -> bool {
    let mut expected = planted(name);
    expected.sort_unstable();
    found.sort_unstable();
    found == expected
}

/// Each cause is named, and no other. On a busy host `vcpu-stolen` is true as well, and silences others.
fn each_cause_is_named(outcome: &Outcome) {
    for Diagnosed { name, object, .. } in diagnoses(outcome) {
        let mut causes = findings(&object);
        let before = causes.len();
        causes.retain(|rule| *rule != "vcpu-stolen");
        let is_busy = causes.len() < before;
        let planted = planted(&name);
        let silenced = is_busy && causes.iter().all(|rule| planted.contains(rule));
        assert!(is_expected(&name, causes) || silenced, "{name}: {object}");
        assert!(!name.contains("capped") || leaves_a_limit_open(&object), "{name}: {object}");
    }
}

/// A recording, and what `diagnose` says of it.
struct Diagnosed {
    name: String,
    path: PathBuf,
    object: Value,
}

/// The recordings of all runs.
fn diagnoses(outcome: &Outcome) -> Vec<Diagnosed> {
    let mut all = Vec::new();
    for case in outcome.cases() {
        for file in outcome.files(&case, ".nvd") {
            let name = file.strip_suffix(".nvd").unwrap();
            assert_eq!(outcome.code(&case, name), 0, "{case} {name}");
            let path = outcome.path(&case, &file);
            all.push(Diagnosed {
                object: diagnosis(&binary(), &path, &[]),
                name: name.to_owned(),
                path,
            });
        }
    }
    assert!(!all.is_empty());
    all
}

/// Each planted cause is named, and no other. `vcpu-stolen` is true as well if the threads of QEMU have to
/// share the host's CPUs, with each other or with other processes; such a recording is not kept.
fn each_cause_is_named_alone(outcome: &Outcome) {
    let mut wrong = Vec::new();
    for Diagnosed { name, path, object } in diagnoses(outcome) {
        let mut causes = findings(&object);
        let is_busy = causes.contains(&"vcpu-stolen") && !planted(&name).contains(&"vcpu-stolen");
        causes.retain(|rule| !is_busy || *rule != "vcpu-stolen");
        let is_open = !name.contains("capped") || leaves_a_limit_open(&object);
        if !is_expected(&name, causes) || !is_open {
            wrong.push(format!("{}: {object}", path.display()));
        }
        if !is_busy {
            keep(outcome, &path, &name);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// While no path is usable, bios wait at the multipath disk, 300 ms: that is `block`. A command whose path fails is
/// tried again by the same bio, which is not submitted again. The second attempt has the fine stages only, and is
/// counted. So is one of the bio that a task queued last, if it had to wait.
fn bios_wait_for_a_path(outcome: &Outcome) {
    let run = TraceRun::read(outcome, "plants", "commands");
    let place = |command: &Value| number(&command["fields"], "slba");
    let reads = || run.of("command").filter(|c| text(c, "opcode") == "read");
    let without = |point| reads().filter(move |c: &&Value| c["points_ns"].get(point).is_none());
    let unseen: Vec<u64> = without("bio_queue").map(place).collect();
    assert_eq!(number(&run.ledger, "unseen_bios"), unseen.len() as u64);
    let failed = reads().filter(|command| status(command) != 0);
    let lost: Vec<_> = failed.filter(|c| !unseen.contains(&place(c))).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let mut waited = 0;
    for command in reads() {
        let stages = list(command, "stages");
        let sum: u64 = stages.iter().map(|stage| number(stage, "ns")).sum();
        assert_eq!(sum, number(command, "total_ns"), "{command}");
        let mut block = stages.iter().filter(|stage| text(stage, "name") == "block");
        waited += u32::from(block.any(|stage| number(stage, "ns") > 250_000_000));
    }
    assert!(waited >= 2, "{waited} commands");
}

super::on_kernels! {
    only_in_test_all_planted_causes_are_named_on_6_12 "6.12" SHORT each_cause_is_named
    only_in_test_all_planted_causes_are_named_on_6_12_arm64 "6.12-arm64" SHORT each_cause_is_named
    only_in_test_all_causes_of_devices_are_named_on_6_12 "6.12" DEVICES each_cause_is_named_alone
    only_in_test_all_causes_of_strays_are_named_on_6_12 "6.12" STRAYS each_cause_is_named_alone
    only_in_test_all_bounce_buffers_are_named_on_6_12 "6.12" BOUNCE each_cause_is_named_alone
    only_in_test_all_an_iommu_is_named_on_6_12 "6.12" IOMMU each_cause_is_named_alone
    only_in_test_all_small_queues_are_named_on_6_12 "6.12" SMALL each_cause_is_named_alone
    only_in_test_all_unused_polled_queues_are_named_on_6_12 "6.12" POLLED each_cause_is_named_alone
    only_in_test_all_faults_of_storage_are_named_on_6_12 "6.12" SERVED each_cause_is_named_alone
    only_in_test_all_a_busy_host_is_named_on_6_12 "6.12" BUSY each_cause_is_named_alone
    only_in_test_all_a_target_over_tcp_is_clean_on_6_12 "6.12" TCP each_cause_is_named_alone
    only_in_test_all_a_target_over_tcp_is_clean_on_6_1 "6.1" TCP each_cause_is_named_alone
    only_in_test_all_a_target_over_tcp_is_clean_on_7_x "7.x" TCP each_cause_is_named_alone
    only_in_test_all_waits_before_the_request_are_named_on_6_12 "6.12" WAITS each_cause_is_named_alone
    only_in_test_all_waits_before_the_request_are_named_on_7_x "7.x" WAITS each_cause_is_named_alone
    only_in_test_all_causes_of_devices_are_named_on_6_1 "6.1" DEVICES each_cause_is_named_alone
    only_in_test_all_causes_of_devices_are_named_on_7_x "7.x" DEVICES each_cause_is_named_alone
    only_in_test_all_unused_polled_queues_are_named_on_6_1 "6.1" POLLED each_cause_is_named_alone
    only_in_test_all_unused_polled_queues_are_named_on_7_x "7.x" POLLED each_cause_is_named_alone
    only_in_test_all_a_path_that_fails_is_named_on_6_12 "6.12" FAILOVER each_cause_is_named_alone
    only_in_test_all_bios_wait_for_a_path_on_6_12 "6.12" FAILOVER bios_wait_for_a_path
    only_in_test_all_steady_loads_are_clean_on_6_1 "6.1" STEADY each_cause_is_named_alone
    only_in_test_all_steady_loads_are_clean_on_6_12 "6.12" STEADY each_cause_is_named_alone
    only_in_test_all_steady_loads_are_clean_on_7_x "7.x" STEADY each_cause_is_named_alone
}
