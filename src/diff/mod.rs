// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `diff` command: reads the recordings of both sides, and compares them.

pub(crate) mod args;
pub mod compare;
pub mod report;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::diff::compare::compare;
use crate::diff::report::{Both, Counted, Counter, Diff, Origin, Side};
use crate::diff::view::{DiffJson, DiffText, Subject};
use crate::error::Kind;
use crate::model::controller::ControllerInfo;
use crate::model::stage::StageSet;
use crate::settings::{Settings, Window};
use crate::view::theme::Theme;
use anyhow::Result;

use crate::diff::args::DiffArgs;
use crate::run::drive::replay::Replay;
use crate::run::drive::{Consumer, Feed, Item, open_all, read};
use crate::run::eprint_note;
use crate::run::exit::Failure;
use crate::run::stdout::stdout;

/// Controllers of a side, with the numbers to count them under; `None`: all, under their own.
type Ctrls = Option<BTreeMap<u32, u32>>;

/// Opens the recordings of a side. Each must have these controllers.
fn open(paths: &[PathBuf], ctrls: BTreeSet<u32>, window: &Window) -> Result<Vec<Replay>> {
    let mut settings = Settings::of(StageSet::Total);
    settings.filter.ctrls = ctrls;
    settings.window.clone_from(window);
    open_all(paths, &settings, &Replay::require_pairs)
}

/// The stages that all recordings have.
fn common_stages(replays: Both<&[Replay]>) -> StageSet {
    let all = replays.a.iter().chain(replays.b);
    let sets: Vec<StageSet> = all.map(|r| r.info().stage_set).collect();
    let order = [StageSet::Total, StageSet::Basic, StageSet::Fine, StageSet::Full];
    let least = order.into_iter().find(|set| sets.contains(set));
    least.unwrap_or_default()
}

/// Counts the commands of a recording.
struct Counting {
    counter: Counter,
    controllers: Vec<ControllerInfo>,
    commands: u64,
}

impl Consumer for Counting {
    const SHOWS: bool = false;

    fn item(&mut self, item: &Item<'_>, _feed: &mut Feed<'_>) -> Result<()> {
        match item {
            Item::Event(event) | Item::Unselected(event) => {
                self.commands += u64::from(self.counter.add(event));
            }
            Item::Controllers(all) => {
                let sizes = all.iter().flat_map(ControllerInfo::block_sizes);
                self.counter.block_sizes(sizes);
                // those that were removed have been recorded, too
                let is_old = |c: &ControllerInfo| all.iter().all(|new| new.instance != c.instance);
                self.controllers.retain(is_old);
                self.controllers.extend(all.iter().cloned());
            }
            Item::Activity(activity) => self.counter.activity(activity.clone()),
            _ => {}
        }
        Ok(())
    }
}

/// Reads a recording to its end.
fn count(replay: &mut Replay, stages: StageSet, ctrls: &Ctrls) -> Result<(Counted, Origin)> {
    let mut counting = Counting {
        counter: Counter::new(stages, ctrls.clone()),
        controllers: Vec::new(),
        commands: 0,
    };
    replay.show_progress();
    let end = read(replay, &mut counting)?;
    let (covers, accuracy) = (end.covers, end.ledger.accuracy());
    let Counting { counter, mut controllers, commands } = counting;
    if counter.is_crowded() {
        let text = format!(
            "{} has too many kinds of commands (controller, namespace, opcode, size): choose \
             controllers by --ctrl",
            replay.path()
        );
        return Err(Failure::error(Kind::Usage, text));
    }
    if let Some(ctrls) = ctrls {
        controllers.retain_mut(|c| {
            let number = ctrls.get(&c.instance);
            c.instance = number.copied().unwrap_or_default();
            number.is_some()
        });
    }
    let origin = Origin {
        path: replay.path().to_owned(),
        info: replay.info().clone(),
        controllers,
        commands,
        covers,
        accuracy,
        is_whole: replay.is_whole(),
    };
    Ok((counter.finish(covers), origin))
}

