// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the screen, and what keys do to it.

use std::collections::{BTreeMap, VecDeque};
use std::mem::take;
use std::time::Duration;

use crate::Opcode;
use crate::model::group::{By, GroupNames};
use crate::model::origin::Who;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups;
use crate::nvme::subject::fctype;
use crate::top::report::{RECENT, Row, Sample, SlowCommand, TopKey, View, slowest};
use crate::when::RunClock;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A row without a command in this many intervals is not shown.
const HISTORY: usize = 240;
/// The memory for intervals: the earliest ones are dropped.
const MOST_BYTES: usize = 64 << 20;
/// The power of two of the highest speed.
const MOST_SPEED: i32 = 6;

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Commands per second.
    #[default]
    Iops,
    /// Megabytes per second.
    Bytes,
    /// Commands that wait or are in flight: the share of the time of all commands.
    Depth,
    /// The 99th percentile of the total.
    P99,
    /// The longest command.
    Max,
    /// Controller, namespace, opcode; or the group.
    Name,
}

impl Order {
    /// The column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Bytes => "MB/s",
            Self::Depth => "DEPTH",
            Self::P99 => "P99",
            Self::Max => "MAX",
            Self::Name => "name",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Iops => Self::Bytes,
            Self::Bytes => Self::Depth,
            Self::Depth => Self::P99,
            Self::P99 => Self::Max,
            Self::Max => Self::Name,
            Self::Name => Self::Iops,
        }
    }

    /// The value of a row; the largest is first.
    fn value(self, row: &Row) -> f64 {
        match self {
            Self::Iops => row.iops,
            Self::Bytes => row.mb_per_s,
            Self::Depth => row.depth,
            Self::P99 => row.p99.unwrap_or(0) as f64,
            Self::Max => row.max.unwrap_or(0) as f64,
            Self::Name => 0.0,
        }
    }
}

/// What is below the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panel {
    /// The heat map of the selected row and stage.
    #[default]
    Map,
    /// The slowest recent commands.
    Slowest,
    /// The queues of the controller of the selected row.
    Queues,
}

impl Panel {
    const fn next(self) -> Self {
        match self {
            Self::Map => Self::Slowest,
            Self::Slowest => Self::Queues,
            Self::Queues => Self::Map,
        }
    }
}

/// What the loop must do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Draw.
    Draw,
    /// Draw all of the screen again.
    Redraw,
    /// Stop the process until it is continued.
    Suspend,
    /// End.
    Quit,
}

/// How far to go on before the next screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// This many intervals.
    Ahead(usize),
    /// The next interval in which the selected row is slow.
    Slow,
    /// The end of the recording.
    End,
}

/// The screen.
#[derive(Debug, Default)]
pub struct App {
    /// The file, or the machine.
    pub name: String,
    /// The length of an interval.
    pub interval: Duration,
    /// The intervals that are kept.
    samples: VecDeque<Sample>,
    /// About how many bytes they take.
    size: usize,
    /// How many of them are shown: the last one as numbers, the others as its past.
    shown: usize,
    /// The recording is over.
    is_finished: bool,
    /// The whole run, then, unless it has too many rows.
    whole: Option<Sample>,
    /// The whole run is shown.
    pub is_whole: bool,
    /// Where to go before the next screen.
    pub goal: Option<Goal>,
    /// Intervals of a recording per interval of the clock: a power of two.
    pub speed: i32,
    /// The ways to group commands.
    views: Vec<View>,
    /// The one that is shown.
    view: usize,
    /// The stages of the heat map: the whole first.
    pub stages: Vec<&'static str>,
    /// Index of the stage of the heat map.
    pub stage: usize,
    /// Order of the rows.
    pub order: Order,
    /// Only rows with this text in their name.
    pub filter: String,
    /// Keys are added to the filter.
    pub editing: bool,
    /// The screen stays as it is.
    pub paused: bool,
    /// The keys are shown.
    pub help: bool,
    /// What is below the rows, if there is no room for all.
    pub panel: Panel,
    /// How times of the run become times of day.
    pub clock: RunClock,
    /// Whose processes the groups are, if that is asked.
    pub who: Option<Who>,
    /// Names of the disks.
    disks: DiskNames,
    /// Names of the groups.
    names: GroupNames,
    selected: Option<TopKey>,
}

impl App {
    /// Without intervals. `by`: what commands are grouped by.
    pub fn new(
        name: &str,
        interval: Duration,
        stages: Vec<&'static str>,
        by: &[By],
        clock: RunClock,
    ) -> Self {
        Self { name: name.into(), interval, stages, views: View::all(by), clock, ..Self::default() }
    }

