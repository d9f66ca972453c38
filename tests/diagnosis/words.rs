// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words and advice follow the machine and the evidence.

use nvme_deep::diagnose::{Diagnosis, Expectation, Facts, Outcome, Status, Subject, Verdict};
use nvme_deep::model::activity::{Gap, Pool};
use nvme_deep::model::event::EventKind;
use nvme_deep::model::ledger::Accuracy;
use nvme_deep::model::machine::Class;

use super::causes::Cause;
use super::draft::{DEVICE, DISCARD, MAP};
use super::lengthen::lengthen;
use super::load::{BEGIN, Load};
use super::places::Place;
use super::plants::{judged, named, said};

/// What a rule says of its subject where it is neither a cause nor a note.
fn why<'d>(diagnosis: &'d Diagnosis, rule: &str) -> &'d str {
    &said(diagnosis, rule).text
}

fn first(diagnosis: &Diagnosis) -> &Verdict {
    let mut all = diagnosis.causes().chain(diagnosis.of(Status::Noted));
    all.next().unwrap()
}

fn evidence<'n>(found: &'n Verdict, name: &str) -> &'n str {
    let mut all = found.evidence.iter();
    &all.find(|e| e.name == name).unwrap().value
}

/// Mappings of another device are counted, too.
#[test]
fn a_controller_of_an_identity_group_maps_nothing() {
    let made = |group| {
        let mut run = Load::default().run(&[Cause::CountMappings]);
        lengthen(&mut run, MAP, |_| 80_000);
        run.machine.controllers[0].iommu_group = group;
        judged(run)
    };
    let strict = made(Some("DMA".into()));
    assert_eq!(named(&strict), ["iommu"]);
    assert!(first(&strict).advice.contains("iommu.strict=0"));
    let lazy = made(Some("DMA-FQ".into()));
    assert!(!first(&lazy).advice.contains("strict"), "{lazy:?}");
    for group in [Some("identity".into()), None] {
        assert!(named(&made(group)).is_empty());
    }
}

#[test]
fn a_large_deallocation_is_no_held_command() {
    let load = Load { discards: 0.002, ..Load::default() };
    let mut run = load.run(&[]);
    lengthen(&mut run, DEVICE, |event| match &event.what {
        EventKind::Command(id, ..) if id.opcode.code == DISCARD => 600_000_000,
        _ => 0,
    });
    let names = named(&judged(run));
    assert!(!names.contains(&"held-by-device"), "{names:?}");
}

/// The wait counts only requests that waited.
#[test]
fn the_mean_wait_is_that_of_those_that_waited() {
    let mut run = Load::default().without_bios().run(&[Cause::RequestWait]);
    let waits = &mut run.activity.waits.as_mut().unwrap()[0];
    (waits.waited, waits.sum_ns) = (600, 600 * 20_000_000);
    let requests = waits.requests;
    let found = judged(run);
    let wanted = format!("600 of {requests} commands waited; mean 20.0ms, longest 40.0us");
    assert_eq!(evidence(first(&found), "impact"), wanted);
}

/// Writers that wait for writeback throttling have tags enough.
#[test]
fn waits_with_free_tags_are_no_wait_for_tags() {
    let found = judged(Load::default().without_bios().run(&[Cause::RequestWait]));
    assert_eq!(named(&found), ["request-wait"]);
    let text = why(&found, "tag-wait");
    assert!(text.contains("of 1023 were in flight"), "{text}");
    let advice = &first(&found).advice;
    assert!(!advice.contains("nr_requests"), "{advice}");
}

#[test]
fn a_split_limit_is_raised_only_where_the_device_takes_more() {
    let advice = |now, most| {
        let mut run = Load { sizes: &[131_072], ..Load::default() }.run(&[Cause::Split]);
        let disk = &mut run.machine.controllers[0].disks[0];
        (disk.max_bytes, disk.max_hw_bytes) = (Some(now), Some(most));
        let found = judged(run);
        assert!(found.outcome == Outcome::Nothing);
        let note = said(&found, "split");
        assert_eq!(note.status, Status::Noted);
        note.advice.clone()
    };
    let same = advice(8192, 8192);
    assert!(!same.contains("raise") && same.contains("MDTS"), "{same}");
    let more = advice(131_072, 524_288);
    assert!(more.contains("from 128 to at most 512"), "{more}");
}

#[test]
fn a_pool_that_is_empty_is_not_enlarged() {
    let advice = |used| {
        let mut run = Load::default().run(&[Cause::Bounce]);
        let size = 64 << 20;
        run.activity.bounce_pool = Some(Pool { used, size });
        first(&judged(run)).advice.clone()
    };
    assert!(!advice(0).contains("larger pool"));
    assert!(advice(63 << 20).contains("larger pool"));
}

#[test]
fn one_failed_command_is_a_note_and_media_errors_need_no_timeout() {
    let one = judged(Load::default().run(&[Cause::OneError]));
    assert!(one.causes().next().is_none());
    let note = said(&one, "errors-timeout");
    assert_eq!(note.status, Status::Noted);
    assert_eq!(note.text, "nvme0: 1 command failed");
    assert!(!note.advice.contains("retry"), "{note:?}");
    let many = judged(Load::default().run(&[Cause::Errors]));
    let advice = &first(&many).advice;
    assert!(!advice.contains("io_timeout"), "{advice}");
    assert!(advice.contains("the medium has errors"), "{advice}");
}

