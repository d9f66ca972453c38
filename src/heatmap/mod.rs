// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `heatmap` command: commands over time, by latency, LBA, size or depth, as a picture.

pub(crate) mod args;

use std::mem::{replace, take};
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::model::event::Event;
use crate::model::report::submissions::{Submissions, TaskKind, forgotten};
use crate::model::text::Text;
use crate::recording::Fact;
use crate::units::counted;
use crate::view::heatmap::grid::{HeatMap, Interval, Plot, Quantity};
use crate::view::heatmap::{Caption, SIZE, draw};
use crate::view::picture::Canvas;
use crate::view::theme::Theme;
use crate::when::RunClock;
use anyhow::Result;

use crate::heatmap::args::{HeatmapOptions, QuantityArg};
use crate::run::drive::{End, FileReader, Live, Names, Run, Step, each, open_all, submissions_of};
use crate::run::picture::Picture;
use crate::run::start::Preflight;
use crate::run::{WAITS_UNMEASURED, eprint_note, say_ledger};

/// Paints the events of a run.
struct Painter<'o> {
    options: &'o HeatmapOptions,
    quantity: Quantity,
    plot: Plot,
    clock: RunClock,
    /// Bytes of a block of the last disk, if they are known.
    block: Option<u32>,
    /// For the depth.
    submissions: Option<Submissions>,
    pictures: Vec<Picture>,
}

impl Painter<'_> {
    fn submit(&mut self, now_ns: u64) {
        let Self { plot, submissions, .. } = self;
        if let Some(submissions) = submissions {
            while let Some((submitted, depth)) = submissions.next(now_ns) {
                plot.submission(&submitted, depth);
            }
        }
    }

    /// The map of this run, and the number of commands that are not in it.
    fn map(&mut self, end: &End) -> (HeatMap, u64) {
        self.submit(u64::MAX);
        // also the time without commands at the end
        let last = end.took.saturating_sub(Duration::from_nanos(1));
        let last = u64::try_from(last.as_nanos()).unwrap_or(u64::MAX);
        self.plot.cover(self.clock.begin_ns.saturating_add(last));
        let submissions = self.submissions.as_ref();
        let (unknown, lost) = submissions.map_or((0, 0), |s| (s.unknown(), s.forgotten()));
        if lost > 0 {
            eprint_note(&forgotten(lost));
        }
        let left_out = self.plot.left_out + unknown;
        let plot = replace(&mut self.plot, Plot::new(self.quantity, 0));
        (plot.finish(), left_out)
    }
}

impl<'o> Painter<'o> {
    fn new(options: &'o HeatmapOptions, pictures: Vec<Picture>, run: &Run<'_>) -> Result<Self> {
        run.file().into_iter().for_each(FileReader::warn_partial);
        let settings = run.file().map_or(&options.settings, |file| &file.settings);
        let (quantity, begin_ns) = (options.quantity(settings.stage_set), run.begin_ns);
        let mut submissions = None;
        if quantity == Quantity::InFlight {
            let settings = &options.settings;
            submissions = Some(submissions_of(run, settings, TaskKind::Caller, "--y inflight")?);
        }
        Ok(Self {
            options,
            quantity,
            plot: Plot::new(quantity, begin_ns),
            clock: RunClock { begin_ns, wall_ns: None },
            block: None,
            submissions,
            pictures,
        })
    }

    fn read(mut self, run: &mut Run<'_>) -> Result<Option<anyhow::Error>> {
        loop {
            match run.next()? {
                Step::Event { event, is_selected: true, names, .. } => {
                    self.event(event, names);
                }
                Step::Fact(Fact::Clock(offset)) => {
                    self.clock.wall_ns.get_or_insert(offset.wall_ns);
                }
                Step::Ended => return self.finish(run),
                _ => {}
            }
        }
    }

    fn event(&mut self, event: &Event, names: &mut Names) {
        let id = event.what.id();
        let (disk, set) = names.of_command(id);
        match &mut self.submissions {
            Some(submissions) => {
                submissions.add(event, set);
                self.plot.disks.note(id, disk);
                self.submit(event.at_ns);
            }
            None => self.plot.event(event, disk, set),
        }
        self.block = id.and_then(|id| names.lba_bytes(id)).or(self.block);
    }

    /// Draws the picture. Returns why it is empty, which counts less than an error of the run.
    fn finish(mut self, run: &mut Run<'_>) -> Result<Option<anyhow::Error>> {
        let (options, quantity, end) = (self.options, self.quantity, run.end()?);
        let disks = self.plot.disks.names().to_vec();
        if quantity == Quantity::Lba {
            check_disks(options, &disks)?;
        }
        let (map, left_out) = self.map(&end);
        if map.cells.is_empty() {
            return Ok(Some(nothing(quantity, left_out)));
        }
        run.header.file = options.from.files.first().map(|path| Text::file_name(path));
        let caption = Caption {
            disks: if disks.len() > 3 {
                counted(disks.len() as u64, "disk")
            } else {
                disks.join(", ")
            },
            run: run.header.text(Theme { color: false }, usize::MAX).trim_end().into(),
            filter: options.settings.choice(),
            quantity,
            block: self.block,
            clock: self.clock,
            left_out,
        };
        let mut what = format!("{} commands", map.commands());
        if left_out > 0 {
            what += &format!("; {left_out} {}, left out", quantity.missing());
        }
        for picture in self.pictures {
            let draw = |canvas: &mut dyn Canvas| draw(&map, &caption, canvas);
            picture.write(SIZE, &caption.title(), &what, draw)?;
        }
        say_ledger(&end.ledger, options.session.is_verbose());
        if run.session().is_some() && quantity == Quantity::Latency(Interval::TOTAL) {
            eprint_note(WAITS_UNMEASURED);
        }
        Ok(None)
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &HeatmapOptions) -> Result<()> {
    let settings = &options.settings;
    let inputs = &options.from.files;
    let ready = inputs.is_empty().then(|| Preflight::check(settings)).transpose()?;
    let needs_pairs = options.y != QuantityArg::Inflight || settings.filter.needs_submission();
    let recordings = open_all(inputs, settings, &|file| match needs_pairs {
        true => file.require_pairs(),
        false => Ok(()),
    })?;
    // what cannot be read or traced is reported first
    let files = options.output.iter();
    let mut pictures: Vec<Picture> =
        files.map(|path| Picture::create(path, options.force, inputs)).collect::<Result<_>>()?;
    let mut empty = None;
    let mut read = |run: &mut Run<'_>| {
        let painter = Painter::new(options, take(&mut pictures), run)?;
        empty = painter.read(run)?;
        Ok(())
    };
    match ready {
        Some(ready) => Live::new(ready, settings, options.run.duration).run(read)?,
        None => each(recordings, false, false, &mut read)?,
    }
    empty.map_or(Ok(()), Err)
}

/// Fails if the LBAs of several disks were in one picture of a recording. A run can't be made again: its
/// picture is drawn all the same.
fn check_disks(options: &HeatmapOptions, disks: &[String]) -> Result<()> {
    if disks.len() < 2 {
        return Ok(());
    }
    let which = disks.join(", ");
    if options.from.is_empty() {
        eprint_note(&format!("the picture mixes the LBAs of {which}: choose one with --disk"));
        return Ok(());
    }
    let text =
        format!("--y lba needs one disk; this recording has {which}: add --disk {}", disks[0]);
    Err(Failure::error(Kind::Usage, text))
}

/// The error of a picture without commands.
fn nothing(quantity: Quantity, left_out: u64) -> anyhow::Error {
    let why = match left_out {
        0 => "the filters select no command that has completed".into(),
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
