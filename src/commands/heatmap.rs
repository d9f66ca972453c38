// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `heatmap` command: commands over time, by latency, LBA, size or depth, as a picture.

use std::time::Duration;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::model::event::Event;
use nvme_deep::model::untrusted::Untrusted;
use nvme_deep::model::untrusted::file_name;
use nvme_deep::render::heatmap::Caption;
use nvme_deep::render::heatmap::SIZE;
use nvme_deep::render::heatmap::draw;
use nvme_deep::render::heatmap::title;
use nvme_deep::render::pattern::forgotten;
use nvme_deep::report::heatmap::HeatMap;
use nvme_deep::report::heatmap::Plot;
use nvme_deep::report::heatmap::Quantity;
use nvme_deep::report::submissions::Submissions;

use crate::cli::options::HeatmapOptions;
use crate::commands::names::Names;
use crate::commands::picture::Picture;
use crate::commands::replay::Replay;
use crate::commands::say;
use crate::commands::say_ledger;
use crate::commands::start::Ready;
use crate::commands::start::until;
use crate::commands::watch::Watched;
use crate::commands::watch::Watcher;
use crate::commands::watch::submissions_of;
use crate::commands::watch::watch;
use crate::commands::watch::watch_recording;
use crate::exit::Failure;

/// Adds events to a plot.
struct Painter {
    plot: Plot,
    begin_ns: u64,
    /// For the depth.
    submissions: Option<Submissions>,
}

impl Painter {
    fn new(quantity: Quantity, submissions: Option<Submissions>) -> Self {
        Self {
            plot: Plot::new(quantity, 0),
            begin_ns: 0,
            submissions,
        }
    }

    fn submit(&mut self, now_ns: u64) {
        let Self {
            plot, submissions, ..
        } = self;
        if let Some(submissions) = submissions {
            while let Some((submitted, depth)) = submissions.next(now_ns) {
                plot.submission(&submitted, depth);
            }
        }
    }

    /// The picture of this run.
    fn finish(mut self, watched: &Watched) -> (HeatMap, u64) {
        self.submit(u64::MAX);
        let after = |time: Duration| {
            let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.begin_ns.saturating_add(ns)
        };
        // also the time without commands
        let last = watched.took.saturating_sub(Duration::from_nanos(1));
        let ends = (after(watched.dropped), after(last));
        self.plot.cover(ends.0);
        self.plot.cover(ends.1);
        let (unknown, lost) = self
            .submissions
            .map_or((0, 0), |s| (s.unknown(), s.forgotten()));
        if lost > 0 {
            say(&forgotten(lost));
        }
        let left_out = self.plot.left_out() + unknown;
        (self.plot.finish(), left_out)
    }
}

impl Watcher for Painter {
    fn begin(&mut self, begin_ns: u64) {
        self.begin_ns = begin_ns;
        self.plot.begin(begin_ns);
    }

    fn event(&mut self, event: &Event, names: &mut Names) {
        let (_, set) = names.of_command(event.what.id());
        match &mut self.submissions {
            Some(submissions) => {
                submissions.add(event, set);
                self.submit(event.at_ns);
            }
            None => self.plot.event(event, set),
        }
    }
}

fn of_recording(options: &HeatmapOptions, mut replay: Replay) -> Result<(Painter, Watched)> {
    let settings = &options.settings;
    replay.show_progress();
    let depth = options.quantity == Quantity::Depth;
    if !depth || settings.filter.needs_submission() {
        replay.require_pairs()?;
    }
    replay.say_choice();
    replay.leave_unmatched();
    let order = depth.then(|| submissions_of(&replay, settings, "--y depth"));
    let order = order.transpose()?;
    let mut painter = Painter::new(options.quantity, order);
    let watched = watch_recording(replay, settings, &mut painter)?;
    Ok((painter, watched))
}

fn live(options: &HeatmapOptions, ready: Ready) -> Result<(Painter, Watched)> {
    let depth = options.quantity == Quantity::Depth;
    let order = depth.then(Submissions::of_events);
    let mut painter = Painter::new(options.quantity, order);
    let until = until(options.duration.is_some());
    let watched = watch(
        ready,
        &options.settings,
        until,
        options.duration,
        &mut painter,
    )?;
    Ok((painter, watched))
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &HeatmapOptions) -> Result<()> {
    let inputs = options.from.as_slice();
    let (picture, (painter, watched)) = match &options.from {
        Some(path) => {
            // a recording that cannot be read is reported first
            let replay = Replay::open_by(path, &options.settings, "--stage")?;
            let picture = Picture::create(&options.picture, inputs)?;
            (picture, of_recording(options, replay)?)
        }
        None => {
            let ready = Ready::look(&options.settings)?;
            let picture = Picture::create(&options.picture, inputs)?;
            (picture, live(options, ready)?)
        }
    };
    let (map, left_out) = painter.finish(&watched);
    if map.cells.is_empty() {
        let why = watched.unmatched;
        return watched
            .verdict
            .and_then(|()| Err(nothing(options, left_out, why)));
    }
    let caption = Caption {
        subject: subject(options),
        quantity: options.quantity,
        left_out,
    };
    let name = title(&options.quantity);
    let mut what = format!("{} commands", map.commands());
    if left_out > 0 {
        what += &format!("; {left_out} {}, left out", options.quantity.missing());
    }
    picture.write(SIZE, &name, &what, |canvas| draw(&map, &caption, canvas))?;
    say_ledger(&watched.ledger, options.settings.attaching.verbose > 0);
    watched.verdict
}

/// The filters, and the name of the recording.
fn subject(options: &HeatmapOptions) -> String {
    let file = options.from.as_deref();
    let file = file.map(|path| format!("of {}", file_name(path)));
    let filter = Untrusted::from(options.settings.filter.text());
    let filter = Some(filter).filter(|text| !text.is_empty());
    let filter = filter.map(|text| format!("with {text}"));
    let parts: Vec<String> = file.into_iter().chain(filter).collect();
    parts.join(" ")
}

/// The error of a picture without commands.
fn nothing(options: &HeatmapOptions, left_out: u64, unmatched: Option<String>) -> anyhow::Error {
    let why = match left_out {
        0 => unmatched.unwrap_or("the filters select no command that has completed".into()),
        n => format!("{n} commands {}", options.quantity.missing()),
    };
    let help = match options.quantity {
        Quantity::Latency(interval) if left_out > 0 && interval.run.is_some() => {
            "; `latency --stages` shows which stages were observed"
        }
        _ => "",
    };
    Failure::error(
        Kind::Run,
        format!("there is nothing to draw: {why}{help}; no file was written"),
    )
}
