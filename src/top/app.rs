// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the screen, and what keys do to it.

use std::cmp::{Ordering, Reverse};

use crate::Opcode;
use crate::model::group::GroupNames;
use crate::model::report::groups;
use crate::nvme::subject::fctype;
use crate::top::report::view::TopKey;
use crate::top::report::{HISTORY, Sample, Top, TopRow};
use crate::when::RunClock;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Commands per second.
    Iops,
    /// Megabytes per second.
    Bytes,
    /// Commands in flight: the share of the time of all commands.
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
            Self::Depth => "in",
            Self::P99 => "p99",
            Self::Max => "max",
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
    fn value(self, row: &TopRow) -> f64 {
        let Some(last) = &row.last else { return -1.0 };
        match self {
            Self::Iops => last.iops,
            Self::Bytes => last.mb_per_s,
            Self::Depth => row.depth(),
            Self::P99 => last.total.percentile(99.0).unwrap_or(0) as f64,
            Self::Max => last.total.max().unwrap_or(0) as f64,
            Self::Name => 0.0,
        }
    }
}

/// What is below the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The heat map of the selected row and stage.
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

/// The screen.
#[derive(Debug)]
pub struct App {
    /// The rows.
    pub top: Top,
    /// Order of the rows.
    pub order: Order,
    /// Only rows with this text in their name.
    pub filter: String,
    /// Keys are added to the filter.
    pub editing: bool,
    /// Intervals are not shown.
    pub paused: bool,
    /// The keys are shown.
    pub help: bool,
    /// Index of the stage of the heat map.
    pub stage: usize,
    /// What is below the rows, if there is no room for all.
    pub panel: Panel,
    /// The recording is over: the whole run is shown.
    pub ended: bool,
    /// How times of the run become times of day.
    pub clock: RunClock,
    selected: Option<TopKey>,
    /// The last interval of a pause.
    held: Vec<Sample>,
}

impl App {
    /// The name of a row: `nvme0n1 read`, or that of its group.
    pub fn name(&self, key: &TopKey) -> String {
        match key {
            TopKey::Row(row) => self.name_of(row.ctrl, row.nsid, row.opcode),
            TopKey::Group(group) => {
                let top = &self.top;
                groups::name_of(group, top.keys(), &top.names, &top.disks)
            }
        }
    }

    /// The name of the row of a command. It has room for few letters.
    pub fn name_of(&self, ctrl: u32, nsid: u32, opcode: Opcode) -> String {
        match fctype(opcode, nsid) {
            Some(kind) => format!("nvme{ctrl} {}", kind.replace("property", "prop")),
            None => {
                let name = self.top.disks.subject(ctrl, nsid, opcode);
                name.replacen(" admin ", " ", 1)
            }
        }
    }

    /// Without rows.
    pub fn new(top: Top, clock: RunClock) -> Self {
        Self {
            top,
            order: Order::Iops,
            filter: String::new(),
            editing: false,
            paused: false,
            help: false,
            stage: 0,
            panel: Panel::Map,
            ended: false,
            clock,
            selected: None,
            held: Vec::new(),
        }
    }

    /// Adds an interval. During a pause it waits, so that the history has no gap.
    pub fn push(&mut self, sample: Sample) {
        if self.paused {
            // the latest names serve all of them
            if let Some(last) = self.held.last_mut() {
                last.names = GroupNames::default();
            }
            self.held.push(sample);
            let more = self.held.len().saturating_sub(HISTORY);
            self.held.drain(..more);
        } else {
            self.top.push(sample);
        }
    }

    /// Shows the whole run, which is over.
    pub fn end(&mut self, whole: Sample) {
        if self.paused {
            self.pause();
        }
        self.top.show_whole(whole);
        self.ended = true;
    }

    /// The rows that are shown, in their order.
    pub fn rows(&self) -> Vec<&TopRow> {
        let mut rows: Vec<&TopRow> =
            self.top.rows().filter(|row| self.name(&row.key).contains(&self.filter)).collect();
        let order = |a: &&TopRow, b: &&TopRow| {
            let (a, b) = (self.order.value(a), self.order.value(b));
            b.partial_cmp(&a).unwrap_or(Ordering::Equal)
        };
        // stable: equal rows keep the order of their names
        rows.sort_by(order);
        rows.sort_by_key(|row| Reverse(row.last.is_some()));
        rows
    }

    /// The selected row: the first one, unless another was chosen.
    pub fn selected(&self) -> Option<&TopRow> {
        let rows = self.rows();
        let chosen = rows.iter().find(|row| Some(&row.key) == self.selected.as_ref());
        chosen.or(rows.first()).copied()
    }

    /// The name of the stage of the heat map.
    pub fn stage_name(&self) -> &'static str {
        self.top.stages()[self.stage]
    }

    fn select(&mut self, down: bool, by: usize) {
        let rows = self.rows();
        let key = self.selected().map(|row| &row.key);
        let at = rows.iter().position(|row| Some(&row.key) == key).unwrap_or(0);
        let to =
            if down { (at + by).min(rows.len().saturating_sub(1)) } else { at.saturating_sub(by) };
        self.selected = rows.get(to).map(|row| row.key.clone());
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if !self.paused {
            for sample in std::mem::take(&mut self.held) {
                self.top.push(sample);
            }
        }
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
        let stages = self.top.stages().len();
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
                self.top.next_view();
            }
            KeyCode::Char('o') | KeyCode::F(6) => self.order = self.order.next(),
            KeyCode::Char('/') | KeyCode::F(4) => self.editing = true,
            KeyCode::Char(' ' | 'p') => self.pause(),
            _ => {}
        }
        Action::Draw
    }
}
