// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of events that few runs have. They follow the columns of a block, each as a column with a
//! number, and only if an event of the block needs one: [`Content::EventsWithParts`]. Other blocks, and
//! what they cost, do not change with the parts that this version has.
//!
//! The numbers are part of the format. Number n, below 32, is the time of the point with bit n of a
//! pattern: its distance from the end of the event. The points with bits 0 to 6 have columns. Those from
//! 32 on are of who caused the command (origin.rs), 38 and 39 of its bios.

use std::collections::BTreeMap;

use super::bytes::Cursor;
use super::columns::{get, put, unzigzag, zigzag};
use super::error::Damage;
use super::frame::Content;
use super::origin;
use super::origin::is_origin;
use super::stored::Stored;
use crate::model::bios::Bios;
use crate::model::event::{Event, EventKind};
use crate::model::point::{ALL_POINTS, Pattern, Point};
use crate::model::timeline::Timeline;

/// The bits of points that have columns, and those of set-up and completion.
const IN_COLUMNS: Pattern = 0x1ff;

/// The number of bios.
const BIOS: u8 = 38;
/// The longest of their waits.
const LONGEST_WAIT: u8 = 39;
const _: () = assert!(!is_origin(BIOS) && !is_origin(LONGEST_WAIT));

/// Whether an event with this pattern has parts.
#[inline(always)]
pub const fn needs_parts(pattern: Pattern) -> bool {
    pattern & !IN_COLUMNS != 0
}

/// Whether an event has parts of who caused its command.
#[inline(always)]
pub const fn has_origin(event: &Event) -> bool {
    match event.what.submission() {
        Some(submission) => submission.origin.is_some(),
        None => false,
    }
}

/// The points of a pattern that have no columns, with the numbers of their parts.
fn points_of(pattern: Pattern) -> impl Iterator<Item = (u8, Point)> {
    let of = Point::ALL.into_iter().filter_map(|p| Some((p.pattern_bit()?, p)));
    let seen = of.filter(move |(bit, _)| bit & pattern & !IN_COLUMNS != 0);
    seen.map(|(bit, point)| (bit.trailing_zeros() as u8, point))
}

/// Whether this version has the part with this number.
pub fn is_known(number: u8) -> bool {
    is_origin(number)
        || matches!(number, BIOS | LONGEST_WAIT)
        || points_of(ALL_POINTS).any(|(known, _)| known == number)
}

const fn bios(event: &mut Event) -> Option<&mut Bios> {
    match &mut event.what {
        EventKind::Command(_, _, end) | EventKind::Complete(_, end) => Some(&mut end.bios),
        _ => None,
    }
}

const fn timeline(event: &mut Event) -> Option<&mut Timeline> {
    match &mut event.what {
        EventKind::Command(_, _, end) | EventKind::Complete(_, end) => end.timeline.as_mut(),
        EventKind::Missed { timeline, .. } => timeline.as_mut(),
        _ => None,
    }
}

/// Adds the point `zone` to an event of a recording from before there was one. A wait for a zone is in `block`
/// there.
fn add_zone(line: &mut Timeline) {
    let pattern = line.pattern();
    let is_old = !Point::Zone.seen_in(pattern) && Point::Freeze.seen_in(pattern);
    if is_old && Point::Iocost.seen_in(pattern) {
        *line = line.with_pattern(pattern | Point::Zone.pattern_bit().unwrap_or(0));
        line.set(Point::Zone, line.ns(Point::Iocost));
    }
}

/// The parts of a block that is written: by number, the values of the rows up to the last that has it.
#[derive(Default)]
pub struct Parts {
    columns: BTreeMap<u8, Vec<u64>>,
    are_needed: bool,
}

impl Parts {
    /// Adds the parts of the event of this row.
    #[cold]
    #[inline(never)]
    pub fn put(&mut self, row: usize, event: &Event) {
        self.are_needed = true;
        if let Some(submission) = event.what.submission() {
            for (number, value) in origin::parts(&submission.origin) {
                self.set(number, row, value);
            }
        }
        let mut event = *event;
        let at_ns = event.at_ns;
        if let Some(bios) = bios(&mut event)
            && let (Some(count), Some(wait)) = (bios.count(), bios.longest_wait_ns())
        {
            self.set(BIOS, row, u16::from(count).into());
            self.set(LONGEST_WAIT, row, wait);
        }
        let Some(line) = timeline(&mut event) else {
            return;
        };
        for (number, point) in points_of(line.pattern()) {
            self.set(number, row, zigzag(at_ns.wrapping_sub(line.ns(point))));
        }
    }

    fn set(&mut self, number: u8, row: usize, value: u64) {
        let column = self.columns.entry(number).or_default();
        column.resize(row, 0);
        column.push(value);
    }

