// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands in flight: each planted cause gets its verdict, and healthy commands get none.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::list;
use crate::planted::causes;

const INFLIGHT: Suite = Suite {
    append: "nvme_core.io_timeout=60 iomem=relaxed",
    env: &[("RAM_FILE", "1"), ("SERVED", "late")],
    ..Suite::of(
        "inflight",
        &["nvme_null nvme0 0 smart_critical_warning=2", "nvme_on nvme1 served-late"],
    )
};

/// The commands of the only look.
fn commands(outcome: &Outcome, case: &str, name: &str) -> Vec<Value> {
    let [look] = &outcome.objects(case, name)[..] else { panic!("not one look") };
    assert_eq!(look["unreadable"], serde_json::json!([]));
    list(look, "commands").to_vec()
}

/// The command that reads this block of 4 KiB.
fn read_of(commands: &[Value], block: u64) -> &Value {
    let mut found =
        commands.iter().filter(|c| c["opcode"] == "read" && c["fields"]["slba"] == block * 8);
    let command = found.next();
    assert!(found.next().is_none(), "{block} twice: {commands:?}");
    command.unwrap_or_else(|| panic!("no read of {block}: {commands:?}"))
}

fn no_command_in_flight_is_shown_as_such(outcome: &Outcome) {
    for (case, name) in [("idle", "idle"), ("masked", "after"), ("unseen", "after")] {
        let found = commands(outcome, case, name);
        assert!(found.is_empty(), "{case}: {found:?}");
    }
    let text = outcome.text("idle", "idle-text.out");
    assert_eq!(text, "no command is in flight\n");
}

fn a_healthy_load_gets_no_verdict(outcome: &Outcome) {
    let mut seen = 0;
    let mut all = outcome.objects("load", "interval");
    assert_eq!(all.len(), 5);
    for n in 1..=5 {
        all.extend(outcome.objects("load", &format!("load-{n}")));
    }
    for look in &all {
        for command in list(look, "commands") {
            seen += 1;
            assert_eq!(command["verdict"], Value::Null, "{command}");
            assert_eq!(command["opcode"], "read");
            assert_eq!(command["disk"], "nvme0n1");
        }
        for queue in list(look, "queues") {
            let (used, tags) = (&queue["tags_used"], &queue["tags"]);
            assert!(used.as_u64().unwrap() <= tags.as_u64().unwrap());
        }
    }
    assert!(seen > 0, "no command in any look");
}

/// How long the controller was slower is not known: the rule is a note.
fn the_log_page_shows_the_temperature(outcome: &Outcome) {
    let object = &outcome.objects("load", "hot")[0];
    let mut verdicts = list(object, "verdicts").iter();
    let thermal = verdicts.find(|verdict| verdict["rule"] == "thermal");
    // QEMU's own value, 323 K
    let said = thermal.map(ToString::to_string);
    assert!(said.is_some_and(|text| text.contains("50 \u{b0}C")), "{object}");
}

