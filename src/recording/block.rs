// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block of events: its dictionaries, then its columns.

use std::collections::HashMap;

use super::bytes::Cursor;
use super::columns::{get, unzigzag, zigzag};
use super::error::Damage;
use super::finished::Recent;
use super::frame::Content;
use super::parts::{Parts, ReadParts, has_origin, is_known, needs_parts};
use super::row::{AT, COLUMNS, OUTCOME_COLUMN, Row, SHAPE_COLUMN, TASK_COLUMN};
use super::shape::{OUTCOME, SHAPE, Shape, TASK, Words};
use super::stored::Stored;
use super::tiles::Tiles;
use crate::model::event::Event;

/// Maximum number of events in a block of the format.
pub const MAX_ROWS: usize = 1 << 16;
/// Number of events after which a writer ends a block. Larger blocks hardly compress better, and
/// more is lost with the last one.
pub const BLOCK_ROWS: usize = 1 << 12;

/// Distinct entries of a block, in the order of their first use.
struct Dictionary<const N: usize> {
    entries: Vec<Words<N>>,
    numbers: HashMap<Words<N>, u32>,
    /// The last number with each value of `place`.
    recent: [u32; 256],
}

/// A number below 256 that differs for most entries.
#[inline(always)]
fn place<const N: usize>(entry: &Words<N>) -> usize {
    // these words differ the most: ids and pattern, bytes and blocks
    let mixed = entry[0] ^ entry.get(2).map_or(0, |w| w.rotate_left(20));
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl<const N: usize> Dictionary<N> {
    fn new() -> Self {
        Self { entries: Vec::new(), numbers: HashMap::new(), recent: [0; 256] }
    }

    #[inline(always)]
    fn number(&mut self, entry: &Words<N>) -> u64 {
        let at = place(entry);
        let recent = self.recent[at];
        if self.entries.get(recent as usize) == Some(entry) {
            return recent.into();
        }
        self.find(entry, at)
    }

    #[inline(never)]
    fn find(&mut self, entry: &Words<N>, at: usize) -> u64 {
        let next = self.entries.len() as u32;
        let number = *self.numbers.entry(*entry).or_insert(next);
        if number == next {
            self.entries.push(*entry);
        }
        self.recent[at] = number;
        number.into()
    }

    /// Appends the entries to `out`, and forgets them.
    fn take(&mut self, out: &mut Vec<u8>) {
        let words = self.entries.iter().flatten();
        words.for_each(|word| out.extend(word.to_le_bytes()));
        self.entries.clear();
        self.numbers.clear();
    }
}

/// The times of the first event of a block and of the last one.
#[derive(Default)]
pub(super) struct Clock {
    base_ns: u64,
    last_ns: u64,
}

impl Clock {
    /// The time of an event that is added after so many, as its column has it.
    #[inline(always)]
    pub(super) const fn next(&mut self, at_ns: u64, rows: usize) -> u64 {
        if rows == 0 {
            (self.base_ns, self.last_ns) = (at_ns, at_ns);
        }
        let since = at_ns.wrapping_sub(self.last_ns);
        self.last_ns = at_ns;
        zigzag(since)
    }
}

/// Collects events for a block.
pub struct Builder {
    shapes: Dictionary<SHAPE>,
    tasks: Dictionary<TASK>,
    outcomes: Dictionary<OUTCOME>,
    pub(super) rows: Tiles<COLUMNS>,
    pub(super) recent: Recent,
    parts: Parts,
    pub(super) clock: Clock,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// An empty block.
    pub fn new() -> Self {
        Self {
            shapes: Dictionary::new(),
            tasks: Dictionary::new(),
            outcomes: Dictionary::new(),
            rows: Tiles::new(),
            recent: Recent::default(),
            parts: Parts::default(),
            clock: Clock::default(),
        }
    }

    /// Number of events in the block.
    pub const fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// Time of the last event.
    pub const fn last_ns(&self) -> u64 {
        self.clock.last_ns
    }

    /// Adds an event. A block has at most [`MAX_ROWS`].
    pub fn push(&mut self, event: &Event) {
        let row = Row::new(event);
        if needs_parts(row.shape.pattern) || has_origin(event) {
            self.parts.put(self.rows.rows(), event);
        }
        self.add(&row);
    }

    /// Adds a row. Returns its columns.
    #[inline(always)]
    pub(super) fn add(&mut self, row: &Row) -> [u64; COLUMNS] {
        let mut columns = row.columns;
        columns[SHAPE_COLUMN] = self.shapes.number(&row.shape.words());
        columns[TASK_COLUMN] = self.tasks.number(&row.task);
        columns[OUTCOME_COLUMN] = self.outcomes.number(&row.outcome);
        columns[AT] = self.clock.next(row.columns[AT], self.rows.rows());
        self.rows.push(&columns);
        columns
    }

    /// Appends the block to `out`, and empties it. Returns what the block has.
    pub fn take(&mut self, out: &mut Vec<u8>) -> Content {
        let rows = self.rows.rows();
        let base_ns = if rows > 0 { self.clock.base_ns } else { 0 };
        out.extend((rows as u32).to_le_bytes());
        out.extend(base_ns.to_le_bytes());
        let counts =
            [self.shapes.entries.len(), self.tasks.entries.len(), self.outcomes.entries.len()];
        for count in counts {
            out.extend((count as u32).to_le_bytes());
        }
        self.shapes.take(out);
        self.tasks.take(out);
        self.outcomes.take(out);
        (0..COLUMNS).for_each(|column| self.rows.put(column, out));
        let content = self.parts.take(rows, out);
        self.rows.clear();
        self.recent.forget();
        content
    }
}

/// Decodes blocks. Reuses its memory.
#[derive(Default)]
pub struct Decoder {
    shapes: Vec<Shape>,
    tasks: Vec<Words<TASK>>,
    outcomes: Vec<Words<OUTCOME>>,
    rows: Vec<[u64; COLUMNS]>,
    parts: ReadParts,
}

/// Reads a dictionary of `count` entries.
fn dictionary<const N: usize, T>(
    cursor: &mut Cursor<'_>,
    count: u32,
    to: &mut Vec<T>,
    entry: impl Fn(&Words<N>) -> Option<T>,
) -> Result<(), Damage> {
    let bytes = (count as usize).checked_mul(N * 8).ok_or(Damage::Length)?;
    let words = cursor.take(bytes)?.as_chunks::<8>().0;
    to.clear();
    for of_entry in words.as_chunks::<N>().0 {
        let one = entry(&of_entry.map(u64::from_le_bytes));
        to.push(one.ok_or(Damage::Content("an event of an unknown kind"))?);
    }
    Ok(())
}

impl Decoder {
    /// Passes on the `count` events of a block, in the order in which they were added.
    ///
    /// # Errors
    /// If the content is not valid. No event has been passed on then.
    pub fn events(
        &mut self,
        payload: &[u8],
        count: u32,
        to: &mut dyn FnMut(&Event),
    ) -> Result<(), Damage> {
        let (rows, mut at_ns) = self.read(payload)?;
        if rows != count as usize {
            return Err(Damage::Content("a block has not as many events as its head says"));
        }
        self.check()?;
        for (n, columns) in self.rows.iter_mut().enumerate() {
            at_ns = at_ns.wrapping_add(unzigzag(columns[AT]));
            columns[AT] = at_ns;
            let row = Stored {
                shape: &self.shapes[columns[SHAPE_COLUMN] as usize],
                task: &self.tasks[columns[TASK_COLUMN] as usize],
                outcome: &self.outcomes[columns[OUTCOME_COLUMN] as usize],
                columns,
            };
            if needs_parts(row.shape.pattern) || self.parts.has_origin {
                self.parts.pass(n, &row, to);
            } else {
                to(&row.event());
            }
        }
        Ok(())
    }

    /// Returns the number of rows, and the time of the first.
    fn read(&mut self, payload: &[u8]) -> Result<(usize, u64), Damage> {
        let mut cursor = Cursor::new(payload);
        let rows = cursor.u32()? as usize;
        if rows > MAX_ROWS || rows > payload.len() {
            return Err(Damage::Length);
        }
        let base_ns = cursor.u64()?;
        let counts = [cursor.u32()?, cursor.u32()?, cursor.u32()?];
        dictionary(&mut cursor, counts[0], &mut self.shapes, Shape::of)?;
        dictionary(&mut cursor, counts[1], &mut self.tasks, |w| Some(*w))?;
        dictionary(&mut cursor, counts[2], &mut self.outcomes, |w| Some(*w))?;
        // at most MAX_ROWS, whatever the payload has
        self.rows.clear();
        self.rows.resize(rows, [0; COLUMNS]);
        for column in 0..COLUMNS {
            get(&mut cursor, column, &mut self.rows)?;
        }
        self.parts.read(&mut cursor, rows, is_known)?;
        if !cursor.is_at_end() {
            return Err(Damage::Content("a block of events has bytes after its columns"));
        }
        Ok((rows, base_ns))
    }

    /// Every number of an entry must be in its dictionary.
    fn check(&self) -> Result<(), Damage> {
        let within = |column: usize, entries: usize| {
            let most = self.rows.iter().map(|row| row[column]).max();
            most.is_none_or(|most| most < entries as u64)
        };
        let all = within(SHAPE_COLUMN, self.shapes.len())
            && within(TASK_COLUMN, self.tasks.len())
            && within(OUTCOME_COLUMN, self.outcomes.len());
        if all {
            Ok(())
        } else {
            Err(Damage::Content("an event refers to an entry that is not there"))
        }
    }
}
