// SPDX-License-Identifier: MIT OR Apache-2.0
//! The streams of a process: where its last commands ended.

use std::mem::swap;

use crate::nvme::decode::Blocks;

/// Number of streams that are followed.
pub const STREAMS: usize = 16;

/// A stream of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    /// The block after its last one.
    end: u64,
    /// It has at least two commands, each of which begins where the one before it ends.
    continues: bool,
}

/// What a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It begins where an earlier one ended. `new`: it is the second of its stream.
    Sequential {
        /// Its stream had one command before.
        new: bool,
    },
    /// It begins elsewhere.
    Random,
}

/// The streams, the latest first.
#[derive(Clone, Debug, Default)]
pub struct Streams(Vec<Stream>);

impl Streams {
    /// Judges a command. It continues its stream, or begins one in place of that which was not
    /// continued for the longest time.
    pub fn judge(&mut self, blocks: Blocks) -> Kind {
        let mut stream =
            Stream { end: blocks.slba.saturating_add(blocks.nlb.into()), continues: false };
        let mut kind = Kind::Random;
        let found = self.0.iter().position(|s| s.end == blocks.slba);
        let place = match found {
            Some(place) => {
                let new = !self.0[place].continues;
                kind = Kind::Sequential { new };
                stream.continues = true;
                place
            }
            None => {
                if self.0.len() < STREAMS {
                    self.0.push(stream);
                }
                self.0.len() - 1
            }
        };
        // moves those before it by one
        for slot in &mut self.0[..=place] {
            swap(slot, &mut stream);
        }
        self.0[0].continues = kind != Kind::Random;
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn judge(streams: &mut Streams, slba: u64) -> Kind {
        streams.judge(Blocks { slba, nlb: 8 })
    }

    #[test]
    fn sixteen_interleaved_streams_are_sequential_and_seventeen_are_not() {
        for (interleaved, sequential) in [(1, 99), (16, 16 * 99), (17, 0)] {
            let mut streams = Streams::default();
            let mut found = 0;
            for n in 0..100 {
                for stream in 0..interleaved {
                    let kind = judge(&mut streams, (stream << 32) + n * 8);
                    found += u32::from(kind != Kind::Random);
                }
            }
            assert_eq!(found, sequential, "{interleaved}");
        }
    }

    #[test]
    fn a_stream_is_new_with_its_second_command() {
        let mut streams = Streams::default();
        let kinds = [0, 8, 16, 800, 24].map(|slba| judge(&mut streams, slba));
        let sequential = |new| Kind::Sequential { new };
        assert_eq!(
            kinds,
            [Kind::Random, sequential(true), sequential(false), Kind::Random, sequential(false)]
        );
    }

    proptest! {
        /// The same rule with times instead of an order.
        #[test]
        fn the_stream_that_waited_longest_is_replaced(
            commands in vec((0_u64..40, 1_u32..4), 1..400),
        ) {
            let mut streams = Streams::default();
            let mut ends: Vec<(usize, u64)> = vec![];
            for (now, (slba, nlb)) in commands.into_iter().enumerate() {
                let kind = streams.judge(Blocks { slba, nlb });
                // the latest, if two streams end at the same block
                let hit = (0..ends.len())
                    .filter(|n| ends[*n].1 == slba)
                    .max_by_key(|n| ends[*n].0);
                prop_assert_eq!(kind != Kind::Random, hit.is_some());
                let oldest = || (0..ends.len()).min_by_key(|n| ends[*n].0);
                let gone = hit.or_else(|| oldest().filter(|_| ends.len() == STREAMS));
                gone.map(|n| ends.remove(n));
                ends.push((now, slba + u64::from(nlb)));
            }
        }
    }
}
