// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording, item by item, in the order in which it was written.

use super::blocks::{Blocks, Ending};
use super::error::{Damage, Error};
use super::events::Unpacked;
use super::frame::{Content, Head, Summary};
use super::meta::{CgroupInfo, ClockOffset, KernelLine, LedgerInfo, RunInfo, StackInfo};
use crate::model::activity::Activity;
use crate::model::event::{Event, StackId};
use crate::model::machine::{ClockReading, ControllerInfo, MachineInfo};
use crate::model::stack::Frame;
use crate::model::target::HostController;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value};
use std::io::Read;

/// A part of a recording.
#[derive(Debug)]
pub enum Item<'a> {
    /// An event of the driver, or of a target.
    Event(&'a Event),
    /// A block of events that are all before the time of [`Reader::skip_to`].
    Skipped(Summary),
    /// What applies to the events after it.
    Fact(Fact),
}

/// What a run says besides its events.
#[derive(Debug)]
pub enum Fact {
    /// Stacks that events refer to.
    Stacks(Vec<(StackId, Vec<Frame>)>),
    /// Cgroups that events refer to.
    Cgroups(Vec<CgroupInfo>),
    /// The offset of the wall clock.
    Clock(ClockOffset),
    /// The controllers.
    Controllers(Vec<ControllerInfo>),
    /// What the machine did besides the commands, up to here.
    Activity(Box<Activity>),
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
    /// The controllers of a target that are known from here on.
    TargetControllers(Vec<HostController>),
}

impl Fact {
    /// Leaves out names of the machine and its controllers, and the kernel's log, which may have any name.
    pub fn redact(&mut self) {
        match self {
            Self::Controllers(all) => all.iter_mut().for_each(ControllerInfo::redact),
            Self::Machine(machine) => machine.redact(),
            Self::Activity(activity) => activity.redact(),
            Self::KernelLog(lines) => lines.clear(),
            _ => {}
        }
    }
}

/// Most clock readings in a recording: three clocks, once a second, for three days.
const MOST_READINGS: usize = 3 << 18;
/// Most bytes of all stacks and cgroups of a recording, as JSON: a reader keeps them.
const MOST_STACKS: usize = 32 << 20;

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
}