fn read_side(
    replays: &mut [Replay],
    stages: StageSet,
    ctrls: &Ctrls,
) -> Result<(Side, Vec<Origin>)> {
    let read = replays.iter_mut().map(|replay| count(replay, stages, ctrls));
    let read: Vec<(Counted, Origin)> = read.collect::<Result<_>>()?;
    let (recordings, origins) = read.into_iter().unzip();
    Ok((Side { recordings }, origins))
}

/// Refuses sides without a common class.
fn check_common(diff: &Diff, origins: Both<&[Origin]>) -> Result<()> {
    if !diff.is_empty() {
        return Ok(());
    }
    let commands = origins.map(|side| side.iter().map(|o| o.commands).sum::<u64>());
    let why = match (commands.a, commands.b) {
        (0, 0) => "neither side has a command".into(),
        (0, _) => "A has no command".into(),
        (_, 0) => "B has no command".into(),
        _ => {
            let name = |(class, _): &(_, u64)| Subject::class(origins, class);
            let first = |of: &[_]| of.first().map_or_else(String::new, name);
            format!(
                "no controller, namespace, opcode and size is in both: A has {}, B has {}",
                first(&diff.only.a),
                first(&diff.only.b)
            )
        }
    };
    Err(Failure::error(
        Kind::Usage,
        format!(
            "{why}. Give recordings of the same load; --ctrl nvme0=nvme1 compares controllers with \
             different names"
        ),
    ))
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &DiffArgs) -> Result<()> {
    let ([a, b], ctrls) = (options.sides()?, options.ctrls()?);
    let mut a = open(&a, ctrls.keys().copied().collect(), &options.window)?;
    let mut b = open(&b, ctrls.values().copied().collect(), &options.window)?;
    let files = |side: &[Replay]| side.iter().map(Replay::file_id).collect::<Vec<_>>();
    let is_paired = files(&a) == files(&b);
    let stages = common_stages(Both { a: &a, b: &b });
    let chosen = Some(&ctrls).filter(|ctrls| !ctrls.is_empty());
    let own = chosen.map(|ctrls| ctrls.keys().map(|&a| (a, a)).collect());
    let other = chosen.map(|ctrls| ctrls.iter().map(|(&a, &b)| (b, a)).collect());
    let (side_a, origins_a) = read_side(&mut a, stages, &own)?;
    let (side_b, origins_b) = read_side(&mut b, stages, &other)?;
    let diff = compare(&side_a, &side_b, options.min_change, is_paired);
    let origins = Both { a: origins_a.as_slice(), b: origins_b.as_slice() };
    check_common(&diff, origins)?;
    let subject = Subject { stage_set: stages, origins, least: options.min_change };
    let mut out = BufWriter::new(stdout());
    if options.json {
        DiffJson { subject }.write(&diff, &mut out)?;
    } else {
        let theme = Theme { color: options.color.on_stdout(options.json) };
        let detail = options.verbose;
        let text = DiffText { subject, theme, detail };
        text.write(&diff, &mut out)?;
    }
    out.flush()?;
    ended(&a, &b)?;
    verdict(options, &diff)
}

/// An error if a recording is damaged or has no end.
fn ended(a: &[Replay], b: &[Replay]) -> Result<()> {
    let mut damaged: Vec<_> = a.iter().chain(b).filter_map(|r| r.check_complete().err()).collect();
    let last = damaged.pop();
    damaged.iter().for_each(|error| eprint_note(&error.to_string()));
    last.map_or(Ok(()), Err)
}

/// The result of `--check`.
fn verdict(options: &DiffArgs, diff: &Diff) -> Result<()> {
    let (kind, why) = match diff.changed_rows() {
        _ if !options.check => return Ok(()),
        0 if diff.comparisons > 0 => return Ok(()),
        0 => (Kind::Run, "too few commands for any comparison (--check): record longer".into()),
        1 => (Kind::Check, "1 row changed (--check)".into()),
        n => (Kind::Check, format!("{n} rows changed (--check)")),
    };
    Err(Failure::error(kind, why))
}
