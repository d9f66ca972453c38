// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submitters are fio's jobs behind a scheduler and device mappers, writeback belongs to the cgroups that io.stat
//! charges, and recordings agree with live runs.

use std::collections::{BTreeMap, BTreeSet};

use nvme_deep::recording::Blocks;
use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{
    ToolRun, assert_groups, assert_sum, charged, jobs, list, number, skipped, skipped_by, sum,
    sums, unknown,
};

const WHO: Suite = Suite::of("who", &["nvme_file nvme0 134217728", "nvme_null nvme1 0"]);

fn lines(outcome: &Outcome, case: &str, name: &str) -> Vec<Value> {
    let all = outcome.objects(case, name).into_iter();
    all.filter(|line| line["type"] == "command").collect()
}

/// The commands of each job of fio, sorted.
fn commands_of_jobs(outcome: &Outcome, case: &str) -> Vec<u64> {
    jobs(outcome, case).into_iter().map(|(commands, _)| commands).collect()
}

/// The commands of the processes that submitted as many as a job of fio does, sorted.
fn of_fio(run: &ToolRun) -> Vec<u64> {
    let groups = run.groups().iter();
    let fio = groups.filter(|g| g["comm"] == "fio" && number(g, "count") >= 200);
    let mut counts: Vec<u64> = fio.map(|g| number(g, "count")).collect();
    counts.sort_unstable();
    counts
}

fn submitters_are_those_of_fio_behind_a_scheduler(outcome: &Outcome) {
    let scheduler = outcome.text("scheduler", "scheduler");
    assert!(scheduler.contains("[mq-deadline]"), "{scheduler}");
    let want = commands_of_jobs(outcome, "scheduler");
    assert_eq!(want, [300, 500, 700]);
    let all = ToolRun::balanced(outcome, "scheduler", "all");
    let rows = sums(all.rows());
    for name in ["processes", "recorded"] {
        let by = ToolRun::balanced(outcome, "scheduler", name);
        assert_groups(&by, "pid", &of_fio(&by), &want, name);
        assert_eq!(sums(by.groups()), rows, "{name}");
        assert_eq!(by.last["who"], "submitter", "{name}");
    }
    // the callers do not show this: kernel threads dispatch what waited for a limit
    let callers = ToolRun::balanced(outcome, "scheduler", "callers");
    let by_kernel = of_kernel_threads(&callers);
    assert!(by_kernel > 0, "{}", callers.last);
    assert_eq!(callers.last["who"], "caller");
    assert!(callers.talk.contains("submitters are not observed"), "{}", callers.talk);
}

fn names_and_cgroups_of_submitters_select(outcome: &Outcome) {
    let by = ToolRun::balanced(outcome, "scheduler", "parts");
    let find = |comm: &str| -> Vec<&Value> {
        let groups = by.groups().iter();
        groups.filter(|g| g["comm"] == comm).collect()
    };
    let thread = find("renamed");
    assert_eq!(thread.len(), 1, "{}", by.last);
    let count = number(thread[0], "count");
    assert_sum(&by, ("comm", "count"), count, 150, "parts");
    assert_eq!(thread[0]["cgroup"], "/backup");
    let in_db = find("fio").iter().all(|g| g["cgroup"] == "/db");
    assert!(in_db, "{}", by.last);
    let of_db = by.groups().iter().filter(|g| g["cgroup"] == "/db");
    let of_db: u64 = of_db.map(|g| number(g, "count")).sum();
    let unknown = unknown(&by, "comm");
    assert!(of_db + unknown >= 1500);
    for name in ["chosen", "recorded_chosen"] {
        let chosen = ToolRun::balanced(outcome, "scheduler", name);
        let count = sum(chosen.rows(), "count");
        is_all(&chosen, count, of_db, of_db + unknown);
    }
    let named = ToolRun::balanced(outcome, "scheduler", "named");
    is_all(&named, sum(named.rows(), "count"), 150, 150);
}

/// A run that selects has all commands of the submitter, except those at which the kernel skipped programs.
fn is_all(run: &ToolRun, count: u64, least: u64, most: u64) {
    let is_all = count <= most && count + skipped(run) >= least;
    assert!(is_all, "{count} of {most}: {}", run.last);
}

fn recordings_show_submitters(outcome: &Outcome) {
    let commands = lines(outcome, "scheduler", "recorded_trace");
    let recorded = ToolRun::balanced(outcome, "scheduler", "recorded");
    is_all(&recorded, commands.len() as u64, 150, 150);
    for command in &commands {
        assert_eq!(command["submitter_comm"], "renamed", "{command}");
        assert_eq!(command["submitter_cgroup"], "/backup", "{command}");
        let (pid, tid) = (&command["submitter_pid"], &command["submitter_tid"]);
        assert_ne!(pid, tid, "{command}");
    }
    let text = outcome.text("scheduler", "text.out");
    let line = text.lines().next().unwrap();
    assert!(line.contains(", submitter_comm=renamed"), "{line}");
    let csv = outcome.text("scheduler", "file.csv");
    let rows = csv.lines().filter(|line| line.contains(",renamed,/backup"));
    assert_eq!(rows.count(), commands.len(), "{}", csv.lines().next().unwrap());
}

