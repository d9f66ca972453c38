// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state and the owner of a slot.

use std::mem::offset_of;

use super::{
    DecodeError, MAX_CTRLS, ROW_BITS, STATE_COMPLETED, STATE_OPEN, nd_key, nd_slot, words,
};
use crate::model::ids::QueueId;

/// The state of a slot, as found by the final scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Free, or the command was rejected by a filter.
    Idle,
    /// Set up, not completed.
    InFlight,
    /// Completed, but not ended by blk-mq.
    Ending,
}

/// The owner of a slot (request and command id) and its state. If two readings are equal, they are
/// of the same command.
pub fn slot_owner(bytes: &[u8]) -> Result<(u64, u16, SlotState), DecodeError> {
    let at = offset_of!(nd_slot, cid);
    let rq = bytes.get(..8).and_then(|b| b.try_into().ok());
    let cid = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    Ok((
        rq.map(u64::from_ne_bytes).ok_or(DecodeError)?,
        cid.map(u16::from_ne_bytes).ok_or(DecodeError)?,
        slot_state(bytes)?,
    ))
}

/// Whether a slot is idle, from the word that contains its state.
pub fn slot_is_idle(word: u64) -> bool {
    let state = word.to_ne_bytes()[offset_of!(nd_slot, state) % 8];
    state_of(state) == SlotState::Idle
}

const fn state_of(state: u8) -> SlotState {
    match state {
        STATE_OPEN => SlotState::InFlight,
        STATE_COMPLETED => SlotState::Ending,
        _ => SlotState::Idle,
    }
}

/// The queue of a slot's command. Runs without windows do not set it.
pub fn slot_queue(bytes: &[u8]) -> Result<QueueId, DecodeError> {
    let words = words(bytes);
    let key = words.get(offset_of!(nd_slot, key) / 8).ok_or(DecodeError)? >> ROW_BITS;
    let at = offset_of!(nd_slot, qid);
    let qid = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    let ctrl = (key >> nd_key::ND_KEY_CTRL_SHIFT.0) as u32 & (MAX_CTRLS - 1);
    Ok(QueueId::new(ctrl, qid.map(u16::from_ne_bytes).ok_or(DecodeError)?))
}

/// Reads the state of a slot of any size.
pub fn slot_state(bytes: &[u8]) -> Result<SlotState, DecodeError> {
    let state = bytes.get(offset_of!(nd_slot, state));
    state.copied().map(state_of).ok_or(DecodeError)
}
