// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slowest commands of a run (`--slowest`).

use std::io::{IsTerminal, stdout};

use crate::model::event::{Event, EventKind};
use crate::model::ledger::EventClass;
use crate::model::report::begins::Longest;
use crate::model::stack::Frame;
use crate::model::text::{Text, word};
use crate::model::timeline::{Span, total_ns};
use crate::nvme::decode::CommandSet;
use crate::run::drive::Names;
use ratatui::crossterm::terminal;

/// A command with the name and the command set of its disk.
type Named = (Event, Text, CommandSet);

/// The slowest commands so far.
pub(super) struct Slowest {
    kept: Longest<Named>,
    commands: u64,
}

impl Slowest {
    /// Keeps the `most` slowest.
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Longest::at_most(most), commands: 0 }
    }

    /// Adds a finished command. One whose time is not known is counted only.
    pub(super) fn add(&mut self, event: &Event, names: &mut Names) {
        self.commands += u64::from(EventClass::of(&event.what) == EventClass::Command);
        let EventKind::Command(id, ..) = &event.what else {
            return;
        };
        if let Some(ns) = total_ns(event) {
            let span = Span { begin_ns: event.at_ns.saturating_sub(ns), end_ns: Some(event.at_ns) };
            // of equal ones the first counts as the slower
            self.kept.add(&span, u64::MAX - self.commands, || {
                let (disk, set) = names.of_command(Some(id));
                Some((*event, disk.into(), set))
            });
        }
    }

    /// How many are kept, and how many are not.
    pub(super) fn shown_and_hidden(&self) -> (u64, u64) {
        let shown = self.kept.number() as u64;
        (shown, self.commands - shown)
    }

    /// The commands in order.
    pub(super) fn slowest_first(self) -> impl Iterator<Item = Named> {
        self.kept.longest_first()
    }
}

/// Columns of the terminal on stdout, if it is one.
pub(super) fn width_of_terminal() -> Option<usize> {
    let size = stdout().is_terminal().then(terminal::size)?;
    size.ok().map(|(columns, _)| columns.into())
}

/// Innermost functions that the stacks of all commands have: the driver and blk-mq.
const INNERMOST: [&str; 10] = [
    "nvme_",
    "__nvme_",
    "blk_mq_",
    "__blk_mq_",
    "blk_flush_plug",
    "__blk_flush_plug",
    "blk_finish_plug",
    "submit_bio",
    "__submit_bio",
    "blk_complete_reqs",
];

/// A stack in one line of at most `width` columns: the callers, innermost first, without what most stacks
/// have in common.
pub(super) fn one_line(frames: &[Frame], width: Option<usize>) -> String {
    let names = frames.iter().map(|frame| match &frame.symbol {
        Some(symbol) => word(&symbol.name).into_owned(),
        None => frame.to_string(),
    });
    let names: Vec<String> = names.collect();
    let is_one_of = |name: &String, all: &[&str]| all.iter().any(|begin| name.starts_with(begin));
    let inner = names.iter().take_while(|name| is_one_of(name, &INNERMOST)).count();
    let outer = frames.iter().rev().take_while(|frame| frame.is_entry()).count();
    let callers = names.get(inner..names.len() - outer).filter(|callers| !callers.is_empty());
    let mut line = format!("    {}", callers.unwrap_or(&names).join(" < "));
    if let Some(width) = width.filter(|width| line.chars().count() > *width) {
        line = line.chars().take(width.saturating_sub(3)).collect();
        line += "...";
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stack::Symbol;
    use crate::testing::EventBuilder;

    #[test]
    fn the_slowest_of_many_are_kept_in_order_and_the_others_counted() {
        let mut slowest = Slowest::new(3);
        let took = [50, 90, 10, 90, 70, 20];
        for (cid, ns) in (0..).zip(took) {
            let event = EventBuilder::read().cid(cid).at(1_000_000).latency(ns).command();
            slowest.add(&event, &mut Names::recorded());
        }
        slowest.add(&EventBuilder::read().at(1).latency(None).command(), &mut Names::recorded());
        slowest.add(&EventBuilder::read().requeue(), &mut Names::recorded());
        assert_eq!(slowest.shown_and_hidden(), (3, 4));
        let cids = slowest.slowest_first().map(|(event, ..)| event.what.id().unwrap().cid);
        assert_eq!(cids.collect::<Vec<_>>(), [1, 3, 4]);
    }

    #[test]
    fn a_stack_in_one_line_is_what_differs() {
        let line = |names: &[&str], width| {
            let frame = |name: &&str| Frame {
                address: 1,
                symbol: Some(Symbol { name: (*name).into(), offset: 2, module: None }),
            };
            one_line(&names.iter().map(frame).collect::<Vec<_>>(), width)
        };
        let whole = [
            "nvme_setup_cmd",
            "nvme_queue_rq",
            "blk_mq_submit_bio",
            "submit_bio_noacct",
            "blkdev_read_iter",
            "vfs_read",
            "do_syscall_64",
            "entry_SYSCALL_64_after_hwframe",
        ];
        assert_eq!(line(&whole, None), "    blkdev_read_iter < vfs_read\n");
        assert_eq!(line(&whole, Some(30)), "    blkdev_read_iter < vfs_...\n");
        assert_eq!(line(&whole, Some(31)), "    blkdev_read_iter < vfs_read\n");
        // nothing differs: all of it
        assert_eq!(line(&whole[..2], None), "    nvme_setup_cmd < nvme_queue_rq\n");
        assert_eq!(line(&[], None), "    \n");
    }
}
