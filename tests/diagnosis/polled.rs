// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polled queues have no interrupt that could be lost.

use nvme_deep::diagnose::{Affected, Status, Stuck, diagnose};
use nvme_deep::machine::inflight::StuckState;
use nvme_deep::model::ids::NamespaceId;
use nvme_deep::model::point::Pattern;

use super::causes::Cause;
use super::load::Load;
use super::places::Place;
use super::plants::{facts, named, said};

/// All points but the interrupt.
const POLLED: Pattern = 0b0110_1111;

/// A load whose only queue is polled.
fn load() -> Load {
    Load {
        queues: 0,
        place: Place { poll_queues: (1, true), pattern: POLLED, ..Place::default() },
        ..Load::default()
    }
}

/// Commands were completed, and found by the driver's poll after their timeouts.
#[test]
fn a_timeout_of_a_polled_queue_is_no_lost_interrupt() {
    let found = diagnose(&facts(&load(), &[Cause::LostInterrupt]));
    assert_eq!(named(&found), ["errors-timeout"]);
    let cause = said(&found, "errors-timeout");
    assert!(cause.text.contains("because nothing polled"), "{}", cause.text);
    let lost = said(&found, "lost-interrupt");
    assert_eq!(lost.status, Status::RuledOut);
    assert!(lost.text.contains("polled queues"), "{}", lost.text);
}

/// A completed command that waits to be polled is where it should be.
#[test]
fn a_command_that_waits_to_be_polled_is_not_held() {
    let mut facts = facts(&load(), &[]);
    let affected = Affected {
        disk: NamespaceId::new(0, 1),
        code: Some(2),
        end_ns: 5_000_000_000,
        ..Affected::default()
    };
    facts.in_flight = vec![Stuck { affected, state: Some(StuckState::NotPolled) }];
    let found = diagnose(&facts);
    assert_eq!(said(&found, "held-by-device").status, Status::NotPresent);
}
