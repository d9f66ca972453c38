// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares `finish()` of bpf/include/stages.bpf.h, which closes a command, with src/model.

use std::mem::take;

use nvme_deep::abi::event;
use nvme_deep::model::counters::{COUNTS, Count};
use nvme_deep::model::event::EventKind;
use nvme_deep::model::histogram;
use nvme_deep::model::ids::{PATTERN_BITS, RowKey};
use nvme_deep::model::point::Point::*;
use nvme_deep::model::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::{Timeline, total_ns};

use super::case::{Case, KEY, Points, Way};
use super::{Random, ask};

/// The result of the C code.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    pattern: Pattern,
    late_doorbell: u64,
    early_irq: u64,
    negative: u64,
    /// Samples, last bucket in use, sum, maximum of each histogram.
    hists: Vec<[u64; 4]>,
}

impl Answer {
    fn dropped(&self) -> u64 {
        self.late_doorbell + self.early_irq + self.negative
    }
}

/// The event of the command, decoded by the reader of the ring, must agree.
fn check_record(case: &Case, (record, longest_slow): (&str, u64), line: &Timeline) {
    let record: Vec<u8> = (0..record.len() / 2)
        .map(|i| u8::from_str_radix(&record[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    let event = event(&record, BEFORE).unwrap();
    let want = total_ns(&event).unwrap_or(u64::MAX);
    assert_eq!(longest_slow, want, "{case:?}");
    let (id, latency, timeline) = match event.what {
        EventKind::Command(id, _, outcome) => (id, outcome.latency_ns, outcome.timeline),
        EventKind::Missed { id, timeline, .. } => (id, None, timeline),
        other => panic!("{case:?}: {other:?}"),
    };
    let stages = case.stage_set != StageSet::Total;
    let seen = |line: &Timeline| (line.pattern(), Point::ALL.map(|m| line.at(m)));
    let timeline = timeline.as_ref().map(seen);
    assert_eq!(timeline, stages.then(|| seen(line)), "{case:?}");
    let ends = line.at(SetupOut).zip(line.at(Complete));
    assert_eq!(latency, ends.map(|(from, to)| to - from), "{case:?}");
    let row = RowKey::unpack(KEY).0;
    assert_eq!((id.ctrl, id.opcode), (row.ctrl, row.opcode));
}

/// The histograms must have the command's stages and its total. Returns the total.
fn check_hists(case: &Case, line: &Timeline, hists: &[[u64; 4]]) -> Option<u64> {
    // the rows of a run have the points that it observes
    let line = &line.with_pattern(line.pattern() & case.stage_set.observed());
    let segments = line.segments(case.stage_set);
    let segments = segments.unwrap_or_else(|| panic!("kept points are in order: {case:?}"));
    let total = line.total(case.stage_set);
    let one = |ns: u64| [1, histogram::index(ns) as u64, ns, ns];
    let mut want = vec![[0, u64::MAX, 0, 0]; StageSet::Full.measured()];
    // the BPF side has a place for what it observes only
    let place = |at: usize| {
        let mut all = 0..case.stage_set.measured();
        all.find(|n| case.stage_set.place(*n) == at).unwrap()
    };
    let stages = case.stage_set.stages();
    for segment in &segments {
        let from = stages[segment.run.first].from;
        // waits of no length are not added
        if segment.ns > 0 || from >= Start || from == Bio {
            want[place(segment.run.first)] = one(segment.ns);
        }
    }
    if let Some(total) = total {
        want[place(case.stage_set.total_index())] = one(total);
    }
    assert_eq!(hists, want, "{case:?} seen {:#09b}", line.pattern());
    if case.stage_set != StageSet::Total {
        let runs: Vec<_> = segments.iter().map(|s| s.run).collect();
        assert_eq!(runs, case.stage_set.runs(line.pattern()));
        let total_at = place(case.stage_set.total_index());
        let all = hists.iter().enumerate().filter(|(n, _)| *n != total_at);
        let sum: u64 = all.map(|(_, h)| h[2]).sum();
        assert_eq!(sum, total.unwrap_or(0), "stages add up to the total: {case:?}");
    }
    total
}

/// The bits of the points before the request.
const BEFORE: Pattern = 0b111_1111 << 9;

/// Reads an answer, and checks what must hold for every command.
fn read(case: &Case, line: &str) -> Answer {
    let words: Vec<&str> = line.split(' ').collect();
    let (record, words) = words.split_last().unwrap();
    // -1: no bucket is in use
    let words: Vec<u64> = words.iter().map(|w| w.parse::<i128>().unwrap() as u64).collect();
    let ([key, calls, state, rq, bytes, unmeasured], rest) = words.split_first_chunk().unwrap();
    let (counts, rest) = rest.split_at(COUNTS.len());
    let all = 4 * StageSet::Full.measured();
    let hists: Vec<[u64; 4]> = rest[..all].chunks(4).map(|h| h.try_into().unwrap()).collect();
    let in_key = (1 << PATTERN_BITS) - 1;
    let mut pattern = *key as Pattern & in_key;
    if case.stage_set == StageSet::Full && Bio.seen_in(pattern) {
        // the key has one bit for all of them
        pattern |= BEFORE;
    }
    assert_eq!(
        (*key & !u64::from(in_key), *calls),
        (KEY, 1),
        "one row, and only the pattern added: {case:?}"
    );
    assert_eq!((*state, *rq), (0, 0), "the slot is free: {case:?}");
    assert_eq!(*bytes, u64::from(case.bytes));

    let line = Timeline::from_fn(pattern, |point| case.at(point));
    let total = check_hists(case, &line, &hists);
    assert_eq!(*unmeasured, u64::from(total.is_none()), "{case:?}");

    assert_eq!(rest[all], 1, "one record a command");
    check_record(case, (record, rest[all + 1]), &line);

    let mut others = counts.to_vec();
    let mut count = |what: Count| take(&mut others[what as usize]);
    let (late_doorbell, early_irq) = (count(Count::LateDoorbell), count(Count::EarlyIrq));
    let negative = count(Count::Negative);
    // without a completion and a CQE, the doorbell may be a late return
    let is_unsure = case.way == Way::NoComplete && case.at(Cqe) == 0 && case.at(Doorbell) != 0;
    assert_eq!(count(Count::UnsureDoorbell), u64::from(is_unsure), "{case:?}");
    assert!(others.iter().all(|n| *n == 0), "nothing else is counted: {counts:?}");
    Answer { pattern, late_doorbell, early_irq, negative, hists }
}

/// The configurations of the programs, except the fine stage set without an end hook.
const WAYS: [(StageSet, Way); 7] = [
    (StageSet::Total, Way::Completed),
    (StageSet::Basic, Way::Completed),
    (StageSet::Basic, Way::Ended),
    (StageSet::Fine, Way::Ended),
    (StageSet::Fine, Way::Requeued),
    (StageSet::Full, Way::Ended),
    (StageSet::Full, Way::Requeued),
];

/// All points in order; some at the same nanosecond.
fn in_order(random: &mut Random) -> Points {
    let mut now = (1 << 45) + random.below(1 << 50);
    Point::ALL.map(|_| {
        now += random.step(36);
        now
    })
}

/// Removes random points. The interrupt is stored at the CQE, so it is removed together with it.
fn with_holes(mut points: Points, random: &mut Random) -> Points {
    for point in Point::ALL {
        if !matches!(point, SetupOut | Complete) && random.below(3) == 0 {
            points[point as usize] = 0;
        }
    }
    if points[Cqe as usize] == 0 {
        points[Irq as usize] = 0;
    }
    points
}

/// The pattern of a command if all its observed points except `dropped` are kept.
fn all_but(case: &Case, dropped: &[Point]) -> Pattern {
    let mut pattern = 0;
    for point in Point::ALL {
        // without a start, nothing before it counts
        let is_lost = point < Start && dropped.contains(&Start);
        let kept = case.at(point) != 0 && !dropped.contains(&point) && !is_lost;
        match (point, point.pattern_bit()) {
            (SetupOut, _) if !kept => pattern |= NO_SETUP,
            (Complete, _) if !kept => pattern |= NO_COMPLETE,
            (_, Some(bit)) if kept => pattern |= bit,
            _ => {}
        }
    }
    pattern
}

/// `n` commands for each of `ways`, with points in order; every second one lacks random points.
/// `change` modifies a command, or returns false to leave it out.
fn cases(
    ways: &[(StageSet, Way)],
    n: usize,
    seed: u64,
    change: impl Fn(&mut Points, &mut Random) -> bool,
) -> Vec<Case> {
    let mut random = Random::of(seed);
    let mut cases = vec![];
    for &(stage_set, way) in ways {
        for i in 0..n {
            let mut points = in_order(&mut random);
            if i % 2 == 0 {
                points = with_holes(points, &mut random);
            }
            let case = Case::new(stage_set, way, points, &mut random);
            points = case.points;
            if change(&mut points, &mut random) {
                cases.push(Case { points, ..case });
            }
        }
    }
    assert!(cases.len() > n / 10, "the generator makes such cases");
    cases
}

fn answers(cases: &[Case]) -> Vec<Answer> {
    let questions: Vec<String> = cases.iter().map(Case::question).collect();
    let lines = ask(&questions);
    cases.iter().zip(lines).map(|(c, l)| read(c, &l)).collect()
}

#[test]
fn points_in_order_are_all_kept_and_nothing_is_counted() {
    let mut all = cases(&WAYS, 5000, 10, |_, _| true);
    // without an end hook, fine stages stop at the completion
    all.extend(cases(&[(StageSet::Fine, Way::Completed)], 2000, 18, |_, _| true));
    // a clock with steps of 40 ns gives several points the same time: stages of 0 ns
    all.extend(cases(&WAYS, 500, 30, |points, _| {
        let now = points[SetupOut as usize];
        let observed = points.iter_mut().filter(|point| **point != 0);
        observed.for_each(|point| *point = now);
        true
    }));
    for (case, answer) in all.iter().zip(answers(&all)) {
        assert_eq!(answer.pattern, all_but(case, &[]), "{case:?}");
        assert_eq!(answer.dropped(), 0, "{case:?}");
    }
}

#[test]
fn a_command_that_was_not_seen_everywhere_keeps_the_intervals_that_were() {
    let sets = [StageSet::Total, StageSet::Basic, StageSet::Fine, StageSet::Full];
    let ways: Vec<(StageSet, Way)> = sets
        .into_iter()
        .flat_map(|stage_set| {
            [Way::NoSetup, Way::NoComplete, Way::OnlyCqe].map(|way| (stage_set, way))
        })
        .collect();
    let cases = cases(&ways, 5000, 20, |_, _| true);
    let answers = answers(&cases);
    for (case, answer) in cases.iter().zip(&answers) {
        // without a completion and a CQE, the doorbell may be a late return
        let is_unsure = case.way == Way::NoComplete && case.at(Cqe) == 0;
        let dropped: &[_] = if is_unsure { &[Doorbell] } else { &[] };
        assert_eq!(answer.pattern, all_but(case, dropped), "{case:?}");
        assert_eq!(answer.dropped(), 0, "{case:?}");
    }
    let with_interval = answers.iter().filter(|a| a.hists.iter().any(|h| h[0] > 0));
    assert!(with_interval.count() > answers.len() / 4);
}

#[test]
fn a_point_out_of_order_is_dropped_and_counted_by_its_rule() {
    type Change = fn(&mut Points, &mut Random) -> bool;
    /// What happens, to which commands, the point that they lose, what is counted, and how.
    type Disorder = (&'static str, &'static [(StageSet, Way)], Point, [u64; 3], Change);
    let all: [Disorder; 5] = [
        (
            "a doorbell after the CQE: the submitter's late return",
            &WAYS[1..],
            Doorbell,
            [1, 0, 0],
            |points, random| {
                points[Doorbell as usize] = points[Cqe as usize] + 1 + random.step(30);
                points[Cqe as usize] != 0
            },
        ),
        (
            "a doorbell after the completion, without a CQE",
            &WAYS[1..],
            Doorbell,
            [1, 0, 0],
            |points, random| {
                points[Doorbell as usize] = points[Complete as usize] + 1 + random.step(30);
                points[Cqe as usize] == 0
            },
        ),
        (
            "an interrupt that already ran for others",
            &WAYS[3..],
            Irq,
            [0, 1, 0],
            |points, random| {
                points[Irq as usize] =
                    points[Doorbell as usize].saturating_sub(1 + random.step(40));
                points[Doorbell as usize] != 0 && points[Cqe as usize] != 0
            },
        ),
        ("a start after the setup", &WAYS[1..], Start, [0, 0, 1], |points, random| {
            points[Start as usize] = points[SetupOut as usize] + 1 + random.step(30);
            true
        }),
        ("a CQE before the setup", &WAYS[1..], Cqe, [0, 0, 1], |points, random| {
            points[Cqe as usize] = points[SetupOut as usize] - 1 - random.step(30);
            points[Irq as usize] = 0;
            true
        }),
    ];
    for (seed, (what, ways, point, counted, change)) in (11..).zip(all) {
        let cases = cases(ways, 3000, seed, change);
        for (case, answer) in cases.iter().zip(answers(&cases)) {
            assert_eq!(answer.pattern, all_but(case, &[point]), "{what}: {case:?}");
            let got = [answer.late_doorbell, answer.early_irq, answer.negative];
            assert_eq!(got, counted, "late doorbell, early irq, negative; {what}: {case:?}");
        }
    }
}

#[test]
fn whatever_the_order_each_dropped_point_is_counted_once_and_by_its_rule() {
    let cases = cases(&WAYS, 20_000, 16, |points, random| {
        let points_of = &mut points[Start as usize..];
        for i in (1..points_of.len()).rev() {
            points_of.swap(i, random.below(i as u64 + 1) as usize);
        }
        let (out, complete) = (points[SetupOut as usize], points[Complete as usize]);
        out != 0 && out <= complete
    });
    // shuffling may have given a time to a point that this stage set does not have
    let mut random = Random::of(17);
    let cases: Vec<Case> =
        cases.into_iter().map(|c| Case::new(c.stage_set, c.way, c.points, &mut random)).collect();
    for (case, answer) in cases.iter().zip(answers(&cases)) {
        let kept = |m: Point| case.at(m) != 0 && m.seen_in(answer.pattern);
        let lost = (all_but(case, &[]) & !answer.pattern & !BEFORE).count_ones();
        assert_eq!(answer.pattern & !all_but(case, &[]), 0, "{case:?}");
        assert_eq!(answer.dropped(), u64::from(lost), "{case:?} {answer:?}");

        let last = case.at(if kept(Cqe) { Cqe } else { Complete });
        let late = case.at(Doorbell) > last;
        assert_eq!(answer.late_doorbell, u64::from(late), "{case:?} {answer:?}");
        assert!(!late || !kept(Doorbell), "{case:?}");

        let before = [Doorbell, Issue].into_iter().find(|m| kept(*m));
        let early = case.at(Irq) != 0 && case.at(Irq) < case.at(before.unwrap_or(SetupOut));
        assert_eq!(answer.early_irq, u64::from(early), "{case:?} {answer:?}");
        assert!(!early || !kept(Irq), "{case:?}");
    }
}

#[test]
fn a_completion_before_the_setup_is_counted_negative_and_no_latency_of_centuries() {
    for (stage_set, way) in WAYS {
        let mut points = [0; Point::ALL.len()];
        (points[SetupOut as usize], points[Complete as usize]) = (5000, 4000);
        let case = Case::new(stage_set, way, points, &mut Random::of(19));
        let line = &ask(&[case.question()])[0];
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[6 + Count::Negative as usize], "1", "{case:?}");
        let (hists, _) = words[6 + COUNTS.len()..].as_chunks::<4>();
        for hist in &hists[..9] {
            assert!(hist[3].parse::<u64>().unwrap() <= 5000, "{case:?}: {hist:?}");
        }
    }
}
