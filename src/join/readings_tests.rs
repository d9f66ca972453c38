// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offset contains the truth, for clocks of made machines.

use super::*;
use proptest::prelude::*;

/// The TSC ticks 2.5 times per nanosecond of the host's clock.
const TICKS: f64 = 2.5;

/// Two machines: times are of the host's CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
struct Machines {
    /// Host minus guest, at time 0.
    offset: i64,
    /// How much faster the host's clock is, in parts per million.
    ppm: f64,
    scale: TscScale,
    /// Host's wall clock minus its CLOCK_MONOTONIC.
    wall: i64,
    error_ns: u64,
}

impl Machines {
    fn guest_ns(&self, host_ns: i64) -> i64 {
        host_ns - self.offset - (host_ns as f64 * self.ppm / 1e6) as i64
    }

    fn reading(&self, clock: SharedClock, value: u64, mono_ns: i64) -> ClockReading {
        // wrong by as much as is said
        let late = self.error_ns.cast_signed() * if value.is_multiple_of(2) { 1 } else { -1 };
        ClockReading {
            clock,
            value,
            mono_ns: (mono_ns + late).cast_unsigned(),
            error_ns: self.error_ns,
            guest: None,
        }
    }

    fn host(&self, at: &[i64]) -> Vec<ClockReading> {
        let both = |&ns: &i64| {
            let tsc = (ns as f64 * TICKS) as u64;
            let wall = (ns + self.wall).cast_unsigned();
            let ticks =
                ClockReading { guest: Some(self.scale), ..self.reading(SharedClock::Tsc, tsc, ns) };
            [ticks, self.reading(SharedClock::Wall, wall, ns)]
        };
        at.iter().flat_map(both).collect()
    }

    fn guest(&self, at: &[i64]) -> Vec<ClockReading> {
        let both = |&ns: &i64| {
            let host = i128::from((ns as f64 * TICKS) as u64);
            let ticks = (host * i128::from(self.scale.ratio)) >> self.scale.bits;
            let tsc = (ticks + i128::from(self.scale.offset)) as u64;
            let wall = (ns + self.wall).cast_unsigned();
            [
                self.reading(SharedClock::Tsc, tsc, self.guest_ns(ns)),
                self.reading(SharedClock::HostWall, wall, self.guest_ns(ns)),
            ]
        };
        at.iter().flat_map(both).collect()
    }
}

const SECOND: i64 = 1_000_000_000;
/// Within the readings.
const SPAN: (i64, i64) = (100 * SECOND, 100 * SECOND);

fn machines(offset: i64, ppm: f64, error_ns: u64) -> Machines {
    Machines {
        offset,
        ppm,
        scale: TscScale { offset: -123_456_789_012, ratio: 3 << 31, bits: 32 },
        wall: 1_795_000_000 * SECOND,
        error_ns,
    }
}

proptest! {
    #[test]
    fn the_truth_is_within_the_error(
        // a guest boots after its host, and its clock starts at 0
        offset in 0..80 * SECOND, ppm in -200.0..200.0_f64, error_ns in 0_u64..20_000,
    ) {
        let m = machines(offset, ppm, error_ns);
        let host = m.host(&[100 * SECOND, 110 * SECOND, 125 * SECOND]);
        let guest = m.guest(&[99 * SECOND, 108 * SECOND, 126 * SECOND]);
        for third in [SharedClock::Tsc, SharedClock::HostWall] {
            let span = (m.guest_ns(99 * SECOND), m.guest_ns(126 * SECOND));
            let found = by_readings(&guest, &host, third, span).unwrap();
            for at in (99..=126).map(|s| s * SECOND) {
                let guest_ns = m.guest_ns(at);
                let truth = at - guest_ns;
                let (low, high) = found.range(guest_ns);
                // rounding of the made readings
                prop_assert!(low - 4 <= truth && truth <= high + 4, "{truth} {found:?}");
            }
            prop_assert!(found.error_ns <= 6 * error_ns + 10, "{found:?}");
        }
    }
}

#[test]
fn uneven_clocks_widen_the_error() {
    let m = machines(5 * SECOND, 0.0, 10);
    let host = m.host(&[100 * SECOND, 110 * SECOND]);
    let mut guest = m.guest(&[100 * SECOND, 105 * SECOND, 110 * SECOND]);
    assert!(by_readings(&guest, &host, SharedClock::HostWall, SPAN).unwrap().error_ns < 100);
    for reading in &mut guest[2..4] {
        reading.mono_ns += 3000;
    }
    for third in [SharedClock::Tsc, SharedClock::HostWall] {
        let found = by_readings(&guest, &host, third, SPAN).unwrap();
        assert!((2980..3100).contains(&found.error_ns), "{found:?}");
    }
}

#[test]
fn without_two_readings_or_after_a_step_there_is_no_offset() {
    let m = machines(5 * SECOND, 0.0, 10);
    let host = m.host(&[100 * SECOND, 110 * SECOND]);
    let guest = m.guest(&[101 * SECOND, 109 * SECOND]);
    let tsc = SharedClock::Tsc;
    assert!(by_readings(&guest, &host, tsc, SPAN).is_ok());
    let once = by_readings(&guest[..2], &host, tsc, SPAN);
    assert!(once.unwrap_err().contains("guest does not have two readings of the TSC"));
    let once = by_readings(&guest, &host[..2], SharedClock::HostWall, SPAN);
    assert!(once.unwrap_err().contains("host side does not have two readings of its wall clock"));
    let mut stepped = host;
    stepped[3].value += 5000;
    let set = by_readings(&guest, &stepped, SharedClock::HostWall, SPAN);
    assert!(set.unwrap_err().contains("wall clock of the host was set"));
    assert!(by_readings(&guest, &stepped, tsc, SPAN).is_ok());
}

#[test]
fn beyond_the_readings_the_error_is_larger() {
    let m = machines(0, 50.0, 20);
    let host = m.host(&[100 * SECOND, 120 * SECOND]);
    let guest = m.guest(&[100 * SECOND, 110 * SECOND]);
    let at = m.guest_ns(118 * SECOND);
    let found = by_readings(&guest, &host, SharedClock::HostWall, (SPAN.0, at)).unwrap();
    let (low, high) = found.range(at);
    let truth = 118 * SECOND - at;
    assert!((low..=high).contains(&truth), "{truth} {found:?}");
    let inside = by_readings(&guest, &host, SharedClock::HostWall, SPAN).unwrap();
    assert!(found.error_ns > 2 * inside.error_ns, "{found:?} {inside:?}");
}

#[test]
fn a_scale_that_changes_or_lacks_gives_no_offset() {
    let m = machines(5 * SECOND, 0.0, 10);
    let guest = m.guest(&[101 * SECOND, 109 * SECOND]);
    let host = m.host(&[100 * SECOND, 110 * SECOND]);
    let with = |scales: [Option<TscScale>; 2]| {
        let mut host = host.clone();
        (host[0].guest, host[2].guest) = (scales[0], scales[1]);
        by_readings(&guest, &host, SharedClock::Tsc, SPAN)
    };
    let other = TscScale { offset: 0, ..m.scale };
    assert!(with([Some(m.scale), None]).is_ok());
    let none = with([None, None]).unwrap_err();
    assert!(none.contains("has no TSC offset"), "{none}");
    let changed = with([Some(m.scale), Some(other)]).unwrap_err();
    assert!(changed.contains("changed during the recording"), "{changed}");
    for damaged in [TscScale { ratio: 0, ..other }, TscScale { bits: 64, ..other }] {
        assert_eq!(with([Some(damaged), None]).as_ref(), Err(&none));
    }
}