/// Commands of groups of kernel threads.
fn of_kernel_threads(run: &ToolRun) -> u64 {
    let groups = run.groups().iter();
    let by_kernel = groups.filter(|g| {
        let name = g["comm"].as_str().unwrap_or("");
        ["kworker", "kcryptd", "dmcrypt", "loop"].iter().any(|kind| name.contains(kind))
    });
    by_kernel.map(|g| number(g, "count")).sum()
}

fn submitters_above_device_mappers_are_those_of_fio(outcome: &Outcome) {
    let want = commands_of_jobs(outcome, "mapped");
    assert_eq!(want, [210, 240, 330]);
    let by = ToolRun::balanced(outcome, "mapped", "processes");
    assert_groups(&by, "pid", &of_fio(&by), &want, "mapped");
    let all = ToolRun::balanced(outcome, "mapped", "all");
    assert_eq!(sums(by.groups()), sums(all.rows()));
    let groups = || by.groups().iter();
    let fio = groups().filter(|g| g["comm"] == "fio");
    assert!(fio.clone().all(|g| g["cgroup"] == "/db"), "{}", by.last);
    assert_eq!(of_kernel_threads(&by), 0, "{}", by.last);
    // dm-crypt's threads call the driver for all writes
    let callers = ToolRun::balanced(outcome, "mapped", "callers");
    let by_kernel = of_kernel_threads(&callers);
    assert!(by_kernel >= 240, "{}", callers.last);
    let said = outcome.text("mapped", "processes.err");
    assert!(!said.contains("may hide submitters"), "{said}");
    let commands = lines(outcome, "mapped", "lines");
    let end = outcome.objects("mapped", "lines").pop().unwrap();
    let (count, skipped) = (commands.len() as u64, skipped_by(&end["ledger"]));
    assert!(count <= 90 && count + skipped >= 90, "{end}");
    let backup = commands.iter().filter(|c| c["submitter_cgroup"] == "/backup");
    assert_eq!(backup.count(), commands.len());
}

/// `pattern --submitters` has a row for each of fio's jobs, live and recorded.
fn patterns_of_submitters_are_those_of_fio(outcome: &Outcome) {
    let mut want = commands_of_jobs(outcome, "mapped");
    want.insert(0, 90);
    for name in ["pattern", "pattern_recorded"] {
        let report = outcome.objects("mapped", name).pop().unwrap();
        assert_eq!(report["submitters"], true, "{report}");
        let (mut of_fio, mut of_renamed) = (BTreeMap::<u64, u64>::new(), 0);
        for row in list(&report, "rows") {
            let count = number(row, "count");
            match row["comm"].as_str() {
                Some("fio") => *of_fio.entry(number(row, "pid")).or_default() += count,
                Some("renamed") => of_renamed += count,
                _ => {}
            }
        }
        let mut found: Vec<u64> = of_fio.into_values().chain([of_renamed]).collect();
        found.sort_unstable();
        let (have, all): (u64, u64) = (found.iter().sum(), want.iter().sum());
        let lacks = skipped_by(&report["ledger"]);
        assert!(
            have <= all && have + lacks >= all && (lacks > 0 || found == want),
            "{name}: {found:?} of {want:?}, {lacks} skipped\n{report}"
        );
    }
    let text = outcome.text("mapped", "pattern_text.out");
    assert!(text.contains("write  fio["), "{text}");
}

/// A kernel whose types of device mapper are not read: a remark says so.
fn hidden_submitters_are_remarked_on(outcome: &Outcome) {
    let said = outcome.text("mapped", "processes.err");
    let remark = "device mapper (below) may hide submitters: its kernel threads count as the submitters of \
                  what they submit (the BTF in use does not describe dm_mod, or as it was before \
                  Linux 5.18)\n";
    assert!(said.contains(remark), "{said}");
    assert!(!outcome.text("mapped", "callers.err").contains(remark));
    assert!(!outcome.text("scheduler", "processes.err").contains(remark));
}

/// A loop device's bios are of its kernel thread, in the cgroup of the one that used it.
fn cgroups_above_a_loop_device_are_those_of_its_users(outcome: &Outcome) {
    let by = ToolRun::balanced(outcome, "loop", "groups");
    for (cgroup, want) in [("/db", 70), ("/backup", 30)] {
        let groups = by.groups().iter();
        let kernel = groups.filter(|g| {
            let name = g["comm"].as_str().unwrap_or("");
            g["cgroup"] == cgroup && (name.contains("loop") || name.contains("kworker"))
        });
        let count: u64 = kernel.map(|g| number(g, "count")).sum();
        assert_sum(&by, ("comm", "count"), count, want, cgroup);
    }
}

