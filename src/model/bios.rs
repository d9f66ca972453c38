// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bios that a command serves: the one for which its request was allocated, and those that were merged
//! into it. Only traces with `--stages=full` observe them.

use std::num::NonZeroU16;

/// The bit of a word where the number begins: `ND_BIOS_SHIFT`.
pub(crate) const SHIFT: u32 = 48;

/// Bios of a command. In one word, because every event has room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bios(u64);

impl Bios {
    /// From the word of `nd_early_times`: the number, and below it the longest wait. Zero: not observed.
    pub const fn of_word(word: u64) -> Self {
        if word >> SHIFT == 0 {
            return Self(0);
        }
        Self(word)
    }

    /// The inverse of [`Bios::of_word`].
    pub const fn word(self) -> u64 {
        self.0
    }

    /// This number of bios. The longest wait is in nanoseconds, at most three days.
    pub const fn new(count: u16, longest_wait_ns: u64) -> Self {
        Self::of_word((count as u64) << SHIFT | (longest_wait_ns & ((1 << SHIFT) - 1)))
    }

    /// How many: at most 256 are counted. `None`: not observed.
    pub const fn count(self) -> Option<NonZeroU16> {
        NonZeroU16::new((self.0 >> SHIFT) as u16)
    }

    /// From the submission of the oldest to the end of the setup, in nanoseconds.
    pub const fn longest_wait_ns(self) -> Option<u64> {
        match self.count() {
            Some(_) => Some(self.0 & ((1 << SHIFT) - 1)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_number_and_the_wait() {
        let bios = Bios::of_word(3 << 48 | 1_500_000);
        assert_eq!(bios, Bios::new(3, 1_500_000));
        assert_eq!(bios.count().map(NonZeroU16::get), Some(3));
        assert_eq!(bios.longest_wait_ns(), Some(1_500_000));
        for none in [0, 17] {
            let bios = Bios::of_word(none);
            assert_eq!((bios.count(), bios.longest_wait_ns()), (None, None));
            assert_eq!(bios, Bios::default());
        }
    }
}
