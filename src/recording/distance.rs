// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points of a command as distances: small numbers, which compress well.

use std::array;

use crate::model::point::{Pattern, Point};

/// The points that have columns, other than set-up and completion. Later ones are parts (`parts`).
const POINTS: [Point; 7] = [
    Point::Start,
    Point::SetupIn,
    Point::Issue,
    Point::Doorbell,
    Point::Irq,
    Point::Cqe,
    Point::End,
];

/// All bits if this point is in the pattern.
#[inline(always)]
fn mask(point: Point, pattern: Pattern) -> u64 {
    let bit = point.pattern_bit().map_or(0, Pattern::trailing_zeros);
    u64::from(pattern >> bit & 1).wrapping_neg()
}

/// All bits of each point of a pattern.
pub fn masks(pattern: Pattern) -> [u64; 7] {
    POINTS.map(|point| mask(point, pattern))
}

/// The distances of the points from the end of the set-up, or from the event where that is closer or
/// the set-up was not observed. Points that are not in the pattern have the distance zero.
#[inline(always)]
pub fn distances(
    ns: impl Fn(Point) -> u64,
    pattern: Pattern,
    at_ns: u64,
    setup_out: u64,
) -> [u64; 7] {
    let seen = Point::SetupOut.seen_in(pattern);
    let near = if seen { setup_out } else { at_ns };
    let after = |point| {
        if seen { ns(point).wrapping_sub(near) } else { near.wrapping_sub(ns(point)) }
    };
    let all = [
        near.wrapping_sub(ns(Point::Start)),
        near.wrapping_sub(ns(Point::SetupIn)),
        after(Point::Issue),
        after(Point::Doorbell),
        at_ns.wrapping_sub(ns(Point::Irq)),
        at_ns.wrapping_sub(ns(Point::Cqe)),
        ns(Point::End).wrapping_sub(at_ns),
    ];
    array::from_fn(|n| all[n] & mask(POINTS[n], pattern))
}

/// All bits if this is true.
#[inline(always)]
fn all_if(is: bool) -> u64 {
    u64::from(is).wrapping_neg()
}

/// The inverse of [`distances`]: the first times of a timeline.
#[inline(always)]
pub fn points(of: [u64; 7], at_ns: u64, setup_out: u64, pattern: Pattern) -> [u64; 9] {
    let seen = Point::SetupOut.seen_in(pattern);
    let near = if seen { setup_out } else { at_ns };
    let [start, setup_in, issue, doorbell, irq, cqe, end] = of;
    let after = |distance| {
        if seen { near.wrapping_add(distance) } else { near.wrapping_sub(distance) }
    };
    let all = [
        near.wrapping_sub(start),
        near.wrapping_sub(setup_in),
        setup_out,
        after(issue),
        after(doorbell),
        at_ns.wrapping_sub(irq),
        at_ns.wrapping_sub(cqe),
        at_ns,
        at_ns.wrapping_add(end),
    ];
    // not a map over POINTS: its bits would not be constants
    let [start, setup_in, issue, doorbell] = [
        mask(POINTS[0], pattern),
        mask(POINTS[1], pattern),
        mask(POINTS[2], pattern),
        mask(POINTS[3], pattern),
    ];
    let [irq, cqe, end] =
        [mask(POINTS[4], pattern), mask(POINTS[5], pattern), mask(POINTS[6], pattern)];
    let complete = all_if(Point::Complete.seen_in(pattern));
    let masks = [start, setup_in, all_if(seen), issue, doorbell, irq, cqe, complete, end];
    array::from_fn(|n| all[n] & masks[n])
}
