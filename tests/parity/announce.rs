// SPDX-License-Identifier: MIT OR Apache-2.0
//! How commands were announced (bpf/include/doorbell.bpf.h), against the rule of the driver.

use nvme_deep::model::command_class::{Announcement, Conditions};

use super::{ask, numbers};

/// nvme_dbbuf_need_event() of drivers/nvme/host/pci.c: whether the driver writes the register.
const fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// The announcement, if it is the same wherever the event index is between two values.
fn truth(old: u16, n: u16, depth: u16, from: u16, to: u16) -> Option<Announcement> {
    let new = (old + n) % depth;
    let mut indices = vec![from];
    while indices.last() != Some(&to) {
        indices.push((indices[indices.len() - 1] + 1) % depth);
    }
    let rung = |index: &u16| need_event(*index, new, old);
    if indices.iter().all(rung) {
        Some(Announcement::Rung)
    } else if indices.iter().any(rung) {
        None
    } else {
        Some(Announcement::Elided)
    }
}

#[test]
fn an_announcement_is_known_if_the_driver_decides_the_same_at_every_moment() {
    let mut cases = vec![];
    for depth in [2, 3, 8, 11] {
        for old in 0..depth {
            for n in 1..depth {
                for from in 0..depth {
                    cases.extend((0..depth).map(|to| [old, n, depth, from, to]));
                }
            }
        }
    }
    let questions: Vec<String> = cases.iter().map(|c| numbers("announce", c)).collect();
    for (&[old, n, depth, from, to], answer) in cases.iter().zip(ask(&questions)) {
        let bits = answer.parse().unwrap();
        let found = Conditions::from_bits(bits).announcement();
        let want = truth(old, n, depth, from, to);
        assert_eq!(found, want, "{n} from {old} of {depth}, index {from} to {to}");
        assert_eq!(found.is_some(), bits != 0);
    }
}
