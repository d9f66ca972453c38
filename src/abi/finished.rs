// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a finished command, as the BPF side wrote it: a recording stores its numbers without
//! the detour of an [`Event`](crate::model::event::Event), which takes twice the instructions.

use std::mem::size_of;

use bytemuck::{try_cast_ref, try_cast_slice};

use super::events::{event_latency, timeline};
use super::records::{RawEnd, RawSubmission, kind};
use crate::abi::events::Times;
use crate::model::ids::NamespaceId;
use crate::model::point::NO_SETUP;
use crate::model::timeline::total_of;

/// Words of the parts of a record.
const END: usize = size_of::<RawEnd>() / 8;
const SUBMITTED: usize = size_of::<RawSubmission>() / 8;
/// The bits of points whose times are in [`Times`], and [`NO_SETUP`].
const PLAIN: u16 = ((1 << (size_of::<Times>() / 8)) - 1) | NO_SETUP as u16;

/// The record of a command that has completed, with its submission.
#[derive(Clone, Copy)]
pub struct PairRecord<'a> {
    /// The words of `end` and `submission`.
    pub(crate) command: &'a [u64; END + SUBMITTED],
    pub(crate) end: &'a RawEnd,
    pub(crate) submission: &'a RawSubmission,
    /// Only with stages.
    pub(crate) times: Option<&'a Times>,
}

impl<'a> PairRecord<'a> {
    /// Looks at a record of the ring. `None` if it must be decoded: it is of another kind, its completion
    /// was not observed, or it has points before the request or who caused the command.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let words: &[u64] = try_cast_slice(bytes).ok()?;
        let (command, rest) = words.split_first_chunk()?;
        let record = Self::of_words(command, rest.first_chunk())?;
        let event = &record.end.event;
        let is_plain = u32::from(event.kind) == kind::PAIR && event.pattern & !PLAIN == 0;
        (is_plain && !record.submission.has_origin()).then_some(record)
    }

    /// The record with these words.
    #[inline(always)]
    pub(crate) fn of_words(
        command: &'a [u64; END + SUBMITTED],
        times: Option<&'a Times>,
    ) -> Option<Self> {
        let (end, rest) = command.split_first_chunk::<END>()?;
        let submission = rest.first_chunk::<SUBMITTED>()?;
        Some(Self {
            command,
            end: try_cast_ref(end).ok()?,
            submission: try_cast_ref(submission).ok()?,
            times,
        })
    }

    /// CLOCK_MONOTONIC nanoseconds of the completion.
    pub const fn at_ns(&self) -> u64 {
        self.end.event.ns
    }

    /// Its namespace; `None` for an admin command.
    pub fn namespace(&self) -> Option<NamespaceId> {
        let event = &self.end.event;
        (event.admin == 0).then(|| NamespaceId::new(event.ctrl.into(), event.nsid))
    }

    /// The process that submitted it, if that was observed.
    pub fn pid(&self) -> Option<u32> {
        let submission = self.submission;
        submission.knows_submitter().then_some(submission.tgid)
    }

    /// From the end of the set-up to the completion, if that was observed.
    #[inline]
    pub fn latency_ns(&self) -> Option<u64> {
        event_latency(&self.end.event, self.end.setup_out_ns)
    }

    /// From its first to its last observed point: what [`total_ns`] is of its event.
    ///
    /// [`total_ns`]: crate::model::timeline::total_ns
    pub fn total_ns(&self) -> Option<u64> {
        let line = timeline(&self.end.event, self.end.setup_out_ns, self.times);
        total_of(line.as_ref(), self.latency_ns(), Some(self.at_ns()))
    }

    /// The status, if it was observed.
    pub fn status(&self) -> Option<u16> {
        let outcome = &self.end.outcome;
        (outcome.known != 0).then_some(outcome.status)
    }
}
