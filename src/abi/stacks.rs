// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps of kernel stacks.

use std::mem::size_of;

use super::skel::types::{nd_stack, nd_stack_limit, nd_stack_sum};
use super::{DecodeError, words};
use crate::model::event::StackId;

/// Bytes of a stack.
pub const STACK_BYTES: usize = size_of::<nd_stack>();
/// Bytes of the sums of a stack's commands.
pub const STACK_SUM_BYTES: usize = size_of::<nd_stack_sum>();
/// Maximum number of distinct stacks.
pub const MAX_STACKS: u32 = 4096;
/// The sum of all commands whose stack was not observed has this number.
pub const STACK_UNSEEN: StackId = StackId(nd_stack_limit::ND_STACK_UNSEEN.0 as u64);

/// The addresses of a stack, from its value in the map.
pub fn stack_frames(value: &[u8]) -> Result<Vec<u64>, DecodeError> {
    let mut words = words(value);
    let depth = usize::try_from(*words.first().ok_or(DecodeError)?).map_err(|_| DecodeError)?;
    words.remove(0);
    words.truncate(depth);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_as_many_frames_as_it_says() {
        let value: Vec<u8> = [2_u64, 10, 20, 30].iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(stack_frames(&value), Ok(vec![10, 20]));
    }
}