#[test]
fn bare_metal_has_no_hypervisor() {
    let metal = Place { class: Class::Physical, hypervisor: None, ..Place::default() };
    let load = Load { place: metal, ..Load::default() };
    for cause in [Cause::VcpuStolen, Cause::HeldByDevice, Cause::LostInterrupt] {
        let found = judged(load.run(&[cause]));
        let named = first(&found);
        let text = format!("{} {}", named.text, named.advice);
        assert!(!text.contains("virtual") && !text.contains("host "), "{text}");
    }
    let found = judged(load.run(&[Cause::DoorbellExit]));
    assert!(named(&found).is_empty(), "{found:?}");
    assert_eq!(why(&found, "doorbell-exit"), "there is no hypervisor");
}

#[test]
fn only_emulated_controllers_have_doorbells_that_exit() {
    let of = |class| {
        let place = Place { class, ..Place::default() };
        let load = Load { place, ..Load::default() };
        judged(load.run(&[Cause::DoorbellExit]))
    };
    assert_eq!(named(&of(Class::Emulated)), ["doorbell-exit"]);
    for class in [Class::Cloud, Class::Passthrough] {
        let found = of(class);
        assert!(why(&found, "doorbell-exit").contains("do not exit"), "{class:?}");
    }
    let open = of(Class::Target);
    assert_eq!(said(&open, "doorbell-exit").status, Status::Inconclusive);
}

#[test]
fn what_a_network_does_not_show_is_not_claimed() {
    let load = Load {
        place: Place {
            class: Class::Target,
            transport: "tcp",
            pattern: 0b0100_0111,
            has_conditions: false,
            ..Place::default()
        },
        ..Load::default()
    };
    let found = judged(load.run(&[]));
    assert_eq!(why(&found, "lost-interrupt"), "tcp has no interrupt of its own");
    let text = why(&found, "errors-timeout");
    assert!(text.contains("timeouts of tcp are not observed"), "{text}");
    assert!(
        found.headline.contains("in the driver, the network, the target"),
        "{}",
        found.headline
    );
}

/// A capped volume at a constant depth looks like a device that takes so long.
#[test]
fn a_limit_at_a_constant_depth_is_left_open() {
    let load = Load { jobs: 4, depth: 4, pause_ns: 1e3, seconds: 4.0, ..Load::default() };
    for causes in [&[Cause::RateCap][..], &[]] {
        let found = judged(load.run(causes));
        assert!(found.causes().next().is_none(), "{:?}", named(&found));
        assert_eq!(said(&found, "rate-cap").status, Status::Inconclusive);
        assert!(why(&found, "rate-cap").contains("needs another depth"));
    }
}

/// A single command of a kind has no median to speak of.
#[test]
fn a_kind_of_few_commands_is_not_slow() {
    let load = Load { expectation: Expectation::Median(200_000), ..Load::default() };
    let mut facts = load.run(&[]).facts(Accuracy::Exact);
    let slow = |commands: u64, facts: &mut Facts| {
        let class = &mut facts.classes.all[0];
        (class.commands, class.p50_ns) = (commands, 300_000);
        facts.slow(Subject::Machine).len()
    };
    assert_eq!((slow(29, &mut facts), slow(30, &mut facts)), (0, 1));
}

/// Nothing is ruled out by a recording without commands.
#[test]
fn without_commands_nothing_is_ruled_out() {
    let mut run = Load::default().run(&[]);
    run.events.clear();
    let found = judged(run);
    let mut all = found.verdicts.iter();
    assert!(all.all(|v| v.status == Status::Inconclusive), "{:?}", found.verdicts);
}

/// Our own timer keeps a CPU from the idle states whose end would take long.
#[test]
fn the_wake_of_a_cpu_with_a_timer_is_not_ruled_out() {
    let load = Load { depth: 1, ..Load::default() };
    let found = judged(load.run(&[]));
    let text = why(&found, "idle-vcpu-wake");
    assert!(text.contains("timers that find gaps"), "{text}");
    assert_eq!(said(&found, "idle-vcpu-wake").status, Status::Inconclusive);
    let mut run = load.run(&[]);
    for cpu in &mut run.activity.cpus {
        cpu.gaps = None;
    }
    let found = judged(run);
    assert_eq!(said(&found, "idle-vcpu-wake").status, Status::RuledOut);
    assert_eq!(named(&judged(load.run(&[Cause::IdleWake]))), ["idle-vcpu-wake"]);
}

/// Of four CPUs one has a timer.
#[test]
fn cpus_without_a_timer_dilute_no_gaps() {
    let mut run = Load::default().run(&[]);
    for cpu in &mut run.activity.cpus {
        (cpu.gaps, cpu.gap_ns) = match cpu.cpu {
            0 => (Some(9), run.covers.as_nanos() as u64 * 3 / 10),
            _ => (None, 0),
        };
    }
    let gap = |n: u64| Gap {
        cpu: 0,
        begin_ns: BEGIN + n * 10_000_000,
        end_ns: BEGIN + n * 10_000_000 + 3_000_000,
    };
    run.activity.gaps = (0_u64..1500).map(gap).collect();
    let found = judged(run);
    assert_eq!(named(&found), ["vcpu-stolen"]);
    let gaps = evidence(first(&found), "gaps in the timers");
    assert!(gaps.starts_with("30%, of the commands' time "), "{gaps}");
}