    /// What the rows are grouped by; nothing, if by disk and opcode.
    pub fn keys(&self) -> &[By] {
        &self.views[self.view].keys
    }

    /// The name of a row: `nvme0n1 read`, or its group.
    pub fn name_of_row(&self, key: &TopKey) -> String {
        match key {
            TopKey::Row(row) => self.name_of(row.ctrl, row.nsid, row.opcode),
            TopKey::Group(group) => groups::name_of(group, self.keys(), &self.names, &self.disks),
        }
    }

    /// The name of the row of a command. It has room for few letters.
    pub fn name_of(&self, ctrl: u32, nsid: u32, opcode: Opcode) -> String {
        match fctype(opcode, nsid) {
            Some(kind) => format!("nvme{ctrl} {}", kind.replace("property", "prop")),
            None => self.disks.subject(ctrl, nsid, opcode).replacen(" admin ", " ", 1),
        }
    }

    /// Adds an interval. It is not shown yet.
    pub fn push(&mut self, mut sample: Sample) {
        // the latest names serve all of them
        (self.disks, self.names) = (take(&mut sample.disks), take(&mut sample.names));
        self.size += sample.size();
        self.samples.push_back(sample);
        while self.size > MOST_BYTES && self.samples.len() > 1 {
            self.size -= self.samples.pop_front().map_or(0, |first| first.size());
            self.shown = self.shown.saturating_sub(1).max(self.shown.min(1));
        }
    }

    /// Shows the next interval that is kept. Returns false if there is none.
    pub fn next(&mut self) -> bool {
        if self.shown == self.samples.len() {
            return false;
        }
        (self.shown, self.is_whole) = (self.shown + 1, false);
        self.goal = match self.goal {
            Some(Goal::Ahead(more)) => (more > 1).then(|| Goal::Ahead(more - 1)),
            Some(Goal::Slow) if self.is_slow() => None,
            goal => goal,
        };
        self.pin();
        true
    }

    /// The recording is over: shows the whole run.
    pub fn finish(&mut self, whole: Option<Sample>) {
        self.whole = self.whole.take().or(whole);
        (self.is_finished, self.is_whole, self.goal) = (true, self.whole.is_some(), None);
    }

    /// Whether nothing comes after what is shown.
    pub fn is_over(&self) -> bool {
        let is_last = self.is_whole || self.whole.is_none();
        self.is_finished && is_last && self.shown == self.samples.len()
    }

    /// The interval that is shown, or the whole run.
    pub fn now(&self) -> Option<&Sample> {
        match &self.whole {
            Some(whole) if self.is_whole => Some(whole),
            _ => self.samples.get(self.shown.checked_sub(1)?),
        }
    }

    /// The length of a recording that has been read to its end.
    pub fn length(&self) -> Option<Duration> {
        self.whole.as_ref().map(|whole| whole.at)
    }

    /// The last intervals that are shown, at most this many: the earliest first. All of them if the whole
    /// run is shown.
    pub fn past(&self, most: usize) -> impl ExactSizeIterator<Item = &Sample> + Clone {
        let most = if self.is_whole { usize::MAX } else { most };
        self.samples.range(self.shown.saturating_sub(most)..self.shown)
    }