/// Bytes that a cgroup wrote, by groups of a run.
fn written(run: &ToolRun, cgroup: &str) -> u64 {
    let groups = run.groups().iter();
    let found = groups.filter(|g| g["cgroup"] == cgroup && g["opcode"] == "write");
    found.map(|g| number(g, "bytes")).sum()
}

fn writeback_is_of_the_one_that_wrote(outcome: &Outcome) {
    let live = ToolRun::balanced(outcome, "writeback", "live");
    let recorded = ToolRun::balanced(outcome, "writeback", "recorded");
    for (name, least) in [("db", 64), ("backup", 16)] {
        let want = charged(outcome, "writeback", name)["wbytes"];
        assert!(want >= least * 65536, "{name}: {want}");
        for run in [&live, &recorded] {
            let found = written(run, &format!("/{name}"));
            assert_sum(run, ("cgroup", "bytes"), found, want, name);
        }
    }
    // each with its own: two runs begin and end at different times, and the kernel reads and writes meanwhile
    let live_sums = sums(live.groups());
    assert_eq!(live_sums[0], live.last["ledger"]["matched"], "{}", live.last);
    let recorded_all = ToolRun::balanced(outcome, "writeback", "recorded_all");
    let recorded_sums = sums(recorded.groups());
    assert_eq!(recorded_sums, sums(recorded_all.rows()), "{}", recorded.last);
    let container = ToolRun::balanced(outcome, "writeback", "container");
    let bytes = sum(container.rows(), "bytes");
    let of_db = charged(outcome, "writeback", "db");
    assert_eq!(bytes, of_db["wbytes"] + of_db["rbytes"], "{}", container.last);
    // a kernel thread submits them, or sync
    let lines = lines(outcome, "writeback", "lines");
    let of_db: Vec<&Value> = lines.iter().filter(|l| l["cgroup"] == "/db").collect();
    assert!(!of_db.is_empty());
    let strange = of_db.iter().filter(|l| l["opcode"] == "write" && l["submitter_cgroup"] != "/db");
    assert_eq!(strange.count(), 0);
}

fn other_names_hide_cgroups_and_keep_them_apart(outcome: &Outcome) {
    let redacted = ToolRun::balanced(outcome, "writeback", "redacted");
    let recorded = ToolRun::balanced(outcome, "writeback", "recorded");
    let by_count = |run: &ToolRun| -> Vec<(u64, u64)> {
        // the kernel's own writes are of the root: two recordings begin at different times
        let groups = run.groups().iter();
        let of_groups = groups.filter(|g| g["cgroup"].as_str().is_some_and(|name| name != "/"));
        let mut all: Vec<_> = of_groups.map(|g| (number(g, "count"), number(g, "bytes"))).collect();
        all.sort_unstable();
        all
    };
    let counts = by_count(&recorded);
    assert!(counts.len() >= 3, "{}", recorded.last);
    assert_eq!(by_count(&redacted), counts);
    let names: BTreeSet<&str> =
        redacted.groups().iter().filter_map(|g| g["cgroup"].as_str()).collect();
    assert!(names.len() >= 3, "{names:?}");
    let hidden = |name: &&&str| **name == "/" || name.starts_with("/cgroup-");
    assert_eq!(names.iter().filter(hidden).count(), names.len(), "{names:?}");
    let said = outcome.text("writeback", "refused.err");
    assert_eq!(outcome.code("writeback", "refused"), 2, "{said}");
    assert!(said.contains("redacted"), "{said}");
    let text = outcome.text("writeback", "hidden_lines.out");
    assert!(!text.contains("/db") && !text.contains("backup"));
    let file = outcome.bytes("writeback", "hidden.nvd");
    let mut blocks = Blocks::open(file.as_slice()).unwrap();
    while let Some(head) = blocks.next().unwrap() {
        let payload = String::from_utf8_lossy(blocks.payload(&head).unwrap()).into_owned();
        assert!(!payload.contains("/db") && !payload.contains("backup"), "{head:?}: {payload}");
    }
}

super::on_kernels! {
    suite WHO [
        submitters_are_those_of_fio_behind_a_scheduler names_and_cgroups_of_submitters_select
        recordings_show_submitters cgroups_above_a_loop_device_are_those_of_its_users
        writeback_is_of_the_one_that_wrote other_names_hide_cgroups_and_keep_them_apart
    ] {
        on_6_12 "6.12" | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
    above WHO [
        submitters_above_device_mappers_are_those_of_fio patterns_of_submitters_are_those_of_fio
    ] {
        on_6_12 "6.12" | only_in_test_all on_6_1 "6.1" on_7_x "7.x"
    }
    hidden WHO [hidden_submitters_are_remarked_on] { | only_in_test_all on_5_10 "5.10" }
}