    /// Appends the parts of a block with this number of rows, and forgets them. A block that needs none
    /// has no byte of them.
    pub fn take(&mut self, rows: usize, out: &mut Vec<u8>) -> Content {
        if !self.are_needed {
            return Content::Events;
        }
        out.push(self.columns.len() as u8);
        for (number, column) in &mut self.columns {
            column.resize(rows, 0);
            out.push(*number);
            put(column, out);
        }
        *self = Self::default();
        Content::EventsWithParts
    }
}

/// The parts of a block that is read: a number and a value for each row.
#[derive(Default)]
pub struct ReadParts {
    columns: Vec<(u8, Vec<[u64; 1]>)>,
    /// Whether some are of who caused the commands.
    pub has_origin: bool,
}

impl ReadParts {
    /// Reads the parts of a block with this number of rows, if it has any.
    ///
    /// # Errors
    /// If a part is not one of this version, or they are not in order, or bytes are missing.
    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        rows: usize,
        is_known: impl Fn(u8) -> bool,
    ) -> Result<(), Damage> {
        self.columns.clear();
        self.has_origin = false;
        if cursor.is_at_end() {
            return Ok(());
        }
        for _ in 0..cursor.u8()? {
            let number = cursor.u8()?;
            if self.columns.last().is_some_and(|(last, _)| *last >= number) {
                return Err(Damage::Content("the parts of a block are not in order"));
            }
            if !is_known(number) {
                return Err(Damage::Content(
                    "its events have parts that this version does not have: use a newer nvme-deep",
                ));
            }
            let mut values = vec![[0]; rows];
            get(cursor, 0, &mut values)?;
            self.columns.push((number, values));
            self.has_origin |= is_origin(number);
        }
        Ok(())
    }

    /// Passes on the event of row `n`, with its parts.
    #[cold]
    #[inline(never)]
    pub fn pass(&self, n: usize, row: &Stored<'_>, to: &mut dyn FnMut(&Event)) {
        let mut event = row.event();
        let at_ns = event.at_ns;
        if let Some(line) = timeline(&mut event) {
            for (number, point) in points_of(line.pattern()) {
                let before = unzigzag(self.value(number, n));
                line.set(point, at_ns.wrapping_sub(before));
            }
            add_zone(line);
        }
        if let Some(bios) = bios(&mut event) {
            *bios = Bios::new(self.value(BIOS, n) as u16, self.value(LONGEST_WAIT, n));
        }
        if self.has_origin
            && let Some(submission) = event.what.submission_mut()
        {
            submission.origin = origin::origin(|number| self.value(number, n));
        }
        to(&event);
    }

    /// The part with this number of row `n`; zero if the row lacks it.
    fn value(&self, number: u8, n: usize) -> u64 {
        let mut columns = self.columns.iter();
        let values = columns.find(|(of, _)| *of == number);
        values.and_then(|(_, values)| values.get(n)).map_or(0, |[value]| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_of_a_block_come_back(
            all in prop::collection::vec(prop::option::of((0_u8..40, any::<u64>())), 1..60),
        ) {
            let (mut parts, mut bytes) = (Parts::default(), vec![]);
            for (n, part) in all.iter().enumerate() {
                if let Some((number, value)) = part {
                    parts.set(*number, n, *value);
                }
            }
            parts.are_needed = true;
            prop_assert_eq!(parts.take(all.len(), &mut bytes), Content::EventsWithParts);
            prop_assert!(parts.columns.is_empty() && !parts.are_needed);
            let (mut read, mut cursor) = (ReadParts::default(), Cursor::new(&bytes));
            read.read(&mut cursor, all.len(), |_| true).unwrap();
            prop_assert!(cursor.is_at_end());
            for (n, part) in all.iter().enumerate() {
                for number in 0..40 {
                    let value = part.filter(|(of, _)| *of == number).map_or(0, |(_, value)| value);
                    prop_assert_eq!(read.value(number, n), value);
                }
            }
        }
    }

    #[test]
    fn a_part_that_this_version_lacks_is_damage_and_no_part_is_no_byte() {
        let (mut parts, mut bytes) = (Parts::default(), vec![]);
        assert_eq!(parts.take(2, &mut bytes), Content::Events);
        assert!(bytes.is_empty());
        parts.are_needed = true;
        parts.set(31, 0, 7);
        parts.set(30, 1, 7);
        parts.take(2, &mut bytes);
        let read = |bytes: &[u8], known: &dyn Fn(u8) -> bool| {
            ReadParts::default().read(&mut Cursor::new(bytes), 2, known)
        };
        assert!(read(&bytes, &|number| number >= 30).is_ok());
        assert!(read(&bytes, &|number| number == 30).is_err());
        assert!(read(&bytes[..bytes.len() - 1], &|_| true).is_err());
        // twice the same part
        bytes[1] = 31;
        assert!(read(&bytes, &|_| true).is_err());
        assert!(!is_known(255));
    }
}
