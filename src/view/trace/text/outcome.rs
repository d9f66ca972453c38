// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a command, its time and its stages.

use crate::model::bios::Bios;
use crate::model::event::{CompletionStatus, Outcome};
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;
use crate::nvme::opcode::Opcode;
use crate::nvme::status::{Status, StatusType};
use crate::view::trace::ink::{Ink, TextStyle};
use crate::view::trace::stages::{Shape, Stages};

/// The key of the request's flags.
#[derive(Clone, Copy)]
pub(super) enum FlagsKey {
    /// `flags`.
    Flags,
    /// `rqflags`: the line also contains the flags of the command.
    RqFlags,
}

impl Ink<'_> {
    #[inline]
    pub(super) fn outcome(
        &mut self,
        opcode: Opcode,
        outcome: &Outcome,
        flags: FlagsKey,
        stages: Option<&mut Stages>,
    ) {
        match &outcome.verdict {
            // with colour this text has escape sequences
            Some(verdict) if verdict.is_plain() && self.codes.is_none() => match flags {
                FlagsKey::Flags => self
                    .line
                    .str(concat!(", res=0x0, retries=0, flags=0x0, ", "status=0x0 (Success)")),
                FlagsKey::RqFlags => self
                    .line
                    .str(concat!(", res=0x0, retries=0, rqflags=0x0, ", "status=0x0 (Success)")),
            },
            Some(verdict) => self.verdict(opcode, verdict, flags),
            None => self.line.str(", status=?"),
        }
        if !self.stages_of(outcome.timeline.as_ref(), stages) {
            self.line.str(", driver=");
            self.time(outcome.latency_ns);
        }
        if outcome.bios.count().is_some_and(|count| count.get() > 1) {
            self.bios(outcome.bios);
        }
    }

    fn time(&mut self, ns: Option<u64>) {
        match ns {
            Some(ns) => self.styled(TextStyle::Head, |ink| ink.line.nanos(ns)),
            None => self.line.byte(b'?'),
        }
    }

    /// Writes how many bios the command served, if it was more than one.
    #[cold]
    #[inline(never)]
    fn bios(&mut self, bios: Bios) {
        self.number(", bios=", bios.count().map_or(0, u16::from));
        self.line.str(", longest_wait=");
        self.line.nanos(bios.longest_wait_ns().unwrap_or(0));
    }

    /// Writes a completion that was not observed: the most that the command can have taken, and its
    /// stages.
    #[cold]
    pub(super) fn missed(
        &mut self,
        latency_max_ns: Option<u64>,
        timeline: Option<&Timeline>,
        stages: Option<&mut Stages>,
    ) {
        self.line.str(", driver_max=");
        self.time(latency_max_ns);
        self.stages_of(timeline, stages);
    }

    /// Writes the total and the stages. Returns false if there are none.
    #[inline]
    fn stages_of(&mut self, timeline: Option<&Timeline>, stages: Option<&mut Stages>) -> bool {
        if let Some((stages, timeline)) = stages.zip(timeline)
            && let Some(shape) = stages.of(timeline)
        {
            return self.stages(shape, timeline);
        }
        false
    }

    fn verdict(&mut self, opcode: Opcode, verdict: &CompletionStatus, flags: FlagsKey) {
        let CompletionStatus { result, status, retries, flags: request_flags } = *verdict;
        self.styled(TextStyle::Dim, |ink| {
            ink.line.str(", res=");
            ink.line.hex(result);
            ink.number(", retries=", retries);
            match flags {
                FlagsKey::Flags => ink.line.str(", flags="),
                FlagsKey::RqFlags => ink.line.str(", rqflags="),
            }
            ink.line.hex(request_flags);
        });
        self.line.str(", ");
        let styled = TextStyle::failed(!status.is_success(), TextStyle::Dim);
        self.styled(styled, |ink| {
            if status.0 == 0 {
                ink.line.str("status=0x0 (Success)");
            } else {
                ink.status(opcode, status);
            }
        });
    }

    /// Writes the status in the format of its `Display`, with the whole number before it.
    #[cold]
    #[inline(never)]
    fn status(&mut self, opcode: Opcode, status: Status) {
        self.line.str("status=");
        self.line.hex(status.0);
        self.line.str(" (");
        if !status.is_success() {
            match status.kind() {
                StatusType::Generic => self.line.str("Generic"),
                StatusType::CommandSpecific => self.line.str("Command Specific"),
                StatusType::Media => self.line.str("Media"),
                StatusType::Path => self.line.str("Path"),
                StatusType::Vendor => self.line.str("Vendor Specific"),
                StatusType::Reserved(code) => {
                    self.line.str("Type ");
                    self.line.hex(code);
                }
            }
            self.line.byte(b'/');
        }
        self.line.name(status.name_for(opcode).unwrap_or("Unknown"));
        if status.retry_delay() != 0 {
            self.number(" CRD", status.retry_delay());
        }
        if status.more() {
            self.line.str(" MORE");
        }
        if status.do_not_retry() {
            self.line.str(" DNR");
        }
        self.line.byte(b')');
    }

    /// Writes the total and the stages. Writes nothing, and returns false, if two points are out of
    /// order, or if fewer than two were observed.
    #[inline]
    fn stages(&mut self, shape: &Shape, timeline: &Timeline) -> bool {
        let Some(last) = shape.stages.last() else {
            return false;
        };
        let begin = self.line.place();
        let mut from = timeline.ns(shape.from);
        self.line.str(", total=");
        let total = timeline.ns(last.at).wrapping_sub(from);
        self.styled(TextStyle::Head, |ink| ink.line.nanos(total));
        for step in &shape.stages {
            let to = timeline.ns(step.at);
            if from == 0 || to < from {
                self.line.back_to(begin);
                return false;
            }
            step.label(self.line);
            self.line.nanos(to - from);
            if step.is_before {
                self.main_wait(timeline, to - from);
            }
            from = to;
        }
        true
    }

    /// Names the wait that makes up at least half of the time before the request.
    #[cold]
    fn main_wait(&mut self, timeline: &Timeline, before_ns: u64) {
        let stages = StageSet::Full.stages();
        for (wait, next) in stages.iter().zip(&stages[1..]).take(StageSet::Full.before()) {
            let ends = timeline.at(wait.from).zip(timeline.at(next.from));
            let ns = ends.map_or(0, |(from, to)| to.saturating_sub(from));
            // `block` is the time in which no wait was measured
            if ns > 0 && ns >= before_ns / 2 && wait.from != Point::Bio {
                self.line.str(" (");
                self.line.str(wait.name);
                self.line.byte(b')');
                return;
            }
        }
    }
}
