// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording, item by item, in the order in which it was written.

use std::io::Read;

use serde::de::DeserializeOwned;

use super::block::Decoder;
use super::error::Damage;
use super::error::Error;
use super::frame::Content;
use super::meta::ClockOffset;
use super::meta::ControllerInfo;
use super::meta::LedgerInfo;
use super::meta::RunInfo;
use super::meta::StackInfo;
use super::reader::Blocks;
use super::reader::Ending;
use crate::model::event::Event;

/// A part of a recording. Each applies to the events after it.
#[derive(Debug)]
pub enum Item<'a> {
    /// An event.
    Event(&'a Event),
    /// Stacks that events refer to.
    Stacks(Vec<StackInfo>),
    /// The offset of the wall clock.
    Clock(ClockOffset),
    /// The controllers.
    Controllers(Vec<ControllerInfo>),
    /// The ledger up to here.
    Ledger(LedgerInfo),
    /// The ledger of the whole run.
    End(LedgerInfo),
}

/// A recording that is being read.
pub struct Playback<R> {
    blocks: Blocks<R>,
    decoder: Decoder,
    info: RunInfo,
    events: u64,
}

fn json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Damage> {
    serde_json::from_slice(payload)
        .map_err(|_| Damage::Content("a block does not have the form of its kind"))
}

impl<R: Read> Playback<R> {
    /// Opens a recording.
    ///
    /// # Errors
    /// If the file cannot be read, is no recording, is of a later version, or does not begin with
    /// a whole description of the run.
    pub fn open(file: R) -> Result<Self, Error> {
        let mut blocks = Blocks::open(file)?;
        let info = match blocks.next()? {
            Some((head, payload)) if head.content == Content::Run => json(payload)?,
            Some(_) => return Err(Damage::Content("it does not begin with a run").into()),
            None => match blocks.ending() {
                Some(Ending::Damaged(damage)) => return Err(damage.into()),
                _ => return Err(Damage::Short.into()),
            },
        };
        Ok(Self {
            blocks,
            decoder: Decoder::default(),
            info,
            events: 0,
        })
    }

    /// What was recorded, where and when.
    pub const fn info(&self) -> &RunInfo {
        &self.info
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
    /// damaged: see [`Playback::ending`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_block(&mut self, to: &mut dyn FnMut(Item<'_>)) -> Result<bool, Error> {
        let Some((head, payload)) = self.blocks.next()? else {
            return Ok(false);
        };
        let done = match head.content {
            Content::Events => {
                let events = &mut self.events;
                self.decoder.events(payload, head.events, &mut |event| {
                    *events += 1;
                    to(Item::Event(event));
                })
            }
            Content::Stacks => json(payload).map(|all| to(Item::Stacks(all))),
            Content::Clock => json(payload).map(|offset| to(Item::Clock(offset))),
            Content::Controllers => json(payload).map(|all| to(Item::Controllers(all))),
            Content::Ledger => json(payload).map(|ledger| to(Item::Ledger(ledger))),
            Content::End => json(payload).map(|ledger| to(Item::End(ledger))),
            Content::Run | Content::Unknown(_) => Ok(()),
        };
        if let Err(damage) = done {
            self.blocks.reject(damage);
            return Ok(false);
        }
        Ok(true)
    }
}
