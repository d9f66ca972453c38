// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latency buckets of the `nvme_latency` tool, for output that can be compared with it.
//!
//! Above a minimum the slots double in width; `shift` sets the width of the first. `nvme_latency`
//! drops latencies below the first slot and above the last. Here two additional slots count them,
//! so that the table adds up to the number of commands.
//!
//! The table is made of single commands. Its bounds are not bounds of the histogram's buckets: a table made
//! from these would have up to two thirds of the commands of our recordings in the wrong slot.
//!
//! Pure: no I/O, no BPF. All values are microseconds.

/// Number of slots that double in width, from the minimum up.
pub const DOUBLING: usize = 27;
/// Index of the count of latencies below the minimum.
pub const BELOW: usize = 27;
/// Index of the count of latencies above the last slot.
pub const ABOVE: usize = 28;
/// Length of the array of counts: the doubling slots, then below, then above.
pub const SLOTS: usize = 29;

/// Largest `shift` accepted: a first slot of one second.
const MAX_SHIFT: u32 = 20;
/// Largest `min_us` accepted: one hour, in microseconds.
const MAX_MIN_US: u32 = 3_600_000_000;

/// The two parameters of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatBuckets {
    /// Lower end of slot 0, in microseconds.
    pub min_us: u32,
    /// log2 of the width of slot 0 in microseconds. Slot 1 has the same width, each later one
    /// doubles.
    pub shift: u32,
}

/// One line of the table: a slot and its count.
#[derive(Clone, Debug, PartialEq)]
pub struct LatRow {
    /// Lower end in microseconds, inclusive.
    pub low_us: u64,
    /// Upper end in microseconds, exclusive; `None` if the slot has none.
    pub high_us: Option<u64>,
    /// Commands in this slot.
    pub count: u64,
    /// Percentage of all counted commands in this slot and all lower ones.
    pub cumulative_percent: f64,
}

impl LatBuckets {
    /// Checks the user's parameters.
    ///
    /// # Errors
    ///
    /// If `shift` is above 20 or `min_us` above 3 600 000 000 (one hour), in words for the user.
    pub fn validate(&self) -> Result<(), String> {
        let Self { min_us, shift } = *self;
        if shift > MAX_SHIFT {
            return Err(format!(
                "the bucket shift {shift} is above {MAX_SHIFT} (a first bucket of 2^{MAX_SHIFT} \
                 us, one second): give 0 to {MAX_SHIFT}"
            ));
        }
        if min_us > MAX_MIN_US {
            return Err(format!(
                "the lowest bucket at {min_us} us is above one hour: give at most {MAX_MIN_US}"
            ));
        }
        Ok(())
    }

    /// The slot of a latency of `v_us` microseconds: a doubling slot, [`BELOW`] or [`ABOVE`].
    #[must_use]
    pub fn index(&self, v_us: u64) -> usize {
        let Some(over) = v_us.checked_sub(u64::from(self.min_us)) else {
            return BELOW;
        };
        let widths = over.checked_shr(self.shift).unwrap_or(0);
        match (u64::BITS - widths.leading_zeros()) as usize {
            slot @ 0..DOUBLING => slot,
            _ => ABOVE,
        }
    }

    /// Lower end of doubling slot `slot`, in microseconds, inclusive.
    #[must_use]
    pub fn low(&self, slot: usize) -> u64 {
        slot.checked_sub(1).map_or(u64::from(self.min_us), |before| self.high(before))
    }

    /// Upper end of doubling slot `slot`, in microseconds, exclusive.
    #[must_use]
    pub fn high(&self, slot: usize) -> u64 {
        // With values that `validate` rejects, the sum may overflow: it saturates.
        let exp = u32::try_from(slot).map_or(u32::MAX, |slot| slot.saturating_add(self.shift));
        let width = 1_u64.checked_shl(exp).unwrap_or(u64::MAX);
        width.saturating_add(u64::from(self.min_us))
    }

