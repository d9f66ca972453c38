// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's clocks.

use rustix::time::ClockId;
use rustix::time::clock_gettime;

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// CLOCK_MONOTONIC in nanoseconds, the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The offset to add to CLOCK_MONOTONIC for the time since 1970, in nanoseconds. It changes when
/// the clock is set.
pub fn wall_offset_ns() -> i64 {
    // the try with the smallest gap between its readings is the most accurate
    let tries = (0..5).map(|_| {
        let before = monotonic_ns();
        let wall = nanoseconds(ClockId::Realtime);
        let after = monotonic_ns();
        (
            after - before,
            wall.cast_signed() - (before + (after - before) / 2).cast_signed(),
        )
    });
    tries.min_by_key(|t| t.0).map_or(0, |t| t.1)
}
