// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `heatmap` command: commands over time, by latency, LBA, size or depth, as a picture.

pub(crate) mod args;
pub(crate) mod grid;
pub(crate) mod view;

use std::mem::replace;
use std::path::Path;
use std::time::Duration;

use crate::error::Kind;
use crate::heatmap::grid::{HeatMap, Interval, Plot, Quantity};
use crate::heatmap::view::{Caption, SIZE, draw, title};
use crate::model::report::submissions::{Submissions, TaskKind, forgotten};
use crate::model::text::Text;
use crate::view::picture::Canvas;
use anyhow::{Context, Result};

use crate::heatmap::args::{HeatmapOptions, QuantityArg};
use crate::run::drive::replay::Replay;
use crate::run::drive::{Consumer, End, Feed, Form, Input, Item, Live, drive, submissions_of};
use crate::run::exit::Failure;
use crate::run::picture::Picture;
use crate::run::start::Preflight;
use crate::run::{WAITS_UNMEASURED, eprint_note, say_ledger};

/// Paints the events of a run.
struct HeatmapConsumer<'o> {
    options: &'o HeatmapOptions,
    quantity: Quantity,
    plot: Plot,
    begin_ns: u64,
    /// For the depth.
    submissions: Option<Submissions>,
    picture: Picture,
}

impl HeatmapConsumer<'_> {
    fn submit(&mut self, now_ns: u64) {
        let Self { plot, submissions, .. } = self;
        if let Some(submissions) = submissions {
            while let Some((submitted, depth)) = submissions.next(now_ns) {
                plot.submission(&submitted, depth);
            }
        }
    }

    /// The map of this run, and the number of commands that are not in it.
    fn map(&mut self, end: &End<'_>) -> (HeatMap, u64) {
        self.submit(u64::MAX);
        let after = |time: Duration| {
            let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.begin_ns.saturating_add(ns)
        };
        // also the time without commands
        let last = end.took.saturating_sub(Duration::from_nanos(1));
        let ends = (after(end.dropped()), after(last));
        self.plot.cover(ends.0);
        self.plot.cover(ends.1);
        let submissions = self.submissions.as_ref();
        let (unknown, lost) = submissions.map_or((0, 0), |s| (s.unknown(), s.forgotten()));
        if lost > 0 {
            eprint_note(&forgotten(lost));
        }
        let left_out = self.plot.left_out() + unknown;
        let plot = replace(&mut self.plot, Plot::new(self.quantity, 0));
        (plot.finish(), left_out)
    }
}

impl Consumer for HeatmapConsumer<'_> {
    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        let Item::Event(event) = item else {
            return Ok(());
        };
        let (disk, set) = feed.names.of_command(event.what.id());
        match &mut self.submissions {
            Some(submissions) => {
                submissions.add(event, set);
                self.submit(event.at_ns);
            }
            None => self.plot.event(event, disk, set),
        }
        Ok(())
    }

    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        let (options, quantity) = (self.options, self.quantity);
        check_disks(options, self.plot.disks())?;
        let (map, left_out) = self.map(&end);
        if map.cells.is_empty() {
            return Ok(Err(nothing(quantity, left_out, end.unmatched)));
        }
        let caption = Caption { subject: subject(options), quantity, left_out };
        let name = title(&quantity);
        let mut what = format!("{} commands", map.commands());
        if left_out > 0 {
            what += &format!("; {left_out} {}, left out", quantity.missing());
        }
        let draw = |canvas: &mut dyn Canvas| draw(&map, &caption, canvas);
        self.picture.write(SIZE, &name, &what, draw)?;
        say_ledger(&end.ledger, options.session.is_verbose());
        if end.session.is_some() && quantity == Quantity::Latency(Interval::TOTAL) {
            eprint_note(WAITS_UNMEASURED);
        }
        Ok(Ok(()))
    }
}

/// Opens the recording.
fn open(options: &HeatmapOptions, path: &Path) -> Result<Replay> {
    let settings = &options.settings;
    let mut replay = Replay::open_by(path, settings, "--stage")?;
    if options.y != QuantityArg::Depth || settings.filter.needs_submission() {
        replay.require_pairs()?;
    }
    replay.leave_unmatched();
    Ok(replay)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &HeatmapOptions) -> Result<()> {
    let settings = &options.settings;
    let inputs = &options.from.files;
    let input = match inputs.first() {
        Some(path) => {
            let form = Form::default();
            Input::recordings(vec![open(options, path)?], form, true)
        }
        None => {
            let ready = Preflight::check(settings)?;
            Input::live(Live::new(ready, settings, options.run.duration))
        }
    };
    // what cannot be read or traced is reported first
    let mut picture = Some(Picture::create(&options.picture_file()?, inputs)?);
    drive(input, &mut |start| {
        let stages = start.recording.map_or(settings, Replay::settings).stage_set;
        let quantity = options.quantity(stages);
        let mut submissions = None;
        if quantity == Quantity::Depth {
            submissions = Some(submissions_of(start, settings, TaskKind::Caller, "--y depth")?);
        }
        start.recording.into_iter().for_each(Replay::warn_partial);
        let mut plot = Plot::new(quantity, 0);
        plot.begin(start.begin_ns);
        Ok(HeatmapConsumer {
            options,
            quantity,
            plot,
            begin_ns: start.begin_ns,
            submissions,
            picture: picture.take().context("one picture shows one run")?,
        })
    })
}

/// Fails if the LBAs of several disks were in one picture of a recording. A run can't be made again: its
/// picture is drawn all the same.
fn check_disks(options: &HeatmapOptions, disks: &[String]) -> Result<()> {
    if disks.len() < 2 {
        return Ok(());
    }
    let which = disks.join(", ");
    if options.from.is_empty() {
        eprint_note(&format!("the picture mixes the LBAs of {which}: choose one by --disk"));
        return Ok(());
    }
    let text = format!(
        "an LBA is one of a disk, and these commands are of {which}: choose one by --ctrl and --nsid"
    );
    Err(Failure::error(Kind::Usage, text))
}

/// The filters, and the name of the recording.
fn subject(options: &HeatmapOptions) -> String {
    let file = options.from.files.first();
    let file = file.map(|path| format!("of {}", Text::file_name(path)));
    let filter = Text::from(options.settings.filter.text());
    let filter = Some(filter).filter(|text| !text.is_empty());
    let filter = filter.map(|text| format!("with {text}"));
    let parts: Vec<String> = file.into_iter().chain(filter).collect();
    parts.join(" ")
}

/// The error of a picture without commands.
fn nothing(quantity: Quantity, left_out: u64, unmatched: Option<String>) -> anyhow::Error {
    let why = match left_out {
        0 => unmatched.unwrap_or("the filters select no command that has completed".into()),
        n => format!("{n} commands {}", quantity.missing()),
    };
    let help = match quantity {
        Quantity::Latency(interval) if left_out > 0 && interval.run.is_some() => {
            "; `latency --stages` shows which stages were observed"
        }
        _ => "",
    };
    Failure::error(Kind::Run, format!("there is nothing to draw: {why}{help}; no file was written"))
}
