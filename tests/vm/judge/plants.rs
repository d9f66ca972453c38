// SPDX-License-Identifier: MIT OR Apache-2.0
//! Planted causes of latency: `diagnose` names each, and nothing in the controls. `make matrix` keeps
//! the recordings in tests/recordings/diagnose, where tests/plants.rs replays them.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{list, number, printed, text};
use super::trace_read::{TraceRun, status};
use crate::planted::{diagnosis, findings, leaves_a_limit_open, planted, says_which_limit};

const fn suite(
    variant: &'static str,
    controllers: &'static [&'static str],
    append: &'static str,
    env: &'static [(&'static str, &'static str)],
) -> Suite {
    Suite { variant, append, env, ..Suite::of("plants", controllers) }
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

const SMALL: Suite = suite(
    "-small",
    &["nvme_null nvme0 4000000 namespaces=2"],
    "lab.plants=small nvme.io_queue_depth=8",
    &[],
);

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

/// A limit of the scheduler for writes alone.
const SHALLOW: Suite = suite("-shallow", &["nvme_null nvme0 4000000"], "lab.plants=shallow", &[]);

/// Disks of device mapper, and a RAID 1 with a slow leg.
const ABOVE: Suite = suite(
    "-above",
    &["nvme_null nvme0 4000000", "nvme_null nvme1 20000000"],
    "lab.plants=above",
    &[],
);

/// A target over TCP that serves a file.
const FUA: Suite =
    suite("-fua", &["nvme_null nvme0 0", "nvme_file nvme1 1073741824"], "lab.plants=fua", &[]);

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
/// share the host's CPUs, with each other or with other processes; such a recording is not kept. On arm64, which
/// takes all of the host, it may silence others.
fn each_cause_is_named_alone(outcome: &Outcome) {
    let mut wrong = Vec::new();
    let is_arm64 = outcome.kernel().ends_with("arm64");
    for Diagnosed { name, path, object } in diagnoses(outcome) {
        let mut causes = findings(&object);
        let is_busy = causes.contains(&"vcpu-stolen") && !planted(&name).contains(&"vcpu-stolen");
        causes.retain(|rule| !is_busy || *rule != "vcpu-stolen");
        let is_open = !name.contains("capped") || leaves_a_limit_open(&object);
        let planted = planted(&name);
        let silenced = is_arm64 && is_busy && causes.iter().all(|rule| planted.contains(rule));
        let is_named = is_expected(&name, causes) && says_which_limit(&name, &object);
        if !(is_named || silenced) || !is_open {
            wrong.push(format!("{}: {object}", path.display()));
        }
        if !is_busy && !is_arm64 {
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

/// A planted cause, the stage that it makes longer, and the commands that wait there.
const SLOWED: [(&str, &str, &str); 5] = [
    ("cgroup-throttle", "throttle", "read"),
    ("io-cost", "iocost", "read"),
    ("scheduler", "queue.wait", "read"),
    ("tag-wait", "tag", "read"),
    ("wbt", "wbt", "write"),
];

/// What the tool prints of a recording, as objects.
fn ask(path: &Path, words: &str) -> Vec<Value> {
    printed(&binary(), &format!("{words} --from {}", path.display()))
}

/// The row or group with this opcode that has most commands.
fn of_opcode<'a>(rows: &'a Value, opcode: &str) -> &'a Value {
    let rows = rows.as_array().unwrap().iter().filter(|row| text(row, "opcode") == opcode);
    rows.max_by_key(|row| number(row, "count")).unwrap()
}

/// Why, where, who, when, and which commands: one plain recording of each cause answers all five.
fn a_plain_recording_answers_five_questions(outcome: &Outcome) {
    let mut answered = 0;
    for Diagnosed { name, path, object } in diagnoses(outcome) {
        let Some((_, stage, opcode)) = SLOWED.iter().find(|(cause, ..)| *cause == name) else {
            continue;
        };
        // why; on a busy host `vcpu-stolen` is true as well, and silences others
        let causes = findings(&object);
        let is_named = [name.as_str(), "vcpu-stolen"].iter().any(|rule| causes.contains(rule));
        assert!(is_named, "{name}: {object}");
        // where
        let report = ask(&path, "latency --json").pop().unwrap();
        let row = of_opcode(&report["rows"], opcode);
        assert_eq!(row["where"]["stage"], **stage, "{name}: {row}");
        // who: the load, not the kernel threads that call the driver for it
        let by = ask(&path, "latency --json --by process,opcode").pop().unwrap();
        let group = of_opcode(&by["groups"], opcode);
        assert_eq!(group["comm"], "fio", "{name}: {group}");
        // which: the slowest commands of all
        let all = ask(&path, &format!("trace --json --opcode {opcode}"));
        let commands = || all.iter().filter(|line| text(line, "type") == "command");
        let mut totals: Vec<u64> = commands().map(|c| number(c, "total_ns")).collect();
        totals.sort_unstable_by(|a, b| b.cmp(a));
        let slowest = ask(&path, &format!("trace --json --time rel --slowest 5 --opcode {opcode}"));
        let slowest: Vec<&Value> =
            slowest.iter().filter(|line| text(line, "type") == "command").collect();
        let found: Vec<u64> = slowest.iter().map(|c| number(c, "total_ns")).collect();
        assert_eq!(found, totals[..5], "{name}");
        let longest = list(slowest[0], "stages").iter().max_by_key(|s| number(s, "ns")).unwrap();
        let group = if *stage == "queue.wait" { "queue" } else { "before" };
        assert!([group, stage].contains(&text(longest, "name")), "{name}: {}", slowest[0]);
        // when: at the time of the slowest there are some, and the windows have all commands
        let at = Duration::from_nanos(number(slowest[0], "time_rel_ns"));
        let second = at.as_secs();
        let count = |window: String| {
            let report = ask(&path, &format!("latency --json {window} --opcode {opcode}"));
            let rows = list(report.last().unwrap(), "rows").iter();
            rows.map(|row| number(row, "count")).sum::<u64>()
        };
        let within = count(format!("--since {second}s --until {}s", second + 1));
        let rest = match second {
            0 => 0,
            _ => count(format!("--until {second}s")),
        } + count(format!("--since {}s", second + 1));
        assert!(within > 0, "{name}: second {second}");
        assert_eq!(within + rest, commands().count() as u64, "{name}");
        answered += 1;
    }
    assert!(answered > 0);
}

super::on_kernels! {
    short SHORT [each_cause_is_named_alone] { | only_in_test_all on_6_12_arm64 "6.12-arm64" }
    waits_answer WAITS [a_plain_recording_answers_five_questions] {
        | only_in_test_all on_6_12 "6.12"
    }
    small SMALL [each_cause_is_named_alone a_plain_recording_answers_five_questions] {
        | only_in_test_all on_6_12 "6.12"
    }
    small_elsewhere SMALL [each_cause_is_named_alone] { | only_in_test_all on_6_1 "6.1" on_7_x "7.x" }
    shallow SHALLOW [each_cause_is_named_alone] { | only_in_test_all on_6_1 "6.1" }
    fua FUA [each_cause_is_named_alone] {
        | only_in_test_all on_6_1 "6.1" on_6_12 "6.12" on_7_x "7.x"
    }
    devices_answer DEVICES [a_plain_recording_answers_five_questions] {
        | only_in_test_all on_6_12 "6.12"
    }
    strays STRAYS [each_cause_is_named_alone] { | only_in_test_all on_6_12 "6.12" }
    bounce BOUNCE [each_cause_is_named_alone] { | only_in_test_all on_6_12 "6.12" }
    iommu IOMMU [each_cause_is_named_alone] { | only_in_test_all on_6_12 "6.12" }
    polled POLLED [each_cause_is_named_alone] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
    served SERVED [each_cause_is_named_alone] { | only_in_test_all on_6_12 "6.12" }
    busy BUSY [each_cause_is_named_alone] { | only_in_test_all on_6_12 "6.12" }
    tcp TCP [each_cause_is_named_alone] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
    waits WAITS [each_cause_is_named_alone] { | only_in_test_all on_6_12 "6.12" on_7_x "7.x" }
    above ABOVE [each_cause_is_named_alone] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
    devices DEVICES [each_cause_is_named_alone] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
    failover FAILOVER [each_cause_is_named_alone bios_wait_for_a_path] {
        | only_in_test_all on_6_12 "6.12"
    }
    steady STEADY [each_cause_is_named_alone] {
        | only_in_test_all on_6_1 "6.1" on_6_12 "6.12" on_7_x "7.x"
    }
}
