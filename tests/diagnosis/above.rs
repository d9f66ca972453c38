// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `above-nvme` says of disks of device mapper and md: the commands below are subtracted, so the rule is silent
//! where they explain the time of the bios.

use nvme_deep::diagnose::Status;
use nvme_deep::model::event::EventKind;
use nvme_deep::model::origin::Bios;

use super::causes::Cause;
use super::load::{Load, Run};
use super::plants::{judged, named, said};
use super::power::total;

fn run() -> Run {
    Load::default().run(&[Cause::Above])
}

/// The time of the bios is this part of the time of the commands, and so much more for each.
fn bios(run: &mut Run, part: f64, more_ns: u64) {
    let below: u64 = run.events.iter().map(total).sum();
    let upper = &mut run.activity.upper.as_mut().unwrap()[0];
    upper.sum_ns = (below as f64 * part) as u64 + upper.bios * more_ns;
}

#[test]
fn the_sentence_has_both_times_and_the_setting_what_is_below() {
    let found = judged(run());
    let said = said(&found, "above-nvme");
    assert!(said.text.starts_with("Bios on dm-0 wait "), "{}", said.text);
    let setting = said.evidence.iter().find(|e| e.name == "setting").unwrap();
    assert_eq!(setting.value, "dm-0 (CRYPT) on nvme0n1");
}

/// A linear map takes microseconds. A mirror writes to two disks at a time: its bios take as long as one of
/// the commands.
#[test]
fn linear_maps_and_mirrors_are_silent() {
    for (part, more_ns) in [(1.0, 20_000), (0.6, 0), (0.6, 40_000)] {
        let mut run = run();
        bios(&mut run, part, more_ns);
        let found = judged(run);
        assert!(named(&found).is_empty(), "{part}");
        assert_eq!(said(&found, "above-nvme").status, Status::RuledOut);
    }
}

/// Three bios for each command: each took as long as the command.
#[test]
fn bios_that_were_merged_count_each() {
    let mut run = run();
    for event in &mut run.events {
        if let EventKind::Command(_, _, end) = &mut event.what {
            end.bios = Bios::new(3, 5000);
        }
    }
    bios(&mut run, 3.0, 0);
    let found = judged(run);
    assert!(named(&found).is_empty(), "{found:?}");
}

/// A cache on another disk takes time that is not above NVMe; and without the waits before the request, these would
/// seem to be.
#[test]
fn other_disks_below_and_unseen_bios_leave_it_open() {
    let mut cached = run();
    cached.machine.upper[0].has_others = true;
    let unseen = Load::default().without_bios();
    for (run, why) in [(cached, "not NVMe"), (unseen.run(&[Cause::Above]), "not observed")] {
        let found = judged(run);
        let said = said(&found, "above-nvme");
        assert_eq!(said.status, Status::Inconclusive);
        assert!(said.text.contains(why), "{}", said.text);
    }
}
