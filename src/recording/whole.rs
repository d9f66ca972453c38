// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole recording of a target, in memory: the names of its controllers are at its end.

use std::io::Read;

use super::blocks::Ending;
use super::error::{Damage, Error};
use super::meta::RunInfo;
use super::reader::{Fact, Item, Reader};
use crate::model::ledger::HostLedger;
use crate::model::machine::ClockReading;
use crate::model::target::{HostController, HostEvent, TargetInfo, name_of};
use crate::model::text::Text;

/// Most events of a recording, beyond one for each two bytes of its file: a few bytes can be a block of
/// thousands.
const MOST_EVENTS: u64 = 400_000;

/// A whole recording of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRecording {
    /// The run.
    pub info: RunInfo,
    /// The target.
    pub target: TargetInfo,
    /// Its controllers.
    pub controllers: Vec<HostController>,
    /// Its events, in the order of the file.
    pub events: Vec<HostEvent>,
    /// Readings of clocks, in the order of the file.
    pub readings: Vec<ClockReading>,
    /// The ledger; `None` if the recording has no end.
    pub ledger: Option<HostLedger>,
    /// Why the file is not whole.
    pub damage: Option<Damage>,
}

impl HostRecording {
    /// Reads a recording to its end, or up to a damage.
    ///
    /// # Errors
    /// If the file cannot be read, is no recording, is of a later version, or is not one of a target.
    pub fn read(file: impl Read) -> Result<Self, Error> {
        let mut reader = Reader::open(file)?;
        let info = reader.info().clone();
        let Some(target) = info.target.clone() else {
            return Err(Error::GuestSide);
        };
        let mut read = Self { info, target, ..Self::default() };
        while let Some(item) = reader.next()? {
            read.add(item);
            if read.events.len() as u64 > MOST_EVENTS + reader.whole_bytes() / 2 {
                read.damage = Some(Damage::Length);
                return Ok(read);
            }
        }
        if let Some(Ending::Damaged(damage)) = reader.ending() {
            read.damage = Some(damage);
        }
        Ok(read)
    }

    fn add(&mut self, item: Item<'_>) {
        match item {
            Item::Target(event) => self.events.push(event.clone()),
            Item::Fact(Fact::TargetControllers(all)) => self.controllers = all,
            Item::Fact(Fact::Readings(all)) => self.readings.extend(all),
            Item::Fact(Fact::TargetLedger(info)) => self.ledger = info.ledger,
            _ => {}
        }
    }

    /// How the file ends.
    pub const fn ending(&self) -> Ending {
        match (self.damage, &self.ledger) {
            (Some(damage), _) => Ending::Damaged(damage),
            (None, None) => Ending::Cut,
            (None, Some(_)) => Ending::Complete,
        }
    }

    /// The name of a controller, or its number.
    pub fn name_of(&self, ctrl: u32) -> Text {
        name_of(&self.controllers, ctrl)
    }
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;
