// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state and the owner of a slot.

use std::mem::offset_of;

use super::events::submission;
use super::maps::{ROW_BITS, SLOT_ORIGIN, SLOT_TRACE, STATE_COMPLETED, STATE_OPEN, nd_slot};
use super::records::{RawOrigin, RawSubmission};
use super::{DecodeError, read};
use crate::model::event::{CommandId, Event, EventKind, OpenCommand};
use crate::model::ids::RowKey;
use crate::nvme::subject::ALL_NAMESPACES;

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

/// Reads the state of a slot of any size.
pub fn slot_state(bytes: &[u8]) -> Result<SlotState, DecodeError> {
    let state = bytes.get(offset_of!(nd_slot, state));
    state.copied().map(state_of).ok_or(DecodeError)
}

/// The event for a slot of a detached session: a command that has not completed. `None` if the slot
/// has no such command.
pub fn unfinished(slot: &[u8], now_ns: u64) -> Result<Option<Event>, DecodeError> {
    let open = open_command(slot)?;
    Ok(open.map(|open| Event {
        at_ns: now_ns,
        what: EventKind::Unfinished {
            id: open.id,
            submission: open.submission,
            age_ns: now_ns.saturating_sub(open.setup_ns),
        },
    }))
}

/// The command in flight of a slot of a trace. `None` if the slot has none.
pub fn open_command(slot: &[u8]) -> Result<Option<OpenCommand>, DecodeError> {
    // only some runs have the last parts
    let mut whole = [0; SLOT_ORIGIN];
    let size = slot.len().min(SLOT_ORIGIN);
    if size < SLOT_TRACE {
        return Err(DecodeError);
    }
    whole[..size].copy_from_slice(&slot[..size]);
    let s: nd_slot = read(&whole)?;
    if s.state != STATE_OPEN {
        return Ok(None);
    }
    let submitted: RawSubmission = read(&whole[offset_of!(nd_slot, submission)..])?;
    let origin: RawOrigin = read(&whole[offset_of!(nd_slot, origin)..])?;
    let (row, _) = RowKey::unpack(s.key >> ROW_BITS);
    let id = CommandId {
        ctrl: row.ctrl,
        qid: s.qid,
        cid: s.cid,
        nsid: if row.nsid == ALL_NAMESPACES { submitted.nsid } else { row.nsid },
        opcode: row.opcode,
    };
    Ok(Some(OpenCommand {
        // classic tracepoints provide none
        request: (s.rq > 1).then_some(s.rq),
        id,
        row,
        setup_ns: s.setup_out_ns,
        submission: submission(&id, &submitted, origin.origin()),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::maps::{SLOT_FULL, SLOT_STATE};
    use super::*;

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = unfinished(&bytes, 0);
            let _ = slot_state(&bytes);
            let _ = super::super::stack_frames(&bytes);
        }
    }

    #[test]
    fn slots_decode_with_and_without_their_last_part() {
        let mut slot = [0; SLOT_ORIGIN];
        slot[SLOT_STATE * 8..][..8].fill(STATE_OPEN);
        for size in [SLOT_TRACE, SLOT_FULL, SLOT_ORIGIN] {
            assert!(open_command(&slot[..size]).is_ok(), "{size}");
        }
        assert!(open_command(&slot[..SLOT_TRACE - 1]).is_err());
    }
}
