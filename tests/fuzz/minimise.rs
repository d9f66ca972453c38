// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes an input smaller that fails.

use crate::blocks::{input_of, parts};
use crate::targets::Form;

/// Most runs.
const TRIES: usize = 3000;

/// Removes parts of recordings, then ranges of bytes, as long as the input still fails.
pub fn minimise(form: Form, input: &[u8], fails: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut tries = TRIES;
    if form == Form::Parts && !input.is_empty() {
        let first = input[0];
        let mut all = parts(&input[1..]);
        let mut at = 0;
        while at < all.len() && tries > 0 {
            tries -= 1;
            let part = all.remove(at);
            let small = [&[first], input_of(&all).as_slice()].concat();
            if !fails(&small) {
                all.insert(at, part);
                at += 1;
            }
        }
        at = 0;
        while at < all.len() && tries > 0 {
            all[at].payload = shorter(&all[at].payload.clone(), &mut tries, &mut |payload| {
                let mut all = all.clone();
                all[at].payload = payload.to_vec();
                fails(&[&[first], input_of(&all).as_slice()].concat())
            });
            at += 1;
        }
        return [&[first], input_of(&all).as_slice()].concat();
    }
    shorter(input, &mut tries, fails)
}

/// Removes ranges of bytes, large ones first.
fn shorter(bytes: &[u8], tries: &mut usize, fails: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut size = bytes.len().next_power_of_two() / 2;
    while size > 0 && *tries > 0 {
        let mut at = 0;
        while at < bytes.len() && *tries > 0 {
            *tries -= 1;
            let end = (at + size).min(bytes.len());
            let small = [&bytes[..at], &bytes[end..]].concat();
            if fails(&small) {
                bytes = small;
            } else {
                at = end;
            }
        }
        size /= 2;
    }
    bytes
}