    /// The table, lowest latency first, from the first slot with a count to the last one, with the
    /// empty slots between them. Empty if nothing was counted.
    #[must_use]
    pub fn rows(&self, counts: &[u64; SLOTS]) -> Vec<LatRow> {
        let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
        let order: Vec<usize> = [BELOW].into_iter().chain(0..DOUBLING).chain([ABOVE]).collect();
        let used = |&index: &usize| counts[index] > 0;
        let (Some(first), Some(last)) = (order.iter().position(used), order.iter().rposition(used))
        else {
            return Vec::new();
        };
        let mut seen = 0_u128;
        let row = |&index: &usize| {
            seen += u128::from(counts[index]);
            let (low_us, high_us) = match index {
                BELOW => (0, Some(self.low(0))),
                ABOVE => (self.high(DOUBLING - 1), None),
                slot => (self.low(slot), Some(self.high(slot))),
            };
            let cumulative_percent = seen as f64 * 100.0 / total as f64;
            LatRow { low_us, high_us, count: counts[index], cumulative_percent }
        };
        order[first..=last].iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [(u32, u32); 7] =
        [(0, 0), (10, 0), (10, 3), (1, 1), (100, 20), (3_600_000_000, 20), (u32::MAX, 32)];

    #[test]
    fn edges_follow_the_rule_of_nvme_latency_and_are_inside_their_slot() {
        for (min_us, shift) in SHAPES {
            let buckets = LatBuckets { min_us, shift };
            assert_eq!(buckets.low(0), u64::from(min_us));
            for slot in 0..DOUBLING {
                let (low, high) = (buckets.low(slot), buckets.high(slot));
                assert_eq!(high, u64::from(min_us) + (1 << (slot as u32 + shift)));
                let next = if slot == 26 { ABOVE } else { slot + 1 };
                let inside = [low, high - 1, high].map(|us| buckets.index(us));
                assert_eq!(inside, [slot, slot, next], "{buckets:?}");
                if let Some(under) = low.checked_sub(1) {
                    let before = slot.checked_sub(1).unwrap_or(BELOW);
                    assert_eq!(buckets.index(under), before, "{buckets:?}");
                }
            }
            assert_eq!(buckets.index(u64::MAX), ABOVE);
        }
        let buckets = LatBuckets { min_us: 10, shift: 3 };
        let slots: Vec<usize> = [10, 17, 18, 25, 26, 41, 42].map(|v| buckets.index(v)).into();
        assert_eq!(slots, [0, 0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn rows_run_from_the_first_to_the_last_slot_in_use() {
        let buckets = LatBuckets { min_us: 10, shift: 3 };
        let mut counts = [0; SLOTS];
        assert_eq!(buckets.rows(&counts), []);
        (counts[1], counts[3]) = (3, 1);
        let row = |low_us, high, count, cumulative_percent| LatRow {
            low_us,
            high_us: Some(high),
            count,
            cumulative_percent,
        };
        let expected = [row(18, 26, 3, 75.0), row(26, 42, 0, 75.0), row(42, 74, 1, 100.0)];
        assert_eq!(buckets.rows(&counts), expected);
        // below first and above last
        let mut counts = [0; SLOTS];
        (counts[BELOW], counts[ABOVE]) = (1, 1);
        let rows = buckets.rows(&counts);
        let (first, last) = (&rows[0], &rows[SLOTS - 1]);
        assert_eq!((first.low_us, first.high_us), (0, Some(10)));
        assert_eq!((last.low_us, last.high_us), (10 + (1 << 29), None));
        assert_eq!((first.cumulative_percent, last.cumulative_percent), (50.0, 100.0));
        assert!(rows.windows(2).all(|two| two[0].high_us == Some(two[1].low_us)));
        assert_eq!(buckets.rows(&[u64::MAX; SLOTS])[28].cumulative_percent, 100.0);
    }
}
