// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording, item by item, in the order in which it was written.

use std::collections::VecDeque;
use std::io::Read;
use std::mem::ManuallyDrop;

use super::blocks::{Blocks, Ending};
use super::error::{Damage, Error};
use super::events::Unpacked;
use super::frame::{Content, Head, Summary};
use super::json::{ledger, parse};
use super::meta::{CgroupInfo, ClockOffset, KernelLine, LedgerInfo, RunInfo, StackInfo};
use crate::model::activity::Activity;
use crate::model::controller::ControllerInfo;
use crate::model::event::Event;
use crate::model::host::HostEvent;
use crate::model::ledger::HostLedger;
use crate::model::machine::MachineInfo;
use crate::model::run::ClockReading;
use crate::model::target::HostController;

/// A part of a recording. Each applies to the events after it.
#[derive(Debug)]
pub enum Item<'a> {
    /// An event.
    Event(&'a Event),
    /// A block of events that are all before the time of [`Reader::skip_to`].
    Skipped(Summary),
    /// Stacks that events refer to.
    Stacks(Vec<StackInfo>),
    /// Cgroups that events refer to.
    Cgroups(Vec<CgroupInfo>),
    /// The offset of the wall clock.
    Clock(ClockOffset),
    /// The controllers.
    Controllers(Vec<ControllerInfo>),
    /// What the machine did besides the commands, up to here.
    Activity(Activity),
    /// Settings of the machine and its controllers.
    Machine(Box<MachineInfo>),
    /// Readings of clocks that two machines can share.
    Readings(Vec<ClockReading>),
    /// Lines of the kernel's log.
    KernelLog(Vec<KernelLine>),
    /// The ledger up to here.
    Ledger(Box<LedgerInfo>),
    /// The ledger of the whole run.
    End(Box<LedgerInfo>),
    /// An event of a target.
    Target(&'a HostEvent),
    /// The controllers of a target, of the whole recording.
    TargetControllers(Vec<HostController>),
    /// The ledger of the whole run of a target.
    TargetEnd(Box<LedgerInfo<HostLedger>>),
}

/// Most clock readings in a recording: three clocks, once a second, for three days.
const MOST_READINGS: usize = 3 << 18;
/// Most bytes of all stacks and cgroups of a recording, as JSON: a reader keeps them.
const MOST_STACKS: usize = 32 << 20;

/// Most items that are read ahead, for the offset of the clock, which is among the first.
const MOST_EARLY: usize = 64;

/// A recording that is being read.
pub struct Reader<R> {
    blocks: Blocks<R>,
    unpacked: Unpacked,
    /// Blocks of earlier events are skipped.
    since_ns: u64,
    info: RunInfo,
    events: u64,
    /// Readings of clocks so far.
    readings: usize,
    /// Bytes of the stacks and cgroups so far.
    stacks: usize,
    /// Items that were read ahead.
    early: VecDeque<Item<'static>>,
    /// A block that was read ahead, and is not decoded.
    held: Option<Head>,
}

/// The item of a block without events; `None` if it has none.
fn item(content: Content, payload: &[u8]) -> Result<Option<Item<'static>>, Damage> {
    Ok(Some(match content {
        Content::Stacks => Item::Stacks(parse(payload)?),
        Content::Cgroups => Item::Cgroups(parse(payload)?),
        Content::Clock => Item::Clock(parse(payload)?),
        Content::Controllers => Item::Controllers(parse(payload)?),
        Content::Ledger => Item::Ledger(Box::new(ledger(payload)?)),
        Content::Activity => Item::Activity(parse(payload)?),
        Content::Machine => Item::Machine(parse(payload)?),
        Content::Readings => Item::Readings(parse(payload)?),
        Content::KernelLog => Item::KernelLog(parse(payload)?),
        Content::End => Item::End(Box::new(ledger(payload)?)),
        Content::Events
        | Content::Run
        | Content::HostEvents
        | Content::HostControllers
        | Content::Unknown(_) => return Ok(None),
    }))
}

/// The same in a recording of a target.
fn target_item(content: Content, payload: &[u8]) -> Result<Option<Item<'static>>, Damage> {
    Ok(Some(match content {
        Content::HostControllers => Item::TargetControllers(parse(payload)?),
        Content::Readings => Item::Readings(parse(payload)?),
        Content::End => Item::TargetEnd(Box::new(ledger(payload)?)),
        _ => return Ok(None),
    }))
}

