// SPDX-License-Identifier: MIT OR Apache-2.0
//! Containers that podman and docker made: each is a group, with its count and its name.

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, list, number, text};

/// Docker asks for a program that loads profiles of AppArmor.
const CONTAINERS: Suite =
    Suite { append: "apparmor=0", ..Suite::of("containers", &["nvme_null nvme0 1000000"]) };

/// A container's name, and its commands.
type Want = (&'static str, u64);

fn containers_are_groups(outcome: &Outcome, case: &str, want: [Want; 2]) {
    let run = ToolRun::exact(outcome, case, "by");
    let groups = list(&run.last, "groups");
    for (name, count) in want {
        let mut found = groups.iter().filter(|g| number(g, "count") == count);
        let group = found.next().unwrap_or_else(|| panic!("{case} {name}: {}", run.last));
        assert_eq!(text(group, "container").len(), 64, "{group}");
        assert_eq!(text(group, "container_name"), name, "{group}");
        // recordings have the IDs only
        let id = &text(group, "container")[..12];
        for (file, shown) in [("text", name), ("recorded", id)] {
            assert_eq!(outcome.code(case, file), 0, "{case} {file}");
            let out = outcome.text(case, &format!("{file}.out"));
            let row = out.lines().find(|line| line.starts_with(&format!("{shown} ")));
            let row = row.unwrap_or_else(|| panic!("{case} {file} {shown}: {out}"));
            assert!(row.contains(&format!(" {count} ")), "{out}");
        }
    }
    assert_eq!(groups.len(), 2, "{}", run.last);
}

fn podman_and_docker(outcome: &Outcome) {
    containers_are_groups(outcome, "podman", [("backup", 900), ("web", 1200)]);
    assert_eq!(outcome.text("docker", "codes"), "0\n0\n");
    containers_are_groups(outcome, "docker", [("front", 700), ("batch", 1100)]);
}

super::on_kernels! {
    suite CONTAINERS [podman_and_docker] { | only_in_test_all on_6_12 "6.12" }
}