    /// A row in an interval.
    pub fn row_in<'s>(&self, sample: &'s Sample, key: &TopKey) -> Option<&'s Row> {
        sample.rows.get(self.view)?.iter().find(|row| row.key == *key)
    }

    /// The intervals of each of this many columns of a picture, as they concern a row. Few intervals take
    /// several columns each; a whole run can have several in a column.
    pub fn columns(&self, key: &TopKey, columns: usize) -> Vec<Vec<&Row>> {
        let past: Vec<&Sample> = self.past(columns).collect();
        let n = past.len();
        let of_column = |column: usize| {
            let first = column * n / columns;
            let end = ((column + 1) * n / columns).max(first + 1);
            past[first..end].iter().filter_map(|sample| self.row_in(sample, key)).collect()
        };
        (0..if n > 0 { columns } else { 0 }).map(of_column).collect()
    }

    /// The slowest commands of the last intervals, or of the whole run.
    pub fn slowest(&self) -> Vec<&SlowCommand> {
        match (self.is_whole, self.now()) {
            (true, Some(whole)) => slowest(whole.slowest.iter()),
            _ => slowest(self.past(RECENT).flat_map(|sample| &sample.slowest)),
        }
    }

    /// The rows that are shown, in their order; `None`: one without a command in the interval.
    pub fn rows(&self) -> Vec<(&TopKey, Option<&Row>)> {
        let Some(now) = self.now() else { return Vec::new() };
        let earlier = self.past(HISTORY).filter(|_| !self.is_whole);
        let earlier = earlier.filter_map(|sample| sample.rows.get(self.view)).flatten();
        let mut rows: BTreeMap<_, _> = earlier.map(|row| (&row.key, None)).collect();
        let last = now.rows.get(self.view).into_iter().flatten();
        rows.extend(last.map(|row| (&row.key, Some(row))));
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.retain(|(key, _)| {
            self.filter.is_empty() || self.name_of_row(key).contains(&self.filter)
        });
        // stable: equal rows keep the order of their names
        let value = |row: &Option<&Row>| row.map_or(-1.0, |row| self.order.value(row));
        rows.sort_by(|(_, a), (_, b)| value(b).total_cmp(&value(a)));
        rows
    }

    /// The selected row; the first one, if that is not shown.
    pub fn selected(&self) -> Option<&TopKey> {
        let rows = self.rows();
        let chosen = rows.iter().find(|(key, _)| Some(*key) == self.selected.as_ref());
        chosen.or(rows.first()).map(|(key, _)| *key)
    }

    /// Selects the first row, unless one is selected. It stays selected when the order changes.
    fn pin(&mut self) {
        self.selected = self.selected.take().or_else(|| self.selected().cloned());
    }

    /// Whether the 99th percentile of the selected row is at least twice its median so far.
    fn is_slow(&self) -> bool {
        let Some(key) = &self.selected else { return false };
        let p99 = |sample| self.row_in(sample, key).and_then(|row| row.p99);
        let mut past: Vec<u64> = self.past(HISTORY).filter_map(p99).collect();
        let now = self.now().and_then(p99);
        past.pop();
        past.sort_unstable();
        now.zip(past.get(past.len() / 2)).is_some_and(|(now, usual)| now / 2 >= *usual)
    }

    fn select(&mut self, down: bool, by: usize) {
        let rows = self.rows();
        let key = self.selected();
        let at = rows.iter().position(|row| Some(row.0) == key).unwrap_or(0);
        let to =
            if down { (at + by).min(rows.len().saturating_sub(1)) } else { at.saturating_sub(by) };
        self.selected = rows.get(to).map(|row| row.0.clone());
    }

    /// Goes back, from the whole run to its last interval first.
    fn back(&mut self, by: usize) {
        let by = by - usize::from(self.is_whole);
        (self.paused, self.is_whole, self.goal) = (true, false, None);
        self.shown = self.shown.saturating_sub(by).max(self.shown.min(1));
    }

    fn go(&mut self, goal: Goal) {
        (self.paused, self.goal) = (true, Some(goal));
    }

    fn edit(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Esc => {
                self.filter.clear();
                self.editing = false;
            }
            KeyCode::Enter => self.editing = false,
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.len() < 32 => self.filter.push(c),
            _ => {}
        }
        Action::Draw
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Draw;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Quit,
                KeyCode::Char('z') => Action::Suspend,
                KeyCode::Char('l') => Action::Redraw,
                _ => Action::Draw,
            };
        }
        if self.editing {
            return self.edit(key.code);
        }
        let stages = self.stages.len();
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return Action::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = !self.help,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.select(false, 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(true, 1),
            KeyCode::PageUp => self.select(false, 10),
            KeyCode::PageDown => self.select(true, 10),
            KeyCode::Home => self.select(false, usize::MAX),
            KeyCode::End => self.select(true, usize::MAX / 2),
            KeyCode::Right | KeyCode::Char('s') => self.stage = (self.stage + 1) % stages,
            KeyCode::Left => self.stage = (self.stage + stages - 1) % stages,
            KeyCode::Tab | KeyCode::Char('v') => self.panel = self.panel.next(),
            KeyCode::Char('b') => {
                (self.view, self.selected) = ((self.view + 1) % self.views.len(), None);
                self.pin();
            }
            KeyCode::Char('o') | KeyCode::F(6) => self.order = self.order.next(),
            KeyCode::Char('/') | KeyCode::F(4) => self.editing = true,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('<') => self.back(1),
            KeyCode::Char('{') => self.back(10),
            KeyCode::Char('>') => self.go(Goal::Ahead(1)),
            KeyCode::Char('}') => self.go(Goal::Ahead(10)),
            KeyCode::Char('n') => self.go(Goal::Slow),
            KeyCode::Char('0') => self.goal = Some(Goal::End),
            KeyCode::Char('+') => self.speed = (self.speed + 1).min(MOST_SPEED),
            KeyCode::Char('-') => self.speed = (self.speed - 1).max(-MOST_SPEED),
            _ => {}
        }
        Action::Draw
    }
}
