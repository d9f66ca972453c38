// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes by uprobes and USDT probes.

use serde_json::{Value, json};

use super::guest::{Outcome, Suite};
use super::json::{list, number, of};

const UPROBES: Suite = Suite::of("uprobes", &["nvme_null nvme0 0"]);

fn every_command_of_spdk_is_seen(outcome: &Outcome) {
    let found = outcome.objects("spdk", "trace");
    let text = outcome.text("spdk", "truth");
    let truth = text.lines().skip(1);
    let truth: Vec<Value> = truth.map(|l| serde_json::from_str(l).unwrap()).collect();
    let commands = of(&found, "command");
    assert_eq!((commands.len(), truth.len()), (60, 60));
    for (command, truth) in commands.iter().zip(&truth) {
        for key in ["qid", "cid"] {
            assert_eq!(command[key], truth[key], "{command} {truth}");
        }
        assert_eq!(command["fields"]["slba"], truth["slba"], "{command} {truth}");
        assert_eq!(command["status"]["value"], truth["status"], "{command}");
        let stages = list(command, "stages");
        let is_sync = number(truth, "cid") % 2 == 1;
        assert_eq!(stages.len(), if is_sync { 1 } else { 3 }, "{command}");
    }
    let end = of(&found, "host_end")[0];
    assert_eq!(end["exact"], true, "{end}");
    let ends = outcome.objects("spdk", "ends");
    let rows = list(of(&ends, "report")[0], "rows");
    let counted: u64 = rows.iter().map(|row| number(row, "count")).sum();
    assert_eq!(counted, 60);
}

fn changes_of_state_have_their_arguments(outcome: &Outcome) {
    let found = outcome.objects("spdk", "states");
    let fields: Vec<&Value> = of(&found, "spdk_state").iter().map(|l| &l["fields"]).collect();
    assert_eq!(fields.len(), 3, "{found:?}");
    assert_eq!(fields[0]["nqn"], "nqn.2024-01.test:one");
    assert_eq!(fields[0]["to"], "ACTIVE");
    assert_eq!(fields[0]["status"], -5);
    let thread = json!({ "thread": 7, "nqn": "nqn.2024-01.test:one" });
    assert_eq!(*fields[1], thread);
    assert_eq!(fields[2]["state"], "FINI_STOP_SUBSYSTEMS");
    let messages = outcome.objects("spdk", "messages");
    let counts = of(&messages, "spdk_messages");
    let counts: Vec<u64> = counts.iter().map(|l| number(l, "count")).collect();
    assert_eq!(counts, [1, 3, 1], "{messages:?}");
    let end = of(&messages, "spdk_messages_end")[0];
    assert_eq!((&end["exact"], number(end, "messages")), (&json!(true), 5));
}

fn commands_of_qemu_come_by_usdt(outcome: &Outcome) {
    let found = outcome.objects("qemu", "trace");
    let commands = of(&found, "command");
    assert_eq!(commands.len(), 40);
    for (n, command) in (1..).zip(&commands) {
        assert_eq!(number(command, "cid"), n, "{command}");
        assert_eq!(number(&command["fields"], "slba"), n * 8, "{command}");
        assert_eq!(number(command, "qid"), 2, "{command}");
        assert_eq!(list(command, "stages").len(), 2, "{command}");
        assert_eq!(command["ctrl"], "qemu:SER0", "{command}");
    }
    assert_eq!(of(&found, "interrupt").len(), 40);
    let end = of(&found, "host_end")[0];
    assert_eq!(end["exact"], true, "{end}");
    let listed = outcome.objects("qemu", "list");
    let ways = list(&listed[0], "ways");
    let usdt = ways.iter().find(|way| way["by"] == "usdt").unwrap();
    assert_eq!(usdt["usable"], true, "{listed:?}");
}

super::on_kernels! {
    suite UPROBES [
        every_command_of_spdk_is_seen changes_of_state_have_their_arguments
        commands_of_qemu_come_by_usdt
    ] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
        on_6_12_arm64 "6.12-arm64"
    }
}