impl<R: Read> Reader<R> {
    /// Opens a recording.
    ///
    /// # Errors
    /// If the file cannot be read, is no recording, is of a later version, or does not begin with
    /// a whole description of the run.
    pub fn open(file: R) -> Result<Self, Error> {
        let mut blocks = Blocks::open(file)?;
        let info = match blocks.next()? {
            Some(head) if head.summary.content == Content::Run => parse(blocks.payload(&head)?)?,
            Some(_) => return Err(Damage::Content("it does not begin with a run").into()),
            None => match blocks.ending() {
                Some(Ending::Damaged(damage)) => return Err(damage.into()),
                _ => return Err(Damage::Short.into()),
            },
        };
        Ok(Self {
            blocks,
            unpacked: Unpacked::default(),
            since_ns: 0,
            info,
            events: 0,
            readings: 0,
            stacks: 0,
            early: VecDeque::new(),
            held: None,
        })
    }

    /// What was recorded, where and when.
    pub const fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The same, to leave names out.
    pub const fn info_mut(&mut self) -> &mut RunInfo {
        &mut self.info
    }

    /// Events read so far.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// How the file ends; `None` before its end is reached.
    pub const fn ending(&self) -> Option<Ending> {
        self.blocks.ending()
    }

    /// Bytes that are whole.
    pub const fn whole_bytes(&self) -> u64 {
        self.blocks.whole_bytes()
    }

    /// Passes on the items of the next block. Returns false at the end of the file, or where it is
    /// damaged: see [`Reader::ending`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_block(&mut self, to: &mut dyn FnMut(&Item<'_>)) -> Result<bool, Error> {
        if let Some(early) = self.early.pop_front() {
            to(&early);
            return Ok(true);
        }
        let Some(head) = self.held.take().map_or_else(|| self.blocks.next(), |h| Ok(Some(h)))?
        else {
            return Ok(false);
        };
        if let Err(damage) = self.pass(&head, to) {
            self.blocks.reject(damage);
            return Ok(false);
        }
        Ok(true)
    }

    /// Passes on the items of a block.
    fn pass(&mut self, head: &Head, to: &mut dyn FnMut(&Item<'_>)) -> Result<(), Damage> {
        let is_target = self.info.target.is_some();
        let summary = head.summary;
        let (content, count) = (summary.content, usize::from(summary.events));
        if content == Content::Events && !is_target {
            if summary.to_ns < self.since_ns {
                to(&Item::Skipped(summary));
            } else {
                // an item owns nothing: a test whether to drop it would cost twenty instructions
                let mut event = |event: &Event| to(&ManuallyDrop::new(Item::Event(event)));
                self.unpacked.events(self.blocks.payload(head)?, count, &mut event)?;
            }
            self.events += u64::from(summary.events);
            return Ok(());
        }
        if content == Content::HostEvents && is_target {
            let mut event = |event: &HostEvent| to(&ManuallyDrop::new(Item::Target(event)));
            self.unpacked.target_events(self.blocks.payload(head)?, count, &mut event)?;
            self.events += u64::from(summary.events);
            return Ok(());
        }
        self.item(head)?.iter().for_each(to);
        Ok(())
    }

    /// The item of a block without events; `None` if it has none.
    fn item(&mut self, head: &Head) -> Result<Option<Item<'static>>, Damage> {
        let content = head.summary.content;
        let payload = self.blocks.payload(head)?;
        if matches!(content, Content::Stacks | Content::Cgroups) {
            self.stacks += payload.len();
        }
        let item = match self.info.target {
            Some(_) => target_item(content, payload)?,
            None => item(content, payload)?,
        };
        if let Some(Item::Readings(all)) = &item {
            self.readings += all.len();
        }
        // a reader keeps them
        match self.stacks > MOST_STACKS || self.readings > MOST_READINGS {
            true => Err(Damage::Length),
            false => Ok(item),
        }
    }

    /// From here on, blocks of events that are all before this time are skipped.
    pub const fn skip_to(&mut self, since_ns: u64) {
        self.since_ns = since_ns;
    }

    /// The offset of the wall clock at the first event. Reads ahead; [`Reader::next_block`] passes
    /// on what this reads. `None`: the recording has no offset before its first event.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn first_clock(&mut self) -> Result<Option<ClockOffset>, Error> {
        // what an earlier call has found
        let mut found = self.early.iter().find_map(|item| match item {
            Item::Clock(offset) => Some(*offset),
            _ => None,
        });
        while self.held.is_none() && found.is_none() && self.early.len() < MOST_EARLY {
            let Some(head) = self.blocks.next()? else {
                break;
            };
            if head.summary.content == Content::Events {
                self.held = Some(head);
                break;
            }
            match self.item(&head) {
                Ok(Some(Item::Clock(offset))) => {
                    found = Some(offset);
                    self.early.push_back(Item::Clock(offset));
                }
                Ok(other) => self.early.extend(other),
                Err(damage) => self.blocks.reject(damage),
            }
        }
        Ok(found)
    }
}
