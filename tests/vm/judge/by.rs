// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latency --by`: the groups are fio's jobs, the kernel's io.stat, and the cgroups of a script.

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{
    ToolRun, assert_groups, assert_sum, charged, jobs, list, number, skipped, sum, sums,
};

const BY: Suite = Suite::of("by", &["nvme_file nvme0 134217728", "nvme_null nvme1 0"]);

/// Ten thousand cgroups.
const MANY: Suite = Suite {
    script: "groups",
    controllers: &["nvme_null nvme0 0"],
    env: &[("TIMEOUT", "1800")],
    ..BY
};

fn processes_are_the_jobs_of_fio(outcome: &Outcome) {
    let want = jobs(outcome, "process");
    assert_eq!(want.iter().map(|(ios, _)| *ios).collect::<Vec<_>>(), [200, 300, 500, 900]);
    let all = ToolRun::balanced(outcome, "process", "all");
    for name in ["process", "kprobe"] {
        let by = ToolRun::balanced(outcome, "process", name);
        // programs of kprobes lose completions where each one is an exception (5.10)
        let ledger = &by.last["ledger"];
        if ledger["overwritten"] != 0 {
            assert_eq!(ledger["may_lose_completions"], true, "{name}");
            let lost = number(ledger, "overwritten") + number(ledger, "in_flight");
            let [found, want] = [by.groups(), all.rows()].map(sums);
            assert_eq!(found[0] + lost, want[0], "{name}: {}", by.last);
            continue;
        }
        assert_eq!(sums(by.groups()), sums(all.rows()), "{name}");
        let of_fio = by.groups().iter().filter(|g| g["comm"] == "fio");
        // fio itself reads what the disk holds
        let of_jobs = of_fio.filter(|g| number(g, "count") >= 200);
        let mut found: Vec<_> = of_jobs.map(|g| (number(g, "count"), number(g, "bytes"))).collect();
        found.sort_unstable();
        let counts = |all: &[(u64, u64)]| -> Vec<u64> { all.iter().map(|one| one.0).collect() };
        assert_groups(&by, "pid", &counts(&found), &counts(&want), name);
        let exact = found.iter().zip(&want).filter(|(found, want)| found.0 == want.0);
        assert!(exact.clone().all(|(found, want)| found == want), "{name}: {}", by.last);
    }
    for name in ["parts", "place"] {
        let by = ToolRun::balanced(outcome, "process", name);
        assert_eq!(sums(by.groups()), sums(all.rows()), "{name}");
    }
    let by = ToolRun::balanced(outcome, "process", "process");
    for group in by.groups() {
        let stages = sum(list(group, "stages"), "sum_ns");
        assert_eq!(stages, number(&group["total"], "sum_ns"), "{group}");
    }
}

fn parts_of_a_key_are_those_of_the_load(outcome: &Outcome) {
    let by = ToolRun::balanced(outcome, "process", "parts");
    let writes = by.groups().iter().filter(|g| g["max_bytes"] == 16384);
    let writes: Vec<&Value> = writes.collect();
    assert_eq!(writes.iter().map(|g| number(g, "count")).sum::<u64>(), 200);
    assert!(writes.iter().all(|g| g["opcode"] == "write" && number(g, "cpu") < 2));
    let place = ToolRun::balanced(outcome, "process", "place");
    assert!(place.groups().iter().all(|g| g["ctrl"] == "nvme1"), "{}", place.last);
}