fn what_the_device_holds(outcome: &Outcome) {
    let found = commands(outcome, "held", "held");
    assert_eq!(found.len(), 2);
    for block in [100, 200] {
        let command = read_of(&found, block);
        assert_eq!(command["verdict"], "held", "{command}");
        assert_eq!(command["point"], "doorbell", "{command}");
        assert_eq!(command["ctrl"], "nvme1");
        // planted 2 s before, in an emulator that is slow
        let age = command["age_ms"].as_u64().unwrap();
        assert!((1500..16_000).contains(&age), "{command}");
    }
    assert!(commands(outcome, "held", "held-ctrl").is_empty());
    assert!(commands(outcome, "held", "held-old").is_empty());
    let [first, second] = &outcome.objects("held", "held-twice")[..] else {
        panic!("not two looks");
    };
    for look in [first, second] {
        assert_eq!(list(look, "commands").len(), 2, "{look}");
    }
    let text = outcome.text("held", "held-text.out");
    assert_eq!(text.matches("  in the device\n").count(), 2, "{text}");
    assert!(text.contains("\n2 commands older than 100ms (of 2). Timeout in "), "{text}");
    assert!(text.contains("\nNext: in the device -> look at the device"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

fn an_interrupt_that_is_masked(outcome: &Outcome) {
    let found = commands(outcome, "masked", "masked");
    let command = read_of(&found, 300);
    assert_eq!(command["verdict"], "answered", "{command}");
    assert_eq!(command["point"], "cqe", "{command}");
    assert_eq!(found.len(), 1);
}

fn a_run_observes_submissions_and_the_p99_of_their_kind(outcome: &Outcome) {
    let said = outcome.text("observed", "observed.err");
    let looks = outcome.objects("observed", "observed");
    assert!(said.contains("exact: "), "{said}");
    let last = looks.last().unwrap()["commands"].as_array().unwrap();
    for (block, verdict) in [(700, "answered"), (800, "held")] {
        let command = read_of(last, block);
        assert_eq!(command["verdict"], verdict, "{command}");
        let observed = &command["observed"];
        assert_eq!(observed["comm"], "dd", "{command}");
        assert!(observed["pid"].as_u64() > Some(1), "{command}");
        let age = observed["age_ns"].as_u64().unwrap();
        assert_eq!(Some(age / 1_000_000), command["age_ms"].as_u64());
        assert!(age > 1_000_000_000, "{command}");
        let stack = observed["kstack"].as_array().unwrap();
        let has = |name: &str| stack.iter().any(|f| f.as_str().unwrap().starts_with(name));
        assert!(has("nvme_queue_rq") && has("blk_mq_"), "{command}");
    }
    let [masked, held] = [700, 800].map(|block| &read_of(last, block)["observed"]);
    assert_eq!(masked["commands"], 400, "{masked}");
    let p99 = masked["p99_ns"].as_u64().unwrap();
    let times = masked["times_p99"].as_f64().unwrap();
    let expected = masked["age_ns"].as_u64().unwrap() as f64 / p99 as f64;
    assert!((times / expected - 1.0).abs() < 1e-9, "{masked}");
    // no read of its controller has completed
    assert_eq!((&held["commands"], &held["p99_ns"]), (&0.into(), &Value::Null));
}

fn a_run_shows_submitter_p99_and_stack(outcome: &Outcome) {
    let text = outcome.text("observed", "text.out");
    let last = text.rsplit("AGE  DISK").next().unwrap();
    assert_eq!(last.matches(" x p99 (").count(), 1, "{last}");
    let unknown = "p99 not known: 0 commands of its kind so far; dd, pid ";
    assert_eq!(last.matches(unknown).count(), 1, "{last}");
    assert_eq!(last.matches("; dd, pid ").count(), 2, "{last}");
    // nvme_queue_rqs in newer kernels
    assert_eq!(last.matches(" nvme_queue_rq").count(), 2, "{last}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

fn what_no_run_has_observed_is_not_known(outcome: &Outcome) {
    let text = outcome.text("observed", "later.out");
    assert_eq!(outcome.code("observed", "later"), 0, "{text}");
    for words in ["setup not observed: p99 and submitter not known", "stack not known"] {
        assert_eq!(text.matches(words).count(), 2, "{words}: {text}");
    }
    // the limit is 100 ms
    assert_eq!(text.matches("  in the device\n").count(), 1, "{text}");
    assert_eq!(text.matches("  DONE, but no interrupt came\n").count(), 1, "{text}");
}

fn a_doorbell_that_the_controller_does_not_see(outcome: &Outcome) {
    let found = commands(outcome, "unseen", "unseen");
    let command = read_of(&found, 400);
    assert_eq!(command["verdict"], "not_fetched", "{command}");
    assert_eq!(command["point"], "doorbell", "{command}");
    assert_eq!(found.len(), 1);
}

fn diagnose_names_what_is_stuck(outcome: &Outcome) {
    for (case, rule, ctrl, count) in [
        ("held", "held-by-device", "nvme1", "2"),
        ("masked", "lost-interrupt", "nvme0", "1"),
        ("unseen", "doorbell-unseen", "nvme0", "1"),
    ] {
        let said = outcome.text(case, "diagnosis.err");
        assert_eq!(outcome.code(case, "diagnosis"), 3, "{case}: {said}");
        let object: Value = serde_json::from_str(&outcome.text(case, "diagnosis.out")).unwrap();
        assert_eq!(causes(&object), [rule], "{object}");
        let cause = &object["verdicts"][0];
        assert_eq!(cause["subject"], ctrl, "{cause}");
        let evidence = list(cause, "evidence").iter();
        let stuck = evidence.filter(|e| e["name"] == "commands stuck now");
        let stuck: Vec<_> = stuck.map(|e| e["value"].as_str().unwrap()).collect();
        assert_eq!(stuck, [count], "{cause}");
    }
}

fn a_controller_that_goes_away_harms_nothing(outcome: &Outcome) {
    let during = outcome.objects("removed", "during");
    assert!(during.len() > 1 && during.iter().all(|look| look["type"] == "inflight"), "{during:?}");
    assert!(commands(outcome, "removed", "after").is_empty());
    let log = outcome.log();
    let is_bad = |line: &&str| {
        let words = ["Oops", "BUG:", "WARNING:", "general protection"];
        words.iter().any(|word| line.contains(word))
    };
    let bad: Vec<_> = log.lines().filter(is_bad).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

fn refusals_are_one_sentence(outcome: &Outcome) {
    for (name, code, words) in [
        ("no-ctrl", 6, "no controller nvme7"),
        ("age", 2, "not"),
        ("times", 2, "needs an INTERVAL"),
        ("kstack", 2, "give <INTERVAL>: `nvme-deep inflight --kstack <INTERVAL>"),
        ("nobody", 4, "CAP_BPF"),
        ("hidden", 5, "kptr_restrict"),
    ] {
        let said = outcome.text("words", &format!("{name}.err"));
        assert_eq!(outcome.code("words", name), code, "{name}: {said}");
        assert!(said.contains(words), "{name}: {said}");
        assert_eq!(outcome.text("words", &format!("{name}.out")), "");
    }
}

super::on_kernels! {
    verdicts INFLIGHT [
        a_healthy_load_gets_no_verdict what_the_device_holds an_interrupt_that_is_masked
        a_doorbell_that_the_controller_does_not_see
    ] {
        on_6_12 "6.12" | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
        on_7_x_rt "7.x-rt"
    }
    suite INFLIGHT [
        no_command_in_flight_is_shown_as_such the_log_page_shows_the_temperature
        refusals_are_one_sentence a_run_observes_submissions_and_the_p99_of_their_kind
        a_run_shows_submitter_p99_and_stack what_no_run_has_observed_is_not_known
        diagnose_names_what_is_stuck a_controller_that_goes_away_harms_nothing
    ] {
        on_6_12 "6.12" | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
}
