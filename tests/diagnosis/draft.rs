// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command in the making, and its event.

use crate::testing::EventBuilder;
use nvme_deep::model::command_class::Conditions;
use nvme_deep::model::event::{CommandId, Event};
use nvme_deep::model::point::Pattern;

pub const FLUSH: u8 = 0;
pub const WRITE: u8 = 1;
pub const READ: u8 = 2;
/// Dataset Management.
pub const DISCARD: u8 = 9;

// indices of the stages
pub const QUEUE: usize = 0;
pub const MAP: usize = 2;
pub const SUBMIT: usize = 3;
pub const DEVICE: usize = 4;
pub const IRQ: usize = 5;
pub const COMPLETE: usize = 6;

// indices of the waits before the request
pub const THROTTLE: usize = 0;
pub const BLOCK: usize = 1;
pub const FREEZE: usize = 2;
pub const ZONE: usize = 3;
pub const IOCOST: usize = 4;
pub const WBT: usize = 5;
pub const TAG: usize = 6;

/// A command in the making.
#[derive(Clone, Debug)]
pub struct Draft {
    /// CLOCK_MONOTONIC nanoseconds of its allocation.
    pub begin_ns: u64,
    /// The place of the load that submits it.
    pub slot: usize,
    pub cpu: u16,
    pub end_cpu: u16,
    pub qid: u16,
    pub code: u8,
    pub bytes: u32,
    pub slba: u64,
    /// Times of the waits before it, in nanoseconds; `None`: its bio was not observed.
    pub waits: Option<[u64; 7]>,
    /// Times of the stages, in nanoseconds.
    pub stages: [f64; 8],
    pub idle: bool,
    pub softirq: bool,
    pub rung: bool,
    /// Force Unit Access.
    pub fua: bool,
    pub status: u16,
    /// The device notices it with the next submission on its queue.
    pub unseen: bool,
    /// The points that were observed, as src/model/point.rs has them.
    pub pattern: Pattern,
    /// Controller and namespace.
    pub ctrl: u32,
    /// Whether idle CPUs, soft interrupts and doorbells were observed.
    pub has_conditions: bool,
}

impl Draft {
    /// CLOCK_MONOTONIC nanoseconds of the point at which a stage begins; 8: the end.
    pub fn point(&self, stage: usize) -> u64 {
        self.begin_ns + self.stages[..stage].iter().map(|ns| *ns as u64).sum::<u64>()
    }

    /// Waits before the request, which is allocated later.
    pub fn wait(&mut self, wait: usize, ns: u64) {
        self.begin_ns += ns;
        if let Some(waits) = &mut self.waits {
            waits[wait] += ns;
        }
    }

    /// The time of the end of its setup.
    pub fn setup_ns(&self) -> u64 {
        self.point(MAP)
    }

    /// The time of its end.
    pub fn end_ns(&self) -> u64 {
        self.point(8)
    }

    pub const fn is_read_or_write(&self) -> bool {
        matches!(self.code, READ | WRITE)
    }

    pub fn id(&self) -> CommandId {
        self.builder().id
    }

    fn builder(&self) -> EventBuilder {
        let blocks = if self.is_read_or_write() { self.bytes / 512 } else { 1 };
        let made = EventBuilder::staged(self.begin_ns, self.stages.map(|ns| ns as u64));
        let made = made.pattern(self.pattern);
        self.waits
            .map_or(made, |waits| made.waits(waits))
            .ctrl(self.ctrl)
            .qid(self.qid)
            .cid(self.slot as u16)
            .code(self.code)
            // bit 30 of dword 12
            .blocks(self.slba, blocks + (u32::from(self.fua) << 30))
            .bytes(self.bytes)
            .cpus(self.cpu, self.end_cpu)
            .status(self.status)
            .conditions(self.conditions())
    }

    /// The bits of src/model/command_class.rs.
    fn conditions(&self) -> Conditions {
        if !self.has_conditions {
            return Conditions::default();
        }
        let bits = [true, self.idle, true, self.softirq, self.rung, !self.rung];
        let bits = bits.iter().enumerate();
        Conditions::from_bits(bits.map(|(n, &on)| u8::from(on) << n).sum())
    }

    /// The event. `points`: whether the points were recorded.
    pub fn event(&self, points: bool) -> Event {
        let made = self.builder();
        let made = if points { made } else { made.timeline(None) };
        made.command()
    }
}
