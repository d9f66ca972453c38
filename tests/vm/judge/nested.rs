// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest of KVM and its QEMU, recorded on both sides. The clocks of the two kernels are compared by
//! the commands themselves, and by clocks that both have read.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{list, number};

const NESTED: Suite = Suite {
    append: "clocksource=tsc tsc=reliable",
    env: &[("MEM", "3G")],
    ..Suite::of("nested", &[])
};

fn joined(outcome: &Outcome, clock: &str) -> Value {
    let join = outcome.objects("nested", clock).pop().unwrap();
    assert_eq!(join["clock"], clock, "{join}");
    join
}

fn range(join: &Value) -> (i64, i64) {
    let ns = |name: &str| join[name].as_i64().unwrap();
    (ns("offset_low_ns"), ns("offset_high_ns"))
}

fn each_command_of_the_inner_guest_is_joined(outcome: &Outcome) {
    let join = joined(outcome, "pairs");
    assert!(number(&join, "matched") >= 200, "{join}");
    for none in ["unmatched_guest", "ambiguous_guest", "ambiguous_host"] {
        assert_eq!(number(&join, none), 0, "{join}");
    }
}

/// The truth is within the range of the pairs, whose bounds are causes and effects.
fn the_clocks_agree_with_the_commands(outcome: &Outcome) {
    let by_pairs = joined(outcome, "pairs");
    let (low, high) = range(&by_pairs);
    for clock in ["tsc", "ptp"] {
        let join = joined(outcome, clock);
        let (first, last) = range(&join);
        assert!(low <= last && first <= high, "{join} {by_pairs}");
        assert_eq!(number(&join, "matched"), number(&by_pairs, "matched"));
        let notes = list(&join, "notes");
        assert!(notes.is_empty(), "{join}");
    }
}

super::on_kernels! {
    suite NESTED [each_command_of_the_inner_guest_is_joined the_clocks_agree_with_the_commands] {
        | only_in_test_all on_6_12 "6.12"
    }
}