/// What a block without events says; `None` for another kind.
fn fact(content: Content, is_target: bool, payload: &[u8]) -> Result<Option<Fact>, Damage> {
    Ok(Some(match (content, is_target) {
        (Content::Readings, _) => Fact::Readings(parse(payload)?),
        (Content::Controllers, true) => Fact::TargetControllers(parse(payload)?),
        (Content::Stacks, _) => {
            let stacks: Vec<StackInfo> = parse(payload)?;
            Fact::Stacks(stacks.into_iter().map(|stack| (stack.id, stack.frames)).collect())
        }
        (Content::Cgroups, _) => Fact::Cgroups(parse(payload)?),
        (Content::Clock, _) => Fact::Clock(parse(payload)?),
        (Content::Controllers, _) => Fact::Controllers(parse(payload)?),
        (Content::Ledger, _) => Fact::Ledger(Box::new(ledger(payload)?)),
        (Content::End, _) => Fact::End(Box::new(ledger(payload)?)),
        (Content::Activity, _) => Fact::Activity(Box::new(parse(payload)?)),
        (Content::Machine, _) => Fact::Machine(parse(payload)?),
        (Content::KernelLog, _) => Fact::KernelLog(parse(payload)?),
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
        let unpacked = Unpacked::default();
        Ok(Self { blocks, unpacked, since_ns: 0, info, events: 0, readings: 0, stacks: 0 })
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

    /// The next item; `None` at the end of the file, or where it is damaged: see [`Reader::ending`].
    ///
    /// # Errors
    /// If the file cannot be read.
    #[allow(clippy::should_implement_trait, reason = "an item is lent, and reading can fail")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Error> {
        while self.unpacked.is_empty() {
            let Some(head) = self.blocks.next()? else {
                return Ok(None);
            };
            match self.block(&head) {
                Ok(None) => {}
                Ok(item) => return Ok(item),
                Err(damage) => {
                    self.unpacked.clear();
                    self.blocks.reject(damage);
                    return Ok(None);
                }
            }
        }
        self.events += 1;
        match self.unpacked.next_event() {
            Ok(item) => Ok(Some(item)),
            Err(damage) => {
                self.events -= 1;
                self.blocks.reject(damage);
                Ok(None)
            }
        }
    }

    /// The last event that was read.
    pub(crate) const fn event(&self) -> &Event {
        self.unpacked.event()
    }

    /// Whether the next item is in another block.
    pub const fn is_at_block(&self) -> bool {
        self.unpacked.is_empty()
    }

    /// Begins to read a block. The item of one without events, if it has any.
    fn block(&mut self, head: &Head) -> Result<Option<Item<'static>>, Damage> {
        let summary = head.summary;
        match summary.content {
            Content::Events if summary.to_ns < self.since_ns => {
                self.events += u64::from(summary.events);
                Ok(Some(Item::Skipped(summary)))
            }
            Content::Events => {
                let payload = self.blocks.payload(head)?;
                self.unpacked.events(payload, summary.events.into())?;
                Ok(None)
            }
            _ => Ok(self.fact(head)?.map(Item::Fact)),
        }
    }

    /// What a block without events says.
    fn fact(&mut self, head: &Head) -> Result<Option<Fact>, Damage> {
        let content = head.summary.content;
        let payload = self.blocks.payload(head)?;
        if matches!(content, Content::Stacks | Content::Cgroups) {
            self.stacks += payload.len();
        }
        let fact = fact(content, self.info.target.is_some(), payload)?;
        if let Some(Fact::Readings(all)) = &fact {
            self.readings += all.len();
        }
        // a reader keeps them
        match self.stacks > MOST_STACKS || self.readings > MOST_READINGS {
            true => Err(Damage::Length),
            false => Ok(fact),
        }
    }

    /// From here on, blocks of events that are all before this time are skipped.
    pub const fn skip_to(&mut self, since_ns: u64) {
        self.since_ns = since_ns;
    }
}

/// Most objects of a block.
const MOST_OBJECTS: usize = 1 << 15;
/// Largest count of a ledger.
const MOST: u64 = 1 << 50;
/// Most values of a block, by the commas between them.
const MOST_VALUES: usize = 1 << 19;

/// Reads a block.
///
/// # Errors
/// If it does not have the form of its kind, or has too many values.
pub fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Damage> {
    let count = |byte: u8| payload.iter().filter(|&&b| b == byte).count();
    // also counts brackets within texts; no block has so many
    if count(b'{') > MOST_OBJECTS || count(b',') > MOST_VALUES || count(b'[') > MOST_VALUES {
        return Err(Damage::Length);
    }
    serde_json::from_slice(payload)
        .map_err(|_| Damage::Content("a block is not valid JSON of its kind"))
}

/// Reads a ledger; one that is not valid is left out. Counts that no run reaches are made smaller, because
/// they are added up later.
///
/// # Errors
/// As [`parse`].
pub fn ledger<L: DeserializeOwned>(payload: &[u8]) -> Result<LedgerInfo<L>, Damage> {
    let LedgerInfo { at_ns, evicted, ledger } = parse(payload)?;
    let of_value = |mut value: Value| {
        bound(&mut value);
        from_value(value).ok()
    };
    Ok(LedgerInfo { at_ns, evicted, ledger: ledger.and_then(of_value) })
}

/// Makes numbers beyond [`MOST`] smaller. The reader of JSON limits the depth.
fn bound(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if number.as_u64().is_some_and(|n| n > MOST) {
                *value = MOST.into();
            } else if number.as_i64().is_some_and(|n| n < -MOST.cast_signed()) {
                *value = (-MOST.cast_signed()).into();
            }
        }
        Value::Array(all) => all.iter_mut().for_each(bound),
        Value::Object(all) => all.values_mut().for_each(bound),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ledger::Ledger;

    #[test]
    fn counts_that_no_run_reaches_are_bounded() {
        let text =
            r#"{"at_ns":5,"ledger":{"a":18446744073709551615,"b":[7,-9223372036854775808]}}"#;
        let info = ledger::<Value>(text.as_bytes()).unwrap();
        let most = MOST.cast_signed();
        let bounded = serde_json::json!({"a": most, "b": [7, -most]});
        assert_eq!(info.ledger, Some(bounded));
    }

    #[test]
    fn a_ledger_of_another_form_is_left_out_and_the_rest_is_read() {
        for (text, seen) in [
            (r#"{"at_ns":5,"ledger":{"seen":7,"later":{}}}"#, Some(7)),
            (r#"{"at_ns":5,"ledger":{"seen":"many"}}"#, None),
            (r#"{"at_ns":5,"ledger":null}"#, None),
            (r#"{"at_ns":5}"#, None),
        ] {
            let info = ledger::<Ledger>(text.as_bytes()).unwrap();
            assert_eq!((info.at_ns, info.ledger.map(|l| l.seen)), (5, seen));
        }
    }
}
