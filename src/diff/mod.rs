// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `diff` command: reads the recordings of both sides, and compares them.

pub(crate) mod args;
pub mod compare;
pub mod report;
pub mod view;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::diff::compare::compare;
use crate::diff::report::{Both, Counted, Counter, Diff, Origin, Side};
use crate::diff::view::{DiffText, Subject, class_name};
use crate::error::{Failure, Kind};
use crate::model::machine::ControllerInfo;
use crate::model::stage::StageSet;
use crate::recording::Fact;
use crate::run::stdout::output_width;
use crate::settings::Settings;
use crate::view::theme::Theme;
use anyhow::Result;

use crate::diff::args::DiffArgs;
use crate::run::drive::{FileReader, Run, Step, open_all};
use crate::run::eprint_note;
use crate::run::exit::usage;
use crate::run::stdout::stdout;

/// Opens the recordings of a side. `ctrls`: its controllers of `--map`.
fn open(
    paths: &[PathBuf],
    options: &DiffArgs,
    ctrls: impl Iterator<Item = u32>,
) -> Result<Vec<FileReader>> {
    let mut settings = Settings::of(StageSet::Total);
    settings.filter = options.filter.filter(true)?;
    settings.filter.ctrls.extend(ctrls);
    settings.window = options.filter.part();
    open_all(paths, &settings, &FileReader::require_pairs)
}

/// The stages that all recordings have.
fn common_stages(files: Both<&[FileReader]>) -> StageSet {
    let all = files.a.iter().chain(files.b);
    let sets: Vec<StageSet> = all.map(|r| r.info().stage_set).collect();
    let order = [StageSet::Total, StageSet::Basic, StageSet::Fine, StageSet::Full];
    let least = order.into_iter().find(|set| sets.contains(set));
    least.unwrap_or_default()
}

/// Reads a recording to its end. `renamed`: controllers to count under another number.
fn count(
    file: &mut FileReader,
    stages: StageSet,
    renamed: &BTreeMap<u32, u32>,
) -> Result<(Counted, Origin)> {
    let mut counter = Counter::new(stages, renamed.clone());
    let (mut controllers, mut commands) = (Vec::<ControllerInfo>::new(), 0);
    let mut run = Run::of(file);
    let begin_ns = run.header.begin_ns;
    loop {
        match run.next()? {
            Step::Event { event, is_selected, .. } => {
                let is_counted = counter.add(event, is_selected);
                commands += u64::from(is_counted && is_selected);
            }
            Step::Fact(Fact::Controllers(all)) => {
                counter.block_sizes(all.iter().flat_map(ControllerInfo::block_sizes));
                // those that were removed have been recorded, too
                ControllerInfo::update(&mut controllers, all);
            }
            Step::Ended => break,
            _ => {}
        }
    }
    let end = run.end()?;
    let (covers, accuracy) = (end.covers, end.ledger.accuracy());
    if counter.is_crowded {
        return Err(usage(format!(
            "{} has too many kinds of commands (controller, namespace, opcode, size): choose a \
             disk with --disk",
            file.path
        )));
    }
    if !renamed.is_empty() {
        controllers.retain_mut(|c| {
            let number = renamed.get(&c.instance);
            c.instance = number.copied().unwrap_or_default();
            number.is_some()
        });
    }
    let origin = Origin {
        path: file.path.to_owned(),
        begin_ns,
        info: file.info().clone(),
        controllers,
        commands,
        covers,
        accuracy,
        is_whole: file.incomplete().is_none(),
    };
    Ok((counter.finish(covers), origin))
}

fn read_side(
    files: &mut [FileReader],
    stages: StageSet,
    renamed: &BTreeMap<u32, u32>,
) -> Result<(Side, Vec<Origin>)> {
    let read = files.iter_mut().map(|file| count(file, stages, renamed));
    let read: Vec<(Counted, Origin)> = read.collect::<Result<_>>()?;
    let (recordings, origins) = read.into_iter().unzip();
    Ok((Side { recordings }, origins))
}

/// Refuses sides without a common class.
fn check_common(diff: &Diff, origins: Both<&[Origin]>) -> Result<()> {
    if !diff.groups.is_empty() {
        return Ok(());
    }
    let commands = origins.map(|side| side.iter().map(|o| o.commands).sum::<u64>());
    let why = match (commands.a, commands.b) {
        (0, 0) => "neither side has a command".into(),
        (0, _) => "A has no command".into(),
        (_, 0) => "B has no command".into(),
        _ => {
            let name = |(class, _): &(_, u64)| class_name(origins, class);
            let first = |of: &[_]| of.first().map_or_else(String::new, name);
            format!(
                "no controller, namespace, opcode and size is in both: A has {}, B has {}",
                first(&diff.only.a),
                first(&diff.only.b)
            )
        }
    };
    Err(usage(format!(
        "{why}: give recordings of the same load, or compare controllers with different names \
         (--map nvme0=nvme1)"
    )))
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &DiffArgs) -> Result<()> {
    let ([a, b], map) = (options.sides()?, options.map()?);
    let mut a = open(&a, options, map.keys().copied())?;
    let mut b = open(&b, options, map.values().copied())?;
    let files = |side: &[FileReader]| side.iter().map(|file| file.file_id).collect::<Vec<_>>();
    let is_paired = files(&a) == files(&b);
    let stages = common_stages(Both { a: &a, b: &b });
    let own = map.keys().map(|&a| (a, a)).collect();
    let other = map.iter().map(|(&a, &b)| (b, a)).collect();
    let (side_a, origins_a) = read_side(&mut a, stages, &own)?;
    let (side_b, origins_b) = read_side(&mut b, stages, &other)?;
    let diff = compare(&side_a, &side_b, options.min_change, is_paired);
    let origins = Both { a: origins_a.as_slice(), b: origins_b.as_slice() };
    check_common(&diff, origins)?;
    let subject = Subject { stage_set: stages, origins, least: options.min_change };
    let mut out = BufWriter::new(stdout());
    if options.json {
        subject.json(&diff, &mut out)?;
    } else {
        let theme = Theme { color: options.color.on_stdout(false) };
        let (detail, width) = (options.verbose, output_width());
        DiffText { subject, theme, detail, width }.write(&diff, &mut out)?;
    }
    out.flush()?;
    ended(&a, &b)?;
    verdict(options, &diff)
}

/// An error if a recording is damaged or has no end.
fn ended(a: &[FileReader], b: &[FileReader]) -> Result<()> {
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