fn a_process_keeps_its_group_when_it_changes_its_name(outcome: &Outcome) {
    let pid = outcome.text("process", "rename");
    let pid: u64 = pid.trim().parse().unwrap();
    let by = ToolRun::balanced(outcome, "process", "process");
    let group = by.groups().iter().find(|g| g["pid"] == pid).unwrap();
    assert_eq!(number(group, "count"), 40);
    assert_eq!(group["comm"], r"a\u{1b}[31m\nb\xff");
    let text = outcome.text("process", "text.out");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains(r"a\u{1b}[31m\nb\xff"), "{text}");
    assert!(text.contains("\n  device "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// The pages of `top` have rows of jobs, and commands of the whole run.
fn top_has_a_row_per_process_and_opcode(outcome: &Outcome) {
    let pages = outcome.text("process", "top.out");
    assert!(pages.contains("\n SUBMITTER,OPCODE "), "{pages}");
    let row = |line: &&str| line[1..].starts_with("fio[") && line.contains(" read ");
    let rows = pages.lines().filter(|line| !line.is_empty()).filter(row);
    assert!(rows.count() >= 2, "{pages}");
    assert!(!pages.contains('\u{1b}'), "{pages}");
    let all = number(&ToolRun::balanced(outcome, "process", "all").last["ledger"], "matched");
    let said = outcome.text("process", "top.err");
    assert!(said.contains(&format!("exact: {all} commands")), "{said}");
}

fn cgroups_are_those_of_io_stat(outcome: &Outcome) {
    let by = ToolRun::balanced(outcome, "cgroup", "cgroup");
    let all = ToolRun::balanced(outcome, "cgroup", "all");
    assert_eq!(sums(by.groups()), sums(all.rows()));
    let of = |cgroup: &str, opcode: &str, field: &str| -> u64 {
        let found = by.groups().iter().filter(|g| {
            g["opcode"] == opcode && g["cgroup"].as_str().is_some_and(|path| path.ends_with(cgroup))
        });
        found.map(|g| number(g, field)).sum()
    };
    let id = format!("{:0<8}{:056}", "c0ffee00", 0);
    let scope = format!("docker-{id}.scope");
    for (name, cgroup) in [("unit", "database.service"), ("container", &scope)] {
        let want = charged(outcome, "cgroup", name);
        assert!(want["wbytes"] >= 16 * 65536, "{name}: {want:?}");
        for (opcode, field, counter) in
            [("write", "bytes", "wbytes"), ("read", "bytes", "rbytes"), ("read", "count", "rios")]
        {
            let found = of(cgroup, opcode, field);
            assert_sum(&by, ("cgroup", field), found, want[counter], name);
        }
    }
    let by = ToolRun::balanced(outcome, "cgroup", "container");
    let inside = by.groups().iter().filter(|g| g["container"] == id.as_str());
    let inside: Vec<Value> = inside.cloned().collect();
    let want = charged(outcome, "cgroup", "container");
    let bytes = want["wbytes"] + want["rbytes"];
    // what is in no container, and what is not known, is one group
    let found = sum(&inside, "bytes");
    let is_less = found < bytes && bytes - found <= skipped(&by) << 20;
    assert!(found == bytes || is_less, "{found} of {bytes}: {}", by.last);
    assert_eq!(sums(by.groups()), sums(all.rows()));
}

fn of_many_cgroups_the_largest_have_rows(outcome: &Outcome) {
    let truth = outcome.text("many", "truth.json");
    let truth: BTreeMap<String, u64> = serde_json::from_str(&truth).unwrap();
    assert!(truth.len() > 610, "{}", truth.len());
    let by = ToolRun::balanced(outcome, "many", "cgroup");
    let all = ToolRun::balanced(outcome, "many", "all");
    assert_eq!(sums(by.groups()), sums(all.rows()), "{}", by.last);
    let total: u64 = truth.values().sum();
    assert!(sum(by.groups(), "count") >= total);
    let mut found = BTreeMap::new();
    for group in by.groups().iter().filter(|g| g["other"].is_null()) {
        let path = group["cgroup"].as_str().unwrap_or("");
        let Some((_, name)) = path.rsplit_once("/many/") else {
            continue;
        };
        let count = number(group, "count");
        assert!(count <= truth[name], "{name}: {count} of {}", truth[name]);
        found.insert(name.to_owned(), count);
    }
    let other = by.groups().iter().find(|g| g["other"] == true).unwrap();
    assert!(number(other, "count") > 0);
    for number in 0..10 {
        let name = format!("large-{number}");
        let (count, want) = (found.get(&name).copied().unwrap_or(0), truth[&name]);
        // the commands before it had a row are with the others
        assert!(2 * count > want, "{name}: {count} of {want}; {found:?}");
    }
    let text = outcome.text("many", "text.out");
    assert!(text.contains(" more groups: ") && text.contains("\nother"), "{text}");
}

/// Commands then belong to the cgroups of tasks, and a line says so.
fn version_1_has_the_controller(outcome: &Outcome) {
    let by = ToolRun::balanced(outcome, "hybrid", "cgroup");
    let db = by.groups().iter().find(|g| g["cgroup"] == "/db").unwrap();
    assert_eq!(number(db, "count"), 40, "{}", by.last);
    for name in ["cgroup", "text"] {
        let said = outcome.text("hybrid", &format!("{name}.err"));
        assert!(said.contains("cgroups are those of the task"), "{said}");
    }
}

fn of_ten_thousand_the_largest_have_rows(outcome: &Outcome) {
    let truth = outcome.text("many", "truth.json");
    let truth: BTreeMap<String, u64> = serde_json::from_str(&truth).unwrap();
    assert!(truth.len() > 10_000, "{}", truth.len());
    of_many_cgroups_the_largest_have_rows(outcome);
}

fn what_does_not_work_is_said_in_a_sentence(outcome: &Outcome) {
    for (name, says) in [
        ("hierarchy", "cgroups of version 2"),
        ("recorded", "cgroups of version 2"),
        ("tracepoint", "classic tracepoints"),
    ] {
        let said = outcome.text("refused", &format!("{name}.err"));
        assert_eq!(outcome.code("refused", name), 5, "{name}: {said}");
        assert!(said.trim().lines().last().unwrap().contains(says), "{name}: {said}");
    }
}

super::on_kernels! {
    suite BY [
        processes_are_the_jobs_of_fio parts_of_a_key_are_those_of_the_load
        a_process_keeps_its_group_when_it_changes_its_name top_has_a_row_per_process_and_opcode
        cgroups_are_those_of_io_stat of_many_cgroups_the_largest_have_rows
        what_does_not_work_is_said_in_a_sentence
    ] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
    many MANY [version_1_has_the_controller of_ten_thousand_the_largest_have_rows] {
        | only_in_test_all on_6_12 "6.12"
    }
}
